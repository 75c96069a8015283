/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/time.h"
#include "mounts.h"
#include "ring/live.h"
#include "ring/meta.h"
#include "ring/place.h"
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

/* A process that has made a ring with three rows, and waits to be killed. */
static pid_t start_writer(int64_t rank)
{
    int ready[2];
    tap_require(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int folder = -1;
        struct gsp_ring *ring = NULL;
        const struct gsp_place_about about = {
            .pid = getpid(), .rank = rank, .cmdline = "train \"it\"\n"};
        struct gsp_ring_spec spec = {.table = gsp_table_at(GSP_TABLE_python_torch_trace),
                                     .rank = rank};
        if (gsp_place_make(&about, &folder, NULL) != 0 ||
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
    struct gsp_place place;
    pid_t pid = start_writer(5);
    tap_require(gsp_place_find(pid, &place, &err) == 0);
    tap_eq_int(place.pid, pid);
    tap_check(place.live);
    tap_eq_int(place.rings, 1);
    tap_check(place.bytes > 100000);
    tap_eq_int(place.rank, 5);
    tap_eq_int(place.last_write_ns, 1002);
    tap_eq_str(place.cmdline, "train \"it\"\n");
    tap_check(strncmp(place.path, runtime, strlen(runtime)) == 0);
    tap_eq_int(gsp_place_remove(&place, &err), GSP_E_EXISTS);

    end_writer(pid);
    tap_require(gsp_place_find(pid, &place, &err) == 0);
    tap_check(!place.live);
    int folder = -1;
    tap_require(gsp_place_open(&place, &folder, &err) == 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct ring_seen seen = {0};
    /* A cleaner does not take the rows from a reader. */
    tap_eq_int(gsp_place_remove(&place, &err), 0);
    ring_check(view, &seen);
    tap_eq_int(seen.good, 3);
    gsp_ring_view_close(view);
    close(folder);
    tap_eq_int(gsp_place_find(pid, &place, &err), GSP_E_NOFILE);
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
    struct gsp_places places;
    tap_require(gsp_places_read(&places, NULL) == 0);
    int found = 0;
    for (size_t i = 0; i < places.count; i++) {
        const struct gsp_place *place = &places.at[i];
        if (place->pid == first || place->pid == second) {
            found++;
            tap_eq_int(place->live, place->pid == second);
            tap_eq_int(place->rank, place->pid == second ? GSP_NULL_I64 : 0);
        }
        tap_check(i == 0 || places.at[i - 1].start_time >= place->start_time);
    }
    tap_eq_int(found, 2);
    end_writer(second);
    for (size_t i = 0; i < places.count; i++)
        if (places.at[i].pid == first || places.at[i].pid == second)
            tap_eq_int(gsp_place_remove(&places.at[i], NULL), 0);
    gsp_places_free(&places);
    gsp_places_free(NULL);
    rmdir(path);
    remove_runtime();
}

TAP_TEST(a_reused_pid_is_another_process)
{
    use_runtime();
    pid_t pid = start_writer(0);
    struct gsp_place live;
    tap_require(gsp_place_find(pid, &live, NULL) == 0);
    /* The same pid, but of a process that started before. */
    int folder = -1;
    const struct gsp_place_about about = {.pid = pid, .start_time = 7, .rank = 1};
    tap_require(gsp_place_make(&about, &folder, NULL) == 0);
    struct gsp_ring *ring = ring_make(folder, 10);
    gsp_ring_close(ring);
    close(folder);
    struct gsp_place place;
    tap_require(gsp_place_find(pid, &place, NULL) == 0);
    tap_check(place.live);
    tap_eq_int(place.start_time, live.start_time);
    end_writer(pid);
    tap_require(gsp_place_find(pid, &place, NULL) == 0);
    tap_check(!place.live);
    tap_eq_int(place.start_time, live.start_time);
    tap_eq_int(gsp_place_remove(&place, NULL), 0);
    tap_require(gsp_place_find(pid, &place, NULL) == 0);
    tap_eq_int(place.start_time, 7);
    tap_eq_int(gsp_place_remove(&place, NULL), 0);
    remove_runtime();
}

TAP_TEST(another_program_has_another_name)
{
    use_runtime();
    struct gsp_place place;
    struct gsp_place_program last = {0};
    int folder = -1;
    struct gsp_place_about about = {
        .pid = getpid(), .start_time = 7, .rank = GSP_NULL_I64, .cmdline = "sh -c later"};
    tap_require(gsp_place_make(&about, &folder, NULL) == 0);
    gsp_ring_close(ring_make(folder, 10));
    close(folder);
    /* A writer that comes after exec. */
    about.cmdline = "python3 train.py";
    about.rank = 3;
    tap_require(gsp_place_make(&about, &folder, NULL) == 0);
    tap_require(gsp_place_find(getpid(), &place, NULL) == 0);
    tap_eq_str(place.cmdline, "python3 train.py");
    tap_eq_int(place.rank, 3);
    /* One that watches from outside: once for each change, and the rank stays. */
    tap_check(gsp_place_follow_exec(folder, getpid(), &last));
    tap_check(!gsp_place_follow_exec(folder, getpid(), &last));
    tap_require(gsp_place_find(getpid(), &place, NULL) == 0);
    tap_check(strstr(place.cmdline, "test_ring_place") != NULL);
    tap_eq_int(place.rank, 3);
    /* A process that has none any more keeps its last. */
    tap_check(!gsp_place_follow_exec(folder, INT32_MAX, &last));
    tap_check(strstr(last.cmdline, "test_ring_place") != NULL);
    close(folder);
    tap_eq_int(gsp_place_remove(&place, NULL), 0);
    remove_runtime();
}

TAP_TEST(only_our_files_are_removed)
{
    use_runtime();
    pid_t pid = start_writer(0);
    end_writer(pid);
    struct gsp_place place;
    struct gsp_err err = {0};
    tap_require(gsp_place_find(pid, &place, NULL) == 0);
    int folder = open(place.path, O_RDONLY | O_DIRECTORY);
    char outside[80];
    snprintf(outside, sizeof(outside), "%s/precious", runtime);
    close(open(outside, O_CREAT | O_WRONLY, 0600));
    tap_require(symlinkat(outside, folder, "python.link.ring") == 0);
    close(openat(folder, "notes.txt", O_CREAT | O_WRONLY, 0600));
    tap_eq_int(gsp_place_remove(&place, &err), GSP_E_NOWRITE);
    tap_eq_int(err.sys, ENOTEMPTY);
    tap_eq_int(faccessat(folder, "notes.txt", F_OK, 0), 0);
    tap_eq_int(access(outside, F_OK), 0);
    tap_check(faccessat(folder, RING_FILE, F_OK, 0) != 0);
    unlinkat(folder, "notes.txt", 0);
    close(folder);
    tap_eq_int(gsp_place_remove(&place, &err), 0);
    unlink(outside);
    remove_runtime();
}

TAP_TEST(another_users_root_is_refused)
{
    if (geteuid() != 0)
        tap_skip("needs root, to give a folder away");
    use_runtime();
    char root[80];
    snprintf(root, sizeof(root), "%s/gsprof", runtime);
    tap_require(mkdir(root, 0700) == 0 && chown(root, 12345, (gid_t)-1) == 0);
    int folder = -1;
    struct gsp_err err = {0};
    const struct gsp_place_about about = {.pid = getpid(), .rank = GSP_NULL_I64};
    tap_eq_int(gsp_place_make(&about, &folder, &err), GSP_E_PERM);
    tap_check(strstr(err.msg, "belongs to user 12345, this is user 0") != NULL);
    /* And whoever is not root does not read it either. */
    pid_t pid = fork();
    if (pid == 0) {
        struct gsp_places places;
        bool ok = chown(runtime, 54321, (gid_t)-1) == 0 && setuid(54321) == 0;
        int rc = ok ? gsp_places_read(&places, &err) : 1;
        _exit(rc == GSP_E_PERM ? 0 : 1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    tap_eq_int(status, 0);
    remove_runtime();
}

TAP_TEST(a_runtime_folder_that_is_not_ours_is_not_used)
{
    if (geteuid() != 0)
        tap_skip("needs root, to give a folder away");
    use_runtime();
    tap_require(chown(runtime, 12345, (gid_t)-1) == 0);
    pid_t pid = start_writer(0);
    end_writer(pid);
    struct gsp_place place;
    tap_require(gsp_place_find(pid, &place, NULL) == 0);
    tap_check(strncmp(place.path, "/dev/shm/gsprof-0/", 18) == 0);
    tap_eq_int(gsp_place_remove(&place, NULL), 0);
    remove_runtime();
}

TAP_TEST(start_times_tell_processes_apart)
{
    uint64_t ticks = 0;
    char state = 0;
    tap_check(gsp_live_start_time(getpid(), &ticks, &state));
    tap_eq_int(state, 'R');
    tap_check(gsp_live_is(getpid(), ticks, 0));
    tap_check(gsp_live_is(getpid(), ticks, gsp_live_pid_ns()));
    tap_check(!gsp_live_is(getpid(), ticks + 1, 0));
    tap_check(!gsp_live_start_time(INT32_MAX, &ticks, &state));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    tap_require(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    tap_check(gsp_live_start_time(pid, &ticks, &state));
    tap_eq_int(state, 'Z');
    tap_check(!gsp_live_is(pid, ticks, 0));
    waitpid(pid, NULL, 0);
}

static int parse(const char *text, struct gsp_ring__meta *meta)
{
    return gsp_ring__meta_parse(gsp_sv_of(text), meta, NULL);
}

TAP_TEST(meta_is_read_back)
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

TAP_TEST(the_program_has_shared_memory_first)
{
    if (!mounts_begin() || mount("none", "/dev/shm", "tmpfs", 0, "size=64m") != 0)
        tap_skip("needs root and a mount namespace, for a small /dev/shm");
    unsetenv("XDG_RUNTIME_DIR");
    gsp_auto_fd shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_check(gsp_place_has_room(shm, 16 << 20));
    tap_check(!gsp_place_has_room(shm, (16 << 20) + 4096));
    /* There is too little for a process and its workers: the next place is taken, and found. */
    struct gsp_err err = {0};
    struct gsp_place place;
    pid_t pid = start_writer(5);
    tap_require(gsp_place_find(pid, &place, &err) == 0);
    tap_check(strncmp(place.path, "/tmp/gsprof-", strlen("/tmp/gsprof-")) == 0);
    /* A second writer finds the folder of the first, though there is room by now. */
    tap_require(mount("none", "/dev/shm", "tmpfs", MS_REMOUNT, "size=512m") == 0);
    const struct gsp_place_about about = {.pid = pid, .rank = 5};
    int folder = -1;
    struct stat first;
    struct stat second;
    tap_require(gsp_place_make(&about, &folder, &err) == 0);
    tap_check(fstat(folder, &second) == 0 && stat(place.path, &first) == 0 &&
              first.st_ino == second.st_ino);
    close(folder);
    end_writer(pid);
    tap_eq_int(gsp_place_remove(&place, &err), 0);
}

TAP_TEST(ended_processes_may_keep_only_so_much)
{
    const struct gsp_place ended = {.uid = geteuid(),
                                    .bytes = GSP_PLACE_KEEP_BYTES,
                                    .last_write_ns = gsp_realtime_ns(),
                                    .path = "/no/such/folder"};
    struct gsp_place other = ended;
    uint64_t kept_bytes = 0;
    /* The newest stays, however large; what comes after it goes, but for the living and others'. */
    tap_check(!gsp_place_is_surplus(&ended, &kept_bytes));
    tap_eq_int(kept_bytes, GSP_PLACE_KEEP_BYTES);
    other.bytes = 1;
    tap_check(gsp_place_is_surplus(&other, &kept_bytes));
    other.live = true;
    tap_check(!gsp_place_is_surplus(&other, &kept_bytes));
    other.live = false;
    other.uid = geteuid() + 1;
    tap_check(!gsp_place_is_surplus(&other, &kept_bytes));
    tap_eq_int(kept_bytes, GSP_PLACE_KEEP_BYTES);
    kept_bytes = 0;
    other = ended;
    other.last_write_ns -= GSP_PLACE_TTL_NS;
    tap_check(gsp_place_is_surplus(&other, &kept_bytes));
    tap_eq_int(kept_bytes, 0);
}

TAP_MAIN()
