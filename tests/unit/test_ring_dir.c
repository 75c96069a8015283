/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/time.h"
#include "mounts.h"
#include "ring/dir.h"
#include "ring/meta.h"
#include "ring/process.h"
#include "ring_fixture.h"

static char runtime[64];

static void use_runtime(void)
{
    snprintf(runtime, sizeof(runtime), "/tmp/gsprof-run-XXXXXX");
    tap_require(mkdtemp(runtime) != NULL);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
}

static void remove_runtime(void)
{
    char path[80];
    snprintf(path, sizeof(path), "%s/gsprof", runtime);
    rmdir(path);
    tap_check(rmdir(runtime) == 0);
}

/* Starts a process that writes a ring with three rows and then waits. */
static pid_t start_writer(int64_t rank)
{
    int ready[2];
    tap_require(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int folder = -1;
        struct gsp_ring *ring = NULL;
        const struct gsp_ring_dir_spec about = {
            .pid = getpid(), .rank = rank, .cmdline = "train \"it\"\n"};
        struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_torch_trace),
                                     .rank = rank};
        if (gsp_ring_dir_create(&about, &folder, NULL) != 0 ||
            gsp_ring_create(folder, &spec, &ring, NULL) != 0)
            _exit(1);
        for (uint64_t n = 0; n < 3; n++) {
            const struct gsp_row_python_torch_trace row = ring_row(1, 1000 + n);
            gsp_ring_append(ring, &row);
        }
        gsp_ignore(write(ready[1], "x", 1) != 1);
        for (;;)
            pause();
    }
    char byte = 0;
    close(ready[1]);
    tap_require(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static void end_writer(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TAP_TEST(a_process_is_found_alive_and_dead)
{
    use_runtime();
    struct gsp_err err = {0};
    struct gsp_ring_dir dir;
    pid_t pid = start_writer(5);
    tap_require(gsp_ring_dir_find(pid, &dir, &err) == 0);
    tap_eq_int(dir.pid, pid);
    tap_check(dir.live);
    tap_eq_int(dir.rings, 1);
    tap_check(dir.bytes > 100000);
    tap_eq_int(dir.rank, 5);
    tap_eq_int(dir.last_write_ns, 1002);
    tap_eq_str(dir.cmdline, "train \"it\"\n");
    tap_check(strncmp(dir.path, runtime, strlen(runtime)) == 0);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), GSP_E_EXISTS);

    end_writer(pid);
    tap_require(gsp_ring_dir_find(pid, &dir, &err) == 0);
    tap_check(!dir.live);
    int folder = -1;
    tap_require(gsp_ring_dir_open(&dir, &folder, &err) == 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct ring_seen seen = {0};
    /* A reader that has mapped the rows keeps them after the removal. */
    close(folder);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), 0);
    ring_check(view, &seen);
    tap_eq_int(seen.good, 3);
    gsp_ring_view_close(view);
    tap_eq_int(gsp_ring_dir_find(pid, &dir, &err), GSP_E_NOFILE);
    remove_runtime();
}

TAP_TEST(all_processes_are_listed)
{
    use_runtime();
    pid_t first = start_writer(0);
    pid_t second = start_writer(GSP_NULL_I64);
    end_writer(first);
    char path[128];
    snprintf(path, sizeof(path), "%s/gsprof/not-a-process", runtime);
    tap_require(mkdir(path, 0700) == 0);
    struct gsp_ring_dirs dirs;
    tap_require(gsp_ring_dirs_read(false, &dirs, NULL) == 0);
    int found = 0;
    for (size_t i = 0; i < dirs.count; i++) {
        const struct gsp_ring_dir *dir = &dirs.at[i];
        if (dir->pid == first || dir->pid == second) {
            found++;
            tap_eq_int(dir->live, dir->pid == second);
            tap_eq_int(dir->rank, dir->pid == second ? GSP_NULL_I64 : 0);
        }
        tap_check(i == 0 || dirs.at[i - 1].start_time >= dir->start_time);
    }
    tap_eq_int(found, 2);
    end_writer(second);
    for (size_t i = 0; i < dirs.count; i++)
        if (dirs.at[i].pid == first || dirs.at[i].pid == second)
            tap_eq_int(gsp_ring_dir_remove(&dirs.at[i], NULL), 0);
    gsp_ring_dirs_free(&dirs);
    gsp_ring_dirs_free(NULL);
    rmdir(path);
    remove_runtime();
}

