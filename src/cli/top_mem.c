/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/top_session.h"
#include "memlog/group.h"
#include "model/tree.h"
#include "proc/task.h"
#include "record/memory_poll.h"
#include "record/memory_switch.h"
#include "record/memory_tree.h"
#include "tui/mem_table.h"
#include "tui/screen.h"

#define LIMIT_NS  (10 * GSP_NS_PER_S)
#define TEXT_ROWS 20
#define KEY_MS    100
#define KEYS      "q:quit space:pause 1:held 2:growth 3:allocated up/down:scroll"

/* What one line came to at the look before. */
struct line {
    uint32_t frame;
    int64_t held;
    int64_t blocks;
    uint64_t allocated;
    int64_t held_before;
    uint64_t allocated_before;
};

struct memview {
    struct gsp_top_session *session;
    struct gsp_memtake take;
    struct gsp_memtree tree;
    struct gsp_profile *profile;
    struct gsp_memlog_stacks *stacks; /* by the processes of take */
    size_t stack_count;
    struct gsp_hmap lines_by_key;
    struct line *lines;
    size_t line_count;
    struct gsp_memtop top;
    struct gsp_buf names;
    size_t first; /* row that is shown first */
    int64_t start_ns;
    int64_t last_ns;
};

static int no_memory(struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
}

/* --------------------------------------------------------------------------------------- sums */

static struct line *line_of(struct memview *view, uint32_t stack)
{
    const uint32_t id = gsp_memlog_group_frame(view->profile, stack);
    const struct gsp_frame *frame = gsp_model_profile_frame_at(view->profile, id);
    const uint64_t a = frame ? (uint64_t)frame->name << 32 | frame->line : 0;
    const uint64_t b = frame ? frame->file : 0;
    const uint32_t *known = gsp_hmap_get(&view->lines_by_key, a, b);
    if (known)
        return &view->lines[*known];
    struct line *lines = realloc(view->lines, (view->line_count + 1) * sizeof(*lines));
    if (!lines)
        return NULL;
    view->lines = lines;
    if (!gsp_hmap_put(&view->lines_by_key, a, b, (uint32_t)view->line_count))
        return NULL;
    lines[view->line_count] = (struct line){.frame = id};
    return &lines[view->line_count++];
}

static int add_process(struct memview *view, size_t i, struct gsp_err *err)
{
    const struct gsp_memlog_table *table = view->take.at[i].table;
    struct gsp_memlog_stacks *stacks = &view->stacks[i];
    const struct gsp_process process = {.pid = view->take.at[i].pid, .ppid = -1};
    int rc = GSP_OK;
    if (view->take.at[i].is_fresh) {
        gsp_memlog_stacks_free(stacks);
        rc = gsp_model_profile_process(view->profile, &process, &stacks->process, err);
    }
    if (rc == GSP_OK)
        rc = gsp_memlog_stacks_grow(stacks, table, view->profile, err);
    for (size_t k = 0; rc == GSP_OK && k < gsp_memlog_table_site_count(table); k++) {
        const struct gsp_memlog_site_counts *site = gsp_memlog_table_site(table, k);
        uint32_t thread = 0;
        uint32_t stack = 0;
        gsp_memlog_stacks_at(stacks, site->node, &thread, &stack);
        struct line *line = line_of(view, stack);
        if (!line)
            return no_memory(err);
        line->held += (int64_t)gsp_memlog_count_live(&site->count);
        line->blocks += (int64_t)(site->count.alloc_count - site->count.free_count);
        line->allocated += site->count.alloc_bytes;
    }
    const struct gsp_memlog_table_facts *facts = gsp_memlog_table_facts(table);
    const int64_t rss = gsp_memtake_rss(view->take.at[i].pid);
    view->top.processes++;
    view->top.held_bytes += (int64_t)facts->live_bytes;
    view->top.peak_bytes += (int64_t)facts->peak_bytes;
    view->top.mode = gsp_wire_memory_mode_name(facts->mode);
    view->top.rss_bytes = rss >= 0 && view->top.rss_bytes >= 0 ? view->top.rss_bytes + rss : -1;
    return rc;
}

