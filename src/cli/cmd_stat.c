/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/rows_out.h"
#include "cli/term.h"
#include "export/plot.h"
#include "frames/session_read.h"
#include "report/session_table.h"

struct stat_opts {
    const char *plot;
    const char *metrics;
    bool json;
    bool force;
};

static const struct gsp_opt OPTS[] = {
    {.name = "plot",
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct stat_opts, plot),
     .arg = "FILE",
     .help = "Draw charts over time: .svg, .png, or .html, which shows values under the pointer."},
    {.name = "metrics",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct stat_opts, metrics),
     .arg = "NAMES",
     .help = "Show only metrics whose names contain one of these words, separated by commas."},
    GSP_OPT_SWITCH(struct stat_opts, json, "json", 0, false, "Print a JSON object."),
    GSP_OPT_FORCE(struct stat_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof stat training_epoch_1.json", "Print mean, extremes and percentiles of each metric"},
    {"gsprof stat epoch.json --plot epoch.html", "Draw interactive charts"},
    {"gsprof stat epoch.json --metrics gpu,memory --plot gpu.png", "Select metrics"},
    {"gsprof stat epoch.json --json", "Print JSON"},
};

static int open_file(const char *path, struct gsp_err *err)
{
    int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                    : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    int code = errno == EACCES ? GSP_E_IO : GSP_E_NOFILE;
    return gsp_err_set(err, code, errno, "cannot open %.180s: %s", path, strerror(errno));
}

/* Reads the statistics stored in the file; computes them from the frames only if they are missing.
 */
static int load(const char *path, struct gsp_plot *plot, struct gsp_session_data **out,
                struct gsp_err *err)
{
    *out = NULL;
    int opened = open_file(path, err);
    if (opened < 0)
        return opened;
    gsp_auto_fd fd = opened;
    bool can_seek = lseek(fd, 0, SEEK_SET) == 0;
    struct gsp_session_read_options want = {.values = plot || !can_seek, .ctx = plot};
    want.bins = plot ? gsp_export_plot_needs_metric : NULL;
    int rc = gsp_frames_session_read(gsp_json_scan_read_fd, &fd, &want, out, err);
    if (rc < 0 || want.values || (*out)->row_count || !(*out)->frames || lseek(fd, 0, SEEK_SET))
        return rc;
    gsp_frames_session_data_free(*out);
    want.values = true;
    return gsp_frames_session_read(gsp_json_scan_read_fd, &fd, &want, out, err);
}

static int put_json(const struct gsp_session_data *data, const char *metrics, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    gsp_report_session_put_json(data, metrics, &text);
    gsp_buf_putc(&text, '\n');
    return gsp_file_put(NULL, false, &text, err);
}

static int put_text(const struct gsp_parsed *parsed, const struct gsp_session_data *data,
                    struct gsp_err *err)
{
    const struct stat_opts *opts = parsed->opts;
    gsp_auto_buf head = {0};
    gsp_report_session_put_head(data, &head);
    struct gsp_row_list *rows = NULL;
    const struct gsp_rows_dest dest = {
        .format = GSP_ROWS_TABLE, .color = parsed->globals.color, .whole = 1};
    int rc = gsp_file_put(NULL, false, &head, err);
    if (rc == GSP_OK)
        rc = gsp_report_session_rows(data, opts->metrics, &rows, err);
    if (rc < 0)
        return rc;
    rc = gsp_cli__put_rows(gsp_model_row_list_rows(rows), &dest, err);
    gsp_rows_free(gsp_model_row_list_rows(rows));
    return rc;
}

static int draw(const struct gsp_parsed *parsed, struct gsp_plot *plot,
                const struct gsp_session_data *data, struct gsp_err *err)
{
    const struct stat_opts *opts = parsed->opts;
    gsp_auto_buf picture = {0};
    int rc = gsp_export_plot_draw(plot, data, &picture, err);
    if (rc == GSP_OK)
        rc = gsp_file_put(opts->plot, opts->force, &picture, err);
    if (rc == GSP_OK && !parsed->globals.quiet && strcmp(opts->plot, "-") != 0) {
        struct gsp_term term;
        gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
        gsp_cli__term_line(&term, "Wrote %s.", opts->plot);
    }
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct stat_opts *opts = parsed->opts;
    const char *path = parsed->args[0];
    struct gsp_session_data *data = NULL;
    struct gsp_plot plot = {.metrics = opts->metrics};
    struct gsp_err err = {0};
    if (opts->plot && gsp_export_plot_format(opts->plot, &plot.format, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (opts->plot && gsp_file_check_new(opts->plot, opts->force, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->plot}, &err);
    int rc = load(path, opts->plot ? &plot : NULL, &data, &err);
    if (rc < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = path}, &err);
    if (opts->json)
        rc = put_json(data, opts->metrics, &err);
    else if (!opts->plot || strcmp(opts->plot, "-") != 0)
        rc = put_text(parsed, data, &err);
    if (rc == GSP_OK && opts->plot)
        rc = draw(parsed, &plot, data, &err);
    gsp_frames_session_data_free(data);
    return rc < 0 ? gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = opts->plot}, &err) : 0;
}

const struct gsp_command gsp_cmd_stat = {
    .name = "stat",
    .summary = "Summarize and plot a session file",
    .synopsis = "FILE.json [--plot FILE] [--json]",
    .about = "FILE is a session file written by `gsprof serve`; - is stdin. Files of any size are "
             "read with little memory. Charts show wall-clock time. If several frames fall into "
             "one pixel column, the line is their mean and the band their minimum and maximum.",
    GSP_COMMAND_OPTS(OPTS, struct stat_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 1,
    .args_max = 1,
    .lesser = true,
    .run = run,
};
