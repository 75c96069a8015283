/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/assert.h"
#include "tui/rows_internal.h"

/* Maximum nesting of processes; deeper ones are shown at the top. */
#define PROCESS_DEPTH_MAX 64U

/* The nodes and their links. Node i is row i until the rows are sorted. */
struct tree {
    struct gsp_rows_builder *build;
    struct gsp_hmap children; /* parent and kind, path -> node */
    uint32_t *tops;           /* by thread: 1 + the parent node of its stacks; 0: not known yet */
    uint32_t *order;          /* nodes by parent, then in display order */
    uint32_t *first;          /* by node: 1 + the index of its first child in order */
    bool *kept;
    bool many; /* several processes: they are at the top */
};

/* Finds or adds the child of parent with that key. Returns GSP_NO_INDEX if memory runs out. */
static uint32_t child_of(struct tree *tree, uint32_t parent, enum gsp_top_row_kind kind,
                         uint32_t id, uint64_t key)
{
    struct gsp_rows_builder *build = tree->build;
    uint64_t above = parent == GSP_NO_INDEX ? 0 : build->rows[parent].path;
    uint64_t path = gsp_mix64(above ^ gsp_mix64(key + (uint64_t)kind + 1));
    uint64_t where = (uint64_t)parent << 8 | (uint64_t)kind;
    const uint32_t *known = gsp_hmap_get(&tree->children, where, path);
    if (known)
        return *known;
    struct gsp_top_row *row = gsp_tui__rows_add(build, kind, id);
    uint32_t node = (uint32_t)build->count - 1;
    if (!row || !gsp_hmap_put(&tree->children, where, path, node))
        return GSP_NO_INDEX;
    gsp_assert(parent == GSP_NO_INDEX || parent < node);
    row->parent = parent;
    row->path = path;
    row->depth = parent == GSP_NO_INDEX ? 0 : build->rows[parent].depth + 1;
    return node;
}

static uint32_t parent_process(const struct gsp_profile *profile, uint32_t process)
{
    const struct gsp_process *p = gsp_model_profile_process_at(profile, process);
    for (uint32_t i = 0; p && p->ppid > 0 && i < gsp_model_profile_process_count(profile); i++)
        if (i != process && gsp_model_profile_process_at(profile, i)->pid == p->ppid)
            return i;
    return GSP_NO_INDEX;
}

/* The node of a process, below that of its parent process. */
static uint32_t process_node(struct tree *tree, uint32_t process)
{
    uint32_t chain[PROCESS_DEPTH_MAX] = {process};
    size_t count = 0;
    /* Pids are reused: a cycle ends at the limit. */
    while (process != GSP_NO_INDEX && count < PROCESS_DEPTH_MAX) {
        chain[count++] = process;
        process = parent_process(tree->build->profile, process);
    }
    if (count == PROCESS_DEPTH_MAX)
        count = 1;
    uint32_t node = GSP_NO_INDEX;
    while (count > 0) {
        uint32_t next = chain[--count];
        node = child_of(tree, node, GSP_TOP_ROW_PROCESS, next, next);
        if (node == GSP_NO_INDEX)
            break;
    }
    return node;
}

/* The parent node of the stacks of a thread; false if memory runs out. */
static bool top_of_thread(struct tree *tree, uint32_t thread, uint32_t *out)
{
    *out = GSP_NO_INDEX;
    if (tree->tops[thread]) {
        *out = tree->tops[thread] - 1;
        return true;
    }
    bool by_thread = tree->build->query->view.threads;
    if (!tree->many && !by_thread)
        return true;
    if (tree->many) {
        *out =
            process_node(tree, gsp_model_profile_thread_at(tree->build->profile, thread)->process);
        if (*out == GSP_NO_INDEX)
            return false;
    }
    if (by_thread)
        *out = child_of(tree, *out, GSP_TOP_ROW_THREAD, thread, thread);
    tree->tops[thread] = *out + 1;
    return *out != GSP_NO_INDEX;
}

static bool add_sum(struct tree *tree, const struct gsp_top_sum *sum, uint32_t *frames)
{
    struct gsp_rows_builder *build = tree->build;
    uint32_t node;
    if (!top_of_thread(tree, sum->thread, &node))
        return false;
    size_t depth =
        gsp_model_profile_stack_frames(build->profile, sum->stack, frames, GSP_STACK_DEPTH_MAX);
    for (size_t i = 0; i < depth; i++) {
        uint64_t a;
        uint64_t b;
        gsp_tui__rows_frame_key(build, frames[i], &a, &b);
        node = child_of(tree, node, GSP_TOP_ROW_FRAME, frames[i], gsp_mix64(a) ^ b);
        if (node == GSP_NO_INDEX)
            return false;
    }
    if (node != GSP_NO_INDEX)
        gsp_tui__rows_add_own(build, &build->rows[node], sum);
    for (; node != GSP_NO_INDEX; node = build->rows[node].parent)
        gsp_tui__rows_add_total(build, &build->rows[node], sum);
    return true;
}

/* Keeps matching nodes with their ancestors and descendants. A parent precedes its children, so
 * one pass down and one up suffice. */
