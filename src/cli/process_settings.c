/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/process_settings.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "cli/rows_out.h"
#include "cli/term.h"
#include "model/row_list.h"
#include "source/endpoint.h"
#include "wire/control_file.h"

/* How long to wait for the agent. The setting takes effect even if it takes longer. */
#define APPLY_MAX_NS GSP_NS_PER_S
#define POLL_NS      2000000L
#define CHANGES_MAX  64U
#define NEAR_MAX     4U
#define PREFIX       "gsprof."

struct target {
    const struct gsp_parsed *parsed;
    pid_t pid;
    int folder_fd;
    bool json;
    struct gsp_control page;
    struct gsp_control_change changes[CHANGES_MAX];
    size_t change_count;
    uint64_t serial; /* of the last change; 0: none */
};

static int fail(const struct target *target, const struct gsp_err *err)
{
    return gsp_cli__fail(target->parsed, &(struct gsp_hint_context){.pid = target->pid}, err);
}

/* --------------------------------------------------------------------------------------- args */

static struct gsp_sv key_of(const char *arg)
{
    const char *equals = strchr(arg, '=');
    return (struct gsp_sv){arg, equals ? (size_t)(equals - arg) : strlen(arg)};
}

/* Whether the i-th setting's name begins with the text, with or without the prefix. */
static bool begins(size_t i, struct gsp_sv text)
{
    char name[GSP_NAME_MAX];
    snprintf(name, sizeof(name), PREFIX "%s", gsp_wire_setting_row(i)->name);
    const size_t skip = gsp_sv_starts(text, PREFIX) ? 0 : sizeof(PREFIX) - 1;
    return strncmp(name + skip, text.p, text.len) == 0;
}

static int unknown_key(const struct gsp_parsed *parsed, struct gsp_sv key)
{
    struct gsp_parsed copy = *parsed;
    char name[GSP_NAME_MAX];
    snprintf(name, sizeof(name), "%.*s", (int)(key.len < 60 ? key.len : 60), key.p);
    const char *bare = gsp_sv_starts(key, PREFIX) ? name + sizeof(PREFIX) - 1 : name;
    size_t best = NEAR_MAX;
    for (size_t i = 0; gsp_wire_setting_row(i); i++) {
        const size_t distance = gsp_str_distance(bare, gsp_wire_setting_row(i)->name);
        if (distance < best) {
            best = distance;
            snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof config %s " PREFIX "%s",
                     parsed->args[0], gsp_wire_setting_row(i)->name);
        }
    }
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_sv_of(name));
    const char *shown = gsp_buf_cstr(&safe);
    return gsp_cli__misuse(&copy, "unknown setting '%s'", shown ? shown : "");
}

/* Validates all changes before any of them is applied. */
static int read_changes(struct target *target, char *const *args)
{
    struct gsp_err err = {0};
    for (size_t i = 0; i < CHANGES_MAX && args[i]; i++) {
        const struct gsp_sv key = key_of(args[i]);
        if (args[i][key.len] != '=' || key.len == 0)
            return gsp_cli__misuse(target->parsed, "'%.100s' is not KEY=VALUE", args[i]);
        const int id = gsp_wire_setting_row_find(key);
        if (id < 0)
            return unknown_key(target->parsed, key);
        struct gsp_control_change *change = &target->changes[target->change_count++];
        change->id = (enum gsp_setting_id)id;
        if (gsp_wire_setting_row_check((size_t)id, gsp_sv_of(args[i] + key.len + 1), change->value,
                                       &err) < 0)
            return gsp_cli__misuse(target->parsed, "%s", err.msg);
    }
    return 0;
}

/* -------------------------------------------------------------------------------------- target */

static int open_target(struct target *target, const char *arg, struct gsp_err *err)
{
    struct gsp_endpoint endpoint;
    int rc = gsp_source_endpoint_find(arg, &endpoint, err);
    target->pid = endpoint.pid;
    if (rc < 0)
        return rc;
    if (!endpoint.is_live) {
        target->pid = 0; /* no hint: the message is complete */
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has exited", (int)endpoint.pid);
    }
    rc = endpoint.has_rings ? gsp_ring_dir_open(&endpoint.ring_dirs.at[0], &target->folder_fd, err)
                            : GSP_E_NOFILE;
    if (rc == 0)
        rc = gsp_wire_control_read(target->folder_fd, &target->page, err);
    /* An interrupted write left the page invalid; the next write repairs it. */
    if (rc == GSP_E_TORN && target->change_count > 0)
        rc = 0;
    const uint32_t state = rc == 0 ? atomic_load(&target->page.state) : 0;
    if (rc == GSP_E_NOFILE || (rc == 0 && !(state & GSP_CONTROL_LOADED)))
        return gsp_err_set(err, GSP_E_NOFILE, 0, "no agent in process %d", (int)endpoint.pid);
    return rc;
}

