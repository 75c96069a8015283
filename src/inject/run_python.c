/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/run_python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "inject/inject.h"
#include "inject/package_dir.h"
#include "inject/script.h"
#include "proc/task.h"
#include "py/locate.h"
#include "ring/dir.h"
#include "wire/table.h"

/* A running interpreter starts an armed script within milliseconds. */
#define BY_ITSELF_NS (200 * GSP_NS_PER_MS)
#define POLL_NS      (300 * GSP_NS_PER_US)
#define BUSY_NS      (2 * GSP_NS_PER_MS)
#define BUSY_MAX_NS  (200 * GSP_NS_PER_MS)
#define LOCATE_TRIES 10U
#define POLLS        16U /* the target is checked for its exit once per this many polls */
#define LEFT_OVER_NS (60 * GSP_NS_PER_S) /* age of the files of a killed command */
#define ANSWER_MAX   (64U << 20)
#define OUTCOME_MAX  4096U
#define AGENT        "gsprof/libgsprof_agent.so"
#define VARIABLE     "REQUEST: \"Dict[str, Any]\""
#define PLACEHOLDER  VARIABLE " = {}"

extern const char gsp_inject__target_script_py[];

/* -------------------------------------------------------------------------------------- files */

void gsp_inject_use_runtime_dir_of(pid_t pid)
{
    gsp_auto_buf value = {0};
    bool is_set = gsp_proc_env(pid, "XDG_RUNTIME_DIR", &value);
    const char *text = is_set ? gsp_buf_cstr(&value) : NULL;
    if (text)
        setenv("XDG_RUNTIME_DIR", text, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
}

/* As root, creates files as the owner of the target. */
static void become(uid_t uid, gid_t gid)
{
    if (geteuid() == 0 && uid != 0) {
        gsp_ignore(setegid(gid) != 0);
        gsp_ignore(seteuid(uid) != 0);
    }
}

static void become_root(uid_t uid)
{
    if (uid == 0) {
        gsp_ignore(seteuid(0) != 0);
        gsp_ignore(setegid(getgid()) != 0);
    }
}

/* The name of a file in its folder. */
static const char *name_of(const char *path)
{
    return gsp_sv_basename(gsp_sv_of(path)).p;
}

/* Reads a file that the target has written. Fails with NOFILE if there is none, or if it is a FIFO,
 * a link, or a file of another user. */
static int read_file(const struct gsp_inject__script_files *files, const char *path,
                     size_t max_bytes, struct gsp_buf *out, struct gsp_err *err)
{
    struct stat st;
    struct stat folder;
    gsp_auto_fd fd =
        openat(files->fd, name_of(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || fstat(files->fd, &folder) != 0)
        return gsp_err_set(err, GSP_E_NOFILE, errno, "%.200s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || (st.st_uid != files->owner && st.st_uid != folder.st_uid))
        return gsp_err_set(err, GSP_E_NOFILE, 0, "%.200s is not a file of the target", path);
    return gsp_fd_read_all(fd, max_bytes, out, err);
}

static int set_paths(pid_t pid, struct gsp_inject__script_files *files, struct gsp_err *err)
{
    const struct gsp_ring_dir_spec spec = {.pid = pid, .rank = GSP_NULL_I64};
    char link[64];
    int new_fd;
    int rc = gsp_ring_dir_create(&spec, &new_fd, err);
    if (rc != GSP_OK)
        return rc;
    files->fd = new_fd;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", new_fd);
    ssize_t len = readlink(link, files->folder, sizeof(files->folder) - 1);
    if (len <= 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", link, strerror(errno));
    files->folder[len] = '\0';
    struct {
        char *to;
        const char *end;
    } names[] = {{files->script, "py"},
                 {files->claim, "claim"},
                 {files->answer, "answer"},
                 {files->outcome, "outcome"}};
    /* The time distinguishes this process from a killed one with the same number, whose files are
     * still there. */
    const int64_t now_ns = gsp_now_ns();
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        snprintf(names[i].to, PATH_MAX, "%s/script-%d-%llx.%s", files->folder, (int)getpid(),
                 (unsigned long long)now_ns, names[i].end);
    return GSP_OK;
}

static int write_script(const struct gsp_python_call *script,
                        const struct gsp_inject__script_files *files, const char *package,
                        const struct gsp_py_runtime *runtime, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    const char *at = strstr(gsp_inject__target_script_py, PLACEHOLDER);
    if (!at)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "target_script.py has no REQUEST");
    gsp_buf_put(&text, gsp_inject__target_script_py, (size_t)(at - gsp_inject__target_script_py));
    gsp_buf_puts(&text, VARIABLE " = ");
    gsp_inject__request_put(script, files, package, runtime, &text);
    gsp_buf_puts(&text, at + sizeof(PLACEHOLDER) - 1);
    if (text.failed)
        return gsp_err_nomem(err);
    const char *name = name_of(files->script);
    unlinkat(files->fd, name, 0); /* of a process that had our pid */
    gsp_auto_fd fd =
        openat(files->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", files->script, strerror(errno));
    return gsp_fd_write_all(fd, text.p, text.len, err);
}

/* The target may have another mount namespace. */
static int check_visible(pid_t pid, const char *path, struct gsp_err *err)
{
    char theirs[PATH_MAX + 32];
    struct stat a;
    struct stat b;
    snprintf(theirs, sizeof(theirs), "/proc/%d/root%s", (int)pid, path);
    if (stat(path, &a) == 0 && stat(theirs, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return GSP_OK;
    gsp_err_fill(err, GSP_E_NOTSUP, 0,
                 "%.160s is not visible in the target: it runs in another container", path);
    gsp_err_set_reason(err, GSP_REASON_NAMESPACE);
    return GSP_E_NOTSUP;
}

static int prepare(const struct gsp_python_call *script, const char *package,
                   const struct gsp_py_runtime *runtime, struct gsp_inject__script_files *files,
                   struct gsp_err *err)
{
    char path[64];
    struct stat st;
    uid_t before = geteuid();
    snprintf(path, sizeof(path), "/proc/%d", (int)script->pid);
    if (stat(path, &st) != 0)
        return gsp_err_set(err, GSP_E_NOPROC, errno, "process %d has exited", (int)script->pid);
    files->owner = st.st_uid;
    become(st.st_uid, st.st_gid);
    int rc = set_paths(script->pid, files, err);
    if (rc == GSP_OK)
        gsp_ring_dir_remove_requests(files->fd, LEFT_OVER_NS);
    if (rc == GSP_OK)
        rc = write_script(script, files, package, runtime, err);
    become_root(before);
    if (rc == GSP_OK)
        rc = check_visible(script->pid, files->script, err);
    return rc;
}

/* ------------------------------------------------------------------------------------- answer */

static bool exists(const struct gsp_inject__script_files *files, const char *path)
{
    struct stat st;
    return fstatat(files->fd, name_of(path), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_exited(pid_t pid)
{
    struct gsp_procinfo info;
    return gsp_proc_info(pid, &info, NULL) != GSP_OK || info.state == 'Z' || info.state == 'X';
}

int gsp_inject__outcome_parse(struct gsp_sv text, struct gsp_err *err)
{
    static const char word[] = "error ";
    if (!gsp_sv_starts(text, word))
        return GSP_OK;
    while (text.p[text.len - 1] == '\n')
        text.len--;
    return gsp_err_set(err, GSP_E_NOTSUP, 0, "%.*s", (int)(text.len - (sizeof(word) - 1)),
                       text.p + sizeof(word) - 1);
}

/* Fails if the agent reports that it could not run the script. */
static int read_outcome(const struct gsp_inject__script_files *files, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    if (read_file(files, files->outcome, OUTCOME_MAX, &text, NULL) != GSP_OK)
        return GSP_OK;
    return gsp_inject__outcome_parse(gsp_buf_sv(&text), err);
}

/* Waits for a file. The caller replaces the message of TIMEOUT. */
static int wait_for(const struct gsp_python_call *script,
                    const struct gsp_inject__script_files *files, const char *path,
                    int64_t deadline_ns, struct gsp_err *err)
{
    for (unsigned i = 0;; i++) {
        if (exists(files, path))
            return GSP_OK;
        int rc = read_outcome(files, err);
        if (rc != GSP_OK)
            return rc;
        if (i % POLLS == POLLS - 1 && has_exited(script->pid))
            return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has exited", (int)script->pid);
        if (gsp_now_ns() > deadline_ns)
            return gsp_err_set(err, GSP_E_TIMEOUT, 0, "no answer in time");
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

int gsp_inject__answer_parse(struct gsp_python_call_result *out, struct gsp_err *err)
{
    struct gsp_sv *texts[] = {&out->printed, &out->value, &out->trace};
    struct gsp_sv rest = gsp_buf_sv(&out->answer);
    struct gsp_sv head;
    struct gsp_sv word;
    if (!gsp_sv_split(&rest, '\n', &head) || !gsp_sv_split(&head, ' ', &word))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "malformed answer");
    if (gsp_sv_eq(word, gsp_sv_of("busy")))
        return gsp_err_set(err, GSP_E_TORN, 0, "another request is running in the process");
    out->raised = !gsp_sv_eq(word, gsp_sv_of("ok"));
    for (size_t i = 0; i < GSP_COUNT(texts); i++) {
        char digits[24] = "";
        int64_t len = 0;
        if (gsp_sv_split(&head, ' ', &word) && word.len < sizeof(digits))
            memcpy(digits, word.p, word.len);
        if (gsp_parse_i64(digits, 0, (int64_t)rest.len, &len, NULL) != GSP_OK)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "truncated answer");
        *texts[i] = (struct gsp_sv){rest.p, (size_t)len};
        if (len)
            rest = (struct gsp_sv){rest.p + len, rest.len - (size_t)len};
    }
    return GSP_OK;
}

static int read_answer(const struct gsp_inject__script_files *files,
                       struct gsp_python_call_result *out, struct gsp_err *err)
{
    int rc = read_file(files, files->answer, ANSWER_MAX, &out->answer, err);
    return rc == GSP_OK ? gsp_inject__answer_parse(out, err) : rc;
}

/* --------------------------------------------------------------------------------- running it */

/* Returns whether the interpreter has started to run the script. */
static bool run_by_interpreter(const struct gsp_python_call *script,
                               const struct gsp_inject__script_files *files,
                               const struct gsp_py_runtime *runtime)
{
    struct gsp_inject_script armed;
    struct gsp_py_locate_input input = {.pid = script->pid};
    if (gsp_proc_mem_open_pid(script->pid, &input.mem, NULL) != GSP_OK)
        return false;
    int armed_rc = gsp_inject__script_arm(&input, runtime, files->script, &armed, NULL);
    gsp_proc_mem_free(input.mem);
    if (armed_rc != GSP_OK)
        return false;
    int rc = wait_for(script, files, files->claim, gsp_now_ns() + BY_ITSELF_NS, NULL);
    if (rc != GSP_OK)
        gsp_inject__script_disarm(&armed);
    return rc == GSP_OK;
}

static int run_by_agent(const struct gsp_python_call *script,
                        const struct gsp_inject__script_files *files, const char *package,
                        struct gsp_python_call_result *out, struct gsp_err *err)
{
    char library[PATH_MAX + sizeof(AGENT) + 1];
    struct gsp_inject_result result;
    snprintf(library, sizeof(library), "%s/" AGENT, package);
    const struct gsp_inject_request request = {.pid = script->pid,
                                               .library = library,
                                               .symbol = "gsp_agent_enter",
                                               .args = {files->script, files->outcome},
                                               .limit_ns = script->limit_ns,
                                               .force = script->force};
    int rc = gsp_inject__call(&request, &result, err);
    out->stopped_ns = result.stopped_ns;
    out->was_loaded = result.was_loaded;
    if (rc == GSP_OK && result.value != 0)
        rc = gsp_err_set(err, GSP_E_NOTSUP, 0, "the target cannot start a thread");
    return rc;
}

/* Prevents the script from starting later, unless it runs already. */
static int cancel(const struct gsp_inject__script_files *files, struct gsp_err *err)
{
    if (mkdirat(files->fd, name_of(files->claim), 0700) == 0)
        return gsp_err_set(err, GSP_E_TIMEOUT, 0,
                           "the interpreter did not run it in time: a thread holds the GIL");
    return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the code is still running in the target");
}

int gsp_inject_locate_python(pid_t pid, struct gsp_py_runtime *runtime, struct gsp_err *err)
{
    struct gsp_mem *mem;
    int rc = gsp_proc_mem_open_pid(pid, &mem, err);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_py_locate(pid, mem, runtime, err);
    /* Threads that start and end meanwhile make a sound runtime look wrong. */
    for (unsigned i = 1; rc == GSP_E_FORMAT && i < LOCATE_TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = BUSY_NS}, NULL);
        rc = gsp_py_locate(pid, mem, runtime, err);
    }
    gsp_proc_mem_free(mem);
    return rc;
}

static int run_script(const struct gsp_python_call *script,
                      const struct gsp_inject__script_files *files, const char *package,
                      const struct gsp_py_runtime *runtime, struct gsp_python_call_result *out,
                      struct gsp_err *err)
{
    int64_t deadline_ns = gsp_now_ns() + script->limit_ns;
    int rc = GSP_OK;
    out->by_itself = run_by_interpreter(script, files, runtime);
    if (!out->by_itself)
        rc = run_by_agent(script, files, package, out, err);
    if (rc == GSP_E_TIMEOUT) {
        /* No thread could be borrowed. The script must not start later. */
        gsp_ignore(mkdirat(files->fd, name_of(files->claim), 0700) != 0);
        return rc;
    }
    if (rc == GSP_OK)
        rc = wait_for(script, files, files->answer, deadline_ns, err);
    if (rc == GSP_E_TIMEOUT)
        return cancel(files, err);
    return rc == GSP_OK ? read_answer(files, out, err) : rc;
}

/* Returns an absolute path: the target may have another current folder. */
static int find_package(char out[PATH_MAX], struct gsp_err *err)
{
    char folder[GSP_PACKAGE_DIR_MAX];
    int rc = gsp_inject__package_dir_find(folder, err);
    if (rc != GSP_OK)
        return rc;
    if (!realpath(folder, out))
        return gsp_err_set(err, GSP_E_NOFILE, errno, "%.200s: %s", folder, strerror(errno));
    return GSP_OK;
}

static void remove_files(const struct gsp_inject__script_files *files)
{
    unlinkat(files->fd, name_of(files->script), 0);
    unlinkat(files->fd, name_of(files->answer), 0);
    unlinkat(files->fd, name_of(files->outcome), 0);
    unlinkat(files->fd, name_of(files->claim), AT_REMOVEDIR);
}

/* Runs the script once. Fails with TORN if the target runs another one. */
static int run_once(const struct gsp_python_call *script, const char *package,
                    const struct gsp_py_runtime *runtime, struct gsp_python_call_result *out,
                    struct gsp_err *err)
{
    struct gsp_inject__script_files files = {.fd = -1};
    out->answer.len = 0;
    int rc = prepare(script, package, runtime, &files, err);
    if (rc == GSP_OK)
        rc = run_script(script, &files, package, runtime, out, err);
    if (rc == GSP_OK && !out->raised && gsp_sv_eq(out->value, gsp_sv_of("follow")) &&
        strcmp(script->what, "inject") == 0 && script->follow)
        script->follow(script->pid);
    /* The agent writes its outcome last. Without this it would appear after the removal below. */
    if ((rc == GSP_OK || rc == GSP_E_TORN) && !out->by_itself)
        gsp_ignore(wait_for(script, &files, files.outcome, gsp_now_ns() + BY_ITSELF_NS, NULL) !=
                   GSP_OK);
    /* After a timeout the script may still start: the claim must stay. */
    if (files.script[0] && rc != GSP_E_TIMEOUT)
        remove_files(&files);
    gsp_fd_close(&files.fd);
    return rc;
}

int gsp_inject_run_python(const struct gsp_python_call *script, struct gsp_python_call_result *out,
                          struct gsp_err *err)
{
    char package[PATH_MAX] = "";
    struct gsp_py_runtime runtime;
    int64_t start_ns = gsp_now_ns();
    *out = (struct gsp_python_call_result){0};
    int rc = find_package(package, err);
    if (rc == GSP_OK)
        rc = gsp_inject__check(script->pid, script->force, err);
    if (rc == GSP_OK)
        rc = gsp_inject_locate_python(script->pid, &runtime, err);
    if (rc == GSP_OK && strcmp(script->what, "inject") == 0)
        rc = check_visible(script->pid, package, err);
    if (rc == GSP_OK)
        rc = run_once(script, package, &runtime, out, err);
    /* The command that started the other request may have been killed. Each try delays that
     * request, so there are few of them. */
    int64_t pause_ns = BUSY_NS;
    while (rc == GSP_E_TORN && gsp_now_ns() - start_ns < script->limit_ns) {
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns < BUSY_MAX_NS / 2 ? 2 * pause_ns : BUSY_MAX_NS;
        if (err)
            *err = (struct gsp_err){0}; /* of the last try */
        rc = run_once(script, package, &runtime, out, err);
    }
    if (rc == GSP_E_TORN)
        rc = gsp_err_set(err, GSP_E_TIMEOUT, 0, "another request is running in the process");
    out->total_ns = gsp_now_ns() - start_ns;
    return rc;
}

void gsp_inject_python_call_result_free(struct gsp_python_call_result *result)
{
    gsp_buf_free(&result->answer);
}

bool gsp_inject_is_injected(pid_t pid, char *version)
{
    struct gsp_ring_dir dir;
    struct gsp_control page;
    int new_fd;
    version[0] = '\0';
    if (gsp_ring_dir_find(pid, &dir, NULL) != GSP_OK || !dir.live ||
        gsp_ring_dir_open(&dir, &new_fd, NULL) != GSP_OK)
        return false;
    gsp_auto_fd fd = new_fd;
    if (gsp_wire_control_read(fd, &page, NULL) != GSP_OK)
        return false;
    uint32_t state = atomic_load(&page.state);
    snprintf(version, sizeof(page.agent), "%s", page.agent);
    return (state & GSP_CONTROL_LOADED) && (state & GSP_CONTROL_PYTHON) &&
           !(state & GSP_CONTROL_EJECTED);
}
