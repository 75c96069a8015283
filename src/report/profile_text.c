/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/width.h"
#include "model/format.h"
#include "report/function_table.h"
#include "report/grid.h"
#include "report/profile.h"

#define PCT_COLUMNS    7U
#define AMOUNT_COLUMNS 8U
#define FACT_COLUMNS   10U

static void pad(struct gsp_buf *out, unsigned n)
{
    while (n-- > 0)
        gsp_buf_putc(out, ' ');
}

/* Appends the cell aligned to the right, and clears it. */
static void put_right(struct gsp_buf *out, struct gsp_buf *cell, unsigned width)
{
    unsigned used = gsp_width(gsp_buf_sv(cell));
    pad(out, used < width ? width - used : 1);
    gsp_buf_putsv(out, gsp_buf_sv(cell));
    gsp_buf_clear(cell);
}

static void put_pct(struct gsp_buf *out, struct gsp_buf *cell, double pct)
{
    gsp_model_percent_put(pct, cell);
    gsp_buf_putc(cell, '%');
    put_right(out, cell, PCT_COLUMNS);
}

/* The columns of functions. Text names the unit of samples in the heading; Markdown has it in the
 * cells. */
static struct gsp_report_grid function_grid(enum gsp_unit unit, bool is_markdown)
{
    const bool is_count = unit == GSP_UNIT_COUNT && !is_markdown;
    return (struct gsp_report_grid){
        .column_count = 6,
        .columns = {{is_markdown ? "own %" : "own", GSP_REPORT_GRID_NUMBER, PCT_COLUMNS},
                    {is_markdown ? "total %" : "total", GSP_REPORT_GRID_NUMBER, PCT_COLUMNS - 2},
                    {is_count ? "own spl" : "own", GSP_REPORT_GRID_NUMBER, AMOUNT_COLUMNS},
                    {is_count ? "total spl" : "total", GSP_REPORT_GRID_NUMBER, AMOUNT_COLUMNS},
                    {"function", GSP_REPORT_GRID_TEXT, 0},
                    {"file:line", GSP_REPORT_GRID_PATH, 0}}};
}

static void add_pct(struct gsp_report_grid *grid, double pct, bool is_markdown)
{
    gsp_model_percent_put(pct, &grid->cell);
    gsp_buf_puts(&grid->cell, is_markdown ? "" : "%");
    gsp_report_grid_cell(grid);
}

static void add_amount(struct gsp_report_grid *grid, enum gsp_unit unit, int64_t weight,
                       bool is_markdown)
{
    if (unit == GSP_UNIT_COUNT && !is_markdown)
        gsp_model_count_put(weight > 0 ? (uint64_t)weight : 0, &grid->cell);
    else
        gsp_model_amount_put(unit, weight, &grid->cell);
    gsp_report_grid_cell(grid);
}

static void add_functions(struct gsp_report_grid *grid, const struct gsp_profile *profile,
                          const struct gsp_view_options *view,
                          const struct gsp_function_table *table, size_t count, bool is_markdown)
{
    for (size_t i = 0; i < count; i++) {
        const struct gsp_function_row *row = &table->rows[i];
        add_pct(grid, gsp_report__percent_of(table->tree, row->own_weight, row->own_count),
                is_markdown);
        add_pct(grid, gsp_report__percent_of(table->tree, row->total_weight, row->total_count),
                is_markdown);
        add_amount(grid, table->unit, row->own_weight, is_markdown);
        add_amount(grid, table->unit, row->total_weight, is_markdown);
        gsp_report__function_put(profile, row, &grid->cell);
        gsp_report_grid_cell(grid);
        gsp_report__location_put(profile, view, row, &grid->cell);
        gsp_report_grid_cell(grid);
        gsp_report_grid_row(grid);
    }
}

static size_t rows_shown(const struct gsp_function_table *table,
                         const struct gsp_profile_report_opts *opts)
{
    return opts->limit > 0 && opts->limit < table->count ? opts->limit : table->count;
}

int gsp_report_profile_top(const struct gsp_profile *profile, const struct gsp_view_options *view,
                           const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                           struct gsp_err *err)
{
    struct gsp_function_table table;
    int rc = gsp_report__function_table_new(profile, view, opts->sort, &table, err);
    if (rc < 0)
        return rc;
    const size_t count = rows_shown(&table, opts);
    struct gsp_report_grid grid = function_grid(table.unit, false);
    add_functions(&grid, profile, view, &table, count, false);
    gsp_report_grid_text(&grid, gsp_report__table_width(opts), out);
    if (table.count > count)
        gsp_buf_printf(out, "  %zu more functions\n", table.count - count);
    gsp_report_grid_free(&grid);
    gsp_report__function_table_free(&table);
    return out->failed ? gsp_err_nomem(err) : GSP_OK;
}

