/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c -- makes one call of the C library fail, once. Linked into gsprof and into the agent with
 * one --wrap option per function below (meson option fault_injection).
 *
 * A call site is the chain of return addresses in this module, innermost first, at most DEPTH.
 *
 * GSPROF_FAULT_LOG   file to which each site is appended when it is first reached
 * GSPROF_FAULT_SITE  "module:function address,address,…": the first call from this site fails
 * GSPROF_FAULT_ERROR errno of the failure; without it each function has its own
 * GSPROF_FAULT_DONE  file that is created when the call fails, so that only one process fails
 *
 * meson.build wraps each function for which a CALL, LONG, CODE, TEXT, DONE or SIX line or a FAULT()
 * names it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#ifndef FAULT_MODULE
#define FAULT_MODULE "gsprof"
#endif
#define DEPTH       8
#define SEEN        (1U << 15)
#define PUBLIC      __attribute__((visibility("hidden")))
#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char etext __attribute__((visibility("hidden")));

static int log_fd = -1;
static const char *done_path;
static char wanted_name[64];
static uintptr_t wanted[DEPTH];
static int wanted_n, wanted_error;
static atomic_bool is_done;
static atomic_ullong seen[SEEN];

long __real_syscall(long number, ...);
long __real_ptrace(long request, ...);
long __real_prctl(int option, ...);
long __real_fcntl64(int fd, ...);
long __real_ioctl(int fd, ...);
void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t from);
void *__real_mremap(void *at, size_t n, size_t to, int flags, void *where);
int __real_open64(const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);
size_t __real_fwrite(const void *from, size_t size, size_t n, FILE *file);
size_t __real_fread(void *to, size_t size, size_t n, FILE *file);
void *__real_dlopen(const char *file, int flags);

/* The C library may not be called here: its functions are wrapped, or allocate. */
__attribute__((constructor(101))) static void read_environment(void)
{
    const char *log = getenv("GSPROF_FAULT_LOG");
    const char *site = getenv("GSPROF_FAULT_SITE");
    const char *error = getenv("GSPROF_FAULT_ERROR");
    done_path = getenv("GSPROF_FAULT_DONE");
    if (log)
        log_fd = (int)__real_syscall(SYS_openat, AT_FDCWD, log,
                                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_fd >= 0) { /* away from the numbers that programs expect */
        int high = (int)__real_syscall(SYS_fcntl, log_fd, F_DUPFD_CLOEXEC, 900);
        __real_syscall(SYS_close, log_fd);
        log_fd = high;
    }
    wanted_error = error ? atoi(error) : 0;
    if (!site)
        return;
    const char *space = strchr(site, ' ');
    if (!space || (size_t)(space - site) >= sizeof(wanted_name))
        return;
    memcpy(wanted_name, site, (size_t)(space - site));
    char *at = (char *)(uintptr_t)space + 1;
    while (wanted_n < DEPTH && *at) {
        wanted[wanted_n++] = strtoul(at, &at, 16);
        at += *at == ',';
    }
}

/* Returns the chain of return addresses in this module, from the caller of a wrapper on. */
NO_SANITIZE static int chain_of(const void *frame, uintptr_t *out)
{
    const uintptr_t low = (uintptr_t)&__ehdr_start, high = (uintptr_t)&etext;
    const uintptr_t *fp = frame;
    int n = 0;
    while (n < DEPTH) {
        const uintptr_t pc = fp[1];
        if (pc < low || pc >= high)
            break;
        out[n++] = pc - low;
        const uintptr_t *next = (const uintptr_t *)fp[0];
        if (next <= fp || next > fp + (1 << 16) || ((uintptr_t)next & 7))
            break;
        fp = next;
    }
    return n;
}

