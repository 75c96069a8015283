/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/common.h"
#include "cli/doctor.h"
#include "cli/hint.h"
#include "py/layout.h"
#include "ring/dir.h"

struct doctor_opts {
    bool json;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct doctor_opts, json, "json", 0, false, "Print JSON."),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof doctor", "Check what works on this machine"},
    {"gsprof doctor --json", "Print JSON, for programs and bug reports"},
    {"sudo gsprof doctor", "Check what works as root"},
};

/* A feature and whether it works on this machine. */
struct ability {
    const char *key;
    const char *what;
    bool works;
    char why[160];
};

#define ABILITY_COUNT 5U

static void check_own(const struct gsp_perm *perm, struct ability *out)
{
    *out = (struct ability){.key = "attach_own", .what = "record --pid of own processes"};
    out->works = perm->sys_ptrace ? perm->yama_scope < 3 : perm->yama_scope < 1;
    if (out->works)
        return;
    if (perm->yama_scope >= 3)
        snprintf(out->why, sizeof(out->why), "kernel.yama.ptrace_scope is %d: disabled",
                 perm->yama_scope);
    else
        snprintf(out->why, sizeof(out->why),
                 "kernel.yama.ptrace_scope is %d: %s; gsprof help permissions", perm->yama_scope,
                 perm->yama_scope == 1 ? "only children of gsprof" : "only root");
}

static void check_others(const struct gsp_perm *perm, struct ability *out)
{
    *out = (struct ability){.key = "attach_others", .what = "record --pid of other users"};
    out->works = perm->sys_ptrace && perm->yama_scope < 3;
    if (out->works)
        return;
    const char *why = "needs root: sudo gsprof";
    if (perm->euid == 0)
        why = perm->container == GSP_CONTAINER_NONE
                  ? "root without the capability SYS_PTRACE"
                  : "the container lacks SYS_PTRACE; gsprof help permissions";
    snprintf(out->why, sizeof(out->why), "%s", why);
}

/* Native frames always work; the question is whether threads must be stopped. */
static void check_events(const struct gsp_doctor *doctor, struct ability *out)
{
    const struct gsp_perm *perm = &doctor->perm;
    *out = (struct ability){.key = "native_without_stops",
                            .what = "--native by perf events, without stops",
                            .works = doctor->events.code == GSP_OK};
    if (out->works)
        return;
    if (doctor->events.code != GSP_E_PERM)
        snprintf(out->why, sizeof(out->why), "%.100s; running threads are stopped briefly",
                 doctor->events.msg);
    else if (perm->perf_paranoid != GSP_PERM_NO_PARANOID && perm->perf_paranoid > 2)
        snprintf(out->why, sizeof(out->why),
                 "kernel.perf_event_paranoid is %d; running threads are stopped briefly",
                 perm->perf_paranoid);
    else
        snprintf(out->why, sizeof(out->why),
                 "perf_event_open is forbidden (seccomp, LSM); running threads are stopped "
                 "briefly");
}

static void check_all(const struct gsp_doctor *doctor, struct ability out[ABILITY_COUNT])
{
    const struct gsp_perm *perm = &doctor->perm;
    bool reads = doctor->selftest.code == GSP_OK;
    out[0] = (struct ability){
        .key = "launch", .what = "record -- COMMAND", .works = reads && perm->yama_scope < 3};
    if (!out[0].works)
        snprintf(out[0].why, sizeof(out[0].why), "%.150s",
                 reads ? "kernel.yama.ptrace_scope is 3" : doctor->selftest.msg);
    check_own(perm, &out[1]);
    check_others(perm, &out[2]);
    out[3] = (struct ability){.key = "host_processes",
                              .what = "processes outside this container",
                              .works = perm->in_pid_ns != GSP_ANSWER_YES};
    if (!out[3].works)
        snprintf(out[3].why, sizeof(out[3].why),
                 "this pid namespace does not show them; run gsprof on the host");
    check_events(doctor, &out[4]);
    for (size_t i = 1; i < 3; i++) {
        if (out[i].works && !reads) {
            out[i].works = false;
            snprintf(out[i].why, sizeof(out[i].why), "%.150s", doctor->selftest.msg);
        }
    }
}

static const char *answer_text(enum gsp_answer answer)
{
    return answer == GSP_ANSWER_YES ? "yes" : answer == GSP_ANSWER_NO ? "no" : "unknown";
}

