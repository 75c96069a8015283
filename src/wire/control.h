/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h -- the control page: the settings of the agent in a process, and its state.
 *
 * It is the file `control` in the ring directory of the process. Any process that may write to that
 * directory can set values. The agent polls one word (a relaxed load) and applies the page when the
 * word has changed. Writers hold a lock on the file (flock); the agent never waits for one.
 *
 * Threads: any number read and write.
 * Signal-safe: reading is.
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
#define GSP_CONTROL_MAX     60U  /* settings that fit in a page */

enum gsp_setting_id {
#define GSP_SETTING(id, name, type, fallback, doc) GSP_SET_##id,
#include "wire/settings.def"
#undef GSP_SETTING
    GSP_SET_COUNT
};

enum gsp_setting_type { GSP_SETTING_BOOL = 1, GSP_SETTING_NUMBER, GSP_SETTING_TEXT };

struct gsp_wire_setting_row {
    const char *name; /* without the prefix */
    const char *fallback;
    const char *doc;
    enum gsp_setting_type type;
};

/* state bits */
#define GSP_CONTROL_LOADED     1U  /* an agent is loaded */
#define GSP_CONTROL_EJECTED    2U  /* its hooks are removed and its rings unmapped */
#define GSP_CONTROL_PYTHON     4U  /* its Python part is loaded */
#define GSP_CONTROL_TORCH      8U  /* the PyTorch hooks are installed */
#define GSP_CONTROL_QUIET      16U /* no space for rings: nothing is recorded */
/* One of 2**n PyTorch steps is traced, to limit the overhead. */
#define GSP_CONTROL_THIN_SHIFT 8U
#define GSP_CONTROL_THIN_MASK  (15U << GSP_CONTROL_THIN_SHIFT)

struct gsp_control {
    char magic[8];
    uint32_t version;
    uint32_t count;           /* settings of the agent that created the page */
    _Atomic uint64_t serial;  /* odd during a write; grows by 2 with each change */
    _Atomic uint64_t applied; /* the serial that the agent has applied */
    _Atomic uint32_t state;   /* GSP_CONTROL_* */
    _Atomic uint32_t writing; /* 1 + the setting that is being written; 0: none */
    char agent[32];           /* version of the agent */
    char value[GSP_CONTROL_MAX][GSP_CONTROL_VALUE];
};

/* Returns NULL past the last setting. */
const struct gsp_wire_setting_row *gsp_wire_setting_row(size_t i);
/* Finds a setting by name, with or without "gsprof.". Returns a negative number if none matches. */
int gsp_wire_setting_row_find(struct gsp_sv name);
/* Converts a value to its canonical text ("on", "0.5"). Fails with USAGE; the message names the
 * values that the setting accepts. */
GSP_MUST_CHECK int gsp_wire_setting_row_check(size_t i, struct gsp_sv value,
                                              char out[GSP_CONTROL_VALUE], struct gsp_err *err);

/* Fills a new, zeroed page with the defaults. */
void gsp_wire_control_init(struct gsp_control *page, const char *agent_version);
/* Whether the bytes are a valid page of this version. For readers in other processes. */
bool gsp_wire__control_is_valid(const struct gsp_control *page, size_t bytes);
/* Copies one value consistently. Returns false if writers interfere with every attempt. */
bool gsp_wire_control_get(const struct gsp_control *page, enum gsp_setting_id id,
                          char out[GSP_CONTROL_VALUE]);
/* Sets one value and returns the new serial. The caller holds the file lock and has checked the
 * value. If an earlier writer died during a write (the serial is odd), replaces its torn value by
 * the default. */
uint64_t gsp_wire_control_set(struct gsp_control *page, enum gsp_setting_id id, const char *value);
