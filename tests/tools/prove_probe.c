/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libprove_probe.so -- for tests/prove/programs/busy.py: counts signals, computes with all kinds of
 * registers, waits in system calls, and waits on stacks inside of larger memory. The counts are in
 * a file that the tests map too.
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* tests/prove/targets.py knows this layout. */
struct shared {
    _Atomic uint64_t stop; /* set by the test: the program ends */
    _Atomic uint64_t signals;
    _Atomic uint64_t alarms;
    _Atomic uint64_t wrong; /* results that differ from the first */
    _Atomic uint64_t computed;
    _Atomic uint64_t eintr;     /* system calls that ended with EINTR without a signal */
    _Atomic uint64_t faults[3]; /* SIGFPE, SIGTRAP, SIGSEGV that another process sent */
};

#define EXPORT __attribute__((visibility("default")))

EXPORT int probe_open(const char *path);
EXPORT int probe_compute(void);
EXPORT int probe_compute_upward(void);
EXPORT int probe_vectors(void);
EXPORT int probe_poll(void);
EXPORT int probe_recv(void);
EXPORT int probe_epoll(void);
EXPORT int probe_sigwait(void);
EXPORT int probe_wake(void);
EXPORT int probe_wake_by_signal(void);
EXPORT int probe_context_stack(void);
EXPORT int probe_thread_stack(void);

#define NS_PER_MS 1000000L
#define OTHER_MS  1000 /* for a handler that runs in another thread */

static struct shared *shared;
static int sockets[2]; /* the wakers write to the second */
/* Handlers that ran in this thread. */
static _Thread_local volatile uint64_t handled __attribute__((tls_model("initial-exec")));

static void count_signal(int number)
{
    handled++;
    atomic_fetch_add(number == SIGALRM ? &shared->alarms : &shared->signals, 1);
}

/* A fault of the program itself ends it, as it would without the handler: the instruction would
 * fail again for ever. */
static void count_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code > 0)
        signal(number, SIG_DFL);
    handled++;
    atomic_fetch_add(&shared->faults[number == SIGFPE ? 0 : number == SIGTRAP ? 1 : 2], 1);
}

/* Maps the file and installs the handlers. */
int probe_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    shared = map;
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    int rc = sigaction(SIGALRM, &action, NULL);
    rc |= sigaction(SIGRTMIN + 3, &action, NULL);
    action.sa_sigaction = count_fault;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    rc |= sigaction(SIGFPE, &action, NULL);
    rc |= sigaction(SIGTRAP, &action, NULL);
    rc |= sigaction(SIGSEGV, &action, NULL);
    action.sa_handler = count_signal;
    action.sa_flags = 0; /* system calls end with EINTR */
    rc |= sigaction(SIGRTMIN + 4, &action, NULL);
    return rc | socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets);
}

struct sum {
    double a[8];
    long double x87;
    uint64_t words;
};

/* Eight independent chaotic sequences keep most registers in use. */
__attribute__((noinline)) static void compute(struct sum *sum, unsigned rounds)
{
    double a[8] = {0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88};
    long double x87 = 0.123456789L;
    uint64_t words = 1;
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned k = 0; k < 8; k++)
            a[k] = 3.99 * a[k] * (1.0 - a[k]);
        x87 = 3.99L * x87 * (1.0L - x87);
        words = words * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    memset(sum, 0, sizeof(*sum));
    memcpy(sum->a, a, sizeof(a));
    sum->x87 = x87;
    sum->words = words;
}

/* Computes, and compares every bit with the first result. */
static int repeat(unsigned rounds, int rounding, struct sum *first, bool *has_first)
{
    struct sum sum;
    const int before = fegetround();
    fesetround(rounding);
    compute(&sum, rounds);
    const bool is_kept = fegetround() == rounding;
    fesetround(before);
    if (!*has_first) {
        *first = sum;
        *has_first = true;
    }
    const bool is_same = is_kept && memcmp(sum.a, first->a, sizeof(sum.a)) == 0 &&
                         sum.x87 == first->x87 && sum.words == first->words;
    atomic_fetch_add(&shared->computed, 1);
    if (!is_same)
        atomic_fetch_add(&shared->wrong, 1);
    return is_same ? 0 : 1;
}

/* Takes a few milliseconds. */
int probe_compute(void)
{
    static _Thread_local struct sum first;
    static _Thread_local bool has_first;
    return repeat(200000, FE_TONEAREST, &first, &has_first);
}

