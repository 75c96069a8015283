/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_scan.h"
#include "base/time.h"
#include "export/format.h"
#include "memlog/log.h"
#include "model/format.h"
#include "report/document_internal.h"
#include "report/memory_view.h"
#include "report/run_parts.h"
#include "report/verdict.h"
#include "store/run.h"
#include "store/run_profile.h"

/* Completes the document, or frees it on failure. */
static int finish(struct gsp_report *report, int rc, struct gsp_report **out, struct gsp_err *err)
{
    if (rc == GSP_OK)
        rc = gsp_report__verdict_fill(report, err);
    if (rc == GSP_OK && report->no_memory)
        rc = gsp_err_nomem(err);
    if (rc < 0) {
        gsp_report_free(report);
        return rc;
    }
    *out = report;
    return GSP_OK;
}

/* Adds the losses of the recorder, one row per cause. */
static void add_losses(struct gsp_report *report, const struct gsp_model_profile_meta *meta)
{
    uint64_t count = 0;
    const char *cause = NULL;
    for (size_t i = 0; (cause = gsp_model_loss_at(&meta->losses, i, &count)); i++)
        gsp_report__loss_add_cause(report, gsp_sv_of("sampler"), gsp_sv_of(cause), count);
    if (meta->truncated)
        gsp_report__loss_add(report, gsp_sv_of("file"), gsp_sv_of("its end is missing"), 1);
}

static void add_profile_facts(struct gsp_report *report, const struct gsp_profile *profile)
{
    gsp_auto_buf text = {0};
    const struct gsp_process *process = gsp_model_profile_process_at(profile, 0);
    gsp_model_extent_put(profile, &text);
    gsp_report__fact_add(report, gsp_sv_of("Recorded"), gsp_report__text_keep_buf(report, &text));
    if (process && process->version != GSP_NONE)
        gsp_report__fact_add(report, gsp_sv_of("Python"),
                             gsp_model_profile_string_at(profile, process->version));
    const size_t threads = gsp_model_profile_thread_count(profile);
    const size_t processes = gsp_model_profile_process_count(profile);
    gsp_buf_printf(&text, "%zu thread%s in %zu process%s", threads, threads == 1 ? "" : "s",
                   processes, processes == 1 ? "" : "es");
    gsp_report__fact_add(report, gsp_sv_of("Threads"), gsp_report__text_keep_buf(report, &text));
}

/* Uses the profile as the stacks of the document. losses: also add the losses of its recorder. */
static int use_profile(struct gsp_report *report, struct gsp_profile *profile, bool losses,
                       const struct gsp_report_open_opts *opts, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    gsp_auto_buf text = {0};
    report->profile = profile;
    if (report->start_ns == 0 || (meta->start_ns > 0 && meta->start_ns < report->start_ns))
        report->start_ns = meta->start_ns;
    if (meta->period_ns > 0)
        report->period_s = (double)meta->period_ns / (double)GSP_NS_PER_S;
    if (report->command.len == 0 && gsp_model_profile_process_count(profile) > 0) {
        gsp_model_command_put(profile, &text);
        report->command = gsp_report__text_keep_buf(report, &text);
    }
    int rc = gsp_report__stacks_fill(report, opts, err);
    if (rc < 0)
        return rc;
    /* Only a recorder counts ticks; a profile from another source has none. */
    report->has_losses |= meta->ticks > 0;
    if (losses)
        add_losses(report, meta);
    const size_t count = report->stacks.has_times ? report->stacks.sample_count : 0;
    const double last_s = count ? report->stacks.samples[count - 1].t : (double)NAN;
    if (isnan(report->duration_s))
        report->duration_s =
            meta->duration_ns > 0 ? (double)meta->duration_ns / (double)GSP_NS_PER_S : last_s;
    return GSP_OK;
}

void gsp_report__facts_add_origin(struct gsp_report *report)
{
    char when[64];
    if (report->command.len)
        gsp_report__fact_add(report, gsp_sv_of("Command"), report->command);
    if (report->host.len)
        gsp_report__fact_add(report, gsp_sv_of("Machine"), report->host);
    if (report->start_ns > 0 && gsp_fmt_time(report->start_ns, when, sizeof(when))[0])
        gsp_report__fact_add(report, gsp_sv_of("Started"),
                             gsp_report__text_keep(report, gsp_sv_of(when)));
    if (report->profile)
        add_profile_facts(report, report->profile);
}

int gsp_report__open_profile(struct gsp_profile *profile, const char *name,
                             const struct gsp_report_open_opts *opts, struct gsp_report **out,
                             struct gsp_err *err)
{
    struct gsp_report *report = NULL;
    *out = NULL;
    int rc = gsp_report__new(GSP_REPORT_PROFILE, name, &report, err);
    if (rc < 0) {
        gsp_model_profile_free(profile);
        return rc;
    }
    rc = use_profile(report, profile, true, opts, err);
    if (rc == GSP_OK)
        gsp_report__facts_add_origin(report);
    return finish(report, rc, out, err);
}