static char *put_hex(char *at, uintptr_t value)
{
    int shift = 60;
    while (shift && !(value >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static void log_site(const char *name, const uintptr_t *chain, int n)
{
    unsigned long long hash = 1469598103934665603ULL ^ (uintptr_t)name;
    for (int i = 0; i < n; i++)
        hash = (hash ^ chain[i]) * 1099511628211ULL;
    hash |= 1;
    for (unsigned i = 0; i < 64; i++) {
        atomic_ullong *slot = &seen[(hash + i) % SEEN];
        unsigned long long old = 0;
        if (atomic_compare_exchange_strong(slot, &old, hash))
            break;
        if (old == hash)
            return;
    }
    char line[128 + 17 * DEPTH], *at = line;
    for (const char *c = name; *c; c++)
        *at++ = *c;
    *at++ = ' ';
    for (int i = 0; i < n; i++) {
        at = put_hex(at, chain[i]);
        *at++ = i + 1 < n ? ',' : '\n';
    }
    __real_syscall(SYS_write, log_fd, line, (size_t)(at - line));
}

/* Returns the errno with which the call fails, or 0. */
NO_SANITIZE static int fault_of(const char *name, int error, const void *frame)
{
    const bool is_wanted = wanted_n && !is_done && strcmp(name, wanted_name) == 0;
    if (log_fd < 0 && !is_wanted)
        return 0;
    uintptr_t chain[DEPTH];
    const int saved = errno;
    const int n = chain_of(frame, chain);
    if (log_fd >= 0 && n)
        log_site(name, chain, n);
    errno = saved;
    if (!is_wanted || n < wanted_n || memcmp(chain, wanted, sizeof(*chain) * (size_t)wanted_n))
        return 0;
    if (atomic_exchange(&is_done, true))
        return 0;
    if (done_path) {
        long fd = __real_syscall(SYS_openat, AT_FDCWD, done_path,
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
            errno = saved;
            return 0;
        }
        __real_syscall(SYS_close, fd);
        errno = saved;
    }
    return wanted_error ? wanted_error : error;
}

#define FAULT(name, error) fault_of(FAULT_MODULE ":" #name, error, __builtin_frame_address(0))

/* Returns -1 or NULL, with errno. */
#define DEFINE(name, error, type, bad, params, args)                                               \
    type __real_##name params;                                                                     \
    PUBLIC type __wrap_##name params;                                                              \
    PUBLIC type __wrap_##name params                                                               \
    {                                                                                              \
        const int fault = FAULT(name, error);                                                      \
        if (fault) {                                                                               \
            errno = fault;                                                                         \
            return bad;                                                                            \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }
#define CALL(name, error, params, args)       DEFINE(name, error, int, -1, params, args)
#define TEXT(name, error, type, params, args) DEFINE(name, error, type, NULL, params, args)
#define LONG(name, error, params, args)       DEFINE(name, error, long, -1, params, args)
/* Returns the number of the error. */
#define CODE(name, error, params, args)                                                            \
    int __real_##name params;                                                                      \
    PUBLIC int __wrap_##name params;                                                               \
    PUBLIC int __wrap_##name params                                                                \
    {                                                                                              \
        const int fault = FAULT(name, error);                                                      \
        return fault ? fault : __real_##name args;                                                 \
    }
/* Does its work and fails. */
#define DONE(name, error, bad, params, args)                                                       \
    int __real_##name params;                                                                      \
    PUBLIC int __wrap_##name params;                                                               \
    PUBLIC int __wrap_##name params                                                                \
    {                                                                                              \
        const int fault = FAULT(name, error);                                                      \
        const int rc = __real_##name args;                                                         \
        if (!fault)                                                                                \
            return rc;                                                                             \
        errno = fault;                                                                             \
        return bad;                                                                                \
    }

/* clang-format off */
TEXT(malloc, ENOMEM, void *, (size_t n), (n))
TEXT(calloc, ENOMEM, void *, (size_t n, size_t size), (n, size))
TEXT(realloc, ENOMEM, void *, (void *old, size_t n), (old, n))
TEXT(reallocarray, ENOMEM, void *, (void *old, size_t n, size_t size), (old, n, size))
TEXT(aligned_alloc, ENOMEM, void *, (size_t align, size_t n), (align, n))
TEXT(strdup, ENOMEM, char *, (const char *s), (s))
TEXT(strndup, ENOMEM, char *, (const char *s, size_t n), (s, n))
TEXT(realpath, EACCES, char *, (const char *path, char *to), (path, to))
TEXT(getcwd, ENOENT, char *, (char *to, size_t n), (to, n))
TEXT(opendir, EMFILE, DIR *, (const char *path), (path))
TEXT(fdopendir, ENOMEM, DIR *, (int fd), (fd))
TEXT(readdir64, EIO, struct dirent64 *, (DIR *dir), (dir))
TEXT(fopen64, EMFILE, FILE *, (const char *path, const char *mode), (path, mode))
TEXT(fgets, EIO, char *, (char *to, int n, FILE *file), (to, n, file))
TEXT(getpwuid, ENOMEM, void *, (uid_t uid), (uid))
CALL(scandir64, ENOMEM, (const char *path, struct dirent64 ***list, int (*want)(const struct dirent64 *), int (*order)(const struct dirent64 **, const struct dirent64 **)), (path, list, want, order))
LONG(read, EIO, (int fd, void *to, size_t n), (fd, to, n))
LONG(write, ENOSPC, (int fd, const void *from, size_t n), (fd, from, n))
LONG(pread64, EIO, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
LONG(pwrite64, ENOSPC, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
LONG(readlink, EACCES, (const char *path, char *to, size_t n), (path, to, n))
LONG(readlinkat, EACCES, (int dir, const char *path, char *to, size_t n), (dir, path, to, n))
LONG(recv, ECONNRESET, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
LONG(send, EPIPE, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
LONG(process_vm_readv, ESRCH, (pid_t pid, const struct iovec *own, unsigned long n, const struct iovec *other, unsigned long m, unsigned long flags), (pid, own, n, other, m, flags))
LONG(process_vm_writev, ESRCH, (pid_t pid, const struct iovec *own, unsigned long n, const struct iovec *other, unsigned long m, unsigned long flags), (pid, own, n, other, m, flags))
LONG(lseek64, EIO, (int fd, off64_t at, int from), (fd, at, from))
CALL(access, EACCES, (const char *path, int mode), (path, mode))
CALL(faccessat, EACCES, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags))
CALL(stat64, EACCES, (const char *path, void *to), (path, to))
CALL(lstat64, EACCES, (const char *path, void *to), (path, to))
CALL(fstat64, EIO, (int fd, void *to), (fd, to))
CALL(fstatat64, EACCES, (int dir, const char *path, void *to, int flags), (dir, path, to, flags))
CALL(statvfs64, EIO, (const char *path, void *to), (path, to))
CALL(fstatvfs64, EIO, (int fd, void *to), (fd, to))
CALL(fstatfs64, EIO, (int fd, void *to), (fd, to))
CALL(mkdir, ENOSPC, (const char *path, mode_t mode), (path, mode))
CALL(mkdirat, ENOSPC, (int dir, const char *path, mode_t mode), (dir, path, mode))
CALL(rmdir, EBUSY, (const char *path), (path))
CALL(unlink, EACCES, (const char *path), (path))
CALL(unlinkat, EACCES, (int dir, const char *path, int flags), (dir, path, flags))
CALL(rename, ENOSPC, (const char *from, const char *to), (from, to))
CALL(renameat, ENOSPC, (int dir, const char *from, int other, const char *to), (dir, from, other, to))
CALL(renameat2, ENOSPC, (int dir, const char *from, int other, const char *to, unsigned flags), (dir, from, other, to, flags))
CALL(linkat, ENOSPC, (int dir, const char *from, int other, const char *to, int flags), (dir, from, other, to, flags))
CALL(mkostemp64, ENOSPC, (char *path, int flags), (path, flags))
CALL(fchmod, EPERM, (int fd, mode_t mode), (fd, mode))
CALL(fchown, EPERM, (int fd, uid_t user, gid_t group), (fd, user, group))
CALL(flock, ENOLCK, (int fd, int what), (fd, what))
CALL(ftruncate64, ENOSPC, (int fd, off64_t size), (fd, size))
CALL(fsync, EIO, (int fd), (fd))
CALL(fdatasync, EIO, (int fd), (fd))
CALL(dup2, EMFILE, (int fd, int to), (fd, to))
CALL(pipe2, EMFILE, (int *fds, int flags), (fds, flags))
CALL(eventfd, EMFILE, (unsigned value, int flags), (value, flags))
CALL(signalfd, EMFILE, (int fd, const sigset_t *set, int flags), (fd, set, flags))
CALL(memfd_create, EMFILE, (const char *name, unsigned flags), (name, flags))
CALL(inotify_init1, EMFILE, (int flags), (flags))
CALL(inotify_add_watch, ENOSPC, (int fd, const char *path, uint32_t mask), (fd, path, mask))
CALL(madvise, ENOMEM, (void *at, size_t n, int what), (at, n, what))
CALL(mprotect, ENOMEM, (void *at, size_t n, int what), (at, n, what))
CALL(socket, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
CALL(socketpair, EMFILE, (int domain, int type, int protocol, int *fds), (domain, type, protocol, fds))
CALL(bind, EADDRINUSE, (int fd, const void *to, socklen_t n), (fd, to, n))
CALL(listen, EADDRINUSE, (int fd, int n), (fd, n))
CALL(connect, ECONNREFUSED, (int fd, const void *to, socklen_t n), (fd, to, n))
CALL(accept4, EMFILE, (int fd, void *to, socklen_t *n, int flags), (fd, to, n, flags))
CALL(getsockname, ENOBUFS, (int fd, void *to, socklen_t *n), (fd, to, n))
CALL(getsockopt, EINVAL, (int fd, int level, int name, void *to, socklen_t *n), (fd, level, name, to, n))
CALL(setsockopt, ENOPROTOOPT, (int fd, int level, int name, const void *to, socklen_t n), (fd, level, name, to, n))
CALL(poll, EINTR, (struct pollfd *fds, nfds_t n, int timeout_ms), (fds, n, timeout_ms))
CALL(ppoll, EINTR, (struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *s), (fds, n, t, s))
CALL(nanosleep, EINTR, (const struct timespec *t, struct timespec *left), (t, left))
CALL(fork, EAGAIN, (void), ())
CALL(execvp, ENOENT, (const char *file, char *const *argv), (file, argv))
CALL(waitpid, EINTR, (pid_t pid, int *status, int flags), (pid, status, flags))
CALL(waitid, EINTR, (idtype_t type, id_t id, siginfo_t *to, int flags), (type, id, to, flags))
CALL(kill, EPERM, (pid_t pid, int number), (pid, number))
CALL(getpgid, ESRCH, (pid_t pid), (pid))
CALL(setsid, EPERM, (void), ())
CALL(chdir, EACCES, (const char *path), (path))
CALL(getrlimit64, EINVAL, (int what, void *to), (what, to))
CALL(setrlimit64, EPERM, (int what, const void *to), (what, to))
CALL(setpriority, EACCES, (int which, id_t who, int value), (which, who, value))
CALL(sched_getaffinity, ESRCH, (pid_t pid, size_t n, void *to), (pid, n, to))
CALL(setenv, ENOMEM, (const char *name, const char *value, int replace), (name, value, replace))
CALL(uname, EFAULT, (struct utsname *to), (to))
CALL(gethostname, ENAMETOOLONG, (char *to, size_t n), (to, n))
CALL(tcgetattr, ENOTTY, (int fd, struct termios *to), (fd, to))
CALL(tcsetattr, EIO, (int fd, int how, const struct termios *from), (fd, how, from))
CALL(sigtimedwait, EINTR, (const sigset_t *set, siginfo_t *to, const struct timespec *t), (set, to, t))
CALL(fflush, ENOSPC, (FILE *file), (file))
CODE(posix_fallocate64, ENOSPC, (int fd, off64_t at, off64_t n), (fd, at, n))
CODE(posix_spawn, EAGAIN, (pid_t *pid, const char *path, const void *actions, const void *attr, char *const *argv, char *const *env), (pid, path, actions, attr, argv, env))
CODE(posix_spawnp, EAGAIN, (pid_t *pid, const char *path, const void *actions, const void *attr, char *const *argv, char *const *env), (pid, path, actions, attr, argv, env))
CODE(posix_spawn_file_actions_adddup2, ENOMEM, (void *actions, int fd, int to), (actions, fd, to))
CODE(posix_spawn_file_actions_init, ENOMEM, (void *actions), (actions))
CODE(posix_spawnattr_init, ENOMEM, (void *attr), (attr))
CODE(pthread_create, EAGAIN, (pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg), (thread, attr, run, arg))
CODE(pthread_key_create, EAGAIN, (pthread_key_t *key, void (*end)(void *)), (key, end))
CODE(pthread_attr_init, ENOMEM, (pthread_attr_t *attr), (attr))
CODE(posix_memalign, ENOMEM, (void **to, size_t align, size_t n), (to, align, n))
CODE(clock_nanosleep, EINTR, (clockid_t id, int flags, const struct timespec *t, struct timespec *left), (id, flags, t, left))
DONE(close, EIO, -1, (int fd), (fd))
DONE(fclose, EIO, EOF, (FILE *file), (file))
DONE(closedir, EIO, -1, (DIR *dir), (dir))
/* clang-format on */

static void *mapping(void *at, int fault, void *mapped)
{
    (void)at;
    errno = fault;
    return mapped;
}

PUBLIC void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t from)
{
    const int fault = FAULT(mmap64, ENOMEM);
    return fault ? mapping(at, fault, MAP_FAILED) : __real_mmap64(at, n, prot, flags, fd, from);
}

PUBLIC void *__wrap_mremap(void *at, size_t n, size_t to, int flags, void *where)
{
    const int fault = FAULT(mremap, ENOMEM);
    return fault ? mapping(at, fault, MAP_FAILED) : __real_mremap(at, n, to, flags, where);
}

/* Functions with variable arguments. */
static mode_t mode_of(int flags, va_list more)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

PUBLIC int __wrap_open64(const char *path, int flags, ...)
{
    const int fault = FAULT(open64, EMFILE);
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    errno = fault ? fault : errno;
    return fault ? -1 : __real_open64(path, flags, mode);
}

PUBLIC int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    const int fault = FAULT(openat64, EMFILE);
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    errno = fault ? fault : errno;
    return fault ? -1 : __real_openat64(dir, path, flags, mode);
}

/* Six words cover every call of these functions. */
#define SIX(name, error, type, first)                                                              \
    PUBLIC long __wrap_##name(type first, ...);                                                    \
    NO_SANITIZE PUBLIC long __wrap_##name(type first, ...)                                         \
    {                                                                                              \
        const int fault = FAULT(name, error);                                                      \
        long word[6];                                                                              \
        va_list more;                                                                              \
        va_start(more, first);                                                                     \
        for (int i = 0; i < 6; i++)                                                                \
            word[i] = va_arg(more, long);                                                          \
        va_end(more);                                                                              \
        if (fault) {                                                                               \
            errno = fault;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
        return __real_##name(first, word[0], word[1], word[2], word[3], word[4], word[5]);         \
    }
SIX(syscall, ENOSYS, long, number)
SIX(ptrace, ESRCH, long, request)
SIX(prctl, EINVAL, int, option)
SIX(fcntl64, EINVAL, int, fd)
SIX(ioctl, ENOTTY, int, fd)

__attribute__((format(printf, 2, 3))) PUBLIC int __wrap_asprintf(char **to, const char *format,
                                                                 ...);
PUBLIC int __wrap_asprintf(char **to, const char *format, ...)
{
    const int fault = FAULT(asprintf, ENOMEM);
    if (fault) {
        errno = fault;
        return -1;
    }
    va_list more;
    va_start(more, format);
    const int n = vasprintf(to, format, more);
    va_end(more);
    return n;
}

/* dlerror() has to return a text. */
PUBLIC void *__wrap_dlopen(const char *file, int flags)
{
    return __real_dlopen(FAULT(dlopen, ENOMEM) ? "/nonexistent/library.so" : file, flags);
}

PUBLIC size_t __wrap_fwrite(const void *from, size_t size, size_t n, FILE *file)
{
    const int fault = FAULT(fwrite, ENOSPC);
    errno = fault ? fault : errno;
    return fault ? 0 : __real_fwrite(from, size, n, file);
}

PUBLIC size_t __wrap_fread(void *to, size_t size, size_t n, FILE *file)
{
    const int fault = FAULT(fread, EIO);
    errno = fault ? fault : errno;
    return fault ? 0 : __real_fread(to, size, n, file);
}
