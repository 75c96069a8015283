/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tui/rows_internal.h"

/* Processes that have come from each other; more are shown at the top. */
#define PROCESS_DEPTH_MAX 64U

/* How the nodes hang together.  Node i is row i of the maker until the rows are put in order. */
struct tree {
    struct gsp_rows_maker *mk;
    struct gsp_hmap children; /* parent and kind, path -> node */
    uint32_t *tops;           /* of each thread, 1 + the node its stacks hang from; 0: not met */
    uint32_t *order;          /* nodes by parent, and within it as they are shown */
    uint32_t *first;          /* of each node, 1 + the place of its first child in order */
    bool *kept;
    bool many; /* processes: they stand on top */
};

/* The node below parent with that key.  GSP_NO_INDEX without memory. */
static uint32_t child_of(struct tree *tree, uint32_t parent, enum gsp_top_row_kind kind,
                         uint32_t id, uint64_t key)
{
    struct gsp_rows_maker *mk = tree->mk;
    uint64_t above = parent == GSP_NO_INDEX ? 0 : mk->rows[parent].path;
    uint64_t path = gsp_mix64(above ^ gsp_mix64(key + (uint64_t)kind + 1));
    uint64_t where = (uint64_t)parent << 8 | (uint64_t)kind;
    const uint32_t *known = gsp_hmap_get(&tree->children, where, path);
    if (known)
        return *known;
    struct gsp_top_row *row = gsp_rows__add(mk, kind, id);
    uint32_t node = (uint32_t)mk->count - 1;
    if (!row || !gsp_hmap_put(&tree->children, where, path, node))
        return GSP_NO_INDEX;
    row->parent = parent;
    row->path = path;
    row->depth = parent == GSP_NO_INDEX ? 0 : mk->rows[parent].depth + 1;
    return node;
}

static uint32_t parent_process(const struct gsp_profile *profile, uint32_t process)
{
    const struct gsp_process *p = gsp_profile_process_at(profile, process);
    for (uint32_t i = 0; p && p->ppid > 0 && i < gsp_profile_process_count(profile); i++) {
        if (i != process && gsp_profile_process_at(profile, i)->pid == p->ppid)
            return i;
    }
    return GSP_NO_INDEX;
}

