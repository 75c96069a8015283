/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "base/buf.h"
#include "cli/hint.h"
#include "tap.h"
#include "tree_fixture.h"

#define USER "Pid:\t100\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0\nSeccomp:\t0\n"
#define ROOT_NO_CAPS                                                                               \
    "Pid:\t100\nPPid:\t1\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n"
#define ROOT_ALL "Pid:\t100\nPPid:\t1\nUid:\t0\t0\t0\t0\nCapEff:\t1ffffffffff\nSeccomp:\t2\n"
#define TARGET   "State:\tS\nPid:\t4242\nPPid:\t1\nTracerPid:\t0\nUid:\t1000\t0\t0\t0\n"
#define PROGRAM  "python3\0train.py\0"

/* A machine with a target 4242 that runs "python3 train.py". */
static void machine(struct tree *tree, const char *self, const char *target, const char *yama)
{
    tree_new(tree);
    tree_put(tree, "/proc/self/status", self);
    tree_put(tree, "/proc/4242/status", target);
    tree_put_bytes(tree, "/proc/4242/cmdline", PROGRAM, sizeof(PROGRAM) - 1);
    if (yama)
        tree_put(tree, "/proc/sys/kernel/yama/ptrace_scope", yama);
}

static void make(const struct tree *tree, int code, struct gsp_hint *out)
{
    struct gsp_err err = {0};
    gsp_err_fill(&err, code, 0, "%s", gsp_err_text(code));
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = tree->root, .pid = 4242}, out);
}

static const char *shown(const struct gsp_hint *hint, struct gsp_buf *out)
{
    const struct gsp_term term = {.fd = -1, .width = 80};
    gsp_buf_clear(out);
    gsp_cli__hint_print(hint, &term, out);
    return gsp_buf_cstr(out);
}

TAP_TEST(yama_1)
{
    struct tree tree;
    struct gsp_hint hint;
    gsp_auto_buf text = {0};
    machine(&tree, USER, TARGET, "1\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_eq_str(shown(&hint, &text),
               "gsprof: cannot read process 4242 (python3 train.py): permission denied\n"
               "    why   kernel.yama.ptrace_scope is 1 and 4242 is not a child of gsprof\n"
               "    try   gsprof record -- python3 train.py        needs no permissions\n"
               "    or    sudo gsprof record --pid 4242            as root\n"
               "    or    sudo sysctl kernel.yama.ptrace_scope=0   until reboot, for all users\n"
               "    more  gsprof help permissions\n");
    tree_free(&tree);
}

TAP_TEST(yama_2_needs_root)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, TARGET, "2\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "ptrace_scope is 2") != NULL);
    tap_eq_str(hint.tries[0].line, "sudo gsprof record --pid 4242");
    tree_free(&tree);
}

/* Only a reboot helps: suggest neither sudo nor launching the program. */
TAP_TEST(yama_3_has_no_remedy)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, ROOT_ALL, TARGET, "3\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "until reboot") != NULL);
    tap_eq_int(hint.try_count, 1);
    tap_check(strstr(hint.tries[0].line, "sudo gsprof") == NULL);
    tree_free(&tree);
}

TAP_TEST(another_user)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, "State:\tS\nUid:\t0\t0\t0\t0\n", "1\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "belongs to user root") != NULL);
    tap_eq_int(hint.try_count, 1);
    tap_eq_str(hint.tries[0].line, "sudo gsprof record --pid 4242");
    tree_free(&tree);
}

TAP_TEST(another_user_without_a_name)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, "State:\tS\nUid:\t987654\t987654\t0\t0\n", NULL);
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "belongs to user 987654") != NULL);
    tap_eq_str(hint.tries[0].line, "sudo gsprof record --pid 4242");
    tree_free(&tree);
}

/* Root in Docker gets no advice to use sudo. */
TAP_TEST(docker_without_ptrace)
{
    struct tree tree;
    struct gsp_hint hint;
    gsp_auto_buf text = {0};
    machine(&tree, ROOT_NO_CAPS, TARGET, "1\n");
    tree_put(&tree, "/.dockerenv", "");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "docker") && strstr(hint.why, "SYS_PTRACE"));
    tap_eq_str(hint.tries[0].line, "gsprof record -- python3 train.py");
    tap_eq_str(hint.tries[1].line, "docker run --cap-add SYS_PTRACE IMAGE");
    tap_check(strstr(hint.tries[2].note, "outside the container") != NULL);
    tap_check(strstr(shown(&hint, &text), "more  gsprof help permissions") != NULL);
    tree_free(&tree);
}

TAP_TEST(kubernetes_without_ptrace)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, ROOT_NO_CAPS, TARGET, NULL);
    tree_put(&tree, "/var/run/secrets/kubernetes.io/token", "");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.tries[1].line, "add: [SYS_PTRACE]") != NULL);
    tree_free(&tree);
}

