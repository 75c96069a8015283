/* SPDX-License-Identifier: Apache-2.0 */
/* Builds programs with known call chains, stops them and unwinds their stacks. */
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

#include "base/buf.h"
#include "native/unwind.h"
#include "proc/task.h"
#include "tap.h"

#define FRAMES_MAX 2048
#define TRIES_MAX  2000

struct target {
    pid_t pid;
    pid_t tid; /* the thread to sample */
    struct gsp_mem *mem;
    struct gsp_native *native;
};

struct stack {
    size_t count;
    enum gsp_native_end end;
    struct gsp_native_frame frames[FRAMES_MAX];
};

static char folder[128];
static struct stack stack;
static unsigned char bytes[1 << 20];

static void need_x86_64(void)
{
#if !defined(__x86_64__)
    tap_skip("needs x86-64: the programs have its assembly");
#endif
}

/* Runs a shell command. Returns false if it fails. */
static bool shell(const char *fmt, ...) GSP_PRINTF(1, 2);
static bool shell(const char *fmt, ...)
{
    char command[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof(command), fmt, args);
    va_end(args);
    return system(command) == 0; /* NOLINT(cert-env33-c): our own command */
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/gsprof-native-XXXXXX", tmp ? tmp : "/tmp");
    tap_require(mkdtemp(folder) != NULL);
}

static void build(const char *flags)
{
    make_folder();
    tap_require(shell("cc -g %s -o %s/chain -x c %s/native/chain.c.in -lpthread", flags, folder,
                      GSP_TEST_DATA));
}

static void clean(void)
{
    tap_check(shell("rm -rf '%s'", folder));
}

static void start(struct target *target, const char *program, const char *mode, const char *more)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, program);
    int ready[2];
    tap_require(pipe(ready) == 0);
    *target = (struct target){.pid = fork()};
    if (target->pid == 0) {
        dup2(ready[1], 1);
        execl(path, path, mode, more, (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    char byte;
    tap_require(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    target->tid = target->pid;
    struct gsp_err err = {0};
    tap_eq_int(gsp_proc_mem_open_pid(target->pid, &target->mem, &err), GSP_OK);
    tap_eq_int(gsp_native_open(target->pid, target->mem, &target->native, &err), GSP_OK);
    tap_eq_str(err.msg, "");
}

static void finish(struct target *target)
{
    gsp_native_close(target->native);
    gsp_proc_mem_free(target->mem);
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, __WALL);
}

static void get_regs(pid_t tid, struct gsp_regs *out)
{
#if defined(__x86_64__)
    struct user_regs_struct regs;
    struct iovec iov = {&regs, sizeof(regs)};
    tap_require(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0);
    *out = (struct gsp_regs){.pc = regs.rip,
                             .sp = regs.rsp,
                             .fp = regs.rbp,
                             .kept = {regs.rbx, regs.r12, regs.r13, regs.r14, regs.r15}};
#else
    (void)tid;
    *out = (struct gsp_regs){0};
#endif
}

static void stop(pid_t tid)
{
    tap_require(ptrace(PTRACE_SEIZE, tid, 0, 0) == 0);
    tap_require(ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0);
    tap_require(waitpid(tid, NULL, __WALL) == tid);
}

/* Stops the thread, copies its stack, resumes it and unwinds the copy. */
static void sample(struct target *target, size_t copy_max)
{
    stop(target->tid);
    struct gsp_native_copy copy = {.stack = bytes};
    get_regs(target->tid, &copy.regs);
    struct iovec to = {bytes, copy_max < sizeof(bytes) ? copy_max : sizeof(bytes)};
    struct iovec from = {(void *)(uintptr_t)copy.regs.sp, to.iov_len};
    ssize_t n = process_vm_readv(target->pid, &to, 1, &from, 1, 0);
    tap_require(ptrace(PTRACE_DETACH, target->tid, 0, 0) == 0);
    tap_require(n > 0);
    copy.stack_len = (size_t)n;
    stack.count = gsp_native_unwind(target->native, &copy, stack.frames, FRAMES_MAX, &stack.end);
}

static const char *name_at(struct target *target, size_t i)
{
    static struct gsp_native_symbol symbol;
    if (i >= stack.count || !gsp_native_symbol(target->native, stack.frames[i].pc, &symbol) ||
        !symbol.name)
        return "?";
    return symbol.name;
}

/* Samples until the thread is in this function. */
static bool sample_until(struct target *target, const char *leaf, size_t copy_max)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        sample(target, copy_max);
        if (strcmp(name_at(target, 0), leaf) == 0)
            return true;
        sched_yield();
    }
    return false;
}

