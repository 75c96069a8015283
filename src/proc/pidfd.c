/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pidfd.h"

#include <sys/syscall.h>
#include <unistd.h>

int gsp_proc_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0U);
}