static int fill_tables(struct gsp_report *report, struct gsp_store *store,
                       const struct gsp_report_open_opts *opts, struct gsp_err *err)
{
    int rc = gsp_report__steps_fill(report, store, err);
    if (rc == GSP_OK)
        rc = gsp_report__modules_fill(report, store, opts && opts->values, err);
    if (rc == GSP_OK)
        rc = gsp_report__ranks_fill(report, store, err);
    if (rc == GSP_OK)
        rc = gsp_report__spans_fill(report, store, err);
    if (rc == GSP_OK)
        rc = gsp_report__charts_fill(report, store, err);
    if (rc == GSP_OK)
        rc = gsp_report__memory_fill(report, store, err);
    if (rc == GSP_OK)
        rc = gsp_report__native_threads_fill(report, store, err);
    return rc == GSP_OK ? gsp_report__losses_fill(report, store, err) : rc;
}

struct gsp_sv gsp_report__program_name(struct gsp_sv command)
{
    const char *colon =
        gsp_sv_starts(command, "rank ") ? memmem(command.p, command.len, ": ", 2) : NULL;
    const size_t skip = colon ? (size_t)(colon + 2 - command.p) : 0;
    struct gsp_sv rest = {command.p + skip, command.len - skip};
    struct gsp_sv word = {0};
    struct gsp_sv first = {0};
    while (gsp_sv_split(&rest, ' ', &word)) {
        if (word.len == 0)
            continue;
        if (!first.p)
            first = word;
        if (gsp_sv_ends(word, ".py"))
            return gsp_sv_basename(word);
    }
    return gsp_sv_basename(first);
}

/* Fills the document of a run from tables and a profile, and takes ownership of the profile. */
static int fill_run(struct gsp_report *report, struct gsp_store *store, struct gsp_profile *profile,
                    const struct gsp_report_open_opts *opts, struct gsp_err *err)
{
    report->profile = profile;
    int rc = gsp_report__origin_fill(report, store, err);
    if (rc < 0)
        return rc;
    if (report->command.len == 0 && opts && opts->command)
        report->command = gsp_report__text_keep(report, gsp_sv_of(opts->command));
    /* The start must be final before any time is computed relative to it. */
    const int64_t start_ns = profile ? gsp_model_profile_meta_get(profile)->start_ns : 0;
    if (start_ns > 0 && (report->start_ns == 0 ||
                         (start_ns < report->start_ns && report->exit_status == GSP_NULL_I64))) {
        report->duration_s += (double)(report->start_ns - start_ns) / (double)GSP_NS_PER_S;
        report->start_ns = start_ns;
    }
    rc = fill_tables(report, store, opts, err);
    const bool has_losses = report->loss_count > 0;
    for (size_t i = 0; gsp_store_warning(store, i); i++)
        gsp_report__loss_add(report, gsp_sv_of("files"),
                             gsp_report__text_keep(report, gsp_sv_of(gsp_store_warning(store, i))),
                             1);
    /* If the run has rows of losses, they include those of the profile. */
    if (rc == GSP_OK && profile)
        rc = use_profile(report, profile, !has_losses, opts, err);
    if (rc < 0)
        return rc;
    if (report->command.len)
        report->title = gsp_report__program_name(report->command);
    gsp_report__facts_add_origin(report);
    return gsp_report__facts_fill(report, store, err);
}

