/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/prctl.h>

#include "proc/perm.h"
#include "tap.h"
#include "tree_fixture.h"

static const char SELF_USER[] = "Name:\tgsprof\nPid:\t100\nPPid:\t1\nTracerPid:\t0\n"
                                "Uid:\t1000\t1000\t1000\t1000\nNSpid:\t100\n"
                                "CapEff:\t0000000000000000\nSeccomp:\t0\n";
static const char SELF_ROOT[] = "Pid:\t100\nPPid:\t1\nUid:\t0\t0\t0\t0\nNSpid:\t100\n"
                                "CapEff:\t000001ffffffffff\nSeccomp:\t2\n";

TAP_TEST(self_of_a_user)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_USER);
    tree_put(&tree, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    tree_put(&tree, "/proc/sys/kernel/perf_event_paranoid", "-1\n");
    tree_put(&tree, "/proc/self/uid_map", "         0          0 4294967295\n");
    tree_put(&tree, "/proc/2/comm", "kthreadd\n");
    gsp_proc_perm_read(tree.root, 0, &perm);
    tap_eq_int(perm.euid, 1000);
    tap_eq_int(perm.yama_scope, 1);
    tap_eq_int(perm.perf_paranoid, -1);
    tap_eq_int(perm.seccomp, 0);
    tap_check(!perm.sys_ptrace && !perm.sys_admin && !perm.perfmon && !perm.bpf);
    tap_eq_int(perm.container, GSP_CONTAINER_NONE);
    tap_eq_int(perm.in_user_ns, GSP_ANSWER_NO);
    tap_eq_int(perm.in_pid_ns, GSP_ANSWER_NO);
    tap_check(!perm.exists);
    tree_free(&tree);
}

TAP_TEST(self_of_root)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_ROOT);
    tree_put(&tree, "/proc/self/uid_map", "         0     100000      65536\n");
    gsp_proc_perm_read(tree.root, 0, &perm);
    tap_eq_int(perm.euid, 0);
    tap_eq_int(perm.yama_scope, -1);
    tap_eq_int(perm.perf_paranoid, GSP_PERM_NO_PARANOID);
    tap_eq_int(perm.seccomp, 2);
    tap_check(perm.sys_ptrace && perm.sys_admin && perm.perfmon && perm.bpf);
    tap_eq_int(perm.in_user_ns, GSP_ANSWER_YES);
    tap_eq_int(perm.in_pid_ns, GSP_ANSWER_YES);
    tree_free(&tree);
}

TAP_TEST(one_capability)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000080000\n");
    gsp_proc_perm_read(tree.root, 0, &perm);
    tap_check(perm.sys_ptrace && !perm.sys_admin && !perm.perfmon && !perm.bpf);
    tree_free(&tree);
}

TAP_TEST(nothing_is_readable)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    gsp_proc_perm_read(tree.root, 4242, &perm);
    tap_eq_int(perm.euid, -1);
    tap_eq_int(perm.seccomp, -1);
    tap_eq_int(perm.in_user_ns, GSP_ANSWER_UNKNOWN);
    tap_check(!perm.exists);
    tap_eq_int(perm.target_uid, -1);
    tree_free(&tree);
}

/* Text that no kernel writes counts as unknown. */
TAP_TEST(malformed_files)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", "Uid:\nCapEff:\tzz\nSeccomp:\nNSpid:\nPid:\n\n\n");
    tree_put(&tree, "/proc/4242/status", "Uid");
    tree_put(&tree, "/proc/sys/kernel/yama/ptrace_scope", "99999999999999999999\n");
    gsp_proc_perm_read(tree.root, 4242, &perm);
    tap_eq_int(perm.euid, -1);
    tap_eq_int(perm.yama_scope, -1);
    tap_eq_int(perm.caps, 0);
    tap_check(perm.exists);
    tap_eq_int(perm.target_uid, -1);
    tree_free(&tree);
}

static enum gsp_container container_with(const char *path, const char *text)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_ROOT);
    tree_put(&tree, path, text);
    gsp_proc_perm_read(tree.root, 0, &perm);
    tree_free(&tree);
    return perm.container;
}

