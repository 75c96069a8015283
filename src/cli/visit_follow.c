/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "cli/follow_child.h"
#include "cli/launch.h"
#include "cli/visit.h"

void gsp_visit__follow(pid_t pid)
{
    int fd = -1;
    const pid_t child = gsp_launch_apart(&fd, NULL);
    if (child == 0)
        gsp_follow_child(pid, NULL);
    gsp_fd_close(&fd);
}