/* The same with another rounding mode, which a signal handler has to restore. */
int probe_compute_upward(void)
{
    static _Thread_local struct sum first;
    static _Thread_local bool has_first;
    return repeat(200000, FE_UPWARD, &first, &has_first);
}

/* ---------------------------------------------------------------------------- vector registers */

#ifdef __x86_64__

struct vectors {
    uint64_t words[32 * 8];
    uint64_t masks[7];
};

/* clang-format off */
#define FOR_16(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) \
    DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define FOR_REST(DO) \
    DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23) \
    DO(24) DO(25) DO(26) DO(27) DO(28) DO(29) DO(30) DO(31)
/* clang-format on */
#define LOAD_Y(n)  "vmovdqu 32*" #n "(%0), %%ymm" #n "\n"
#define STORE_Y(n) "vmovdqu %%ymm" #n ", 32*" #n "(%0)\n"
#define ADD_Y(n)   "vpaddq %%ymm0, %%ymm" #n ", %%ymm" #n "\n"
#define LOAD_Z(n)  "vmovdqu64 64*" #n "(%0), %%zmm" #n "\n"
#define STORE_Z(n) "vmovdqu64 %%zmm" #n ", 64*" #n "(%0)\n"
#define ADD_Z(n)   "vpaddq %%zmm0, %%zmm" #n ", %%zmm" #n "\n"
#define FOR_7(DO)  DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define LOAD_K(n)  "kmovw 8*" #n "-8(%2), %%k" #n "\n"
#define STORE_K(n) "kmovw %%k" #n ", 8*" #n "-8(%2)\n"

/* In assembly, because the values have to stay in the registers during the whole loop. */
static void loop_256(struct vectors *v, uint64_t rounds)
{
    __asm__ volatile(
        FOR_16(LOAD_Y) "1:\n" FOR_16(ADD_Y) "dec %1\njnz 1b\n" FOR_16(STORE_Y) "vzeroupper\n"
        : "+r"(v), "+r"(rounds)
        :
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

/* Without an option for AVX-512, the compiler uses neither zmm16 to zmm31 nor masks. */
static void loop_512(struct vectors *v, uint64_t rounds)
{
    uint64_t *masks = v->masks;
    __asm__ volatile(FOR_16(LOAD_Z) FOR_REST(LOAD_Z) FOR_7(LOAD_K) "1:\n" FOR_16(ADD_Z)
                         FOR_REST(ADD_Z) "dec %1\njnz 1b\n" FOR_16(STORE_Z) FOR_REST(STORE_Z)
                             FOR_7(STORE_K) "vzeroupper\n"
                     : "+r"(v), "+r"(rounds), "+r"(masks)
                     :
                     : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                       "xmm15");
}

static int run_vectors(void (*loop)(struct vectors *, uint64_t), struct vectors *first, bool *has)
{
    struct vectors v;
    for (unsigned i = 0; i < sizeof(v.words) / sizeof(v.words[0]); i++)
        v.words[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < 7; i++)
        v.masks[i] = 0x1234U * (i + 1) & 0xffffU;
    loop(&v, 100000);
    if (!*has) {
        *first = v;
        *has = true;
    }
    const bool is_same = memcmp(&v, first, sizeof(v)) == 0;
    if (!is_same)
        atomic_fetch_add(&shared->wrong, 1);
    return is_same ? 0 : 1;
}

/* All vector registers that this processor has, whole. Only one thread calls it: thread-local
 * results would be too large for a library that is loaded late. */
int probe_vectors(void)
{
    static struct vectors first_256, first_512;
    static bool has_256, has_512;
    int wrong = 0;
    if (__builtin_cpu_supports("avx2"))
        wrong |= run_vectors(loop_256, &first_256, &has_256);
    if (__builtin_cpu_supports("avx512f"))
        wrong |= run_vectors(loop_512, &first_512, &has_512);
    return wrong | (has_256 ? 0 : probe_compute());
}

#else

int probe_vectors(void)
{
    return probe_compute();
}

#endif

/* -------------------------------------------------------------------------------- system calls */

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_nsec = ms * NS_PER_MS};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* How many handlers have run. */
struct ran {
    uint64_t here; /* in this thread */
    uint64_t total;
};

static struct ran count_ran(void)
{
    struct ran ran = {handled, shared->signals + shared->alarms};
    for (unsigned i = 0; i < 3; i++)
        ran.total += shared->faults[i];
    return ran;
}

/* Notes EINTR if no handler ran since `before`. Returns whether to wait again. A signal to the
 * process may end the call of one thread, and the handler then runs in another thread. */
static bool is_interrupted(long rc, struct ran before)
{
    if (rc >= 0 || errno != EINTR)
        return false;
    for (unsigned i = 0; handled == before.here; i++) {
        if (count_ran().total != before.total)
            break;
        if (i == OTHER_MS) {
            atomic_fetch_add(&shared->eintr, 1);
            break;
        }
        sleep_ms(1);
    }
    return true;
}

static int take_byte(void)
{
    char byte = 0;
    return recv(sockets[0], &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x' ? 0 : 1;
}

static int count_wrong(int is_wrong)
{
    if (is_wrong)
        atomic_fetch_add(&shared->wrong, 1);
    return is_wrong;
}

int probe_poll(void)
{
    int rc = 0;
    struct ran before;
    do {
        struct pollfd fd = {.fd = sockets[0], .events = POLLIN};
        before = count_ran();
        rc = poll(&fd, 1, -1);
    } while (is_interrupted(rc, before));
    return count_wrong(rc != 1 || take_byte());
}

int probe_recv(void)
{
    ssize_t rc = 0;
    char byte = 0;
    struct ran before;
    do {
        before = count_ran();
        rc = recv(sockets[0], &byte, 1, 0);
    } while (is_interrupted(rc, before));
    return count_wrong(rc != 1 || byte != 'x');
}

int probe_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(fd, EPOLL_CTL_ADD, sockets[0], &event);
    int rc = 0;
    struct ran before;
    do {
        before = count_ran();
        rc = epoll_wait(fd, &event, 1, -1);
    } while (is_interrupted(rc, before));
    close(fd);
    return count_wrong(rc != 1 || take_byte());
}

/* busy.py blocks the signal in all threads. */
int probe_sigwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 5);
    int rc = 0;
    struct ran before;
    do {
        before = count_ran();
        rc = sigwaitinfo(&set, NULL);
    } while (is_interrupted(rc, before));
    return count_wrong(rc != SIGRTMIN + 5);
}