static const char *end_name(enum gsp_native_end end)
{
    static const char *const NAMES[] = {"entry", "no_rule", "out_of_stack", "loop", "limit"};
    return (size_t)end < GSP_COUNT(NAMES) ? NAMES[end] : "unknown";
}

static void show(struct target *target)
{
    for (size_t i = 0; i < stack.count && i < 20; i++)
        printf("#   %s%s\n", name_at(target, i), stack.frames[i].bridged ? " (bridged)" : "");
    printf("#   end: %s\n", end_name(stack.end));
}

/* Checks the names of the frames from the i-th on, and that the unwinder reached the entry. */
static void expect(struct target *target, size_t i, const char *const *names)
{
    int before = tap_failures;
    for (; *names; names++, i++)
        tap_eq_str(name_at(target, i), *names);
    tap_eq_str(end_name(stack.end), "entry");
    if (tap_failures > before)
        show(target);
}

static const char *const CHAIN[] = {"inner", "middle", "outer", "main", NULL};

static const char *const FLAGS[] = {
    "-O2 -fomit-frame-pointer",         "-O2 -fno-omit-frame-pointer",      "-O0",
    "-O2 -fomit-frame-pointer -static", "-O2 -fomit-frame-pointer -no-pie",
};

static void check_leaf(const char *mode, const char *leaf, bool bridged)
{
    struct target target;
    start(&target, "chain", mode, NULL);
    tap_check(sample_until(&target, leaf, 65536));
    expect(&target, 1, CHAIN);
    tap_eq_int(stack.frames[1].bridged, bridged);
    tap_check(!stack.frames[2].bridged);
    tap_check(!gsp_native_is_stale(target.native));
    finish(&target);
}

TAP_TEST(call_chains_of_every_build)
{
    need_x86_64();
    for (size_t i = 0; i < GSP_COUNT(FLAGS); i++) {
        build(FLAGS[i]);
        printf("# %s\n", FLAGS[i]);
        check_leaf("c", "leaf", false);
        check_leaf("plain", "leaf_plain", true);
        check_leaf("rbp", "leaf_rbp", true);
        check_leaf("gap", "leaf_gap", true);
        check_leaf("page", "leaf_page", true);
        clean();
    }
}

static void check_through(const char *mode, const char *const *names)
{
    struct target target;
    start(&target, "chain", mode, NULL);
    tap_check(sample_until(&target, "leaf", 65536));
    expect(&target, 1, names);
    finish(&target);
}

TAP_TEST(a_realigned_stack)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    static const char *const NAMES[] = {"aligned", "inner", "middle", "outer", "main", NULL};
    check_through("aligned", NAMES);
    clean();
}

TAP_TEST(a_buffer_larger_than_the_copy)
{
    need_x86_64();
    build("-O2");
    struct target target;
    start(&target, "chain", "page", NULL);
    tap_require(sample_until(&target, "leaf_page", 256));
    tap_eq_int(stack.count, 1);
    tap_eq_str(end_name(stack.end), "out_of_stack");
    finish(&target);
    clean();
}

TAP_TEST(a_signal_handler)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    struct target target;
    start(&target, "chain", "signal", NULL);
    tap_check(sample_until(&target, "leaf", 65536));
    tap_eq_str(name_at(&target, 1), "handler");
    /* The signal trampoline, then the frames of the C library's raise(). */
    size_t i = 2;
    while (i < stack.count && strcmp(name_at(&target, i), "inner") != 0)
        i++;
    tap_check(i >= 4);
    expect(&target, i, CHAIN);
    finish(&target);
    clean();
}

TAP_TEST(deep_recursion)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer -fno-optimize-sibling-calls");
    struct target target;
    start(&target, "chain", "deep", NULL);
    tap_check(sample_until(&target, "leaf", sizeof(bytes)));
    size_t i = 1;
    while (i < stack.count && strcmp(name_at(&target, i), "descend") == 0)
        i++;
    tap_eq_int(i, 1002);
    expect(&target, i, CHAIN);
    /* With a short copy the unwinder stops at its end. */
    sample(&target, 4096);
    tap_eq_str(end_name(stack.end), "out_of_stack");
    tap_check(stack.count > 20);
    finish(&target);
    clean();
}

TAP_TEST(code_without_a_file)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    struct target target;
    start(&target, "chain", "jit", NULL);
    for (int i = 0; i < TRIES_MAX; i++) {
        sample(&target, 65536);
        if (stack.count && stack.frames[0].module == GSP_NATIVE_NO_MODULE)
            break;
    }
    tap_eq_int(stack.frames[0].module, GSP_NATIVE_NO_MODULE);
    tap_check(stack.frames[1].bridged);
    static const char *const NAMES[] = {"jitted", "inner", "middle", "outer", "main", NULL};
    expect(&target, 1, NAMES);
    finish(&target);
    clean();
}

