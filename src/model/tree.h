/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h -- a profile as a call tree, with frames merged according to a view.
 *
 * The view defines which frames are equal: --function merges the lines of a function, --nolineno
 * hides lines, --threads puts process and thread on top of each stack.
 *
 * Threads: a tree never changes once made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"

/* Saturating sums: weights can come from a hostile file. */
static inline int64_t gsp_sum_i64(int64_t a, int64_t b)
{
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        return a > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static inline uint64_t gsp_sum_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct gsp_view_options {
    bool by_function;    /* -F: merge the lines of a function; show its first line */
    bool no_lines;       /* --nolineno: omit the line from the label */
    bool threads;        /* -t: "thread NAME (TID)" above each stack */
    bool processes;      /* "process PID: NAME" above each stack; implied by several pids */
    bool full_filenames; /* full paths instead of the last part (packages keep their folder) */
};

/* Appends the label of a frame: "func (file.py:12)". */
void gsp_model_frame_label(const struct gsp_view_options *view, const struct gsp_profile *profile,
                           uint32_t frame, struct gsp_buf *out);
/* The file in the form of the view: "pkg/mod.py", or the full path. */
struct gsp_sv gsp_model_frame_file(const struct gsp_view_options *view, struct gsp_sv path);

struct gsp_node {
    uint32_t parent;       /* index; the root is its own parent */
    uint32_t first_child;  /* index, or 0 */
    uint32_t next_sibling; /* index, or 0 */
    uint32_t label;        /* index into the tree's labels */
    uint32_t frame;        /* a frame id of the profile that has this label, or GSP_NONE */
    uint32_t depth;
    /* Sample counts. In a profile whose unit is GSP_UNIT_COUNT these are the weights: an
     * imported line "a;b 100" is a hundred samples. */
    uint64_t self_count;
    uint64_t total_count;
    int64_t self_weight;
    int64_t total_weight;
};

struct gsp_tree;

/* On success the caller frees *out with gsp_model_tree_free(). view may be NULL. Children are
 * sorted by label, so the same profile always gives the same tree. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_model_tree_new(const struct gsp_profile *profile,
                                      const struct gsp_view_options *view, struct gsp_tree **out,
                                      struct gsp_err *err);
void gsp_model_tree_free(struct gsp_tree *tree);

size_t gsp_model_tree_count(const struct gsp_tree *tree); /* nodes, the root (index 0) included */
const struct gsp_node *gsp_model_tree_at(const struct gsp_tree *tree, uint32_t i);
struct gsp_sv gsp_model_tree_label(const struct gsp_tree *tree, uint32_t label); /* borrowed */
size_t gsp_model_tree_label_count(const struct gsp_tree *tree);
