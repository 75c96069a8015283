/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.h -- private mounts for a test.
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

/* Returns whether other namespaces would see new mounts. */
static inline bool mounts_are_shared(void)
{
    gsp_auto_buf text = {0};
    return gsp_file_read("/proc/self/mountinfo", 1 << 20, &text, NULL) < 0 ||
           !gsp_buf_cstr(&text) || strstr(gsp_buf_cstr(&text), " shared:") != NULL;
}

/* Makes later mounts of this process private. Returns false without permission. Inside a chroot the
 * root is not a mount point and cannot be made private. */
static inline bool mounts_begin(void)
{
    return unshare(CLONE_NEWNS) == 0 &&
           (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || !mounts_are_shared());
}