TAP_TEST(a_reused_pid_is_another_process)
{
    use_runtime();
    pid_t pid = start_writer(0);
    struct gsp_ring_dir live;
    tap_require(gsp_ring_dir_find(pid, &live, NULL) == 0);
    /* The same pid, but an earlier start time. */
    int folder = -1;
    const struct gsp_ring_dir_spec about = {.pid = pid, .start_time = 7, .rank = 1};
    tap_require(gsp_ring_dir_create(&about, &folder, NULL) == 0);
    struct gsp_ring *ring = ring_make(folder, 10);
    gsp_ring_close(ring);
    close(folder);
    struct gsp_ring_dir dir;
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    tap_check(dir.live);
    tap_eq_int(dir.start_time, live.start_time);
    end_writer(pid);
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    tap_check(!dir.live);
    tap_eq_int(dir.start_time, live.start_time);
    tap_eq_int(gsp_ring_dir_remove(&dir, NULL), 0);
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    tap_eq_int(dir.start_time, 7);
    tap_eq_int(gsp_ring_dir_remove(&dir, NULL), 0);
    remove_runtime();
}

TAP_TEST(the_command_line_follows_exec)
{
    use_runtime();
    struct gsp_ring_dir dir;
    struct gsp_ring_dir_program last = {0};
    int folder = -1;
    struct gsp_ring_dir_spec about = {
        .pid = getpid(), .start_time = 7, .rank = GSP_NULL_I64, .cmdline = "sh -c later"};
    tap_require(gsp_ring_dir_create(&about, &folder, NULL) == 0);
    gsp_ring_close(ring_make(folder, 10));
    close(folder);
    /* A writer that starts after exec. */
    about.cmdline = "python3 train.py";
    about.rank = 3;
    tap_require(gsp_ring_dir_create(&about, &folder, NULL) == 0);
    tap_require(gsp_ring_dir_find(getpid(), &dir, NULL) == 0);
    tap_eq_str(dir.cmdline, "python3 train.py");
    tap_eq_int(dir.rank, 3);
    /* A follower updates it once per change and keeps the rank. */
    tap_check(gsp_ring_dir_update_cmdline(folder, getpid(), &last));
    tap_check(!gsp_ring_dir_update_cmdline(folder, getpid(), &last));
    tap_require(gsp_ring_dir_find(getpid(), &dir, NULL) == 0);
    tap_check(strstr(dir.cmdline, "test_ring_dir") != NULL);
    tap_eq_int(dir.rank, 3);
    /* After the end of the process, the last command line stays. */
    tap_check(!gsp_ring_dir_update_cmdline(folder, INT32_MAX, &last));
    tap_check(strstr(last.cmdline, "test_ring_dir") != NULL);
    close(folder);
    tap_eq_int(gsp_ring_dir_remove(&dir, NULL), 0);
    remove_runtime();
}

