/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.h -- mounts of a test's own.
 *
 * Threads: one owner.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/buf.h"
#include "base/file.h"

/* Whether others would see what is mounted here. */
static inline bool mounts_are_shared(void)
{
    gsp_auto_buf text = {0};
    return gsp_file_read("/proc/self/mountinfo", 1 << 20, &text, NULL) < 0 ||
           !gsp_buf_cstr(&text) || strstr(gsp_buf_cstr(&text), " shared:") != NULL;
}

/* From here on others do not see what this process mounts.  False without the right to that. Within
 * chroot the root is no mount, which cannot be made private. */
static inline bool mounts_begin(void)
{
    return unshare(CLONE_NEWNS) == 0 &&
           (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || !mounts_are_shared());
}