int gsp_report_profile_markdown(const struct gsp_profile *profile,
                                const struct gsp_view_options *view,
                                const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                                struct gsp_err *err)
{
    struct gsp_function_table table;
    int rc = gsp_report__function_table_new(profile, view, opts->sort, &table, err);
    if (rc < 0)
        return rc;
    struct gsp_report_grid grid = function_grid(table.unit, true);
    add_functions(&grid, profile, view, &table, rows_shown(&table, opts), true);
    gsp_report_grid_markdown(&grid, out);
    gsp_report_grid_free(&grid);
    gsp_report__function_table_free(&table);
    return out->failed ? gsp_err_nomem(err) : GSP_OK;
}

/* A line of the tree that is not written yet. */
struct item {
    uint32_t node; /* 0: the line that sums up small nodes */
    uint32_t more; /* number of small nodes */
    uint32_t depth;
    uint64_t count;
    int64_t weight;
};

struct walk {
    const struct gsp_tree *tree;
    double min_pct;
    unsigned width;
    struct item *items; /* a stack: the last item is the next line */
    size_t count;
    size_t cap;
};

static bool push(struct walk *walk, struct item item)
{
    if (!gsp_array_fit(&walk->items, &walk->cap, walk->count + 1))
        return false;
    walk->items[walk->count++] = item;
    return true;
}

/* The lightest first: the last item of the stack is written first. */
static int compare_items(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return (x->node < y->node) - (x->node > y->node);
}

static bool push_children(struct walk *walk, uint32_t node)
{
    struct item small = {.depth = gsp_model_tree_at(walk->tree, node)->depth + 1};
    for (uint32_t i = gsp_model_tree_at(walk->tree, node)->first_child; i != 0;
         i = gsp_model_tree_at(walk->tree, i)->next_sibling) {
        const struct gsp_node *child = gsp_model_tree_at(walk->tree, i);
        if (gsp_report__percent_of(walk->tree, child->total_weight, child->total_count) <
            walk->min_pct) {
            small.more++;
            small.count = gsp_sum_u64(small.count, child->total_count);
            small.weight = gsp_sum_i64(small.weight, child->total_weight);
        }
    }
    /* No line if even their sum is below the threshold. */
    bool worth = gsp_report__percent_of(walk->tree, small.weight, small.count) >= walk->min_pct;
    if (small.more > 0 && worth && !push(walk, small))
        return false;
    size_t start = walk->count;
    for (uint32_t i = gsp_model_tree_at(walk->tree, node)->first_child; i != 0;
         i = gsp_model_tree_at(walk->tree, i)->next_sibling) {
        const struct gsp_node *child = gsp_model_tree_at(walk->tree, i);
        struct item item = {i, 0, child->depth, child->total_count, child->total_weight};
        if (gsp_report__percent_of(walk->tree, item.weight, item.count) >= walk->min_pct &&
            !push(walk, item))
            return false;
    }
    qsort(walk->items + start, walk->count - start, sizeof(*walk->items), compare_items);
    return true;
}

static void put_item(const struct walk *walk, const struct item *item, struct gsp_buf *cell,
                     struct gsp_buf *out)
{
    const struct gsp_node *node = gsp_model_tree_at(walk->tree, item->node);
    put_pct(out, cell, gsp_report__percent_of(walk->tree, item->weight, item->count));
    if (item->more > 0)
        pad(out, PCT_COLUMNS);
    else
        put_pct(out, cell, gsp_report__percent_of(walk->tree, node->self_weight, node->self_count));
    pad(out, 2);
    unsigned room = walk->width - 2 * PCT_COLUMNS - 2;
    /* The indentation of deep frames is limited; a number shows their depth. */
    unsigned indent = item->depth;
    if (indent > room / 3) {
        gsp_buf_printf(cell, "%" PRIu32 "> ", item->depth);
        indent = room / 3;
    }
    pad(out, indent);
    room -= indent + (unsigned)cell->len;
    gsp_buf_putsv(out, gsp_buf_sv(cell));
    gsp_buf_clear(cell);
    if (item->more > 0)
        gsp_buf_printf(cell, "(%" PRIu32 " smaller)", item->more);
    else
        gsp_buf_term(cell, gsp_model_tree_label(walk->tree, node->label));
    gsp_report__text_cut(gsp_buf_sv(cell), room, false, out);
    gsp_buf_clear(cell);
    gsp_buf_putc(out, '\n');
}