TAP_TEST(podman_without_ptrace)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, ROOT_NO_CAPS, TARGET, NULL);
    tree_put(&tree, "/run/.containerenv", "");
    make(&tree, GSP_E_PERM, &hint);
    tap_eq_str(hint.tries[1].line, "podman run --cap-add SYS_PTRACE IMAGE");
    tree_free(&tree);
}

TAP_TEST(sandboxed_root)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, ROOT_NO_CAPS, TARGET, NULL);
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "SYS_PTRACE") != NULL);
    tree_free(&tree);
}

TAP_TEST(seccomp_filter)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, ROOT_ALL, TARGET, NULL);
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "seccomp") != NULL);
    tap_check(strstr(hint.tries[0].line, "seccomp=unconfined") != NULL);
    tree_free(&tree);
}

TAP_TEST(unreadable_target)
{
    struct tree tree;
    struct gsp_hint hint;
    char target[128];
    /* Its files do not belong to its effective user. */
    snprintf(target, sizeof(target), "State:\tS\nUid:\t1000\t%u\t0\t0\n", geteuid() + 1);
    machine(&tree, USER, target, "1\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "not dumpable") != NULL);
    tap_eq_str(hint.tries[0].line, "sudo gsprof record --pid 4242");
    tree_free(&tree);
}

TAP_TEST(unknown_rule)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, TARGET, "0\n");
    make(&tree, GSP_E_PERM, &hint);
    tap_check(strstr(hint.why, "LSM or a namespace") != NULL);
    tap_eq_str(hint.tries[1].line, "gsprof doctor");
    tree_free(&tree);
}

TAP_TEST(traced_by_another)
{
    struct tree tree;
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_PERM, .msg = "not permitted"};
    machine(&tree, ROOT_ALL, "State:\tS\nUid:\t0\t0\t0\t0\nTracerPid:\t77\n", NULL);
    gsp_cli__hint_make(
        &err, &(struct gsp_hint_context){.root = tree.root, .pid = 4242, .blocking = true}, &hint);
    tap_check(strstr(hint.why, "process 77 already traces 4242") != NULL);
    tap_eq_str(hint.tries[0].line, "gsprof record --pid 4242");
    tree_free(&tree);
}

TAP_TEST(no_such_process)
{
    struct tree tree;
    struct gsp_hint hint;
    tree_new(&tree);
    make(&tree, GSP_E_NOPROC, &hint);
    tap_eq_str(hint.what, "no process 4242");
    tap_eq_str(hint.tries[0].line, "pgrep -af python");
    tree_free(&tree);
}

TAP_TEST(not_python)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, TARGET, NULL);
    make(&tree, GSP_E_NOTPY, &hint);
    tap_eq_str(hint.what, "process 4242 (python3 train.py) is not Python");
    tap_eq_str(hint.tries[0].line, "gsprof record --subprocesses --pid 4242");
    tree_free(&tree);
}

TAP_TEST(launched_program_is_not_python)
{
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_NOTPY, .msg = "x"};
    char words[][8] = {"gsprof", "record", "--", "sleep", "5"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], NULL};
    gsp_cli__hint_make(&err,
                       &(struct gsp_hint_context){
                           .root = "", .command = "record", .program = "sleep", .argv = argv},
                       &hint);
    tap_eq_str(hint.what, "sleep is not Python");
    tap_eq_str(hint.tries[0].line, "gsprof record --subprocesses -- sleep 5");
}

TAP_TEST(version)
{
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_VERSION, .msg = "process 4242 is Python 3.7.2"};
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .pid = 0}, &hint);
    tap_eq_str(hint.what, "process 4242 is Python 3.7.2");
    tap_eq_str(hint.why, "gsprof supports CPython 3.8 to 3.15");
}

TAP_TEST(starting)
{
    struct tree tree;
    struct gsp_hint hint;
    machine(&tree, USER, TARGET, NULL);
    make(&tree, GSP_E_STARTING, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof record --pid 4242");
    tap_eq_str(hint.tries[1].line, "gsprof record -- python3 train.py");
    tree_free(&tree);
}

TAP_TEST(exists_types_the_command_again)
{
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_EXISTS, .msg = "x"};
    char words[][24] = {"gsprof", "record", "-p", "4242", "-o", "my profile.svg"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], words[5], NULL};
    gsp_cli__hint_make(&err,
                       &(struct gsp_hint_context){
                           .root = "", .command = "record", .path = "my profile.svg", .argv = argv},
                       &hint);
    tap_eq_str(hint.what, "my profile.svg already exists");
    tap_eq_str(hint.tries[0].line, "gsprof record --force -p 4242 -o 'my profile.svg'");
    char more[][24] = {"gsprof", "mem", "record", "mem", "-p", "4242"};
    char *two[] = {more[0], more[1], more[2], more[3], more[4], more[5], NULL};
    gsp_cli__hint_make(
        &err,
        &(struct gsp_hint_context){.root = "", .command = "mem record", .path = "m", .argv = two},
        &hint);
    tap_eq_str(hint.tries[0].line, "gsprof mem record --force mem -p 4242");
}

