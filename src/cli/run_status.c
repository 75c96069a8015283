/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "model/format.h"
#include "wire/table.h"

#define READINGS  GSP_RUN_STATUS_READINGS
/* Programs that exit earlier get no status line. */
#define FIRST_NS  (1500 * GSP_NS_PER_MS)
#define PERIOD_NS (500 * GSP_NS_PER_MS)
#define ROWS_MIN  5U
/* A double that every int64_t can represent. */
#define RSS_MAX   9e18

/* --------------------------------------------------------------------------------- numbers */

void gsp_cli__run_status_row(struct gsp_run_status *status, enum gsp_table_id table,
                             const void *row)
{
    const bool is_process = table == GSP_TABLE_process_metrics;
    if (!is_process && table != GSP_TABLE_gpu_metrics)
        return;
    const struct gsp_row_process_metrics *process = row;
    const struct gsp_row_gpu_metrics *gpu = row;
    const int64_t tick_ns = is_process ? process->mono_ns : gpu->mono_ns;
    if (tick_ns != status->tick_ns) {
        status->tick_ns = tick_ns;
        status->cpu_percent = 0;
        status->rss_bytes = 0;
        status->gpu_percent = 0;
        status->processes = 0;
        status->gpus = 0;
    }
    if (is_process) {
        status->processes++;
        status->cpu_percent += isnan(process->cpu_percent) ? 0 : process->cpu_percent;
        status->rss_bytes += process->rss_bytes > 0 ? (double)process->rss_bytes : 0;
    } else if (!isnan(gpu->util_percent)) {
        status->gpus++;
        status->gpu_percent += gpu->util_percent;
    }
}

static const struct gsp_ring_drain_counts *reading_at(const struct gsp_run_status *status,
                                                      uint64_t i)
{
    return &status->readings[i % READINGS];
}

void gsp_cli__run_status_add_reading(struct gsp_run_status *status,
                                     const struct gsp_ring_drain_counts *seen)
{
    const bool is_known =
        status->reading_count > 0 &&
        reading_at(status, status->reading_count - 1)->looked_ns == seen->looked_ns;
    if (seen->looked_ns != 0 && !is_known)
        status->readings[status->reading_count++ % READINGS] = *seen;
}

/* Steps per second and process over the last readings; NaN if there were no steps. */
static double step_rate(const struct gsp_run_status *status)
{
    if (status->reading_count < 2)
        return (double)NAN;
    const struct gsp_ring_drain_counts *newest = reading_at(status, status->reading_count - 1);
    const uint64_t first = status->reading_count > READINGS ? status->reading_count - READINGS : 0;
    const struct gsp_ring_drain_counts *oldest = reading_at(status, first);
    const double span_s = (double)(newest->looked_ns - oldest->looked_ns) / GSP_NS_PER_S;
    if (newest->step_rings == 0 || newest->steps <= oldest->steps || span_s <= 0)
        return (double)NAN;
    return (double)(newest->steps - oldest->steps) / span_s / (double)newest->step_rings;
}

static void put_elapsed(int64_t elapsed_ns, struct gsp_buf *out)
{
    const int64_t s = elapsed_ns / GSP_NS_PER_S;
    if (s >= 3600)
        gsp_buf_printf(out, "%" PRId64 ":", s / 3600);
    gsp_buf_printf(out, "%02d:%02d", (int)(s / 60 % 60), (int)(s % 60));
}

void gsp_cli__run_status_text(const struct gsp_run_status *status, int64_t now_ns,
                              struct gsp_buf *out)
{
    const double rate = step_rate(status);
    gsp_buf_puts(out, "gsprof ");
    put_elapsed(now_ns - status->begin_ns, out);
    if (!isnan(rate))
        gsp_buf_printf(out, "  %.3g steps/s", rate);
    if (status->processes > 0) {
        gsp_buf_printf(out, "  CPU %.0f %%  RSS ", status->cpu_percent);
        gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)fmin(status->rss_bytes, RSS_MAX), out);
    }
    if (status->gpus > 0)
        gsp_buf_printf(out, "  GPU %.0f %%", status->gpu_percent / status->gpus);
    if (status->reading_count > 0) {
        const struct gsp_ring_drain_counts *seen = reading_at(status, status->reading_count - 1);
        gsp_buf_puts(out, "  ");
        gsp_model_count_put(seen->samples, out);
        gsp_buf_printf(out, " sample%s", gsp_model_plural_s(seen->samples));
        if (seen->lost > 0)
            gsp_buf_printf(out, "  %" PRIu64 " row%s lost", seen->lost,
                           gsp_model_plural_s(seen->lost));
        if (seen->failing)
            gsp_buf_puts(out, "  CANNOT WRITE");
    }
}