TAP_TEST(only_files_of_gsprof_are_removed)
{
    use_runtime();
    pid_t pid = start_writer(0);
    end_writer(pid);
    struct gsp_ring_dir dir;
    struct gsp_err err = {0};
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    int folder = open(dir.path, O_RDONLY | O_DIRECTORY);
    char outside[80];
    snprintf(outside, sizeof(outside), "%s/precious", runtime);
    close(open(outside, O_CREAT | O_WRONLY, 0600));
    tap_require(symlinkat(outside, folder, "python.link.ring") == 0);
    close(openat(folder, "notes.txt", O_CREAT | O_WRONLY, 0600));
    /* Files that a killed inject leaves. */
    const char *const requests[] = {"script-12-3f.py", "script-12-3f.answer",
                                    "script-12-3f.outcome", "script-12-3f.claim"};
    for (size_t i = 0; i < GSP_COUNT(requests) - 1; i++)
        close(openat(folder, requests[i], O_CREAT | O_WRONLY, 0600));
    tap_require(mkdirat(folder, "script-12-3f.claim", 0700) == 0);
    /* No command makes these. */
    tap_require(mkdirat(folder, "script-12.claim", 0700) == 0);
    tap_require(mkdirat(folder, "script-13-1.claim", 0700) == 0);
    tap_require(mkdirat(folder, "script-13-1.claim/inner", 0700) == 0);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), GSP_E_NOWRITE);
    tap_eq_int(err.sys, ENOTEMPTY);
    tap_eq_int(faccessat(folder, "notes.txt", F_OK, 0), 0);
    tap_eq_int(access(outside, F_OK), 0);
    tap_check(faccessat(folder, RING_FILE, F_OK, 0) != 0);
    for (size_t i = 0; i < GSP_COUNT(requests); i++)
        tap_check(faccessat(folder, requests[i], F_OK, 0) != 0);
    unlinkat(folder, "notes.txt", 0);
    tap_eq_int(unlinkat(folder, "script-12.claim", AT_REMOVEDIR), 0);
    tap_eq_int(unlinkat(folder, "script-13-1.claim/inner", AT_REMOVEDIR), 0);
    close(folder);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), 0);
    /* The directory has already been removed. */
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), 0);
    unlink(outside);
    remove_runtime();
}

/* Makes the files of a request, a minute old. */
static void make_request(int folder, long pid, bool is_answered)
{
    static const char *const ENDS[] = {"py", "answer", "outcome"};
    const struct timespec old[2] = {{.tv_sec = 60}, {.tv_sec = 60}};
    char name[64];
    for (size_t i = 0; i < (is_answered ? GSP_COUNT(ENDS) : 1); i++) {
        snprintf(name, sizeof(name), "script-%ld-1.%s", pid, ENDS[i]);
        close(openat(folder, name, O_CREAT | O_WRONLY, 0600));
        tap_eq_int(utimensat(folder, name, old, 0), 0);
    }
    snprintf(name, sizeof(name), "script-%ld-1.claim", pid);
    tap_eq_int(mkdirat(folder, name, 0700), 0);
    tap_eq_int(utimensat(folder, name, old, 0), 0);
}

static void remove_request(int folder, long pid)
{
    static const char *const ENDS[] = {"py", "answer", "outcome", "claim"};
    char name[64];
    for (size_t i = 0; i < GSP_COUNT(ENDS); i++) {
        snprintf(name, sizeof(name), "script-%ld-1.%s", pid, ENDS[i]);
        unlinkat(folder, name, i == GSP_COUNT(ENDS) - 1 ? AT_REMOVEDIR : 0);
    }
}

static bool has_file(int folder, long pid, const char *end)
{
    char name[64];
    snprintf(name, sizeof(name), "script-%ld-1.%s", pid, end);
    return faccessat(folder, name, F_OK, 0) == 0;
}

TAP_TEST(requests_of_killed_commands_are_removed)
{
    use_runtime();
    const pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    const long answered = gone;
    const long waiting = 4194305; /* larger than any process number */
    const long running = getpid();
    const int folder = open(runtime, O_RDONLY | O_DIRECTORY);
    make_request(folder, answered, true);
    make_request(folder, waiting, false);
    make_request(folder, running, true);
    close(openat(folder, "script-4194306-1.py", O_CREAT | O_WRONLY, 0600));
    close(openat(folder, "script-x.py", O_CREAT | O_WRONLY, 0600));
    gsp_ring_dir_remove_requests(folder, 60 * INT64_C(1000000000));
    tap_check(!has_file(folder, answered, "py") && !has_file(folder, answered, "claim"));
    tap_check(!has_file(folder, answered, "answer") && !has_file(folder, answered, "outcome"));
    /* The target may still find the claim when it runs the script. */
    tap_check(!has_file(folder, waiting, "py") && has_file(folder, waiting, "claim"));
    tap_check(has_file(folder, running, "py") && has_file(folder, running, "claim"));
    tap_check(has_file(folder, running, "answer"));
    tap_check(has_file(folder, 4194306, "py")); /* young */
    tap_eq_int(faccessat(folder, "script-x.py", F_OK, 0), 0);
    unlinkat(folder, "script-x.py", 0);
    unlinkat(folder, "script-4194306-1.py", 0);
    remove_request(folder, waiting);
    remove_request(folder, running);
    close(folder);
    remove_runtime();
}

