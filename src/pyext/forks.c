/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work in the child right after fork. Python calls a C function there: it runs no bytecode, so no
 * signal handler can run in it, whose exception Python would swallow. It raises no audit events.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/memory.h"
#include "base/file.h"
#include "pyext/pyapi.h"

#define PATH_BYTES 4096U
/* Maximum number of pending calls that wait for fork() to return. */
#define CALLS_MAX  100000
#define SHELL      "/bin/sh"
#define YAMA       "/proc/sys/kernel/yama/ptrace_scope"

/* What a child has to do; set when the agent starts. One per process: sub-interpreters do not use
 * it. */
static struct {
    bool is_nested;            /* children are recorded as well */
    bool is_followed;          /* a follower samples the stacks */
    bool must_allow;           /* Yama: only ancestors may trace, unless allowed */
    char run_file[PATH_BYTES]; /* of `gsprof run`, which starts the followers; "": none */
    char program[PATH_BYTES];  /* the follower; unused with a run; "": none */
    pid_t has_follower;        /* process whose follower is claimed */
} child_setup;

/* State of the thread that forks, the only one in the child. */
static _Thread_local struct {
    const void *frame; /* of the caller of fork(); only compared */
    int calls;         /* pending calls since then */
} forking;

extern char **environ;

static bool is_limited_by_yama(void)
{
    char digit = '0';
    gsp_auto_fd fd = open(YAMA, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &digit, 1) == 1 && digit == '1';
}

/* True once in each process. */
static bool claim_process(void)
{
    const pid_t pid = getpid();
    const bool is_new = child_setup.has_follower != pid;
    child_setup.has_follower = pid;
    return is_new;
}

/* ------------------------------------------------------------------------------- gsprof run */

/* Uses one write, so that lines of several processes do not mix. Does not wait if something else is
 * in the place of the file. */
static void report_to_run(void)
{
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    char line[24];
    int len = snprintf(line, sizeof(line), "%d\n", (int)getpid());
    int fd = -1;
    do {
        fd = open(child_setup.run_file, flags);
    } while (fd < 0 && errno == EINTR);
    while (fd >= 0 && write(fd, line, (size_t)len) < 0 && errno == EINTR)
        continue;
    gsp_fd_close(&fd);
}

/* -------------------------------------------------------------------------------- a follower */

/* Closes the descriptors that the program's children inherit: a pipe held open by the follower
 * would never end. */
static bool close_others(posix_spawn_file_actions_t *actions)
{
    DIR *dir = opendir("/proc/self/fd");
    bool ok = dir != NULL;
    for (const struct dirent *entry = NULL; ok && (entry = readdir(dir));) {
        int64_t fd = 0;
        if (gsp_parse_i64(entry->d_name, STDERR_FILENO + 1, INT32_MAX, &fd, NULL) == 0)
            ok = posix_spawn_file_actions_addclose(actions, (int)fd) == 0;
    }
    if (dir)
        closedir(dir);
    return ok;
}

static bool set_files(posix_spawn_file_actions_t *actions)
{
    const char *null = "/dev/null";
    return posix_spawn_file_actions_addopen(actions, STDIN_FILENO, null, O_RDONLY, 0) == 0 &&
           posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, null, O_WRONLY, 0) == 0 &&
           posix_spawn_file_actions_addopen(actions, STDERR_FILENO, null, O_WRONLY, 0) == 0 &&
           close_others(actions);
}

