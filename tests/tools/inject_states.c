/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_states.c -- states of threads in which no call is possible, for tests of the injector.
 *
 * Each function runs in the first thread, which does not wait, until SIGUSR2. It returns the number
 * of errors that it has seen, or -1 if it is not possible on this machine.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT       __attribute__((visibility("default")))
#define NS_PER_MS    1000000L
#define BLOCKS       64
#define COUNTERS     1024
#define GUARD_BYTES  ((size_t)4096)
#define OTHER_BYTES  ((size_t)256 << 10)
#define STACK_BYTES  ((size_t)16 << 10)
#define THREAD_BYTES ((size_t)256 << 10)
#define PATTERN      0xa5

EXPORT int prepare(void);
EXPORT long in_handlers(void);
EXPORT long with_own_filter(void);
EXPORT long in_sequences(void);
EXPORT long on_coroutine(void);

static atomic_bool stopped;

static void stop(int signal)
{
    (void)signal;
    atomic_store(&stopped, true);
}

/* Call this before one of the functions below. */
int prepare(void)
{
    const struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    return sigaction(SIGUSR2, &action, NULL);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* Runs without waiting. Returns false once it has been stopped. */
static bool spin_ms(int64_t ms)
{
    const int64_t end_ms = now_ms() + ms;
    while (!atomic_load(&stopped) && now_ms() < end_ms) {
    }
    return !atomic_load(&stopped);
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_nsec = ms * NS_PER_MS};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* ------------------------------------------------------------------------------------ handlers */

static atomic_ulong allocations;

static void handle_slowly(int signal)
{
    (void)signal;
    sleep_ms(20);
}

static void *allocate(void *unused)
{
    while (!atomic_load(&stopped)) {
        void *blocks[BLOCKS];
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(1500 + 97 * i);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        atomic_fetch_add(&allocations, 1);
    }
    return unused;
}

/* A thread that allocates is interrupted by a handler that sleeps, nearly all the time. Returns how
 * often it allocated nothing for a second. */
long in_handlers(void)
{
    const struct sigaction action = {.sa_handler = handle_slowly, .sa_flags = SA_RESTART};
    pthread_t thread;
    unsigned long last = 0;
    long stalls = 0;
    if (sigaction(SIGUSR1, &action, NULL) != 0 || pthread_create(&thread, NULL, allocate, NULL))
        return -1;
    for (unsigned quiet = 0; spin_ms(21); quiet++) {
        pthread_kill(thread, SIGUSR1);
        const unsigned long now = atomic_load(&allocations);
        if (now != last)
            quiet = 0;
        last = now;
        if (quiet == 50) {
            stalls++;
            quiet = 0;
        }
    }
    pthread_join(thread, NULL);
    return stalls;
}

/* -------------------------------------------------------------------------------------- filters */

/* Lets the process be killed if this thread opens a file or starts a thread, and sleeps. */
static void *restrict_itself(void *unused)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        abort();
    while (!atomic_load(&stopped))
        sleep_ms(20);
    return unused;
}

/* Another thread has a filter. */
long with_own_filter(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, restrict_itself, NULL) != 0)
        return -1;
    while (spin_ms(1000)) {
    }
    pthread_join(thread, NULL);
    return 0;
}

/* ------------------------------------------------------------------------ restartable sequences */

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)

#include <sys/rseq.h>

static volatile long counters[COUNTERS];
static atomic_long added;

/* Adds one to the counter of a CPU, unless the kernel interrupts it. Takes some microseconds. */
static __attribute__((noinline)) bool add_on(volatile long *counter, uint32_t cpu,
                                             struct rseq *here)
{
    __asm__ goto(".pushsection __rseq_cs, \"aw\"\n"
                 ".balign 32\n"
                 "3: .long 0, 0\n"
                 "   .quad 1f, 2f - 1f, 4f\n"
                 ".popsection\n"
                 "   leaq 3b(%%rip), %%rax\n"
                 "   movq %%rax, %[sequence]\n"
                 "1: cmpl %[cpu], %[current]\n"
                 "   jnz 4f\n"
                 "   movq (%[counter]), %%rdx\n"
                 "   movl $2000, %%eax\n"
                 "5: decl %%eax\n"
                 "   jnz 5b\n"
                 "   addq $1, %%rdx\n"
                 "   movq %%rdx, (%[counter])\n"
                 "2: jmp 6f\n"
                 "   .byte 0x0f, 0xb9, 0x3d\n" /* an invalid instruction before the signature */
                 "   .long 0x53053053\n"
                 "4: jmp %l[aborted]\n"
                 "6:\n"
                 :
                 : [sequence] "m"(here->rseq_cs), [current] "m"(here->cpu_id), [cpu] "r"(cpu),
                   [counter] "r"(counter)
                 : "rax", "rdx", "memory", "cc"
                 : aborted);
    return true;
aborted:
    return false;
}

static void *add(void *unused)
{
    char *thread = __builtin_thread_pointer();
    struct rseq *here = (void *)(thread + __rseq_offset);
    long count = 0;
    while (!atomic_load(&stopped)) {
        const uint32_t cpu = here->cpu_id_start;
        count += cpu < COUNTERS && add_on(&counters[cpu], cpu, here);
    }
    atomic_fetch_add(&added, count);
    return unused;
}

/* Three threads count per CPU in restartable sequences. Returns the number of lost additions. */
long in_sequences(void)
{
    pthread_t threads[2];
    if (__rseq_size == 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, add, NULL) != 0)
            return -1;
    add(NULL);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    long sum = 0;
    for (size_t i = 0; i < COUNTERS; i++)
        sum += counters[i];
    return atomic_load(&added) - sum;
}

#else

long in_sequences(void)
{
    return -1;
}

#endif

/* ----------------------------------------------------------------------------------- coroutines */

static ucontext_t host_context;
static char *slab;

static void sleep_until_stopped(void)
{
    while (!atomic_load(&stopped))
        sleep_ms(5);
}

static void *host(void *unused)
{
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = slab + GUARD_BYTES + OTHER_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = &host_context;
    makecontext(&context, sleep_until_stopped, 0);
    swapcontext(&host_context, &context);
    return unused;
}

/* A coroutine sleeps on a small stack between the memory of another one and the stack of its
 * thread, in one mapping with a guard. Returns how many bytes of the other one were changed. */
long on_coroutine(void)
{
    const size_t bytes = GUARD_BYTES + OTHER_BYTES + STACK_BYTES + THREAD_BYTES;
    pthread_attr_t attr;
    pthread_t thread;
    slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED || mprotect(slab, GUARD_BYTES, PROT_NONE) != 0)
        return -1;
    memset(slab + GUARD_BYTES, PATTERN, OTHER_BYTES);
    pthread_attr_init(&attr);
    if (pthread_attr_setstack(&attr, slab + bytes - THREAD_BYTES, THREAD_BYTES) != 0 ||
        pthread_create(&thread, &attr, host, NULL) != 0)
        return -1;
    while (spin_ms(1000)) {
    }
    pthread_join(thread, NULL);
    long changed = 0;
    for (size_t i = 0; i < OTHER_BYTES; i++)
        changed += (unsigned char)slab[GUARD_BYTES + i] != PATTERN;
    return changed;
}