/* -------------------------------------------------------------------------------- terminal */

void gsp_cli__run_status_init(struct gsp_run_status *status, int fd, bool quiet)
{
    const char *kind = getenv("TERM");
    const bool can = !quiet && isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0;
    *status = (struct gsp_run_status){.fd = can ? fd : -1, .begin_ns = gsp_now_ns()};
    status->next_ns = status->begin_ns + FIRST_NS;
}

static void put(const struct gsp_run_status *status, struct gsp_buf *text)
{
    gsp_ignore(gsp_fd_write_all(status->fd, text->p, text->len, NULL) < 0);
}

/* Whether gsprof is in the foreground and the program does not use the terminal in raw mode. */
static bool may_draw(const struct gsp_run_status *status)
{
    struct termios modes;
    return tcgetpgrp(status->fd) == getpgrp() && tcgetattr(status->fd, &modes) == 0 &&
           (modes.c_lflag & ICANON) && (modes.c_lflag & ECHO);
}

static bool read_size(struct gsp_run_status *status, bool *changed)
{
    struct winsize size;
    if (ioctl(status->fd, TIOCGWINSZ, &size) < 0 || size.ws_row < ROWS_MIN || size.ws_col < 20)
        return false;
    *changed = size.ws_row != status->rows || size.ws_col != status->columns;
    status->rows = size.ws_row;
    status->columns = size.ws_col;
    return true;
}

void gsp_cli__run_status_hide(struct gsp_run_status *status)
{
    gsp_auto_buf text = {0};
    if (!status->is_shown)
        return;
    status->is_shown = false;
    /* Resetting the scroll region moves the cursor: save and restore it. */
    gsp_buf_printf(&text, "\0337\033[%u;1H\033[2K\033[r\0338", status->rows);
    put(status, &text);
}

static void draw(struct gsp_run_status *status, int64_t now_ns)
{
    gsp_auto_buf line = {0};
    gsp_auto_buf text = {0};
    bool changed = false;
    if (!may_draw(status) || !read_size(status, &changed)) {
        gsp_cli__run_status_hide(status);
        return;
    }
    gsp_cli__run_status_text(status, now_ns, &line);
    if (line.len >= status->columns)
        line.len = status->columns - 1;
    /* First make space for one line below the cursor without changing its column, then exclude the
     * last line from scrolling. */
    if (!status->is_shown)
        gsp_buf_puts(&text, "\033D");
    if (!status->is_shown || changed)
        gsp_buf_printf(&text, "\0337\033[1;%ur\0338", status->rows - 1);
    if (!status->is_shown)
        gsp_buf_puts(&text, "\033[A");
    gsp_buf_printf(&text, "\0337\033[%u;1H\033[2K\033[0;2m", status->rows);
    gsp_buf_putsv(&text, gsp_buf_sv(&line));
    gsp_buf_puts(&text, "\033[0m\0338");
    status->is_shown = true;
    put(status, &text);
}

void gsp_cli__run_status_update(struct gsp_run_status *status, struct gsp_ring_drain *rings)
{
    const int64_t now_ns = gsp_now_ns();
    if (status->fd < 0)
        return;
    if (rings) {
        const struct gsp_ring_drain_counts seen = gsp_record_ring_drain_counts(rings);
        gsp_cli__run_status_add_reading(status, &seen);
    }
    if (now_ns < status->next_ns)
        return;
    status->next_ns = now_ns + PERIOD_NS;
    draw(status, now_ns);
}
