/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h -- the control page: what the agent in a process has been told, and how it fares.
 *
 * The file `control` in the folder of the process's rings.  Whoever may write to that folder sets
 * values; the agent looks at one word (a relaxed load) and takes the page up when it has changed.
 * Writers hold a lock on the file (flock); the agent never waits for one.
 *
 * Used by: agent/ (makes it, reads values), cli/ (reads, sets).
 * Threads: any number read and write.  Signal-safe: reading is.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_CONTROL_FILE    "control"
#define GSP_CONTROL_MAGIC   "GSPCTRL1"
#define GSP_CONTROL_VERSION 1U
#define GSP_CONTROL_VALUE   256U /* bytes of a value, with the NUL */
#define GSP_CONTROL_MAX     60U  /* settings that a page has room for */

enum gsp_setting_id {
#define GSP_SETTING(id, name, type, fallback, doc) GSP_SET_##id,
#include "wire/settings.def"
#undef GSP_SETTING
    GSP_SET_COUNT
};

enum gsp_setting_type { GSP_SETTING_BOOL = 1, GSP_SETTING_NUMBER, GSP_SETTING_TEXT };

struct gsp_setting_row {
    const char *name; /* without the prefix */
    const char *fallback;
    const char *doc;
    enum gsp_setting_type type;
};

/* state bits */
#define GSP_CONTROL_LOADED     1U  /* an agent is there */
#define GSP_CONTROL_EJECTED    2U  /* its hooks are off and its rings unmapped */
#define GSP_CONTROL_PYTHON     4U  /* its Python half is there */
#define GSP_CONTROL_TORCH      8U  /* the hooks of PyTorch are in place */
#define GSP_CONTROL_QUIET      16U /* no room for rings: nothing is recorded */
/* One of 2**n steps of PyTorch is traced: more would cost too much. */
#define GSP_CONTROL_THIN_SHIFT 8U
#define GSP_CONTROL_THIN_MASK  (15U << GSP_CONTROL_THIN_SHIFT)

struct gsp_control {
    char magic[8];
    uint32_t version;
    uint32_t count;           /* settings of the agent that made the page */
    _Atomic uint64_t serial;  /* odd while a writer is at it; grows by 2 with each change */
    _Atomic uint64_t applied; /* the serial that the agent has taken up */
    _Atomic uint32_t state;   /* GSP_CONTROL_* */
    _Atomic uint32_t writing; /* 1 + the setting that is being written; 0: none */
    char agent[32];           /* version of the agent */
    char value[GSP_CONTROL_MAX][GSP_CONTROL_VALUE];
};

/* NULL past the last. */
const struct gsp_setting_row *gsp_setting_row(size_t i);
/* By name, with or without "gsprof."; negative when there is none. */
int gsp_setting_row_find(struct gsp_sv name);
/* The canonical text of a value ("on", "0.5"); USAGE says what it must be. */
GSP_MUST_CHECK int gsp_setting_row_check(size_t i, struct gsp_sv value, char out[GSP_CONTROL_VALUE],
                                         struct gsp_err *err);

/* Fills a new page, of zeros, with the fallbacks. */
void gsp_control_init(struct gsp_control *page, const char *agent_version);
/* Whether the bytes are a page of this version; for readers in other processes. */
bool gsp_control_ok(const struct gsp_control *page, size_t bytes);
/* A copy of one value, whole or not at all: false while a writer is at it (a few tries). */
bool gsp_control_get(const struct gsp_control *page, enum gsp_setting_id id,
                     char out[GSP_CONTROL_VALUE]);
/* Sets one value; the caller holds the file's lock and has checked the value.  The new serial.
 * A writer that died in the middle (serial odd) is made good: its half of a value is replaced by
 * the fallback. */
uint64_t gsp_control_set(struct gsp_control *page, enum gsp_setting_id id, const char *value);
