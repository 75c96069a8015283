/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "base/width.h"
#include "model/format.h"

/* Widths of the number columns, including the blank before each. */
#define OWN_PCT_WIDTH    8U
#define TOTAL_PCT_WIDTH  9U
#define OWN_WIDTH        10U
#define TOTAL_WIDTH      12U
/* The share of the remaining width for the function. */
#define FUNCTION_SHARE   0.6
#define REPLAY_TEXT_SIZE 32U

void gsp_tui_top_facts_sum(const struct gsp_top *top, bool whole, struct gsp_top_facts *facts)
{
    const struct gsp_top_span *span = whole ? gsp_tui__top_all(top) : gsp_tui_top_recent(top);
    facts->gil_pct = gsp_tui__top_percent(top, span, span->gil);
    facts->active_pct = gsp_tui__top_percent(top, span, span->active);
    facts->samples = gsp_tui__top_all(top)->samples;
}

void gsp_tui_top_facts_count(const struct gsp_top *top, struct gsp_top_facts *facts)
{
    const struct gsp_profile *profile = gsp_tui__top_profile(top);
    size_t processes = gsp_model_profile_process_count(profile);
    bool *seen = calloc(processes + 1, sizeof(*seen));
    facts->threads = 0;
    facts->processes =
        seen ? 0 : (uint32_t)processes; /* without memory, also those without a row */
    for (uint32_t i = 0; i < gsp_model_profile_thread_count(profile); i++) {
        if (gsp_tui__top_thread_weight(top, i) < 0)
            continue;
        uint32_t process = gsp_model_profile_thread_at(profile, i)->process;
        facts->threads++;
        if (seen && process < processes && !seen[process]) {
            seen[process] = true;
            facts->processes++;
        }
    }
    free(seen);
}

void gsp_tui__layout_init(unsigned width, struct gsp_top_layout *out)
{
    if (width < GSP_TOP_WIDTH_MIN)
        width = GSP_TOP_WIDTH_MIN;
    unsigned numbers = OWN_PCT_WIDTH + TOTAL_PCT_WIDTH + OWN_WIDTH + TOTAL_WIDTH;
    unsigned rest = width - numbers - 2; /* a blank before each of the last two columns */
    unsigned function = (unsigned)(rest * FUNCTION_SHARE);
    const unsigned widths[GSP_TOP_COLUMNS] = {OWN_PCT_WIDTH, TOTAL_PCT_WIDTH, OWN_WIDTH,
                                              TOTAL_WIDTH,   function,        rest - function};
    unsigned start = 0;
    for (size_t i = 0; i < GSP_TOP_COLUMNS; i++) {
        start += i >= GSP_TOP_FUNCTION;
        out->start[i] = start;
        out->width[i] = widths[i];
        start += widths[i];
    }
}

enum gsp_top_column gsp_tui__top_layout_at(const struct gsp_top_layout *layout, unsigned x)
{
    for (unsigned i = 0; i < GSP_TOP_COLUMNS; i++)
        if (x >= layout->start[i] && x < layout->start[i] + layout->width[i])
            return (enum gsp_top_column)i;
    return GSP_TOP_COLUMNS;
}

void gsp_tui__text_fit(struct gsp_buf *out, struct gsp_sv text, size_t width, bool right)
{
    size_t cells = gsp_width(text);
    if (cells <= width) {
        if (right)
            gsp_buf_printf(out, "%*s", (int)(width - cells), "");
        gsp_buf_putsv(out, text);
        if (!right)
            gsp_buf_printf(out, "%*s", (int)(width - cells), "");
        return;
    }
    size_t used = 0;
    while (width > 0 && used + 1 < width) {
        struct gsp_sv rest = text;
        size_t next = gsp_width_step(&rest);
        if (used + next + 1 > width)
            break;
        gsp_buf_put(out, text.p, text.len - rest.len);
        text = rest;
        used += next;
    }
    if (width > 0)
        gsp_buf_printf(out, "~%*s", (int)(width - used - 1), "");
}

void gsp_tui__text_fit_end(struct gsp_buf *out, struct gsp_sv text, size_t width)
{
    size_t cells = gsp_width(text);
    if (cells <= width || width == 0) {
        gsp_tui__text_fit(out, text, width, false);
        return;
    }
    while (cells + 1 > width)
        cells -= gsp_width_step(&text);
    gsp_buf_putc(out, '~');
    gsp_tui__text_fit(out, text, width - 1, false);
}

