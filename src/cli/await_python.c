/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/await_python.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/term.h"
#include "inject/run_python.h"
#include "proc/task.h"

#define TOTAL_NS    (10 * GSP_NS_PER_S)
/* Processes older than this do not become Python any more. */
#define LAUNCHER_NS (5 * GSP_NS_PER_S)
#define OTHER_NS    GSP_NS_PER_S
#define STARTING_NS (2 * GSP_NS_PER_S)
#define POLL_NS     (10 * GSP_NS_PER_MS)
#define STATUS_NS   (300 * GSP_NS_PER_MS)

static bool is_launcher(struct gsp_sv program)
{
    static const char *const names[] = {"sh",  "bash",    "dash",   "zsh",     "ksh",    "busybox",
                                        "env", "timeout", "setsid", "taskset", "numactl"};
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        if (gsp_sv_eq(program, gsp_sv_of(names[i])))
            return true;
    return false;
}

bool gsp_cli__may_become_python(const struct gsp_launcher_facts *facts)
{
    if (facts->waited_ns >= TOTAL_NS)
        return false;
    if (facts->since_exec_ns < LAUNCHER_NS)
        return true;
    /* The dynamic linker may not have loaded the interpreter's library yet. */
    const bool is_python = facts->is_starting || gsp_sv_starts(facts->program, "python");
    if (is_python && facts->waited_ns < STARTING_NS)
        return true;
    return facts->age_ns < (is_python || is_launcher(facts->program) ? LAUNCHER_NS : OTHER_NS);
}

static void note_child(void *user, pid_t child)
{
    (void)child;
    *(bool *)user = true;
}

void gsp_cli__await_python(pid_t pid, bool with_tree, const struct gsp_parsed *parsed)
{
    const int64_t begin_ns = gsp_now_ns();
    int64_t exec_ns = 0;
    gsp_auto_buf before = {0};
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    for (;;) {
        gsp_auto_buf exe = {0};
        struct gsp_py_runtime runtime;
        struct gsp_procinfo info;
        const int rc = gsp_inject_locate_python(pid, &runtime, NULL);
        if ((rc != GSP_E_NOTPY && rc != GSP_E_STARTING) ||
            gsp_proc_info(pid, &info, NULL) != GSP_OK || info.state == 'Z')
            break;
        bool has_child = false;
        if (with_tree)
            gsp_proc_children(pid, note_child, &has_child);
        if (has_child)
            break;
        const int64_t now_ns = gsp_now_ns();
        gsp_proc_exe(pid, &exe);
        if (before.len && !gsp_sv_eq(gsp_buf_sv(&before), gsp_buf_sv(&exe)))
            exec_ns = now_ns;
        gsp_buf_clear(&before);
        gsp_buf_putsv(&before, gsp_buf_sv(&exe));
        const struct gsp_launcher_facts facts = {.program = gsp_sv_basename(gsp_buf_sv(&exe)),
                                                 .is_starting = rc == GSP_E_STARTING,
                                                 .age_ns = gsp_proc_age_ns(&info),
                                                 .waited_ns = now_ns - begin_ns,
                                                 .since_exec_ns =
                                                     exec_ns ? now_ns - exec_ns : INT64_MAX};
        if (!gsp_cli__may_become_python(&facts))
            break;
        if (facts.waited_ns > STATUS_NS && !parsed->globals.quiet)
            gsp_cli__term_status(&term, "Waiting for process %d to start Python.", (int)pid);
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    gsp_cli__term_clear_status(&term);
}
