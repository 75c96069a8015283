/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/time.h"
#include "cli/hint.h"
#include "cli/top_view.h"
#include "memlog/group.h"
#include "model/tree.h"
#include "proc/task.h"
#include "record/memory_poll.h"
#include "record/memory_tree.h"
#include "tui/mem_table.h"
#include "tui/screen.h"

#define LIMIT_NS  (10 * GSP_NS_PER_S)
#define TEXT_ROWS 20
#define KEY_MS    100
#define KEYS      "q:quit space:pause 1:held 2:growth 3:allocated up/down:scroll"

/* The memory of one line, now and at the previous snapshot. */
struct line {
    uint32_t frame;
    int64_t held;
    int64_t blocks;
    uint64_t allocated;
    int64_t held_before;
    uint64_t allocated_before;
};

struct memview {
    struct gsp_top_view *view;
    struct gsp_memory_poll take;
    struct gsp_memory_tree tree;
    struct gsp_profile *profile;
    struct gsp_memlog_stacks *stacks; /* in the order of the processes in take */
    size_t stack_count;
    struct gsp_hmap lines_by_key;
    struct line *lines;
    size_t line_count;
    struct gsp_memtop top;
    struct gsp_buf names;
    size_t first; /* the first visible row */
    int64_t start_ns;
    int64_t last_ns;
};

/* --------------------------------------------------------------------------------------- sums */

static struct line *line_of(struct memview *mem, uint32_t stack)
{
    const uint32_t id = gsp_memlog_group_frame(mem->profile, stack);
    const struct gsp_frame *frame = gsp_model_profile_frame_at(mem->profile, id);
    const uint64_t a = frame ? (uint64_t)frame->name << 32 | frame->line : 0;
    const uint64_t b = frame ? frame->file : 0;
    const uint32_t *known = gsp_hmap_get(&mem->lines_by_key, a, b);
    if (known)
        return &mem->lines[*known];
    if (!gsp_array_fit_next(&mem->lines, mem->line_count) ||
        !gsp_hmap_put(&mem->lines_by_key, a, b, (uint32_t)mem->line_count))
        return NULL;
    mem->lines[mem->line_count] = (struct line){.frame = id};
    return &mem->lines[mem->line_count++];
}

static int add_process(struct memview *mem, size_t i, struct gsp_err *err)
{
    const struct gsp_memlog_table *table = mem->take.at[i].table;
    struct gsp_memlog_stacks *stacks = &mem->stacks[i];
    const struct gsp_process process = {.pid = mem->take.at[i].pid, .ppid = -1};
    int rc = GSP_OK;
    if (mem->take.at[i].is_fresh) {
        gsp_memlog_stacks_free(stacks);
        rc = gsp_model_profile_process(mem->profile, &process, &stacks->process, err);
    }
    if (rc == GSP_OK)
        rc = gsp_memlog_stacks_grow(stacks, table, mem->profile, err);
    for (size_t k = 0; rc == GSP_OK && k < gsp_memlog_table_site_count(table); k++) {
        const struct gsp_memlog_site_counts *site = gsp_memlog_table_site(table, k);
        uint32_t thread = 0;
        uint32_t stack = 0;
        gsp_memlog_stacks_at(stacks, site->node, &thread, &stack);
        struct line *line = line_of(mem, stack);
        if (!line)
            return gsp_err_nomem(err);
        line->held += (int64_t)gsp_memlog_count_live(&site->count);
        line->blocks += (int64_t)(site->count.alloc_count - site->count.free_count);
        line->allocated += site->count.alloc_bytes;
    }
    const struct gsp_memlog_table_facts *facts = gsp_memlog_table_facts(table);
    const int64_t rss = gsp_record_process_rss(mem->take.at[i].pid);
    mem->top.processes++;
    mem->top.held_bytes += (int64_t)facts->live_bytes;
    mem->top.peak_bytes += (int64_t)facts->peak_bytes;
    mem->top.mode = gsp_wire_memory_mode_name(facts->mode);
    mem->top.rss_bytes = rss >= 0 && mem->top.rss_bytes >= 0 ? mem->top.rss_bytes + rss : -1;
    return rc;
}