int gsp_report_open_store(struct gsp_store *store, struct gsp_profile *profile, const char *name,
                          const struct gsp_report_open_opts *opts, struct gsp_report **out,
                          struct gsp_err *err)
{
    struct gsp_report *report = NULL;
    *out = NULL;
    int rc = profile ? GSP_OK : gsp_store_run_profile_load_tables(store, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_report__new(GSP_REPORT_RUN, name, &report, err);
    if (rc != GSP_OK) {
        gsp_model_profile_free(profile);
        return rc;
    }
    return finish(report, fill_run(report, store, profile, opts, err), out, err);
}

static bool is_empty(const struct gsp_report *report)
{
    return report->stacks.seen == 0 && report->chart_count == 0 && report->module_count == 0 &&
           report->step_count == 0 && report->span_count == 0 && report->memory.site_count == 0;
}

static int open_run(const char *path, const struct gsp_report_open_opts *opts,
                    struct gsp_report **out, struct gsp_err *err)
{
    const struct gsp_store_options options = {.library = opts ? opts->engine : NULL,
                                              .timeout_ns = -1};
    struct gsp_store *store = NULL;
    struct gsp_profile *profile = NULL;
    struct gsp_err unreadable = {0};
    if (!gsp_store_run_exists(path))
        return gsp_err_set(err, GSP_E_NOFILE, 0, "no recording in %.180s", path);
    int rc = gsp_store_open(&options, &store, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_run(store, path, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(store, err);
    if (rc == GSP_OK)
        rc = gsp_store_run_profile_load(path, store, true, &profile, &unreadable, err);
    if (profile && gsp_model_profile_sample_count(profile) == 0) {
        gsp_model_profile_free(profile);
        profile = NULL;
    }
    if (rc == GSP_OK)
        rc = gsp_report_open_store(store, profile, path, opts, out, err);
    if (rc == GSP_OK && unreadable.code < 0)
        gsp_report__loss_add(*out, gsp_sv_of("files"),
                             gsp_report__text_keep(*out, gsp_sv_of(unreadable.msg)), 1);
    gsp_store_close(store);
    if (rc == GSP_OK && is_empty(*out)) {
        rc = unreadable.code < 0
                 ? gsp_err_set(err, unreadable.code, unreadable.sys, "%s", unreadable.msg)
                 : gsp_err_set(err, GSP_E_EMPTY, 0, "nothing was recorded in %.180s", path);
        gsp_report_free(*out);
        *out = NULL;
    }
    return rc;
}

static int open_session(const char *path, const struct gsp_report_open_opts *opts,
                        struct gsp_report **out, struct gsp_err *err)
{
    struct gsp_report *report = NULL;
    int rc = gsp_report__new(GSP_REPORT_SESSION, path, &report, err);
    if (rc < 0)
        return rc;
    rc = gsp_report__session_fill(report, path, err);
    report->title = report->name;
    if (rc == GSP_OK && report->profile)
        rc = use_profile(report, report->profile, true, opts, err);
    if (rc == GSP_OK)
        rc = gsp_report__rss_fill(report, err);
    if (rc == GSP_OK)
        gsp_report__facts_add_origin(report);
    return finish(report, rc, out, err);
}

/* A session file begins with its metadata or with its frames. */
static bool is_session(const char *path)
{
    struct gsp_json_scan scan = {0};
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
        return false;
    bool is = gsp_json_scan_open(&scan, gsp_json_scan_read_fd, &fd, NULL) == GSP_OK &&
              gsp_json_scan_next(&scan, NULL) == GSP_OK && scan.kind == GSP_JSON_SCAN_OBJ_BEGIN &&
              gsp_json_scan_next(&scan, NULL) == GSP_OK && scan.kind == GSP_JSON_SCAN_KEY;
    is = is &&
         (gsp_sv_eq(scan.text, gsp_sv_of("metadata")) || gsp_sv_eq(scan.text, gsp_sv_of("frames")));
    gsp_json_scan_close(&scan);
    return is;
}

static bool is_memory_recording(const char *path)
{
    char head[16];
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* Without moving the position: a pipe, whose bytes a reader still needs, has none. */
    const ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
    return n > 0 && gsp_memlog_is_recording((struct gsp_sv){head, (size_t)n});
}

/* The peak by line, as `gsprof mem report` shows it without options. */
static int open_memory(const char *path, struct gsp_report **out, struct gsp_err *err)
{
    struct gsp_memory_view view = {.limit = GSP_MEMORY_SITES_DEFAULT};
    int rc = gsp_report_memory_open(&view, path, GSP_MEMBY_LINE, err);
    if (rc == GSP_OK)
        rc = gsp_report_memory_select(&view, err);
    if (rc == GSP_OK)
        rc = gsp_report_memory_document(&view, out, err);
    gsp_report_memory_close(&view);
    return rc;
}

static const char *real_path(const char *path)
{
    return strcmp(path, "-") == 0 ? "/dev/stdin" : path;
}

enum gsp_report_kind gsp_report_kind_of(const char *path)
{
    struct stat info;
    if (stat(real_path(path), &info) == 0 && S_ISDIR(info.st_mode))
        return GSP_REPORT_RUN;
    if (is_memory_recording(real_path(path)))
        return GSP_REPORT_MEMORY;
    return is_session(real_path(path)) ? GSP_REPORT_SESSION : GSP_REPORT_PROFILE;
}

int gsp_report_open_path(const char *path, const struct gsp_report_open_opts *opts,
                         struct gsp_report **out, struct gsp_err *err)
{
    struct gsp_profile *profile = NULL;
    const struct gsp_format *format =
        opts && opts->from ? gsp_export_format_find(opts->from) : NULL;
    const enum gsp_report_kind kind = gsp_report_kind_of(path);
    *out = NULL;
    if (kind == GSP_REPORT_RUN)
        return open_run(path, opts, out, err);
    if (kind == GSP_REPORT_MEMORY)
        return open_memory(path, out, err);
    if (kind == GSP_REPORT_SESSION && !format)
        return open_session(real_path(path), opts, out, err);
    const int rc = gsp_export_format_load(real_path(path), format, true, &profile, err);
    return rc == GSP_OK ? gsp_report__open_profile(profile, path, opts, out, err) : rc;
}