static const char *clock_text(int64_t ns, char *out, size_t cap)
{
    int64_t s = ns / GSP_NS_PER_S;
    if (s >= 3600)
        snprintf(out, cap, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(out, cap, "%d:%02d.%d", (int)(s / 60), (int)(s % 60),
                 (int)(ns % GSP_NS_PER_S / (100 * GSP_NS_PER_MS)));
    return out;
}

void gsp_tui__line_title(const struct gsp_top_facts *facts, struct gsp_buf *out)
{
    char now[REPLAY_TEXT_SIZE];
    char end[REPLAY_TEXT_SIZE];
    gsp_buf_puts(out, facts->is_replay ? "gsprof replay  " : "gsprof top  ");
    gsp_buf_puts(out, clock_text(facts->time_ns, now, sizeof(now)));
    if (facts->is_replay)
        gsp_buf_printf(out, " of %s", clock_text(facts->duration_ns, end, sizeof(end)));
    if (facts->is_ended)
        gsp_buf_puts(out, "  ENDED");
    else if (facts->is_paused)
        gsp_buf_puts(out, "  PAUSED");
    if (facts->pid > 0)
        gsp_buf_printf(out, "  pid %" PRId32, facts->pid);
    gsp_buf_puts(out, "  ");
    gsp_buf_term(out, gsp_sv_of(facts->title));
}

void gsp_tui__line_facts(const struct gsp_top_facts *facts, struct gsp_buf *out)
{
    const struct {
        uint64_t n;
        const char *what;
    } losses[] = {{facts->losses.torn, "torn"},
                  {facts->losses.late, "late"},
                  {facts->losses.failed, "failed"}};
    bool any = false;
    gsp_buf_printf(out, "GIL %.0f%%  active %.0f%%  threads %" PRIu32 "  processes %" PRIu32,
                   facts->gil_pct, facts->active_pct, facts->threads, facts->processes);
    gsp_buf_puts(out, "  samples ");
    gsp_model_count_put(facts->samples, out);
    gsp_buf_puts(out, "  lost ");
    for (size_t i = 0; i < GSP_COUNT(losses); i++) {
        if (losses[i].n == 0)
            continue;
        gsp_buf_puts(out, any ? ", " : "");
        gsp_model_count_put(losses[i].n, out);
        gsp_buf_printf(out, " %s", losses[i].what);
        any = true;
    }
    if (!any)
        gsp_buf_puts(out, "none");
}

void gsp_tui__line_machine(const struct gsp_top_facts *facts, struct gsp_buf *out)
{
    const struct gsp_machine *machine = &facts->machine;
    gsp_buf_puts(out, "machine: CPU ");
    if (machine->has_cpu)
        gsp_buf_printf(out, "%.0f%%", machine->cpu_pct);
    else
        gsp_buf_puts(out, "n/a");
    if (machine->cores)
        gsp_buf_printf(out, " of %" PRIu32 " cores", machine->cores);
    gsp_buf_puts(out, "  memory ");
    if (machine->has_memory) {
        gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)machine->memory_used_bytes, out);
        gsp_buf_puts(out, " of ");
        gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)machine->memory_total_bytes, out);
    } else {
        gsp_buf_puts(out, "n/a");
    }
}

void gsp_tui__line_gpu(const struct gsp_top_facts *facts, struct gsp_buf *out)
{
    const struct gsp_machine *machine = &facts->machine;
    gsp_buf_puts(out, machine->gpu_asked && !machine->has_gpu ? "  GPU none" : "  GPU n/a");
}

void gsp_tui__line_query(const struct gsp_top *top, const struct gsp_top_query *query,
                         struct gsp_buf *out)
{
    const struct gsp_profile *profile = gsp_tui__top_profile(top);
    gsp_auto_buf name = {0};
    gsp_buf_printf(out, "%s of %s by %s", query->tree ? "tree" : "list",
                   query->view.by_function ? "functions" : "lines",
                   gsp_tui_top_column_name(query->sort));
    if (query->process != GSP_NO_INDEX) {
        gsp_buf_puts(out, "  process ");
        gsp_tui__top_process_name(profile, query->process, &name);
        gsp_buf_term(out, gsp_buf_sv(&name));
    }
    gsp_buf_clear(&name);
    if (query->thread != GSP_NO_INDEX) {
        gsp_buf_puts(out, "  thread ");
        gsp_tui__top_thread_name(profile, query->thread, &name);
        gsp_buf_term(out, gsp_buf_sv(&name));
    }
    if (query->filter[0]) {
        gsp_buf_puts(out, "  filter ");
        gsp_buf_term(out, gsp_sv_of(query->filter));
    }
}

