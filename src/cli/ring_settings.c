/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ring_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/term.h"
#include "daemon/settings.h"
#include "proc/task.h"
#include "wire/control.h"
#include "wire/ring.h"

#define ROWS_ENV "GSPROF_RING_ROWS"

/* Returns false if the defaults must be used. */
static bool load(const struct gsp_parsed *parsed, struct gsp_settings *out)
{
    struct gsp_err err = {0};
    struct gsp_term term;
    if (gsp_daemon_settings_load(out, NULL, &err) == GSP_OK)
        return true;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (!parsed->globals.quiet)
        gsp_cli__term_line(&term, "gsprof: %s; using the defaults", err.msg);
    return false;
}

struct gsp_ring_dir_limits gsp_cli__ring_limits(const struct gsp_parsed *parsed)
{
    struct gsp_settings settings;
    if (!load(parsed, &settings))
        return (struct gsp_ring_dir_limits){GSP_RING_DIR_KEEP_NS, GSP_RING_DIR_KEEP_BYTES};
    return gsp_daemon_settings_ring_limits(&settings.live);
}

/* The ring size that is set, or 0. Errors were reported when the limits were read. */
static int64_t rows_set(void)
{
    struct gsp_settings settings;
    return gsp_daemon_settings_load(&settings, NULL, NULL) == GSP_OK ? settings.fixed.ring_rows : 0;
}

void gsp_cli__ring_rows_export(int64_t rows)
{
    char text[32];
    const int64_t chosen = rows > 0 ? rows : rows_set();
    snprintf(text, sizeof(text), "%" PRId64, chosen);
    if (chosen > 0)
        gsp_ignore(setenv(ROWS_ENV, text, 1) < 0);
}

/* Whether the process's environment has a valid value; *err says why a value is invalid. */
static bool has_own_rows(pid_t pid, struct gsp_err *err)
{
    char value[GSP_CONTROL_VALUE];
    gsp_auto_buf own = {0};
    if (!gsp_proc_env(pid, ROWS_ENV, &own))
        return false;
    return gsp_wire_setting_row_check(GSP_SET_ring_rows, gsp_buf_sv(&own), value, err) == GSP_OK;
}

int64_t gsp_cli__ring_rows_for(pid_t pid)
{
    return has_own_rows(pid, NULL) ? 0 : rows_set();
}

void gsp_cli__ring_check(const struct gsp_parsed *parsed)
{
    struct gsp_settings settings;
    gsp_ignore(!load(parsed, &settings));
}

void gsp_cli__ring_check_process(const struct gsp_parsed *parsed, pid_t pid, const char *used)
{
    struct gsp_err err = {0};
    struct gsp_term term;
    if (parsed->globals.quiet || has_own_rows(pid, &err) || err.code == GSP_OK)
        return;
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_sv_of(err.msg));
    const char *why = gsp_buf_cstr(&safe);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (strcmp(used, "0") == 0)
        gsp_cli__term_line(&term,
                           "gsprof: process %d ignores " ROWS_ENV
                           " in its environment: %s; it keeps the default of %u rows",
                           (int)pid, why ? why : "", GSP_RING_ROWS_DEFAULT);
    else
        gsp_cli__term_line(&term,
                           "gsprof: process %d ignores " ROWS_ENV
                           " in its environment: %s; it keeps %s rows",
                           (int)pid, why ? why : "", used);
}
