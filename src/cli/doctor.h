/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h -- the facts that `gsprof doctor` tells: this machine, the Pythons on it, and what
 * can be measured here.
 *
 * Reads:   /proc, /sys, the folders of PATH; loads the driver's library of GPUs; starts no program.
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

/* A Python process that runs now. */
struct gsp_doctor_process {
    pid_t pid;
    char version[32];  /* "3.11.7"; "" when it could not be found out */
    char cmdline[160]; /* safe for a terminal */
    int rc;            /* GSP_OK, or why it cannot be read */
    char reason[240];
};

/* An interpreter on PATH. */
struct gsp_doctor_python {
    char path[256];
    char version[16]; /* "3.11" by its name; "" when the name does not tell */
    bool supported;
};

/* A source of metrics. */
struct gsp_doctor_source {
    char name[24];
    char doc[104];
    bool open;
    char trouble[240]; /* why it is not, or why values are missing; "" when all is well */
};

#define GSP_DOCTOR_SOURCES_MAX 16U

struct gsp_doctor {
    struct utsname system;
    struct gsp_perm perm;
    struct gsp_err selftest; /* code GSP_OK when an own child could be read */
    struct gsp_err events;   /* code GSP_OK when a perf event copied our own stack */
    struct gsp_doctor_process processes[GSP_DOCTOR_ROWS_MAX];
    size_t process_count;
    size_t process_more; /* that had no room */
    struct gsp_doctor_python pythons[GSP_DOCTOR_ROWS_MAX];
    size_t python_count;
    struct gsp_doctor_source sources[GSP_DOCTOR_SOURCES_MAX];
    size_t source_count;
};

/* Never fails: what cannot be found out is told as unknown. */
void gsp_doctor_look(struct gsp_doctor *out);

/* "3.11" out of ".../python3.11", "" when the name does not tell; true when supported. */
bool gsp_doctor_version_of(const char *path, char *out, size_t cap);