static bool is_applied(const struct target *target)
{
    return atomic_load(&target->page.applied) >= atomic_load(&target->page.serial);
}

/* Waits until the agent has applied the changes, at most one second. */
static int wait_applied(struct target *target, struct gsp_err *err)
{
    const struct timespec pause = {0, POLL_NS};
    const int64_t end_ns = gsp_now_ns() + APPLY_MAX_NS;
    int rc = gsp_wire_control_read(target->folder_fd, &target->page, err);
    while (rc == 0 && atomic_load(&target->page.applied) < target->serial &&
           gsp_now_ns() < end_ns) {
        nanosleep(&pause, NULL);
        rc = gsp_wire_control_read(target->folder_fd, &target->page, err);
    }
    return rc;
}

/* --------------------------------------------------------------------------------------- output */

static bool is_selected(const struct target *target, size_t i, const char *prefix)
{
    if (target->change_count == 0)
        return !prefix || begins(i, gsp_sv_of(prefix));
    for (size_t k = 0; k < target->change_count; k++)
        if (target->changes[k].id == (enum gsp_setting_id)i)
            return true;
    return false;
}

static void put_state(struct gsp_json *json, uint32_t state)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } BITS[] = {{GSP_CONTROL_LOADED, "loaded"},
                {GSP_CONTROL_PYTHON, "python"},
                {GSP_CONTROL_TORCH, "torch"},
                {GSP_CONTROL_QUIET, "quiet"}};
    gsp_json_put_arr_begin(json, "state");
    for (size_t i = 0; i < GSP_COUNT(BITS); i++)
        if (state & BITS[i].bit)
            gsp_json_str(json, BITS[i].name);
    gsp_json_arr_end(json);
}

/* Of the steps that torch.rate selects, PyTorch traces one of this many. */
static int64_t steps_of_one(const struct target *target)
{
    const uint32_t state = atomic_load(&target->page.state);
    return (int64_t)1 << ((state & GSP_CONTROL_THIN_MASK) >> GSP_CONTROL_THIN_SHIFT);
}

static int show_json(const struct target *target, const char *prefix, struct gsp_err *err)
{
    gsp_auto_buf out = {0};
    struct gsp_json json;
    gsp_json_init(&json, &out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", target->pid);
    gsp_json_put_str(&json, "agent", target->page.agent);
    put_state(&json, atomic_load(&target->page.state));
    gsp_json_put_i64(&json, "torch_one_step_of", steps_of_one(target));
    gsp_json_put_bool(&json, "applied", is_applied(target));
    gsp_json_put_arr_begin(&json, "settings");
    for (size_t i = 0; gsp_wire_setting_row(i); i++) {
        const struct gsp_wire_setting_row *about = gsp_wire_setting_row(i);
        gsp_auto_buf name = {0};
        if (!is_selected(target, i, prefix))
            continue;
        gsp_buf_printf(&name, PREFIX "%s", about->name);
        gsp_json_obj_begin(&json);
        gsp_json_put_sv(&json, "name", gsp_buf_sv(&name));
        gsp_json_put_str(&json, "value", target->page.value[i]);
        gsp_json_put_str(&json, "type", gsp_cli__setting_type_name(about->type));
        gsp_json_put_str(&json, "default", about->fallback);
        gsp_json_put_str(&json, "description", about->doc);
        gsp_json_obj_end(&json);
    }
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    gsp_buf_putc(&out, '\n');
    return gsp_file_put(NULL, false, &out, err);
}

static int show_table(const struct target *target, const char *prefix, struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"setting", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"value", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"type", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"default", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"meaning", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    struct gsp_row_list *row_list = NULL;
    int rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), &row_list, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; gsp_wire_setting_row(i); i++) {
        const struct gsp_wire_setting_row *about = gsp_wire_setting_row(i);
        gsp_auto_buf name = {0};
        if (!is_selected(target, i, prefix))
            continue;
        gsp_buf_printf(&name, PREFIX "%s", about->name);
        gsp_model_row_list_add_text(row_list, gsp_buf_sv(&name));
        gsp_model_row_list_add_text(row_list, gsp_sv_of(target->page.value[i]));
        gsp_model_row_list_add_text(row_list, gsp_sv_of(gsp_cli__setting_type_name(about->type)));
        gsp_model_row_list_add_text(row_list, gsp_sv_of(about->fallback));
        gsp_model_row_list_add_text(row_list, gsp_sv_of(about->doc));
    }
    const struct gsp_rows_dest dest = {.format = GSP_ROWS_TABLE,
                                       .color = target->parsed->globals.color};
    rc = gsp_cli__put_rows(gsp_model_row_list_rows(row_list), &dest, err);
    gsp_rows_free(gsp_model_row_list_rows(row_list));
    return rc;
}