static void put_fact(struct gsp_buf *out, const char *name, const char *fmt, ...) GSP_PRINTF(3, 4);

static void put_fact(struct gsp_buf *out, const char *name, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    gsp_buf_printf(out, "  %-20s %s\n", name, text);
}

static const char *yama_text(int scope)
{
    static const char *const texts[] = {"own processes", "child processes only", "root only",
                                        "disabled until reboot"};
    if (scope < 0)
        return "no Yama: own processes";
    return scope < (int)GSP_COUNT(texts) ? texts[scope] : "unknown";
}

/* The folder for the tables of processes. */
static void put_tables_folder(struct gsp_buf *out)
{
    struct gsp_ring_dir_choice choice;
    if (!gsp_ring_dir_choose(&choice)) {
        put_fact(out, "tables", "none: %s", choice.note);
        return;
    }
    const double space_mb = (double)choice.room / (1 << 20);
    put_fact(out, "tables", "%s%s%s%s", choice.root, choice.note[0] ? " (" : "", choice.note,
             choice.note[0] ? ")" : "");
    if (choice.room != UINT64_MAX)
        put_fact(out, "space for tables", "%.0f MB", space_mb);
}

static void put_machine(const struct gsp_doctor *doctor, struct gsp_buf *out)
{
    const struct gsp_perm *perm = &doctor->perm;
    put_fact(out, "kernel", "%s %s %s", doctor->system.sysname, doctor->system.release,
             doctor->system.machine);
    put_fact(out, "user", "%lld%s", (long long)perm->euid, perm->euid == 0 ? " (root)" : "");
    if (perm->yama_scope < 0)
        put_fact(out, "ptrace scope", "%s", yama_text(perm->yama_scope));
    else
        put_fact(out, "ptrace scope", "%d: %s", perm->yama_scope, yama_text(perm->yama_scope));
    bool any = perm->sys_ptrace || perm->sys_admin || perm->perfmon || perm->bpf;
    put_fact(out, "capabilities", "%s%s%s%s%s", perm->sys_ptrace ? "SYS_PTRACE " : "",
             perm->sys_admin ? "SYS_ADMIN " : "", perm->perfmon ? "PERFMON " : "",
             perm->bpf ? "BPF" : "", any ? "" : "none relevant");
    static const char *const filters[] = {"off", "strict", "filter"};
    put_fact(out, "seccomp", "%s",
             perm->seccomp >= 0 && perm->seccomp < 3 ? filters[perm->seccomp] : "unknown");
    put_fact(out, "container", "%s", gsp_proc_container_name(perm->container));
    put_fact(out, "own pid namespace", "%s", answer_text(perm->in_pid_ns));
    put_fact(out, "own user namespace", "%s", answer_text(perm->in_user_ns));
    if (perm->perf_paranoid != GSP_PERM_NO_PARANOID)
        put_fact(out, "perf_event_paranoid", "%d", perm->perf_paranoid);
    put_tables_folder(out);
    put_fact(out, "self-test", "%s",
             doctor->selftest.code == GSP_OK ? "can read the memory of a child process"
                                             : doctor->selftest.msg);
}

static void put_pythons(const struct gsp_doctor *doctor, struct gsp_buf *out)
{
    for (size_t i = 0; i < doctor->process_count; i++) {
        const struct gsp_doctor_process *row = &doctor->processes[i];
        gsp_buf_printf(out, "  %7d  %-9s %.50s\n", (int)row->pid,
                       row->version[0] ? row->version : "-", row->cmdline);
        if (row->rc < 0) {
            gsp_buf_puts(out, "           not readable: ");
            gsp_buf_term(out, gsp_sv_of(row->reason));
            gsp_buf_putc(out, '\n');
        }
    }
    if (doctor->process_more)
        gsp_buf_printf(out, "  and %zu more\n", doctor->process_more);
    if (!doctor->process_count)
        gsp_buf_puts(out, "  none\n");
}

static void put_sources(const struct gsp_doctor *doctor, const struct gsp_term *term,
                        struct gsp_buf *out)
{
    for (size_t i = 0; i < doctor->source_count; i++) {
        const struct gsp_doctor_source *row = &doctor->sources[i];
        gsp_buf_printf(out, "  %s%s%s %-10s %s\n",
                       row->open ? gsp_cli__term_green(term) : gsp_cli__term_yellow(term),
                       row->open ? "yes" : "no ", gsp_cli__term_off(term), row->name, row->doc);
        if (row->trouble[0]) {
            gsp_buf_puts(out, "                 ");
            gsp_buf_term(out, gsp_sv_of(row->trouble));
            gsp_buf_putc(out, '\n');
        }
    }
}