TAP_TEST(a_root_of_another_user_is_rejected)
{
    if (geteuid() != 0)
        tap_skip("needs root for chown");
    use_runtime();
    char root[80];
    snprintf(root, sizeof(root), "%s/gsprof", runtime);
    tap_require(mkdir(root, 0700) == 0 && chown(root, 12345, (gid_t)-1) == 0);
    int folder = -1;
    struct gsp_err err = {0};
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .start_time = 7, .rank = GSP_NULL_I64};
    /* The next root is used, and the note says why. */
    struct gsp_ring_dir elsewhere;
    tap_eq_int(gsp_ring_dir_create(&about, &folder, &err), 0);
    gsp_ring_close(ring_make(folder, 10));
    close(folder);
    tap_require(gsp_ring_dir_find(getpid(), &elsewhere, &err) == 0);
    tap_check(strncmp(elsewhere.path, runtime, strlen(runtime)) != 0);
    tap_check(strstr(elsewhere.note, "belongs to user 12345, this is user 0") != NULL);
    /* A user other than root does not read it either. */
    pid_t pid = fork();
    if (pid == 0) {
        struct gsp_ring_dirs dirs;
        bool ok = chown(runtime, 54321, (gid_t)-1) == 0 && setuid(54321) == 0;
        ok = ok && gsp_ring_dirs_read(false, &dirs, &err) == 0 && dirs.count == 0;
        ok = ok && strstr(dirs.refused, "belongs to user 12345, this is user 54321") != NULL;
        struct gsp_ring_dir dir;
        _exit(ok && gsp_ring_dir_find(getpid(), &dir, &err) == GSP_E_NOFILE ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    tap_eq_int(status, 0);
    tap_eq_int(gsp_ring_dir_remove(&elsewhere, NULL), 0);
    remove_runtime();
}

TAP_TEST(a_runtime_folder_of_another_user_is_not_used)
{
    if (geteuid() != 0)
        tap_skip("needs root for chown");
    use_runtime();
    tap_require(chown(runtime, 12345, (gid_t)-1) == 0);
    pid_t pid = start_writer(0);
    end_writer(pid);
    struct gsp_ring_dir dir;
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    tap_check(strncmp(dir.path, "/dev/shm/gsprof-0/", 18) == 0);
    tap_eq_int(gsp_ring_dir_remove(&dir, NULL), 0);
    remove_runtime();
}

TAP_TEST(start_times_distinguish_processes)
{
    uint64_t ticks = 0;
    char state = 0;
    tap_check(gsp_ring_process_start_time(getpid(), &ticks, &state));
    tap_eq_int(state, 'R');
    tap_check(gsp_ring_process_is_live(getpid(), ticks, 0));
    tap_check(gsp_ring_process_is_live(getpid(), ticks, gsp_ring__process_pid_ns()));
    tap_check(!gsp_ring_process_is_live(getpid(), ticks + 1, 0));
    tap_check(!gsp_ring_process_start_time(INT32_MAX, &ticks, &state));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    tap_require(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    tap_check(gsp_ring_process_start_time(pid, &ticks, &state));
    tap_eq_int(state, 'Z');
    tap_check(!gsp_ring_process_is_live(pid, ticks, 0));
    waitpid(pid, NULL, 0);
}

static int parse(const char *text, struct gsp_ring__meta *meta)
{
    return gsp_ring__meta_parse(gsp_sv_of(text), meta, NULL);
}

TAP_TEST(meta_round_trips)
{
    struct gsp_ring__meta meta = {.pid = 12,
                                  .start_time = 34,
                                  .pid_ns = 4026531836,
                                  .rank = -1,
                                  .created_ns = INT64_MAX,
                                  .host = "h\"\\",
                                  .version = "1.2",
                                  .cmdline = "python3 -c \x01 caf\xc3\xa9\n"};
    struct gsp_ring__meta back;
    gsp_auto_buf text = {0};
    gsp_ring__meta_write(&meta, &text);
    tap_eq_int(gsp_ring__meta_parse(gsp_buf_sv(&text), &back, NULL), 0);
    tap_eq_int(back.pid, 12);
    tap_eq_int(back.start_time, 34);
    tap_eq_int(back.pid_ns, 4026531836);
    tap_eq_int(back.rank, -1);
    tap_eq_int(back.created_ns, INT64_MAX);
    tap_eq_str(back.host, meta.host);
    tap_eq_str(back.version, "1.2");
    tap_eq_str(back.cmdline, meta.cmdline);
    tap_eq_int(parse("{}", &back), 0);
    tap_eq_int(back.rank, GSP_NULL_I64);
    tap_eq_int(parse(" { \"rank\" : null , \"x\":true } ", &back), 0);
    const char *const bad[] = {"",       "{",      "[]",         "{\"a\":{}}", "{\"a\":1,}",
                               "{} x",   "{\"a\"", "{\"a\":\"}", "{\"a\":}",   "{\"a\":\"\\u12\"}",
                               "{1: 2}", "{,}",    "{\"\\x\":1}"};
    for (size_t i = 0; i < GSP_COUNT(bad); i++)
        tap_eq_int(parse(bad[i], &back), GSP_E_FORMAT);
}

TAP_TEST(the_program_has_priority_in_shared_memory)
{
    if (!mounts_begin() || mount("none", "/dev/shm", "tmpfs", 0, "size=64m") != 0)
        tap_skip("needs root and a mount namespace, for a small /dev/shm");
    unsetenv("XDG_RUNTIME_DIR");
    gsp_auto_fd shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_check(gsp_ring_dir_has_space(shm, 16 << 20));
    tap_check(!gsp_ring_dir_has_space(shm, (16 << 20) + 4096));
    /* Not enough space for a process and its workers: the next root is used, and found. */
    struct gsp_err err = {0};
    struct gsp_ring_dir dir;
    pid_t pid = start_writer(5);
    tap_require(gsp_ring_dir_find(pid, &dir, &err) == 0);
    tap_check(strncmp(dir.path, "/tmp/gsprof-", strlen("/tmp/gsprof-")) == 0);
    /* A second writer uses the directory of the first, although /dev/shm has space now. */
    tap_require(mount("none", "/dev/shm", "tmpfs", MS_REMOUNT, "size=1g") == 0);
    const struct gsp_ring_dir_spec about = {.pid = pid, .rank = 5};
    int folder = -1;
    struct stat first;
    struct stat second;
    tap_require(gsp_ring_dir_create(&about, &folder, &err) == 0);
    tap_check(fstat(folder, &second) == 0 && stat(dir.path, &first) == 0 &&
              first.st_ino == second.st_ino);
    close(folder);
    end_writer(pid);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), 0);
}

