#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the symbols that the agent imports from the target and exports to it.

    agent_symbols.py libgsprof_agent.so

Adding a name to the list below needs a decision: the library must not print, end the process, or
handle its signals.
"""

import subprocess
import sys
from typing import List, Set

EXPORTED = "gsp_agent_"
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
WEAK = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}
# Inserted by the compiler.
COMPILER = """__cxa_finalize __errno_location __stack_chk_fail __stack_chk_guard __tls_get_addr
__memcpy_chk __memset_chk __snprintf_chk __vsnprintf_chk __asprintf_chk __read_chk
__pread_chk __pread64_chk __readlink_chk __fgets_chk __openat64_2 __open64_2
__open_2 __openat_2 __vasprintf_chk __isoc23_strtoll __isoc23_strtoull
__isoc23_strtol"""
# The hooks of the memory engine call aligned_alloc to reallocarray.
MEMORY = """calloc free malloc realloc mmap mmap64 mremap munmap madvise memchr memcmp memcpy
memmove memset mprotect aligned_alloc memalign posix_memalign reallocarray"""
TEXT = """asprintf vasprintf snprintf vsnprintf strchr strcmp strdup strerror strlen strncmp
strnlen strrchr strspn strstr strtol strtoll strtoull"""
# fopen and fgets read /proc/self/maps.
# opendir, readdir, getrandom: if another user has taken the name of the folder of rings, the agent
# searches or makes one with a random name.
# fstatfs finds out whether the rings' file system is in memory; half of it is for the program.
FILES = """access close closedir dirfd faccessat fchmod fclose fcntl fcntl64 fdatasync fgets flock
fopen fopen64 fstat fstat64 fstatat fstatat64 fstatfs fstatfs64 fstatvfs fstatvfs64 ftruncate
ftruncate64 getrandom linkat lstat lstat64 mkdir mkdirat open open64 openat openat64 opendir poll
posix_fallocate posix_fallocate64 pread pread64 pwrite pwrite64 read readdir readdir64 readlink
realpath rename renameat renameat2 stat stat64 unlink unlinkat write"""
# prctl reads the name of the thread.
PROCESS = """clock_gettime geteuid gethostname getpid getrlimit getrlimit64 gettid nanosleep prctl
sched_yield secure_getenv syscall sysconf"""
# sigfillset, sigdelset and pthread_sigmask: the thread that an injector starts blocks signals, and
# signals are blocked while the list of rings is locked.
# pthread_setcancelstate: a thread that is cancelled inside a hook would keep a lock.
THREADS = """__pthread_register_cancel __pthread_unregister_cancel __pthread_unwind_next
__register_atfork __sigsetjmp pthread_attr_destroy pthread_attr_init
pthread_attr_setdetachstate pthread_create pthread_key_create pthread_mutex_init
pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_setcancelstate pthread_setspecific
pthread_sigmask sigdelset sigfillset"""
LOADER = "dl_iterate_phdr dlclose dlopen dlsym"
ALLOWED = WEAK.union(
    *(text.split() for text in (COMPILER, MEMORY, TEXT, FILES, PROCESS, THREADS, LOADER))
)


def lines_of(*command: str) -> List[str]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


def names_of(library: str, *options: str) -> Set[str]:
    lines = lines_of("nm", "-D", *options, library)
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def check(number: int, what: str, wrong: Set[str]) -> bool:
    """Prints the result as a line of TAP."""
    for name in sorted(wrong):
        print(f"# {name}")
    print(f"{'not ok' if wrong else 'ok'} {number} {what}")
    return not wrong


def main() -> int:
    library = sys.argv[1]
    print("1..3")
    needed = {
        line.split("[")[1].rstrip("]")
        for line in lines_of("readelf", "-d", library)
        if "(NEEDED)" in line
    }
    exported = names_of(library, "--defined-only")
    good = check(1, "links only the C library", needed - NEEDED)
    good &= check(2, "imports only allowed symbols", names_of(library, "-u") - ALLOWED)
    wrong = {name for name in exported if not name.startswith(EXPORTED) or "__" in name}
    good &= check(
        3, "exports only its own functions", wrong or (set() if exported else {"nothing"})
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