static int make_rows(struct memview *mem, double seconds, struct gsp_err *err)
{
    struct gsp_memtop *top = &mem->top;
    struct gsp_memtop_row *rows = realloc(top->rows, (mem->line_count + 1) * sizeof(*rows));
    if (!rows)
        return gsp_err_nomem(err);
    top->rows = rows;
    top->count = 0;
    gsp_buf_clear(&mem->names);
    for (size_t i = 0; i < mem->line_count; i++) {
        const struct line *line = &mem->lines[i];
        struct gsp_memtop_row *row = &rows[top->count];
        const size_t at = mem->names.len;
        if (line->held == 0 && line->allocated == line->allocated_before)
            continue;
        if (line->frame)
            gsp_model_frame_label(&(struct gsp_view_options){0}, mem->profile, line->frame,
                                  &mem->names);
        else
            gsp_buf_puts(&mem->names, "(unknown stack)");
        /* Set only the lengths: the buffer moves while it grows. */
        *row = (struct gsp_memtop_row){
            .name = {NULL, mem->names.len - at}, .held_bytes = line->held, .blocks = line->blocks};
        if (seconds > 0) {
            row->growth = (double)(line->held - line->held_before) / seconds;
            row->rate = (double)(line->allocated - line->allocated_before) / seconds;
        }
        top->count++;
    }
    size_t at = 0;
    for (size_t i = 0; i < top->count; i++) {
        rows[i].name.p = mem->names.p + at;
        at += rows[i].name.len;
    }
    if (mem->names.failed)
        return gsp_err_nomem(err);
    gsp_tui_memtop_sort(top);
    return GSP_OK;
}

static int take_snapshot(struct memview *mem, struct gsp_err *err)
{
    const int64_t now_ns = gsp_now_ns();
    for (size_t i = 0; i < mem->line_count; i++) {
        struct line *line = &mem->lines[i];
        line->held_before = line->held;
        line->allocated_before = line->allocated;
        line->held = line->blocks = 0;
        line->allocated = 0;
    }
    mem->top.processes = 0;
    mem->top.held_bytes = mem->top.peak_bytes = mem->top.rss_bytes = 0;
    mem->top.elapsed_ns = now_ns - mem->start_ns;
    gsp_record_memory_tree_update(&mem->tree, now_ns);
    int rc = gsp_record_memory_poll_read(&mem->take, now_ns, err);
    while (rc == GSP_OK && mem->take.count > mem->stack_count) {
        if (!gsp_array_fit_next(&mem->stacks, mem->stack_count))
            return gsp_err_nomem(err);
        mem->stacks[mem->stack_count++] = GSP_MEMSTACKS_NONE;
    }
    for (size_t i = 0; rc == GSP_OK && i < mem->take.count; i++)
        if (mem->take.at[i].table)
            rc = add_process(mem, i, err);
    const double seconds = mem->last_ns ? (double)(now_ns - mem->last_ns) / 1e9 : 0;
    mem->last_ns = now_ns;
    return rc == GSP_OK ? make_rows(mem, seconds, err) : rc;
}

/* -------------------------------------------------------------------------------------- output */

static int print(struct memview *mem, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = mem->view->opts;
    gsp_auto_buf text = {0};
    struct gsp_term out;
    gsp_cli__term_init(&out, STDOUT_FILENO, "never");
    if (opts->json) {
        gsp_tui_memtop_json(&mem->top, (size_t)opts->rows, &text);
    } else {
        if (mem->view->printed)
            gsp_buf_putc(&text, '\n');
        gsp_tui_memtop_text(&mem->top, out.width, opts->rows ? (size_t)opts->rows : TEXT_ROWS,
                            &text);
    }
    mem->view->printed++;
    return gsp_file_put(NULL, false, &text, err);
}

static int draw(struct memview *mem, struct gsp_err *err)
{
    unsigned width = 0;
    unsigned height = 0;
    gsp_tui_screen_size(&width, &height);
    const size_t fit = height > GSP_MEMTOP_HEAD_LINES + 1 ? height - GSP_MEMTOP_HEAD_LINES - 1 : 0;
    const size_t last = mem->top.count > fit ? mem->top.count - fit : 0;
    mem->first = mem->first < last ? mem->first : last;
    const size_t rows = mem->top.count < fit ? mem->top.count : fit;
    struct gsp_screen_lines lines = {.count = GSP_MEMTOP_HEAD_LINES + rows + 1,
                                     .titles = GSP_MEMTOP_HEAD_LINES - 1};
    lines.at = calloc(lines.count, sizeof(*lines.at));
    if (!lines.at)
        return gsp_err_nomem(err);
    for (size_t i = 0; i < GSP_MEMTOP_HEAD_LINES; i++)
        gsp_tui_memtop_head_line(&mem->top, i, &lines.at[i]);
    for (size_t i = 0; i < rows; i++)
        gsp_tui_memtop_row_line(&mem->top.rows[mem->first + i],
                                &lines.at[GSP_MEMTOP_HEAD_LINES + i]);
    gsp_buf_puts(&lines.at[lines.count - 1], KEYS);
    gsp_tui_screen_draw_lines(&lines);
    for (size_t i = 0; i < lines.count; i++)
        gsp_buf_free(&lines.at[i]);
    free(lines.at);
    return GSP_OK;
}