TAP_TEST(containers)
{
    tap_eq_int(container_with("/.dockerenv", ""), GSP_CONTAINER_DOCKER);
    tap_eq_int(container_with("/run/.containerenv", ""), GSP_CONTAINER_PODMAN);
    tap_eq_int(container_with("/var/run/secrets/kubernetes.io/serviceaccount/token", "x"),
               GSP_CONTAINER_KUBERNETES);
    tap_eq_int(container_with("/run/systemd/container", "lxc\n"), GSP_CONTAINER_LXC);
    tap_eq_int(container_with("/run/systemd/container", "something\n"), GSP_CONTAINER_OTHER);
    tap_eq_int(container_with("/proc/self/cgroup", "0::/kubepods.slice/pod1/cri-2\n"),
               GSP_CONTAINER_KUBERNETES);
    tap_eq_int(container_with("/proc/self/cgroup", "0::/user.slice/libpod-1.scope\n"),
               GSP_CONTAINER_PODMAN);
    tap_eq_int(container_with("/proc/self/cgroup", "0::/user.slice\n"), GSP_CONTAINER_NONE);
    tap_eq_str(gsp_proc_container_name(GSP_CONTAINER_KUBERNETES), "kubernetes");
}

TAP_TEST(target)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_USER);
    tree_put(&tree, "/proc/4242/status",
             "Name:\tpython3\nState:\tS (sleeping)\nPid:\t4242\nPPid:\t200\nTracerPid:\t77\n"
             "Uid:\t1001\t1001\t1001\t1001\nNSpid:\t4242\t5\n");
    tree_put(&tree, "/proc/200/status", "Pid:\t200\nPPid:\t1\n");
    tree_put(&tree, "/proc/1/status", "Pid:\t1\nPPid:\t0\n");
    gsp_proc_perm_read(tree.root, 4242, &perm);
    tap_check(perm.exists);
    tap_eq_int(perm.target_uid, 1001);
    tap_eq_int(perm.tracer, 77);
    tap_eq_int(perm.state, 'S');
    tap_eq_int(perm.same_pid_ns, GSP_ANSWER_NO);
    tap_eq_int(perm.is_descendant, GSP_ANSWER_NO);
    tree_free(&tree);
}

TAP_TEST(grandchild_is_a_descendant)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_USER);
    tree_put(&tree, "/proc/4242/status", "Pid:\t4242\nPPid:\t200\nNSpid:\t4242\n");
    tree_put(&tree, "/proc/200/status", "Pid:\t200\nPPid:\t100\n");
    gsp_proc_perm_read(tree.root, 4242, &perm);
    tap_eq_int(perm.is_descendant, GSP_ANSWER_YES);
    tap_eq_int(perm.same_pid_ns, GSP_ANSWER_YES);
    tree_free(&tree);
}

/* A loop of parents ends the search. */
TAP_TEST(loop_of_parents)
{
    struct tree tree;
    struct gsp_perm perm;
    tree_new(&tree);
    tree_put(&tree, "/proc/self/status", SELF_USER);
    tree_put(&tree, "/proc/4242/status", "Pid:\t4242\nPPid:\t4242\n");
    gsp_proc_perm_read(tree.root, 4242, &perm);
    tap_eq_int(perm.is_descendant, GSP_ANSWER_NO);
    tree_free(&tree);
}

TAP_TEST(real_machine)
{
    struct gsp_perm perm;
    struct gsp_err err = {0};
    gsp_proc_perm_read("", getpid(), &perm);
    tap_eq_int(perm.euid, geteuid());
    tap_check(perm.exists);
    tap_eq_int(perm.target_uid, getuid());
    tap_eq_int(perm.same_pid_ns, GSP_ANSWER_YES);
    tap_eq_int(gsp_proc_perm_check(getpid(), &err), GSP_OK);
    tap_eq_int(gsp_proc_perm_check(1 << 22, &err), GSP_E_NOPROC);
    tap_eq_int(err.code, GSP_E_NOPROC);
}

/* Needs a user other than root: root owns its own files in any case. */
TAP_TEST(undumpable)
{
    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        tap_skip("needs root, to switch to another user");
    struct gsp_perm perm;
    prctl(PR_SET_DUMPABLE, 1);
    gsp_proc_perm_read("", getpid(), &perm);
    tap_eq_int(perm.is_dumpable, GSP_ANSWER_YES);
    prctl(PR_SET_DUMPABLE, 0);
    gsp_proc_perm_read("", getpid(), &perm);
    tap_eq_int(perm.is_dumpable, GSP_ANSWER_NO);
    prctl(PR_SET_DUMPABLE, 1);
}

TAP_TEST(selftest_reads_a_child)
{
    struct gsp_perm perm;
    struct gsp_err err = {0};
    gsp_proc_perm_read("", 0, &perm);
    if (perm.yama_scope >= 3)
        tap_skip("needs kernel.yama.ptrace_scope below 3");
    int rc = gsp_proc_perm_selftest(&err);
    if (rc == GSP_E_PERM && perm.seccomp == 2)
        tap_skip("needs process_vm_readv, which a seccomp filter forbids");
    tap_eq_int(rc, GSP_OK);
}

TAP_MAIN()