/* Mounts /dev/shm with the options, and checks that the rings are in /tmp and that the note says
 * why. */
static void check_fallback(const char *options, unsigned long flags, const char *note)
{
    struct gsp_ring_dir dir;
    struct gsp_ring_dir_choice choice;
    tap_require(mount("none", "/dev/shm", "tmpfs", flags, options) == 0);
    tap_check(gsp_ring_dir_choose(&choice));
    pid_t pid = start_writer(5);
    tap_require(gsp_ring_dir_find(pid, &dir, NULL) == 0);
    tap_check(strncmp(dir.path, "/tmp/gsprof-", strlen("/tmp/gsprof-")) == 0);
    tap_check(strncmp(dir.path, choice.root, strlen(choice.root)) == 0);
    tap_check(strstr(dir.note, note) != NULL && strstr(choice.note, note) != NULL);
    end_writer(pid);
    tap_eq_int(gsp_ring_dir_remove(&dir, NULL), 0);
    tap_require(umount("/dev/shm") == 0);
}

TAP_TEST(unusable_shared_memory)
{
    if (!mounts_begin() || mount("none", "/tmp", "tmpfs", 0, "size=1g") != 0)
        tap_skip("needs root and a mount namespace, for a small /dev/shm");
    unsetenv("XDG_RUNTIME_DIR");
    check_fallback("size=64m", 0, "has 16 MB of space for tables, 128 MB are needed");
    check_fallback("size=1m", 0, "has 0 MB of space for tables, 128 MB are needed");
    check_fallback("size=64m", MS_RDONLY, "Read-only file system");
}