static void put_text(const struct gsp_doctor *doctor, const struct gsp_term *term,
                     struct gsp_buf *out)
{
    const char *bold = gsp_cli__term_bold(term);
    const char *off = gsp_cli__term_off(term);
    struct ability abilities[ABILITY_COUNT];
    check_all(doctor, abilities);
    gsp_buf_printf(out, "%sgsprof " GSP_VERSION "%s, supports CPython 3.%u to 3.%u\n\n", bold, off,
                   GSP_PY_MINOR_MIN, GSP_PY_MINOR_MAX);
    gsp_buf_printf(out, "%sThis machine%s\n", bold, off);
    put_machine(doctor, out);
    gsp_buf_printf(out, "\n%sFeatures%s\n", bold, off);
    for (size_t i = 0; i < ABILITY_COUNT; i++) {
        const struct ability *ability = &abilities[i];
        gsp_buf_printf(out, "  %s%s%s %s%s%s\n",
                       ability->works ? gsp_cli__term_green(term) : gsp_cli__term_yellow(term),
                       ability->works ? "yes" : "no ", off, ability->what,
                       ability->why[0] ? ": " : "", ability->why);
    }
    gsp_buf_printf(out, "\n%sMetrics%s\n", bold, off);
    put_sources(doctor, term, out);
    gsp_buf_printf(out, "\n%sRunning Python processes%s\n", bold, off);
    put_pythons(doctor, out);
    gsp_buf_printf(out, "\n%sPython interpreters on PATH%s\n", bold, off);
    for (size_t i = 0; i < doctor->python_count; i++) {
        const struct gsp_doctor_python *row = &doctor->pythons[i];
        gsp_buf_printf(out, "  %-9s ", row->version[0] ? row->version : "?");
        gsp_buf_term(out, gsp_sv_of(row->path));
        gsp_buf_puts(out, row->version[0] && !row->supported ? " (not supported)\n" : "\n");
    }
    if (!doctor->python_count)
        gsp_buf_puts(out, "  none\n");
}

/* A number, or null if it equals `unknown`. */
static void json_known(struct gsp_json *json, const char *key, int64_t value, int64_t unknown)
{
    if (gsp_json_key_or_null(json, key, value != unknown))
        gsp_json_i64(json, value);
}

static void json_answer(struct gsp_json *json, const char *key, enum gsp_answer answer)
{
    if (gsp_json_key_or_null(json, key, answer != GSP_ANSWER_UNKNOWN))
        gsp_json_bool(json, answer == GSP_ANSWER_YES);
}

static void json_machine(const struct gsp_doctor *doctor, struct gsp_json *json)
{
    const struct gsp_perm *perm = &doctor->perm;
    gsp_json_put_obj_begin(json, "machine");
    gsp_json_put_str(json, "kernel", doctor->system.release);
    gsp_json_put_str(json, "architecture", doctor->system.machine);
    json_known(json, "euid", perm->euid, -1);
    json_known(json, "ptrace_scope", perm->yama_scope, -1);
    json_known(json, "seccomp", perm->seccomp, -1);
    json_known(json, "perf_event_paranoid", perm->perf_paranoid, GSP_PERM_NO_PARANOID);
    gsp_json_put_obj_begin(json, "capabilities");
    gsp_json_put_bool(json, "sys_ptrace", perm->sys_ptrace);
    gsp_json_put_bool(json, "sys_admin", perm->sys_admin);
    gsp_json_put_bool(json, "perfmon", perm->perfmon);
    gsp_json_put_bool(json, "bpf", perm->bpf);
    gsp_json_obj_end(json);
    gsp_json_put_str(
        json, "container",
        perm->container == GSP_CONTAINER_NONE ? NULL : gsp_proc_container_name(perm->container));
    json_answer(json, "pid_namespace", perm->in_pid_ns);
    json_answer(json, "user_namespace", perm->in_user_ns);
    struct gsp_ring_dir_choice choice;
    const bool has_root = gsp_ring_dir_choose(&choice);
    gsp_json_put_str(json, "tables", has_root ? choice.root : NULL);
    gsp_json_put_str(json, "tables_note", choice.note[0] ? choice.note : NULL);
    json_known(json, "tables_room_bytes",
               choice.room > INT64_MAX ? INT64_MAX : (int64_t)choice.room, INT64_MAX);
    gsp_json_put_bool(json, "selftest", doctor->selftest.code == GSP_OK);
    gsp_json_put_str(json, "selftest_reason",
                     doctor->selftest.code == GSP_OK ? NULL : doctor->selftest.msg);
    gsp_json_obj_end(json);
}

