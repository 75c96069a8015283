/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h -- the facts that `gsprof doctor` prints: this machine, its Pythons, and the available
 * metrics.
 *
 * Reads:   /proc, /sys, the folders of PATH; loads the GPU driver's library; starts no program.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "proc/perm.h"

#define GSP_DOCTOR_ROWS_MAX 64U

/* A running Python process. */
struct gsp_doctor_process {
    pid_t pid;
    char version[32];  /* "3.11.7"; "" if unknown */
    char cmdline[160]; /* safe for a terminal */
    int rc;            /* GSP_OK, or why it cannot be read */
    char reason[240];
};

/* An interpreter on PATH. */
struct gsp_doctor_python {
    char path[256];
    char version[16]; /* "3.11", from its name; "" if unknown */
    bool supported;
};

/* A source of metrics. */
struct gsp_doctor_source {
    char name[24];
    char doc[104];
    bool open;
    char trouble[240]; /* why it does not work or lacks values; "" if all is well */
};

#define GSP_DOCTOR_SOURCES_MAX 16U

struct gsp_doctor {
    struct utsname system;
    struct gsp_perm perm;
    struct gsp_err selftest; /* code GSP_OK if a child process could be read */
    struct gsp_err events;   /* code GSP_OK if a perf event copied gsprof's own stack */
    struct gsp_doctor_process processes[GSP_DOCTOR_ROWS_MAX];
    size_t process_count;
    size_t process_more; /* processes beyond GSP_DOCTOR_ROWS_MAX */
    struct gsp_doctor_python pythons[GSP_DOCTOR_ROWS_MAX];
    size_t python_count;
    struct gsp_doctor_source sources[GSP_DOCTOR_SOURCES_MAX];
    size_t source_count;
};

/* Never fails: what cannot be determined is unknown. */
void gsp_cli__doctor_check(struct gsp_doctor *out);

/* "3.11" from ".../python3.11", or "". Returns whether that version is supported. */
bool gsp_cli__doctor_version_of(const char *path, char *out, size_t cap);