int gsp_report_profile_tree(const struct gsp_profile *profile, const struct gsp_view_options *view,
                            const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                            struct gsp_err *err)
{
    struct gsp_tree *tree = NULL;
    int rc = gsp_model_tree_new(profile, view, &tree, err);
    if (rc < 0)
        return rc;
    struct walk walk = {
        .tree = tree, .min_pct = opts->min_pct, .width = gsp_report__table_width(opts)};
    gsp_auto_buf cell = {0};
    const struct gsp_node *root = gsp_model_tree_at(tree, 0);
    gsp_buf_puts(out, "  total    own  call tree\n");
    bool ok = push(&walk, (struct item){.count = root->total_count, .weight = root->total_weight});
    while (ok && walk.count > 0) {
        struct item item = walk.items[--walk.count];
        put_item(&walk, &item, &cell, out);
        if (item.more == 0)
            ok = push_children(&walk, item.node);
    }
    free(walk.items);
    gsp_model_tree_free(tree);
    if (!ok || out->failed || cell.failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}

/* A fact on one line, cut to the width. */
static void put_fact(struct gsp_buf *out, const char *name, struct gsp_buf *cell, unsigned width)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, gsp_buf_sv(cell));
    gsp_buf_printf(out, "%-*s", (int)FACT_COLUMNS, name);
    gsp_report__text_cut(gsp_buf_sv(&safe), width - FACT_COLUMNS, false, out);
    gsp_buf_putc(out, '\n');
    out->failed = out->failed || safe.failed || cell->failed;
    gsp_buf_clear(cell);
}

/* Losses are wrapped, never cut. */
static void put_losses(struct gsp_buf *out, const struct gsp_losses *losses, unsigned width)
{
    gsp_auto_buf words = {0};
    gsp_model_losses_put(losses, &words);
    gsp_buf_printf(out, "%-*s", (int)FACT_COLUMNS, "losses");
    unsigned used = FACT_COLUMNS;
    struct gsp_sv rest = gsp_buf_sv(&words);
    struct gsp_sv word;
    while (gsp_sv_split(&rest, ' ', &word)) {
        if (used > FACT_COLUMNS && used + word.len >= width) {
            gsp_buf_printf(out, "\n%-*s", (int)FACT_COLUMNS, "");
            used = FACT_COLUMNS;
        } else if (used > FACT_COLUMNS) {
            gsp_buf_putc(out, ' ');
            used++;
        }
        gsp_buf_putsv(out, word);
        used += (unsigned)word.len;
    }
    gsp_buf_putc(out, '\n');
    out->failed = out->failed || words.failed;
}

/* The number of threads with samples; others were idle or filtered out. 0 if out of memory. */
static size_t sampled_threads(const struct gsp_profile *profile)
{
    bool *seen = calloc(gsp_model_profile_thread_count(profile) + 1, sizeof(*seen));
    size_t count = 0;
    for (size_t i = 0; seen && i < gsp_model_profile_total_count(profile); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(profile, i);
        if (total->thread < gsp_model_profile_thread_count(profile) && !seen[total->thread]) {
            seen[total->thread] = true;
            count++;
        }
    }
    free(seen);
    return count;
}

static void put_threads(const struct gsp_profile *profile, struct gsp_buf *cell)
{
    const size_t sampled = sampled_threads(profile);
    size_t threads = gsp_model_profile_thread_count(profile);
    size_t processes = gsp_model_profile_process_count(profile);
    gsp_model_count_put(threads, cell);
    gsp_buf_puts(cell, threads == 1 ? " thread" : " threads");
    if (processes > 0) {
        gsp_buf_puts(cell, " in ");
        gsp_model_count_put(processes, cell);
        gsp_buf_puts(cell, processes == 1 ? " process" : " processes");
    }
    if (sampled > 0 && sampled < threads) {
        gsp_buf_puts(cell, ", samples of ");
        gsp_model_count_put(sampled, cell);
    }
}

int gsp_report_profile_summary(const struct gsp_profile *profile,
                               const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                               struct gsp_err *err)
{
    unsigned width = gsp_report__table_width(opts);
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    const struct gsp_process *process = gsp_model_profile_process_at(profile, 0);
    gsp_auto_buf cell = {0};
    gsp_model_command_put(profile, &cell);
    put_fact(out, "command", &cell, width);
    if (process) {
        struct gsp_sv version = gsp_model_profile_string_at(profile, process->version);
        gsp_buf_printf(&cell, "%" PRId32, process->pid);
        gsp_buf_puts(&cell, version.len > 0 ? ", Python " : "");
        gsp_buf_putsv(&cell, version);
        put_fact(out, "pid", &cell, width);
    }
    gsp_model_extent_put(profile, &cell);
    put_fact(out, "recorded", &cell, width);
    put_threads(profile, &cell);
    put_fact(out, "threads", &cell, width);
    put_losses(out, &meta->losses, width);
    if (out->failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}