/* Prints whether the changes were applied, and why data may be missing. */
static void report(const struct target *target, const char *prefix)
{
    struct gsp_term term;
    const uint32_t state = atomic_load(&target->page.state);
    gsp_cli__term_init(&term, STDERR_FILENO, target->parsed->globals.color);
    if (target->parsed->globals.quiet)
        return;
    if (is_selected(target, GSP_SET_ring_rows, prefix))
        gsp_cli__ring_check_process(target->parsed, target->pid,
                                    target->page.value[GSP_SET_ring_rows]);
    if (state & GSP_CONTROL_QUIET)
        gsp_cli__term_line(&term,
                           "gsprof: process %d records nothing: no space left for its tables",
                           (int)target->pid);
    if (steps_of_one(target) > 1)
        gsp_cli__term_line(
            &term,
            "gsprof: process %d traces one step in %lld to keep the cost within " PREFIX
            "torch.adaptive",
            (int)target->pid, (long long)steps_of_one(target));
    if (target->change_count > 0 && atomic_load(&target->page.applied) >= target->serial)
        gsp_cli__term_line(&term, "gsprof: process %d applied the change", (int)target->pid);
    else if (target->change_count > 0)
        gsp_cli__term_line(
            &term,
            "gsprof: set, but not applied within a second: process %d applies it at its "
            "next step, span or garbage collection",
            (int)target->pid);
}

static int change_and_show(struct target *target, const char *prefix)
{
    struct gsp_err err = {0};
    int rc = GSP_OK;
    if (target->change_count > 0) {
        rc = gsp_wire_control_write(target->folder_fd, target->changes, target->change_count,
                                    &target->serial, &err);
        if (rc == GSP_OK)
            rc = wait_applied(target, &err);
    }
    /* Other processes can write the page: make sure that its strings end. */
    for (size_t i = 0; i < GSP_CONTROL_MAX; i++)
        target->page.value[i][GSP_CONTROL_VALUE - 1] = '\0';
    if (rc == GSP_OK)
        rc = target->json ? show_json(target, prefix, &err) : show_table(target, prefix, &err);
    if (rc < 0)
        return fail(target, &err);
    report(target, prefix);
    return 0;
}

const char *gsp_cli__setting_type_name(enum gsp_setting_type type)
{
    static const char *const NAMES[] = {"?", "on/off", "number", "text"};
    return (size_t)type < GSP_COUNT(NAMES) ? NAMES[type] : NAMES[0];
}

int gsp_cli__process_settings_run(const struct gsp_parsed *parsed, const char *pid,
                                  char *const *args, bool json)
{
    struct target target = {.parsed = parsed, .folder_fd = -1, .json = json};
    struct gsp_err err = {0};
    const char *prefix = args[0] && !strchr(args[0], '=') ? args[0] : NULL;
    if (prefix && args[1])
        return gsp_cli__misuse(parsed, "config needs one KEY to show, or KEY=VALUE to change");
    bool known = !prefix;
    for (size_t i = 0; gsp_wire_setting_row(i) && !known; i++)
        known = begins(i, gsp_sv_of(prefix));
    if (!known)
        return unknown_key(parsed, gsp_sv_of(prefix));
    int status = prefix ? 0 : read_changes(&target, args);
    if (status == 0 && open_target(&target, pid, &err) < 0)
        status = fail(&target, &err);
    else if (status == 0)
        status = change_and_show(&target, prefix);
    gsp_fd_close(&target.folder_fd);
    return status;
}