/* Returns true if the screen must be redrawn. */
static bool press(struct memview *mem, const struct gsp_ui_key *key)
{
    const size_t page = 10;
    switch (key->code) {
    case 'q':
    case GSP_KEY_ESCAPE:
        gsp_top_stop = 1;
        break;
    case ' ':
        mem->top.is_paused = !mem->top.is_paused;
        break;
    case '1':
    case '2':
    case '3':
        mem->top.sort = (enum gsp_memtop_column)(key->code - '1');
        gsp_tui_memtop_sort(&mem->top);
        break;
    case GSP_KEY_DOWN:
    case GSP_KEY_WHEEL_DOWN:
        mem->first++;
        break;
    case GSP_KEY_UP:
    case GSP_KEY_WHEEL_UP:
        mem->first -= mem->first > 0;
        break;
    case GSP_KEY_PAGE_DOWN:
        mem->first += page;
        break;
    case GSP_KEY_PAGE_UP:
        mem->first -= mem->first < page ? mem->first : page;
        break;
    case GSP_KEY_HOME:
        mem->first = 0;
        break;
    default:
        return key->code == GSP_KEY_RESIZE;
    }
    return true;
}

/* Handles keys until the next snapshot is due. */
static int wait_screen(struct memview *mem, int64_t until_ns, struct gsp_err *err)
{
    int rc = GSP_OK;
    while (rc == GSP_OK && !gsp_top_stop && (gsp_now_ns() < until_ns || mem->top.is_paused)) {
        struct gsp_ui_key key;
        if (gsp_tui_screen_key(KEY_MS, &key) && press(mem, &key))
            rc = draw(mem, err);
    }
    return rc;
}

static bool is_running(const struct memview *mem)
{
    struct gsp_procinfo info;
    return gsp_proc_info(mem->view->pid, &info, NULL) == GSP_OK && info.state != 'Z';
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

static int watch(struct memview *mem, struct gsp_err *err)
{
    struct gsp_top_view *view = mem->view;
    const struct gsp_top_opts *opts = view->opts;
    const int64_t end_ns =
        opts->sampling.duration_ns ? mem->start_ns + opts->sampling.duration_ns : INT64_MAX;
    int rc = take_snapshot(mem, err);
    int64_t due_ns = gsp_now_ns();
    while (rc == GSP_OK && !gsp_top_stop && is_running(mem) && gsp_now_ns() < end_ns) {
        due_ns += opts->delay_ns;
        if (!view->is_printed)
            rc = draw(mem, err);
        if (rc == GSP_OK && !view->is_printed)
            rc = wait_screen(mem, due_ns, err);
        else
            wait_printed(due_ns);
        if (rc < 0 || gsp_top_stop)
            break;
        rc = take_snapshot(mem, err);
        if (rc == GSP_OK && view->is_printed)
            rc = print(mem, err);
        if (opts->once || (opts->count && view->printed >= opts->count))
            break;
    }
    return rc;
}

static void view_free(struct memview *mem)
{
    for (size_t i = 0; i < mem->stack_count; i++)
        gsp_memlog_stacks_free(&mem->stacks[i]);
    free(mem->stacks);
    free(mem->lines);
    free(mem->top.rows);
    gsp_buf_free(&mem->names);
    gsp_hmap_free(&mem->lines_by_key);
    gsp_model_profile_free(mem->profile);
    gsp_record_memory_poll_free(&mem->take);
    gsp_record_memory_tree_free(&mem->tree);
}

int gsp_cli__top_run_mem(struct gsp_top_view *view)
{
    gsp_auto_buf title = {0};
    struct gsp_err err = {0};
    struct memview mem = {
        .view = view,
        .start_ns = gsp_now_ns(),
        .tree = {.root = {.pid = view->pid, .limit_ns = LIMIT_NS},
                 .has_children = view->opts->sampling.subprocesses},
        .take = {.pid = view->pid, .subprocesses = view->opts->sampling.subprocesses}};
    mem.top.pid = (int32_t)view->pid;
    mem.top.mode = gsp_wire_memory_mode_name(GSP_MEMORY_OFF);
    gsp_proc_cmdline(view->pid, &title);
    mem.top.title = gsp_buf_sv(&title);
    int rc = gsp_model_profile_new(false, &mem.profile, &err);
    gsp_cli__top_catch_signals();
    if (rc == GSP_OK)
        rc = gsp_record_memory_tree_on(&mem.tree, &err);
    const bool is_refused = rc < 0;
    if (rc == GSP_OK)
        rc = gsp_cli__top_screen_begin(view, &err);
    if (rc == GSP_OK)
        rc = watch(&mem, &err);
    gsp_tui_screen_close();
    gsp_record_memory_tree_off(&mem.tree);
    view_free(&mem);
    if (is_refused)
        return gsp_cli__fail(view->parsed, &(struct gsp_hint_context){.pid = view->pid}, &err);
    return rc < 0 ? gsp_cli__top_fail(view, &err) : 0;
}