TAP_TEST(files)
{
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_NOWRITE, .msg = "cannot write /nowhere/p.svg: no"};
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "/nowhere/p.svg"},
                       &hint);
    tap_eq_str(hint.what, err.msg);
    tap_eq_str(hint.tries[0].line, "ls -ld /nowhere");
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "p.svg"}, &hint);
    tap_eq_str(hint.tries[0].line, "ls -ld .");
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "/p.svg"}, &hint);
    tap_eq_str(hint.tries[0].line, "ls -ld /");
    err.sys = ENOENT;
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "new/p.svg"}, &hint);
    tap_eq_str(hint.tries[0].line, "mkdir -p new");
    err.code = GSP_E_FORMAT;
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "p.svg"}, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof help formats");
    err.code = GSP_E_NOFILE;
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .path = "p.gsp"}, &hint);
    tap_eq_str(hint.what, "p.gsp does not exist");
}

TAP_TEST(programs_that_do_not_start)
{
    struct gsp_hint hint;
    struct gsp_err err = {.code = GSP_E_NOEXEC, .msg = "cannot start 4242"};
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .program = "4242"}, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof record --pid 4242");
    gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = "", .program = "train.py"}, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof record -- python3 train.py");
}

/* The target controls its command line: it must be escaped for the terminal and the shell. */
TAP_TEST(hostile_command_line)
{
    static const char hostile[] = "python3\0a b\0$(reboot)\0it's\0\033[31m\0";
    struct tree tree;
    struct gsp_hint hint;
    gsp_auto_buf text = {0};
    machine(&tree, USER, TARGET, "1\n");
    tree_put_bytes(&tree, "/proc/4242/cmdline", hostile, sizeof(hostile) - 1);
    make(&tree, GSP_E_PERM, &hint);
    tap_eq_str(hint.tries[0].line,
               "gsprof record -- python3 'a b' '$(reboot)' 'it'\\''s' '\\x1b[31m'");
    tap_check(strchr(shown(&hint, &text), '\033') == NULL);
    tree_free(&tree);
}

TAP_TEST(long_command_line_is_left_out)
{
    struct tree tree;
    struct gsp_hint hint;
    char line[1000];
    machine(&tree, USER, TARGET, "1\n");
    memset(line, 'x', sizeof(line));
    tree_put_bytes(&tree, "/proc/4242/cmdline", line, sizeof(line));
    make(&tree, GSP_E_PERM, &hint);
    tap_eq_str(hint.what, "cannot read process 4242: permission denied");
    tap_eq_str(hint.tries[0].line, "gsprof record -- COMMAND");
    tree_free(&tree);
}

/* Every code has a message, without leftovers of another. */
TAP_TEST(every_code_has_a_message)
{
    for (int code = -20; code < 0; code++) {
        struct gsp_hint hint;
        struct gsp_err err = {.code = code};
        snprintf(err.msg, sizeof(err.msg), "%s", gsp_err_text(code));
        gsp_cli__hint_make(&err, &(struct gsp_hint_context){.root = ""}, &hint);
        tap_check(hint.what[0] != '\0');
    }
}

static void make_for(const char *command, int code, enum gsp_err_reason reason,
                     struct gsp_hint *out)
{
    struct gsp_err err = {0};
    gsp_err_fill(&err, code, 0, "%s", gsp_err_text(code));
    gsp_err_set_reason(&err, reason);
    gsp_cli__hint_make(
        &err, &(struct gsp_hint_context){.root = "", .command = command, .pid = INT_MAX}, out);
}

/* The advice depends on the reason of the error, not on the words of its message. */
TAP_TEST(reasons)
{
    struct gsp_hint hint;
    make_for("inject", GSP_E_NOTSUP, GSP_REASON_SECCOMP, &hint);
    tap_check(strstr(hint.tries[0].line, "gsprof inject --force") != NULL);
    make_for("inject", GSP_E_NOTSUP, GSP_REASON_NAMESPACE, &hint);
    tap_check(strstr(hint.tries[0].line, "nsenter") != NULL);
    make_for("serve", GSP_E_USAGE, GSP_REASON_TOKEN, &hint);
    tap_check(strstr(hint.tries[1].line, "--token-file") != NULL);
    make_for("serve", GSP_E_USAGE, GSP_REASON_FOLDER, &hint);
    tap_check(strstr(hint.tries[0].line, "--output-dir") != NULL);
    make_for("serve", GSP_E_USAGE, GSP_REASON_NONE, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof serve --help");
}

TAP_TEST(daemon_without_control)
{
    struct gsp_hint hint;
    const struct gsp_err err = {.code = GSP_E_PERM, .msg = "not allowed"};
    struct gsp_hint_context context = {
        .root = "", .server = "localhost:8091", .server_status = 403, .server_code = "CONTROL"};
    gsp_cli__hint_make(&err, &context, &hint);
    tap_eq_str(hint.tries[0].line, "gsprof serve --allow-control");
    context.server_code = "PERM";
    gsp_cli__hint_make(&err, &context, &hint);
    tap_eq_int(hint.try_count, 0);
}

TAP_MAIN()