static void keep_matches(struct tree *tree)
{
    const struct gsp_rows_builder *build = tree->build;
    for (size_t i = 0; i < build->count; i++) {
        uint32_t parent = build->rows[i].parent;
        tree->kept[i] = gsp_tui__rows_matches(build, &build->rows[i]) ||
                        (parent != GSP_NO_INDEX && tree->kept[parent]);
    }
    for (size_t i = build->count; i-- > 0;) {
        uint32_t parent = build->rows[i].parent;
        if (tree->kept[i] && parent != GSP_NO_INDEX)
            tree->kept[parent] = true;
    }
}

static int compare_nodes(const void *a, const void *b, void *arg)
{
    const struct tree *tree = arg;
    const struct gsp_top_row *x = &tree->build->rows[*(const uint32_t *)a];
    const struct gsp_top_row *y = &tree->build->rows[*(const uint32_t *)b];
    /* GSP_NO_INDEX + 1 is 0: top nodes come first. */
    uint32_t p = x->parent + 1;
    uint32_t q = y->parent + 1;
    return p != q ? (p > q) - (p < q) : gsp_tui__rows_compare(tree->build, x, y);
}

/* Sorts the kept nodes below their parents. Returns their number. */
static size_t sort_nodes(struct tree *tree)
{
    struct gsp_rows_builder *build = tree->build;
    size_t count = 0;
    for (size_t i = 0; i < build->count; i++) {
        gsp_tui__rows_set_percent(build, &build->rows[i]);
        if (tree->kept[i])
            tree->order[count++] = (uint32_t)i;
    }
    if (count)
        qsort_r(tree->order, count, sizeof(*tree->order), compare_nodes, tree);
    for (size_t i = count; i-- > 0;) {
        uint32_t parent = build->rows[tree->order[i]].parent;
        if (parent != GSP_NO_INDEX) {
            tree->first[parent] = (uint32_t)i + 1;
            build->rows[parent].has_children = true;
        }
    }
    return count;
}

/* The index in order behind the subtree of node: the next sibling of it or of its nearest
 * ancestor that has one; count if there is none. */
static size_t after_subtree(const struct tree *tree, const size_t *index_of, uint32_t node,
                            size_t count)
{
    const struct gsp_top_row *rows = tree->build->rows;
    while (node != GSP_NO_INDEX) {
        size_t next = index_of[node] + 1;
        if (next < count && rows[tree->order[next]].parent == rows[node].parent)
            return next;
        node = rows[node].parent;
    }
    return count;
}

/* Replaces the nodes by the visible rows, each after its parent. */
static bool flatten(struct tree *tree, size_t count)
{
    struct gsp_rows_builder *build = tree->build;
    struct gsp_top_row *shown = malloc((count + 1) * sizeof(*shown));
    size_t *index_of = malloc((build->count + 1) * sizeof(*index_of));
    uint32_t *row_of = malloc((build->count + 1) * sizeof(*row_of));
    size_t n = 0;
    bool ok = shown && index_of && row_of;
    for (size_t i = 0; ok && i < count; i++)
        index_of[tree->order[i]] = i;
    for (size_t i = 0; ok && i < count;) {
        uint32_t node = tree->order[i];
        struct gsp_top_row *row = &build->rows[node];
        row->is_open = row->has_children && gsp_tui__top_query_is_open(build->query, row->path);
        row_of[node] = (uint32_t)n;
        shown[n] = *row;
        if (row->parent != GSP_NO_INDEX)
            shown[n].parent = row_of[row->parent];
        n++;
        i = row->is_open ? tree->first[node] - 1 : after_subtree(tree, index_of, node, count);
    }
    free(index_of);
    free(row_of);
    if (!ok) {
        free(shown);
        return false;
    }
    free(build->rows);
    build->rows = shown;
    build->count = n;
    return true;
}

static bool add_all(struct tree *tree)
{
    uint32_t *frames = malloc(GSP_STACK_DEPTH_MAX * sizeof(*frames));
    bool ok = frames != NULL;
    for (size_t i = 0; ok && i < gsp_tui__top_sum_count(tree->build->top); i++) {
        const struct gsp_top_sum *sum = gsp_tui__top_sum_at(tree->build->top, i);
        if (gsp_tui__rows_is_selected(tree->build, sum))
            ok = add_sum(tree, sum, frames);
    }
    free(frames);
    return ok;
}

bool gsp_tui__rows_build_tree(struct gsp_rows_builder *build)
{
    struct tree tree = {.build = build,
                        .many = gsp_model_profile_process_count(build->profile) > 1};
    tree.tops = calloc(gsp_model_profile_thread_count(build->profile) + 1, sizeof(*tree.tops));
    bool ok = tree.tops && add_all(&tree);
    if (ok) {
        tree.order = calloc(build->count + 1, sizeof(*tree.order));
        tree.first = calloc(build->count + 1, sizeof(*tree.first));
        tree.kept = calloc(build->count + 1, sizeof(*tree.kept));
        ok = tree.order && tree.first && tree.kept;
    }
    if (ok) {
        keep_matches(&tree);
        ok = flatten(&tree, sort_nodes(&tree));
    }
    gsp_hmap_free(&tree.children);
    free(tree.tops);
    free(tree.order);
    free(tree.first);
    free(tree.kept);
    return ok;
}