void gsp_tui__line_columns(const struct gsp_top_layout *layout, enum gsp_top_column sort,
                           struct gsp_buf *out)
{
    static const char *const TITLES[GSP_TOP_COLUMNS] = {"own %",      "total %",  "own time",
                                                        "total time", "function", "file:line"};
    for (unsigned i = 0; i < GSP_TOP_COLUMNS; i++) {
        char title[24];
        /* A mark, because colour alone is not enough. */
        snprintf(title, sizeof(title), "%s%s", TITLES[i], i == sort ? "*" : "");
        if (i >= GSP_TOP_FUNCTION)
            gsp_buf_putc(out, ' ');
        gsp_tui__text_fit(out, gsp_sv_of(title), layout->width[i], i < GSP_TOP_FUNCTION);
    }
}

static void put_pct(struct gsp_buf *out, double pct, size_t width)
{
    gsp_auto_buf text = {0};
    gsp_model_percent_put(pct, &text);
    gsp_tui__text_fit(out, gsp_buf_sv(&text), width, true);
}

static void put_weight(struct gsp_buf *out, enum gsp_unit unit, int64_t weight, size_t width)
{
    gsp_auto_buf text = {0};
    if (unit == GSP_UNIT_COUNT)
        gsp_model_count_put(weight > 0 ? (uint64_t)weight : 0, &text);
    else
        gsp_model_amount_put(unit, weight, &text);
    gsp_tui__text_fit(out, gsp_buf_sv(&text), width, true);
}

/* The indentation of a row in a tree. A deep row shows its depth instead. */
static void put_indent(struct gsp_buf *out, const struct gsp_top_row *row, unsigned width)
{
    if (row->depth * 2 <= width / 2)
        gsp_buf_printf(out, "%*s", (int)row->depth * 2, "");
    else
        gsp_buf_printf(out, "%*" PRIu32 " ", (int)(width / 2) - 1, row->depth);
    const char *mark = row->is_open ? "- " : "+ ";
    gsp_buf_puts(out, row->has_children ? mark : "  ");
}

void gsp_tui__line_row(const struct gsp_top_layout *layout, const struct gsp_profile *profile,
                       const struct gsp_top_query *query, const struct gsp_top_row *row,
                       struct gsp_buf *out)
{
    enum gsp_unit unit = gsp_model_profile_meta_get(profile)->unit;
    gsp_auto_buf raw = {0};
    gsp_auto_buf text = {0};
    put_pct(out, row->own_pct, layout->width[GSP_TOP_OWN_PCT]);
    put_pct(out, row->total_pct, layout->width[GSP_TOP_TOTAL_PCT]);
    put_weight(out, unit, row->own_weight, layout->width[GSP_TOP_OWN]);
    put_weight(out, unit, row->total_weight, layout->width[GSP_TOP_TOTAL]);
    if (query->tree)
        put_indent(&text, row, layout->width[GSP_TOP_FUNCTION]);
    gsp_tui__top_row_name(profile, row, &raw);
    gsp_buf_term(&text, gsp_buf_sv(&raw));
    gsp_buf_putc(out, ' ');
    if (row->kind != GSP_TOP_ROW_FRAME) { /* has no file: use both columns */
        size_t room = layout->width[GSP_TOP_FUNCTION] + 1 + layout->width[GSP_TOP_FILE];
        gsp_tui__text_fit(out, gsp_buf_sv(&text), room, false);
        return;
    }
    gsp_tui__text_fit(out, gsp_buf_sv(&text), layout->width[GSP_TOP_FUNCTION], false);
    gsp_buf_clear(&raw);
    gsp_buf_clear(&text);
    gsp_tui__row_location(profile, &query->view, row, &raw);
    gsp_buf_term(&text, gsp_buf_sv(&raw));
    gsp_buf_putc(out, ' ');
    /* The line number is at the end, and matters more than the start of the path. */
    gsp_tui__text_fit_end(out, gsp_buf_sv(&text), layout->width[GSP_TOP_FILE]);
}
