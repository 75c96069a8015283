/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time.h -- nanoseconds as int64_t.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GSP_NS_PER_S  1000000000LL
#define GSP_NS_PER_MS 1000000LL
#define GSP_NS_PER_US 1000LL

int64_t gsp_now_ns(void);            /* CLOCK_MONOTONIC */
int64_t gsp_realtime_ns(void);       /* CLOCK_REALTIME */
int64_t gsp_cputime_ns(void);        /* of this process */
int64_t gsp_thread_cputime_ns(void); /* of this thread */

/* "1.50 s", "12.0 ms": three significant digits. Returns out. */
char *gsp_fmt_duration(int64_t ns, char *out, size_t cap);

/* Format a Unix time as local time. Return out, which is "" if the text does not fit. */
char *gsp_fmt_file_time(int64_t unix_ns, char *out, size_t cap); /* "20260301-120000" */
char *gsp_fmt_time(int64_t unix_ns, char *out, size_t cap);      /* "2026-03-01 12:00:00 +0100" */
char *gsp_fmt_iso_time(int64_t unix_ns, char *out, size_t cap);  /* "…-01T12:00:00.250+01:00" */