static int make_rows(struct memview *view, double seconds, struct gsp_err *err)
{
    struct gsp_memtop *top = &view->top;
    struct gsp_memtop_row *rows = realloc(top->rows, (view->line_count + 1) * sizeof(*rows));
    if (!rows)
        return no_memory(err);
    top->rows = rows;
    top->count = 0;
    gsp_buf_clear(&view->names);
    for (size_t i = 0; i < view->line_count; i++) {
        const struct line *line = &view->lines[i];
        struct gsp_memtop_row *row = &rows[top->count];
        const size_t at = view->names.len;
        if (line->held == 0 && line->allocated == line->allocated_before)
            continue;
        if (line->frame)
            gsp_model_frame_label(&(struct gsp_view_options){0}, view->profile, line->frame,
                                  &view->names);
        else
            gsp_buf_puts(&view->names, "(stack not known)");
        /* Places first: the text moves while it grows. */
        *row = (struct gsp_memtop_row){
            .name = {NULL, view->names.len - at}, .held_bytes = line->held, .blocks = line->blocks};
        if (seconds > 0) {
            row->growth = (double)(line->held - line->held_before) / seconds;
            row->rate = (double)(line->allocated - line->allocated_before) / seconds;
        }
        top->count++;
    }
    size_t at = 0;
    for (size_t i = 0; i < top->count; i++) {
        rows[i].name.p = view->names.p + at;
        at += rows[i].name.len;
    }
    if (view->names.failed)
        return no_memory(err);
    gsp_tui_memtop_sort(top);
    return GSP_OK;
}

static int look(struct memview *view, struct gsp_err *err)
{
    const int64_t now_ns = gsp_now_ns();
    for (size_t i = 0; i < view->line_count; i++) {
        struct line *line = &view->lines[i];
        line->held_before = line->held;
        line->allocated_before = line->allocated;
        line->held = line->blocks = 0;
        line->allocated = 0;
    }
    view->top.processes = 0;
    view->top.held_bytes = view->top.peak_bytes = view->top.rss_bytes = 0;
    view->top.elapsed_ns = now_ns - view->start_ns;
    gsp_memtree_round(&view->tree, now_ns);
    int rc = gsp_memtake_round(&view->take, now_ns, err);
    if (rc == GSP_OK && view->take.count > view->stack_count) {
        struct gsp_memlog_stacks *stacks =
            realloc(view->stacks, view->take.count * sizeof(*view->stacks));
        if (!stacks)
            return no_memory(err);
        view->stacks = stacks;
        while (view->stack_count < view->take.count)
            stacks[view->stack_count++] = GSP_MEMSTACKS_NONE;
    }
    for (size_t i = 0; rc == GSP_OK && i < view->take.count; i++)
        if (view->take.at[i].table)
            rc = add_process(view, i, err);
    const double seconds = view->last_ns ? (double)(now_ns - view->last_ns) / 1e9 : 0;
    view->last_ns = now_ns;
    return rc == GSP_OK ? make_rows(view, seconds, err) : rc;
}

/* --------------------------------------------------------------------------------------- shown */

static int print(struct memview *view, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = view->session->opts;
    gsp_auto_buf text = {0};
    struct gsp_term out;
    gsp_term_init(&out, STDOUT_FILENO, "never");
    if (opts->json) {
        gsp_tui_memtop_json(&view->top, (size_t)opts->rows, &text);
    } else {
        if (view->session->printed)
            gsp_buf_putc(&text, '\n');
        gsp_tui_memtop_text(&view->top, out.width, opts->rows ? (size_t)opts->rows : TEXT_ROWS,
                            &text);
    }
    view->session->printed++;
    return gsp_file_put(NULL, false, &text, err);
}

static int draw(struct memview *view, struct gsp_err *err)
{
    unsigned width = 0;
    unsigned height = 0;
    gsp_tui_screen_size(&width, &height);
    const size_t room = height > GSP_MEMTOP_HEAD_LINES + 1 ? height - GSP_MEMTOP_HEAD_LINES - 1 : 0;
    const size_t most = view->top.count > room ? view->top.count - room : 0;
    view->first = view->first < most ? view->first : most;
    const size_t rows = view->top.count < room ? view->top.count : room;
    struct gsp_screen_lines lines = {.count = GSP_MEMTOP_HEAD_LINES + rows + 1,
                                     .titles = GSP_MEMTOP_HEAD_LINES - 1};
    lines.at = calloc(lines.count, sizeof(*lines.at));
    if (!lines.at)
        return no_memory(err);
    for (size_t i = 0; i < GSP_MEMTOP_HEAD_LINES; i++)
        gsp_tui_memtop_head_line(&view->top, i, &lines.at[i]);
    for (size_t i = 0; i < rows; i++)
        gsp_tui_memtop_row_line(&view->top.rows[view->first + i],
                                &lines.at[GSP_MEMTOP_HEAD_LINES + i]);
    gsp_buf_puts(&lines.at[lines.count - 1], KEYS);
    gsp_tui_screen_draw_lines(&lines);
    for (size_t i = 0; i < lines.count; i++)
        gsp_buf_free(&lines.at[i]);
    free(lines.at);
    return GSP_OK;
}

