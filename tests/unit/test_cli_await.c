/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "cli/await_python.h"
#include "tap.h"

#define SECONDS(n) ((n)*GSP_NS_PER_S)

static bool is_worth(const char *program, int64_t age_s, int64_t looked_s)
{
    return gsp_cli__may_become_python(&(struct gsp_launcher_facts){.program = gsp_sv_of(program),
                                                                   .age_ns = SECONDS(age_s),
                                                                   .waited_ns = SECONDS(looked_s),
                                                                   .since_exec_ns = INT64_MAX});
}

TAP_TEST(old_processes_are_rejected_immediately)
{
    tap_check(!is_worth("sleep", 60, 0));
    tap_check(!is_worth("bash", 60, 0));
    tap_check(!is_worth("nginx", 2, 0));
}

TAP_TEST(launchers_get_a_few_seconds)
{
    tap_check(is_worth("sleep", 0, 0));
    tap_check(is_worth("bash", 3, 2));
    tap_check(is_worth("env", 0, 0));
    tap_check(!is_worth("bash", 6, 5));
}

/* Right after exec, the interpreter's library is not mapped yet, even in an old process. */
TAP_TEST(a_starting_interpreter)
{
    struct gsp_launcher_facts facts = {
        .program = gsp_sv_of("python3.11"), .age_ns = SECONDS(3600), .since_exec_ns = INT64_MAX};
    tap_check(gsp_cli__may_become_python(&facts));
    facts.waited_ns = SECONDS(3);
    tap_check(!gsp_cli__may_become_python(&facts));
    facts.program = gsp_sv_of("uwsgi");
    facts.waited_ns = 0;
    tap_check(!gsp_cli__may_become_python(&facts));
    facts.is_starting = true;
    tap_check(gsp_cli__may_become_python(&facts));
}

TAP_TEST(waits_after_exec)
{
    struct gsp_launcher_facts facts = {.program = gsp_sv_of("launcher"),
                                       .age_ns = SECONDS(60),
                                       .waited_ns = SECONDS(4),
                                       .since_exec_ns = SECONDS(1)};
    tap_check(gsp_cli__may_become_python(&facts));
    /* Not forever. */
    facts.waited_ns = SECONDS(20);
    tap_check(!gsp_cli__may_become_python(&facts));
}

TAP_MAIN()