/* Half of a file system in memory is reserved for the program. */
TAP_TEST(space_of_a_large_file_system)
{
    if (!mounts_begin() || mount("none", "/dev/shm", "tmpfs", 0, "size=8g") != 0)
        tap_skip("needs root and a mount namespace, for a /dev/shm of a known size");
    gsp_auto_fd shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_eq_int(gsp_ring__dir_space(shm), UINT64_C(4) << 30);
}

/* Creates a runtime folder, and hides the rings of other programs of this user from the sweep. */
static void use_runtime_alone(void)
{
    const char *const shared[] = {"/dev/shm", "/tmp", "/var/tmp", "/run"};
    if (!mounts_begin())
        tap_skip("needs root and a mount namespace, to hide other rings");
    for (size_t i = 0; i < GSP_COUNT(shared); i++)
        tap_require(mount("none", shared[i], "tmpfs", 0, "size=1g") == 0);
    use_runtime();
}

/* Creates the ring directory of an ended process with one row of this age. */
static struct gsp_ring_dir make_ended(uint64_t start_time, int64_t age_ns)
{
    const struct gsp_ring_dir_spec about = {.pid = INT32_MAX, .start_time = start_time, .rank = 1};
    struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_torch_trace),
                                 .pid = about.pid,
                                 .start_time = start_time};
    struct gsp_ring *ring = NULL;
    gsp_auto_fd folder = -1;
    tap_require(gsp_ring_dir_create(&about, &folder, NULL) == 0 &&
                gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    const struct gsp_row_python_torch_trace row =
        ring_row(1, (uint64_t)(gsp_realtime_ns() - age_ns));
    tap_check(gsp_ring_append(ring, &row));
    gsp_ring_close(ring);
    struct gsp_ring_dirs dirs;
    struct gsp_ring_dir dir = {0};
    tap_require(gsp_ring_dirs_read(false, &dirs, NULL) == 0);
    for (size_t i = 0; i < dirs.count; i++)
        if (dirs.at[i].pid == INT32_MAX && dirs.at[i].start_time == start_time)
            dir = dirs.at[i];
    gsp_ring_dirs_free(&dirs);
    tap_require(dir.rings == 1);
    return dir;
}

static bool exists(const struct gsp_ring_dir *dir)
{
    return access(dir->path, F_OK) == 0;
}