TAP_TEST(the_vdso_and_system_calls)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    struct target target;
    start(&target, "chain", "vdso", NULL);
    int in_vdso = 0;
    int complete = 0;
    for (int i = 0; i < 100; i++) {
        sample(&target, 65536);
        in_vdso +=
            strcmp(gsp_native_module_path(target.native, stack.frames[0].module), "[vdso]") == 0;
        complete += stack.end == GSP_NATIVE_REACHED_ENTRY;
        if (stack.end != GSP_NATIVE_REACHED_ENTRY)
            show(&target);
    }
    tap_eq_int(complete, 100);
    tap_check(in_vdso > 0);
    finish(&target);
    start(&target, "chain", "sleep", NULL);
    for (int i = 0; i < TRIES_MAX; i++) {
        sample(&target, 65536);
        if (strstr(name_at(&target, 0), "pause"))
            break;
    }
    expect(&target, 1, CHAIN);
    finish(&target);
    clean();
}

TAP_TEST(the_stack_of_a_thread_ends_at_its_entry)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    struct target target;
    start(&target, "chain", "c", "thread");
    struct gsp_task *tasks;
    size_t count;
    tap_eq_int(gsp_proc_tasks(target.pid, &tasks, &count, NULL), GSP_OK);
    tap_require(count == 2);
    target.tid = tasks[1].tid;
    free(tasks);
    tap_check(sample_until(&target, "leaf", 65536));
    static const char *const NAMES[] = {"inner", "middle", "outer", "run", NULL};
    expect(&target, 1, NAMES);
    finish(&target);
    clean();
}

TAP_TEST(a_stripped_program)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer");
    tap_require(shell("cd %s && strip chain", folder));
    struct target target;
    start(&target, "chain", "plain", NULL);
    size_t most = 0;
    for (int i = 0; i < 50; i++) {
        sample(&target, 65536);
        tap_eq_str(end_name(stack.end), "entry");
        most = stack.count > most ? stack.count : most;
    }
    /* leaf_plain, inner, middle, outer, main, two of the C library, _start */
    tap_eq_int(most, 8);
    tap_eq_str(name_at(&target, 1), "?");
    finish(&target);
    clean();
}

TAP_TEST(separate_debug_symbols)
{
    need_x86_64();
    build("-O2 -fomit-frame-pointer -Wl,--build-id");
    /* Symbols packed into a section, as Fedora does; and a link to a debug file. */
    bool packed = shell("cd %s && cp chain mini && "
                        "nm chain --format=posix --defined-only | awk '{print $1}' > keep && "
                        "objcopy --only-keep-debug chain d && "
                        "objcopy -S --remove-section .gnu_debuglink --remove-section .comment "
                        "--keep-symbols=keep d tiny && xz -k tiny && strip mini && "
                        "objcopy --add-section .gnu_debugdata=tiny.xz mini",
                        folder);
    tap_require(packed);
    tap_require(shell("cd %s && cp chain linked && objcopy --only-keep-debug chain linked.debug && "
                      "strip linked && objcopy --add-gnu-debuglink=linked.debug linked",
                      folder));
    static const char *const PROGRAMS[] = {"mini", "linked"};
    for (size_t i = 0; i < GSP_COUNT(PROGRAMS); i++) {
        struct target target;
        printf("# %s\n", PROGRAMS[i]);
        start(&target, PROGRAMS[i], "c", NULL);
        tap_check(sample_until(&target, "leaf", 65536));
        expect(&target, 1, CHAIN);
        struct gsp_native_symbol symbol;
        tap_check(gsp_native_symbol(target.native, stack.frames[1].pc, &symbol));
        tap_eq_int(symbol.line > 0, i == 1);
        finish(&target);
    }
    clean();
}

TAP_TEST(cplusplus_with_inlined_calls)
{
    need_x86_64();
    if (!shell("command -v g++ >/dev/null"))
        tap_skip("needs g++");
    make_folder();
    tap_require(shell("g++ -g -O2 -o %s/boxes %s/native/templates.cc", folder, GSP_TEST_DATA));
    struct target target;
    start(&target, "boxes", NULL, NULL);
    static const char *const TURN = "shapes::Box<int>::turn(std::vector<int, std::allocator<int> > "
                                    "const&)";
    struct gsp_native_symbol symbol = {0};
    for (int i = 0; i < TRIES_MAX && symbol.inlined_count == 0; i++) {
        sample(&target, 65536);
        tap_check(gsp_native_symbol(target.native, stack.frames[0].pc, &symbol));
    }
    tap_check(symbol.name && strncmp(symbol.name, TURN, strlen(TURN)) == 0);
    tap_eq_int(symbol.inlined_count, 1);
    if (symbol.inlined_count) {
        tap_check(strstr(symbol.inlined[0].name, "spin_inlined") != NULL);
        tap_check(symbol.inlined[0].file && strstr(symbol.inlined[0].file, "templates.cc"));
        tap_check(symbol.inlined[0].line == 13 || symbol.inlined[0].line == 14);
    }
    tap_eq_int(symbol.line, 22);
    static const char *const NAMES[] = {"main", NULL};
    expect(&target, 1, NAMES);
    finish(&target);
    clean();
}

