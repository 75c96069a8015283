/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pidfd.h -- process descriptors: poll() reports POLLIN when the process has exited.
 *
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

/* Opens a descriptor of a process, close-on-exec; the caller closes it. Returns -1 and sets errno
 * on failure: ESRCH if the process does not exist, ENOSYS before Linux 5.3. */
int gsp_proc_pidfd_open(pid_t pid);