static void json_pythons(const struct gsp_doctor *doctor, struct gsp_json *json)
{
    gsp_json_put_arr_begin(json, "processes");
    for (size_t i = 0; i < doctor->process_count; i++) {
        const struct gsp_doctor_process *row = &doctor->processes[i];
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "pid", row->pid);
        gsp_json_put_str(json, "version", row->version[0] ? row->version : NULL);
        gsp_json_put_str(json, "command_line", row->cmdline);
        gsp_json_put_bool(json, "readable", row->rc == GSP_OK);
        gsp_json_put_str(json, "reason", row->rc == GSP_OK ? NULL : row->reason);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
    gsp_json_put_u64(json, "processes_not_listed", doctor->process_more);
    gsp_json_put_arr_begin(json, "interpreters");
    for (size_t i = 0; i < doctor->python_count; i++) {
        const struct gsp_doctor_python *row = &doctor->pythons[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "path", row->path);
        gsp_json_put_str(json, "version", row->version[0] ? row->version : NULL);
        gsp_json_put_bool(json, "supported", row->supported);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void json_sources(const struct gsp_doctor *doctor, struct gsp_json *json)
{
    gsp_json_put_arr_begin(json, "sources");
    for (size_t i = 0; i < doctor->source_count; i++) {
        const struct gsp_doctor_source *row = &doctor->sources[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "name", row->name);
        gsp_json_put_str(json, "about", row->doc);
        gsp_json_put_bool(json, "works", row->open);
        gsp_json_put_str(json, "reason", row->trouble[0] ? row->trouble : NULL);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_json(const struct gsp_doctor *doctor, struct gsp_buf *out)
{
    struct gsp_json json;
    struct ability abilities[ABILITY_COUNT];
    check_all(doctor, abilities);
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "gsprof_version", GSP_VERSION);
    json_machine(doctor, &json);
    gsp_json_put_obj_begin(&json, "works");
    for (size_t i = 0; i < ABILITY_COUNT; i++) {
        gsp_json_put_obj_begin(&json, abilities[i].key);
        gsp_json_put_bool(&json, "works", abilities[i].works);
        gsp_json_put_str(&json, "reason", abilities[i].works ? NULL : abilities[i].why);
        gsp_json_obj_end(&json);
    }
    gsp_json_obj_end(&json);
    json_sources(doctor, &json);
    json_pythons(doctor, &json);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}

static int run(const struct gsp_parsed *parsed)
{
    const struct doctor_opts *opts = parsed->opts;
    struct gsp_err err = {0};
    struct gsp_term term;
    gsp_auto_buf text = {0};
    struct gsp_doctor *doctor = calloc(1, sizeof(*doctor));
    if (!doctor) {
        gsp_ignore(gsp_err_nomem(&err));
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    }
    gsp_cli__doctor_check(doctor);
    gsp_cli__term_init(&term, STDOUT_FILENO, parsed->globals.color);
    if (opts->json)
        put_json(doctor, &text);
    else
        put_text(doctor, &term, &text);
    int status = doctor->selftest.code == GSP_OK ? 0 : gsp_err_exit_status(doctor->selftest.code);
    free(doctor);
    if (gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(&text), true, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    return status;
}

const struct gsp_command gsp_cmd_doctor = {
    .name = "doctor",
    .summary = "Check what works on this machine and why",
    .synopsis = "[--json]",
    .about = "Checks the kernel, its ptrace settings, capabilities, the container, running Python "
             "processes, interpreters on PATH and available metrics, and tests reading a child "
             "process. Starts no other program and changes nothing. Include its output in bug "
             "reports.",
    GSP_COMMAND_OPTS(OPTS, struct doctor_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .lesser = true,
    .run = run,
};