TAP_TEST(ranges_of_a_function)
{
    need_x86_64();
    build("-O2");
    struct target target;
    start(&target, "chain", "c", NULL);
    struct gsp_native_ranges ranges;
    tap_check(gsp_native_range(target.native, "leaf_plain", &ranges));
    tap_eq_int(ranges.count, 1);
    tap_check(sample_until(&target, "leaf", 65536));
    tap_check(gsp_native_range(target.native, "leaf", &ranges));
    tap_check(stack.frames[0].pc >= ranges.items[0].start &&
              stack.frames[0].pc < ranges.items[0].end);
    tap_check(!gsp_native_range(target.native, "no_such_function", &ranges));
    finish(&target);
    clean();
}

/* A random number that resembles a word of a stack. */
static uint64_t random_word(uint64_t *state, uint64_t low)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    uint64_t r = *state >> 20;
    switch (*state >> 61) {
    case 0:
        return r;
    case 1:
    case 2:
        return low + r % sizeof(bytes);
    case 3:
        return (low + r % 4096) & ~7ULL;
    default:
        return (uint64_t)(uintptr_t)&gsp_native_unwind + r % 65536 - 32768;
    }
}

TAP_TEST(corrupt_stacks_end)
{
    struct gsp_mem *mem;
    struct gsp_native *native;
    tap_eq_int(gsp_proc_mem_open_pid(getpid(), &mem, NULL), GSP_OK);
    tap_eq_int(gsp_native_open(getpid(), mem, &native, NULL), GSP_OK);
    uint64_t state = 7;
    for (int pass = 0; pass < 2000; pass++) {
        struct gsp_native_copy copy = {.stack = bytes, .stack_len = (size_t)pass * 8 + 3};
        copy.regs.sp = pass % 7 ? 0x7ff000000000 : UINT64_MAX - 4096;
        for (size_t i = 0; i + 8 <= copy.stack_len; i += 8) {
            uint64_t word = random_word(&state, copy.regs.sp);
            memcpy(bytes + i, &word, sizeof(word));
        }
        copy.regs.pc = random_word(&state, copy.regs.sp);
        copy.regs.fp = random_word(&state, copy.regs.sp);
        copy.regs.lr = random_word(&state, copy.regs.sp);
        size_t count =
            gsp_native_unwind(native, &copy, stack.frames, (size_t)pass % 64, &stack.end);
        tap_check(count <= (size_t)pass % 64);
    }
    struct gsp_native_copy nothing = {.regs = {.pc = 0}};
    tap_eq_int(gsp_native_unwind(native, &nothing, stack.frames, 8, &stack.end), 1);
    tap_eq_str(end_name(stack.end), "no_rule");
    tap_check(gsp_native_is_stale(native));
    tap_eq_int(gsp_native_refresh(native, NULL), GSP_OK);
    tap_check(!gsp_native_is_stale(native));
    gsp_native_close(native);
    gsp_native_close(NULL);
    gsp_proc_mem_free(mem);
}

TAP_TEST(processes_share_a_store)
{
    struct gsp_mem *mem;
    struct gsp_native_store *store;
    struct gsp_native *natives[2];
    tap_eq_int(gsp_proc_mem_open_pid(getpid(), &mem, NULL), GSP_OK);
    tap_eq_int(gsp_native_store_new(&store, NULL), GSP_OK);
    struct gsp_native_symbol symbols[2];
    for (int i = 0; i < 2; i++) {
        tap_eq_int(gsp_native_open_in(store, getpid(), mem, &natives[i], NULL), GSP_OK);
        tap_check(
            gsp_native_symbol(natives[i], (uint64_t)(uintptr_t)&gsp_native_unwind, &symbols[i]));
    }
    tap_eq_str(symbols[0].name, "gsp_native_unwind");
    tap_check(symbols[0].name == symbols[1].name);
    struct gsp_native *native;
    tap_eq_int(gsp_native_open(99999999, mem, &native, NULL), GSP_E_NOPROC);
    tap_check(native == NULL);
    for (int i = 0; i < 2; i++)
        gsp_native_close(natives[i]);
    gsp_native_store_free(store);
    gsp_native_store_free(NULL);
    gsp_proc_mem_free(mem);
}

TAP_MAIN()
