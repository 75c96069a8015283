/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/task.h"
#include "record/unsampled_processes.h"
#include "tap.h"

static size_t count_below(pid_t pid)
{
    gsp_auto_buf names = {0};
    return gsp_record_unsampled_processes_put(pid, &names);
}

/* An intermediate process, so that the test process is not a descendant. */
static pid_t start_parent(pid_t *child)
{
    int ends[2];
    tap_require(pipe(ends) == 0);
    const pid_t parent = fork();
    tap_require(parent >= 0);
    if (parent == 0) {
        const pid_t forked = fork();
        if (forked > 0 && write(ends[1], &forked, sizeof(forked)) != sizeof(forked))
            _exit(1);
        for (;;)
            pause();
    }
    tap_require(read(ends[0], child, sizeof(*child)) == sizeof(*child));
    close(ends[0]);
    close(ends[1]);
    return parent;
}

TAP_TEST(new_fork_is_listed_after_it_has_settled)
{
    struct gsp_procinfo info;
    pid_t child = 0;
    const pid_t parent = start_parent(&child);
    const size_t early = count_below(parent);
    tap_require(gsp_proc_info(child, &info, NULL) == GSP_OK);
    tap_check(info.is_forked);
    tap_check(early == 0 || gsp_proc_has_settled(&info));
    while (!gsp_proc_has_settled(&info))
        usleep(10000);
    tap_eq_int(count_below(parent), 1);
    kill(child, SIGKILL);
    kill(parent, SIGKILL);
    tap_check(waitpid(parent, NULL, 0) == parent);
}

TAP_MAIN()