TAP_TEST(sweep_applies_the_limits)
{
    use_runtime_alone();
    const int64_t minute_ns = 60 * GSP_NS_PER_S;
    /* Newer processes stopped writing earlier. */
    const struct gsp_ring_dir old = make_ended(9, 3 * minute_ns);
    const struct gsp_ring_dir middle = make_ended(8, 2 * minute_ns);
    const struct gsp_ring_dir young = make_ended(7, minute_ns);
    const struct gsp_ring_dir fresh = make_ended(6, 0);
    struct gsp_ring_dir_limits limits = {.keep_ns = 4 * minute_ns, .keep_bytes = 1 << 30};
    tap_eq_int(gsp_ring_dirs_sweep(&limits).count, 0);
    limits.keep_bytes = 3 * fresh.bytes;
    const struct gsp_ring_dirs_swept swept = gsp_ring_dirs_sweep(&limits);
    tap_eq_int(swept.count, 1);
    tap_eq_int(swept.bytes, old.bytes);
    tap_check(!exists(&old) && exists(&middle) && exists(&young) && exists(&fresh));
    /* By age, whatever their size. */
    limits.keep_bytes = 1 << 30;
    limits.keep_ns = 3 * minute_ns / 2;
    tap_eq_int(gsp_ring_dirs_sweep(&limits).count, 1);
    tap_check(!exists(&middle) && exists(&young));
    /* Recently written rings stay, because a run may not have read them yet. */
    limits.keep_bytes = 1;
    const struct gsp_ring_dir second = make_ended(5, 0);
    tap_eq_int(gsp_ring_dirs_sweep(&limits).count, 1);
    tap_check(!exists(&young) && exists(&fresh) && exists(&second));
    tap_eq_int(gsp_ring_dir_remove(&fresh, NULL), 0);
    tap_eq_int(gsp_ring_dir_remove(&second, NULL), 0);
    /* The newest stays, whatever its size. */
    const struct gsp_ring_dir last = make_ended(4, minute_ns);
    tap_eq_int(gsp_ring_dirs_sweep(&limits).count, 0);
    tap_eq_int(gsp_ring_dir_remove(&last, NULL), 0);
    remove_runtime();
}

TAP_TEST(directories_in_use_are_not_removed)
{
    use_runtime_alone();
    const struct gsp_ring_dir_limits none = {0};
    struct gsp_err err = {0};
    struct gsp_ring_dir dir = make_ended(9, 60 * GSP_NS_PER_S);
    /* A reader: a query, or a run that drains the rings. */
    int folder = -1;
    tap_require(gsp_ring_dir_open(&dir, &folder, NULL) == 0);
    tap_eq_int(gsp_ring_dirs_sweep(&none).count, 0);
    tap_eq_int(gsp_ring_dir_remove(&dir, &err), GSP_E_EXISTS);
    tap_eq_int(err.sys, EBUSY);
    close(folder);
    /* A follower, or another sweep. */
    folder = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(flock(folder, LOCK_EX) == 0);
    tap_eq_int(gsp_ring_dirs_sweep(&none).count, 0);
    close(folder);
    tap_check(exists(&dir));
    tap_eq_int(gsp_ring_dirs_sweep(&none).count, 1);
    tap_check(!exists(&dir));
    remove_runtime();
}

TAP_TEST(links_and_directories_of_other_users_are_not_removed)
{
    use_runtime_alone();
    const struct gsp_ring_dir_limits none = {0};
    struct gsp_ring_dir dir = make_ended(9, 60 * GSP_NS_PER_S);
    char moved[80];
    snprintf(moved, sizeof(moved), "%s/moved", runtime);
    tap_require(rename(dir.path, moved) == 0 && symlink(moved, dir.path) == 0);
    tap_eq_int(gsp_ring_dirs_sweep(&none).count, 0);
    tap_check(gsp_ring_dir_remove(&dir, NULL) != 0);
    tap_check(access(moved, F_OK) == 0);
    tap_require(unlink(dir.path) == 0 && rename(moved, dir.path) == 0);
    if (geteuid() == 0) {
        tap_require(chown(dir.path, 12345, (gid_t)-1) == 0);
        tap_eq_int(gsp_ring_dirs_sweep(&none).count, 0);
        tap_check(exists(&dir));
        tap_require(chown(dir.path, 0, (gid_t)-1) == 0);
    }
    tap_eq_int(gsp_ring_dirs_sweep(&none).count, 1);
    remove_runtime();
}

TAP_MAIN()