/* True when the view looks different now. */
static bool press(struct memview *view, const struct gsp_ui_key *key)
{
    const size_t page = 10;
    switch (key->code) {
    case 'q':
    case GSP_KEY_ESCAPE:
        gsp_top_stop = 1;
        break;
    case ' ':
        view->top.is_paused = !view->top.is_paused;
        break;
    case '1':
    case '2':
    case '3':
        view->top.sort = (enum gsp_memtop_column)(key->code - '1');
        gsp_tui_memtop_sort(&view->top);
        break;
    case GSP_KEY_DOWN:
    case GSP_KEY_WHEEL_DOWN:
        view->first++;
        break;
    case GSP_KEY_UP:
    case GSP_KEY_WHEEL_UP:
        view->first -= view->first > 0;
        break;
    case GSP_KEY_PAGE_DOWN:
        view->first += page;
        break;
    case GSP_KEY_PAGE_UP:
        view->first -= view->first < page ? view->first : page;
        break;
    case GSP_KEY_HOME:
        view->first = 0;
        break;
    default:
        return key->code == GSP_KEY_RESIZE;
    }
    return true;
}

/* Until the next look is due. */
static int wait_screen(struct memview *view, int64_t until_ns, struct gsp_err *err)
{
    int rc = GSP_OK;
    while (rc == GSP_OK && !gsp_top_stop && (gsp_now_ns() < until_ns || view->top.is_paused)) {
        struct gsp_ui_key key;
        if (gsp_tui_screen_key(KEY_MS, &key) && press(view, &key))
            rc = draw(view, err);
    }
    return rc;
}

static bool runs(const struct memview *view)
{
    struct gsp_procinfo info;
    return gsp_proc_info(view->session->pid, &info, NULL) == GSP_OK && info.state != 'Z';
}

static void wait_printed(int64_t until_ns)
{
    int64_t left_ns = until_ns - gsp_now_ns();
    while (!gsp_top_stop && left_ns > 0) {
        const struct timespec pause = {left_ns / GSP_NS_PER_S, left_ns % GSP_NS_PER_S};
        gsp_ignore(nanosleep(&pause, NULL) < 0);
        left_ns = until_ns - gsp_now_ns();
    }
}

static int watch(struct memview *view, struct gsp_err *err)
{
    struct gsp_top_session *session = view->session;
    const struct gsp_top_opts *opts = session->opts;
    const int64_t end_ns =
        opts->sampling.duration_ns ? view->start_ns + opts->sampling.duration_ns : INT64_MAX;
    int rc = look(view, err);
    int64_t due_ns = gsp_now_ns();
    while (rc == GSP_OK && !gsp_top_stop && runs(view) && gsp_now_ns() < end_ns) {
        due_ns += opts->delay_ns;
        if (!session->is_printed)
            rc = draw(view, err);
        if (rc == GSP_OK && !session->is_printed)
            rc = wait_screen(view, due_ns, err);
        else
            wait_printed(due_ns);
        if (rc < 0 || gsp_top_stop)
            break;
        rc = look(view, err);
        if (rc == GSP_OK && session->is_printed)
            rc = print(view, err);
        if (opts->once || (opts->count && session->printed >= opts->count))
            break;
    }
    return rc;
}

static void view_free(struct memview *view)
{
    for (size_t i = 0; i < view->stack_count; i++)
        gsp_memlog_stacks_free(&view->stacks[i]);
    free(view->stacks);
    free(view->lines);
    free(view->top.rows);
    gsp_buf_free(&view->names);
    gsp_hmap_free(&view->lines_by_key);
    gsp_model_profile_free(view->profile);
    gsp_memtake_free(&view->take);
    gsp_memtree_free(&view->tree);
}

int gsp_top_run_mem(struct gsp_top_session *session)
{
    gsp_auto_buf title = {0};
    struct gsp_err err = {0};
    struct memview view = {
        .session = session,
        .start_ns = gsp_now_ns(),
        .tree = {.root = {.pid = session->pid, .limit_ns = LIMIT_NS},
                 .has_children = session->opts->sampling.subprocesses},
        .take = {.pid = session->pid, .subprocesses = session->opts->sampling.subprocesses}};
    view.top.pid = (int32_t)session->pid;
    view.top.mode = gsp_wire_memory_mode_name(GSP_MEMORY_OFF);
    gsp_proc_cmdline(session->pid, &title);
    view.top.title = gsp_buf_sv(&title);
    int rc = gsp_model_profile_new(false, &view.profile, &err);
    gsp_top_catch_signals();
    if (rc == GSP_OK)
        rc = gsp_memtree_on(&view.tree, &err);
    const bool is_refused = rc < 0;
    if (rc == GSP_OK)
        rc = gsp_top_screen_begin(session, &err);
    if (rc == GSP_OK)
        rc = watch(&view, &err);
    gsp_tui_screen_close();
    gsp_memtree_off(&view.tree);
    view_free(&view);
    if (is_refused)
        return gsp_cli_fail(session->parsed, &(struct gsp_hint_context){.pid = session->pid}, &err);
    return rc < 0 ? gsp_top_fail(session, &err) : 0;
}