int probe_wake(void)
{
    sleep_ms(10);
    return send(sockets[1], "x", 1, MSG_NOSIGNAL) == 1 ? 0 : 1;
}

int probe_wake_by_signal(void)
{
    sleep_ms(10);
    return kill(getpid(), SIGRTMIN + 5);
}

/* -------------------------------------------------------------------------------------- stacks */

/* A stack somewhere inside of memory that belongs to the program. */
#define AREA_BYTES  (512U << 10)
#define BELOW_BYTES (384U << 10)
#define STACK_BYTES (64U << 10) /* a frame of a signal takes 4 KiB with AVX-512 */
#define PATTERN     0xa5

static int check_area(const unsigned char *area)
{
    static unsigned char pattern[AREA_BYTES];
    if (pattern[0] != PATTERN)
        memset(pattern, PATTERN, sizeof(pattern));
    const size_t end = BELOW_BYTES + STACK_BYTES;
    return memcmp(area, pattern, BELOW_BYTES) != 0 ||
           memcmp(area + end, pattern, AREA_BYTES - end) != 0;
}

static ucontext_t outside;

static void wait_in_context(void)
{
    sleep_ms(10);
}

/* On a stack of a coroutine, in memory of malloc. */
int probe_context_stack(void)
{
    static unsigned char *area;
    if (!area) {
        area = malloc(AREA_BYTES);
        if (!area)
            return 1;
        memset(area, PATTERN, AREA_BYTES);
    }
    ucontext_t inside;
    getcontext(&inside);
    inside.uc_stack.ss_sp = area + BELOW_BYTES;
    inside.uc_stack.ss_size = STACK_BYTES;
    inside.uc_link = &outside;
    makecontext(&inside, wait_in_context, 0);
    swapcontext(&outside, &inside);
    return count_wrong(check_area(area));
}

static void *wait_in_thread(void *unused)
{
    sleep_ms(10);
    return unused;
}

/* On a stack of a thread, in memory of mmap; the caller waits for the thread. */
int probe_thread_stack(void)
{
    static unsigned char *area;
    if (!area) {
        area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED)
            return 1;
        memset(area, PATTERN, AREA_BYTES);
    }
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    int rc = pthread_attr_setstack(&attr, area + BELOW_BYTES, STACK_BYTES);
    rc = rc ? rc : pthread_create(&thread, &attr, wait_in_thread, NULL);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        pthread_join(thread, NULL);
    return count_wrong(rc != 0 || check_area(area));
}