/* Returns the environment without LD_PRELOAD; freed by the caller. */
static char **copy_environment(void)
{
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    for (size_t i = 0, n = 0; copy && i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
            copy[n++] = environ[i];
    return copy;
}

/* Waits for the child and consumes its SIGCHLD, which is blocked. */
static void reap(pid_t child, const sigset_t *blocked)
{
    const struct timespec now = {0};
    siginfo_t info;
    pid_t ended = 0;
    do {
        ended = waitpid(child, NULL, 0);
    } while (ended < 0 && errno == EINTR);
    /* waitpid() fails if the program ignores SIGCHLD. */
    if (ended == child && sigtimedwait(blocked, &info, &now) == SIGCHLD && info.si_pid != child)
        kill(getpid(), SIGCHLD); /* a child of the program sent it: resend */
}

/* Starts `gsprof follow PID`, detached: a shell starts it and exits at once. */
static void spawn(char **environment, const sigset_t *mask, const sigset_t *blocked)
{
    char pid[24];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    char command[] = "\"$0\" \"$@\" &";
    char name[] = "sh";
    char option[] = "-c";
    char follow[] = "follow";
    char detach[] = "--detach";
    char *argv[] = {name, option, command, child_setup.program, follow, pid, detach, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t child = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return;
    if (posix_spawnattr_init(&attributes) == 0) {
        if (posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK) ==
                0 &&
            posix_spawnattr_setpgroup(&attributes, 0) == 0 &&
            posix_spawnattr_setsigmask(&attributes, mask) == 0 && set_files(&actions) &&
            posix_spawn(&child, SHELL, &actions, &attributes, argv, environment) == 0)
            reap(child, blocked);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
}

/* Blocks SIGCHLD: the handler that the process inherited must not see this child. */
static void spawn_follower(void)
{
    sigset_t blocked;
    sigset_t mask;
    char **environment = copy_environment();
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    if (environment && pthread_sigmask(SIG_BLOCK, &blocked, &mask) == 0) {
        spawn(environment, &mask, &blocked);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
    free(environment);
}

static void allow_followers(void)
{
    if (child_setup.must_allow)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/* Allows followers, and starts one unless `gsprof run` does. */
static void allow_and_start_follower(void)
{
    allow_followers();
    if (child_setup.run_file[0] == '\0' && child_setup.program[0] != '\0')
        spawn_follower();
}

/* ----------------------------------------------------------------------------------- Python */

/* Stores the frame that forks: Python's other hooks run before the deferred work. */
static PyObject *before_fork(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    forking.frame = PyEval_GetFrame();
    Py_RETURN_NONE;
}

/* The slow part, which takes milliseconds. It is deferred until fork() has returned: Python's own
 * hooks run after ours and are bytecode, in which the handler of a signal that arrived meanwhile
 * would run, and its exception would be lost. */
static int run_deferred(void *unused)
{
    (void)unused;
    const int saved_errno = errno;
    if (forking.frame && PyEval_GetFrame() != forking.frame && forking.calls++ < CALLS_MAX &&
        Py_AddPendingCall(run_deferred, NULL) == 0)
        return 0;
    forking.frame = NULL;
    gsp_agent_memory_pause(true);
    gsp_agent_memory_child();
    if (child_setup.is_nested && child_setup.is_followed && gsp_agent_is_on() && claim_process())
        allow_and_start_follower();
    gsp_agent_memory_pause(false);
    errno = saved_errno;
    return 0;
}

/* 3.8 prints an error if a pending call is added during shutdown. */
static void defer(void)
{
    if (gsp_pyext__python_minor() < 9 || Py_AddPendingCall(run_deferred, NULL) != 0) {
        forking.frame = NULL;
        run_deferred(NULL);
    }
}

static PyObject *after_fork(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const int saved_errno = errno;
    const bool is_recorded = child_setup.is_nested && gsp_agent_is_on();
    const bool is_counted = gsp_agent_memory_mode() != GSP_MEMORY_OFF;
    if ((is_recorded || is_counted) && !gsp_agent_is_sandboxed()) {
        forking.calls = 0;
        if (is_recorded && child_setup.run_file[0] != '\0') {
            allow_followers();
            report_to_run();
        }
        if (is_counted || (is_recorded && child_setup.program[0] != '\0'))
            defer();
    }
    errno = saved_errno;
    Py_RETURN_NONE;
}

/* Copies a path; "" if it is too long. */
static void copy_path(char *out, const char *path)
{
    const int len = snprintf(out, PATH_BYTES, "%s", path);
    if (len < 0 || (size_t)len >= PATH_BYTES)
        out[0] = '\0';
}

static PyObject *fork_setup(PyObject *module, PyObject *args)
{
    (void)module;
    int is_nested = 0;
    int is_followed = 0;
    const char *run_file = NULL;
    const char *program = NULL;
    if (!PyArg_ParseTuple(args, "ppyy:fork_setup", &is_nested, &is_followed, &run_file, &program))
        return NULL;
    child_setup.is_nested = is_nested != 0;
    child_setup.is_followed = is_followed != 0;
    child_setup.must_allow = is_followed && is_limited_by_yama();
    copy_path(child_setup.run_file, run_file);
    copy_path(child_setup.program, access(SHELL, X_OK) == 0 ? program : "");
    Py_RETURN_NONE;
}

static PyObject *claim_follower(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(claim_process());
}

static PyObject *start_follower(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    allow_and_start_follower();
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* Registers once: Python cannot unregister the functions. */
static PyObject *watch_forks(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct gsp_pyext *state = gsp_pyext__state(module);
    if (state->watches_forks || !gsp_pyext__is_main())
        Py_RETURN_NONE;
    PyObject *posix = PyImport_ImportModule("posix");
    PyObject *add = posix ? PyObject_GetAttrString(posix, "register_at_fork") : NULL;
    PyObject *before = add ? PyObject_GetAttrString(module, "before_fork") : NULL;
    PyObject *after = before ? PyObject_GetAttrString(module, "after_fork") : NULL;
    PyObject *args = after ? PyTuple_New(0) : NULL;
    PyObject *named =
        args ? Py_BuildValue("{sOsO}", "before", before, "after_in_child", after) : NULL;
    PyObject *result = named ? PyObject_Call(add, args, named) : NULL;
    state->watches_forks = result != NULL;
    Py_XDECREF(named);
    Py_XDECREF(args);
    Py_XDECREF(after);
    Py_XDECREF(before);
    Py_XDECREF(add);
    Py_XDECREF(posix);
    return result;
}

static PyMethodDef functions[] = {
    {"before_fork", before_fork, METH_NOARGS, "before_fork()\n\nStores the frame that forks."},
    {"after_fork", after_fork, METH_NOARGS,
     "after_fork()\n\nGives a child its own memory counters and a follower."},
    {"fork_setup", fork_setup, METH_VARARGS,
     "fork_setup(nested, followed, run_file, program)\n\nSets what children do; paths are bytes, "
     "b'' for none."},
    {"watch_forks", watch_forks, METH_NOARGS,
     "watch_forks()\n\nRegisters before_fork() and after_fork() in the main interpreter."},
    {"claim_follower", claim_follower, METH_NOARGS,
     "claim_follower() -> bool\n\nTrue in the first call of each process."},
    {"start_follower", start_follower, METH_NOARGS,
     "start_follower()\n\nStarts a follower of this process, as fork_setup() has set."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__forks_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