/* The node of a process, below the one that started it. */
static uint32_t process_node(struct tree *tree, uint32_t process)
{
    uint32_t chain[PROCESS_DEPTH_MAX] = {process};
    size_t count = 0;
    /* Pids are used again: a circle ends at the limit. */
    while (process != GSP_NO_INDEX && count < PROCESS_DEPTH_MAX) {
        chain[count++] = process;
        process = parent_process(tree->mk->profile, process);
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

/* The node that the stacks of a thread hang from; false without memory. */
static bool top_of_thread(struct tree *tree, uint32_t thread, uint32_t *out)
{
    *out = GSP_NO_INDEX;
    if (tree->tops[thread]) {
        *out = tree->tops[thread] - 1;
        return true;
    }
    bool by_thread = tree->mk->query->view.threads;
    if (!tree->many && !by_thread)
        return true;
    if (tree->many) {
        *out = process_node(tree, gsp_profile_thread_at(tree->mk->profile, thread)->process);
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
    struct gsp_rows_maker *mk = tree->mk;
    uint32_t node;
    if (!top_of_thread(tree, sum->thread, &node))
        return false;
    size_t depth = gsp_profile_stack_frames(mk->profile, sum->stack, frames, GSP_STACK_DEPTH_MAX);
    for (size_t i = 0; i < depth; i++) {
        uint64_t a;
        uint64_t b;
        gsp_rows__key(mk, frames[i], &a, &b);
        node = child_of(tree, node, GSP_TOP_ROW_FRAME, frames[i], gsp_mix64(a) ^ b);
        if (node == GSP_NO_INDEX)
            return false;
    }
    if (node != GSP_NO_INDEX)
        gsp_rows__add_own(mk, &mk->rows[node], sum);
    for (; node != GSP_NO_INDEX; node = mk->rows[node].parent)
        gsp_rows__add_total(mk, &mk->rows[node], sum);
    return true;
}

/* A node that matches is kept with what is above and below it.  A parent is made before its
 * children, so that one pass down and one up will do. */
static void keep_matches(struct tree *tree)
{
    const struct gsp_rows_maker *mk = tree->mk;
    for (size_t i = 0; i < mk->count; i++) {
        uint32_t parent = mk->rows[i].parent;
        tree->kept[i] =
            gsp_rows__matches(mk, &mk->rows[i]) || (parent != GSP_NO_INDEX && tree->kept[parent]);
    }
    for (size_t i = mk->count; i-- > 0;) {
        uint32_t parent = mk->rows[i].parent;
        if (tree->kept[i] && parent != GSP_NO_INDEX)
            tree->kept[parent] = true;
    }
}

static int compare_nodes(const void *a, const void *b, void *arg)
{
    const struct tree *tree = arg;
    const struct gsp_top_row *x = &tree->mk->rows[*(const uint32_t *)a];
    const struct gsp_top_row *y = &tree->mk->rows[*(const uint32_t *)b];
    /* GSP_NO_INDEX + 1 is 0: those at the top come first. */
    uint32_t p = x->parent + 1;
    uint32_t q = y->parent + 1;
    return p != q ? (p > q) - (p < q) : gsp_rows__compare(tree->mk, x, y);
}

/* Sorts the kept nodes below their parents; gives how many there are. */
static size_t put_in_order(struct tree *tree)
{
    struct gsp_rows_maker *mk = tree->mk;
    size_t count = 0;
    for (size_t i = 0; i < mk->count; i++) {
        gsp_rows__set_pct(mk, &mk->rows[i]);
        if (tree->kept[i])
            tree->order[count++] = (uint32_t)i;
    }
    if (count)
        qsort_r(tree->order, count, sizeof(*tree->order), compare_nodes, tree);
    for (size_t i = count; i-- > 0;) {
        uint32_t parent = mk->rows[tree->order[i]].parent;
        if (parent != GSP_NO_INDEX) {
            tree->first[parent] = (uint32_t)i + 1;
            mk->rows[parent].has_children = true;
        }
    }
    return count;
}

/* The place in order that follows node's own subtree: the next sibling of it or of the nearest
 * node above that has one.  count when there is none. */
static size_t after_subtree(const struct tree *tree, const size_t *place, uint32_t node,
                            size_t count)
{
    const struct gsp_top_row *rows = tree->mk->rows;
    while (node != GSP_NO_INDEX) {
        size_t next = place[node] + 1;
        if (next < count && rows[tree->order[next]].parent == rows[node].parent)
            return next;
        node = rows[node].parent;
    }
    return count;
}

/* Replaces the nodes by the rows that are seen, each after its parent. */
static bool flatten(struct tree *tree, size_t count)
{
    struct gsp_rows_maker *mk = tree->mk;
    struct gsp_top_row *shown = malloc((count + 1) * sizeof(*shown));
    size_t *place = malloc((mk->count + 1) * sizeof(*place));
    uint32_t *row_of = malloc((mk->count + 1) * sizeof(*row_of));
    size_t n = 0;
    bool ok = shown && place && row_of;
    for (size_t i = 0; ok && i < count; i++)
        place[tree->order[i]] = i;
    for (size_t i = 0; ok && i < count;) {
        uint32_t node = tree->order[i];
        struct gsp_top_row *row = &mk->rows[node];
        row->is_open = row->has_children && gsp_top_query_is_open(mk->query, row->path);
        row_of[node] = (uint32_t)n;
        shown[n] = *row;
        if (row->parent != GSP_NO_INDEX)
            shown[n].parent = row_of[row->parent];
        n++;
        i = row->is_open ? tree->first[node] - 1 : after_subtree(tree, place, node, count);
    }
    free(place);
    free(row_of);
    if (!ok) {
        free(shown);
        return false;
    }
    free(mk->rows);
    mk->rows = shown;
    mk->count = n;
    return true;
}

static bool add_all(struct tree *tree)
{
    uint32_t *frames = malloc(GSP_STACK_DEPTH_MAX * sizeof(*frames));
    bool ok = frames != NULL;
    for (size_t i = 0; ok && i < gsp_top_sum_count(tree->mk->top); i++) {
        const struct gsp_top_sum *sum = gsp_top_sum_at(tree->mk->top, i);
        if (gsp_rows__wanted(tree->mk, sum))
            ok = add_sum(tree, sum, frames);
    }
    free(frames);
    return ok;
}

bool gsp_rows__make_tree(struct gsp_rows_maker *mk)
{
    struct tree tree = {.mk = mk, .many = gsp_profile_process_count(mk->profile) > 1};
    tree.tops = calloc(gsp_profile_thread_count(mk->profile) + 1, sizeof(*tree.tops));
    bool ok = tree.tops && add_all(&tree);
    if (ok) {
        tree.order = calloc(mk->count + 1, sizeof(*tree.order));
        tree.first = calloc(mk->count + 1, sizeof(*tree.first));
        tree.kept = calloc(mk->count + 1, sizeof(*tree.kept));
        ok = tree.order && tree.first && tree.kept;
    }
    if (ok) {
        keep_matches(&tree);
        ok = flatten(&tree, put_in_order(&tree));
    }
    gsp_hmap_free(&tree.children);
    free(tree.tops);
    free(tree.order);
    free(tree.first);
    free(tree.kept);
    return ok;
}
