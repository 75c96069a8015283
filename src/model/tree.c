/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tree.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/map.h"

/* The node of a stack, for the group (thread or process) that is being added. */
struct memo {
    uint32_t group; /* 1 + the group of the node; any other value: not known yet */
    uint32_t node;
};

struct gsp_tree {
    struct gsp_node *nodes;
    size_t count;
    size_t cap;
    size_t *label_at; /* start of each label in text; label_count + 1 entries */
    size_t label_count;
    size_t label_cap;
    struct gsp_buf text;
};

/* State that is needed only while a tree is built. */
struct builder {
    struct gsp_tree *tree;
    const struct gsp_profile *profile;
    struct gsp_view_options view;
    bool count_is_weight;
    struct gsp_hmap labels;   /* hash of the text -> label */
    uint32_t *children;       /* hash table of nodes by parent and label; 0 is a free slot */
    size_t children_cap;      /* power of two, at least twice the nodes */
    uint32_t *label_of_frame; /* 1 + label; 0: not yet known */
    struct memo *memo;        /* by stack */
    uint32_t *path;           /* stacks between a known one and the one being added */
};

/* Folders from which Python imports modules. */
static const char *const IMPORT_ROOTS[] = {"/site-packages/", "/dist-packages/", "/lib-dynload/"};

/* The offset behind the last occurrence of part, or 0. */
static size_t after_last(struct gsp_sv text, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = text.len; i >= n; i--)
        if (memcmp(text.p + i - n, part, n) == 0)
            return i;
    return 0;
}

/* The offset of the module path behind ".../lib/python3.11/", or 0. */
static size_t after_stdlib(struct gsp_sv path)
{
    size_t at = after_last(path, "/lib/python");
    if (at == 0)
        return 0;
    const char *slash = memchr(path.p + at, '/', path.len - at);
    return slash && at < path.len && path.p[at] >= '0' && path.p[at] <= '9'
               ? (size_t)(slash - path.p) + 1
               : 0;
}

struct gsp_sv gsp_model_frame_file(const struct gsp_view_options *view, struct gsp_sv path)
{
    if (view->full_filenames || path.len == 0)
        return path;
    size_t at = 0;
    for (size_t i = 0; i < GSP_COUNT(IMPORT_ROOTS); i++) {
        size_t found = after_last(path, IMPORT_ROOTS[i]);
        at = found > at ? found : at;
    }
    if (at == 0)
        at = after_stdlib(path);
    if (at > 0 && at < path.len)
        return (struct gsp_sv){path.p + at, path.len - at};
    /* A relative path may be the result of this function, read from a file. */
    struct gsp_sv base = gsp_sv_basename(path);
    if (path.p[0] != '/' || base.len == 0)
        return path;
    /* "__init__.py" alone is ambiguous: show its package too. */
    if (gsp_sv_starts(base, "__") && base.len + 1 < path.len) {
        struct gsp_sv folder = gsp_sv_basename((struct gsp_sv){path.p, path.len - base.len - 1});
        return (struct gsp_sv){folder.p, folder.len + 1 + base.len};
    }
    return base;
}

void gsp_model_frame_label(const struct gsp_view_options *view, const struct gsp_profile *profile,
                           uint32_t frame, struct gsp_buf *out)
{
    const struct gsp_frame *f = gsp_model_profile_frame_at(profile, frame);
    if (!f)
        return;
    struct gsp_sv name = gsp_model_profile_string_at(profile, f->name);
    struct gsp_sv file = gsp_model_frame_file(view, gsp_model_profile_string_at(profile, f->file));
    uint32_t line = view->by_function ? f->first_line : f->line;
    if (view->no_lines)
        line = 0;
    if (name.len == 0)
        name = gsp_sv_of("(unknown)");
    gsp_buf_putsv(out, name);
    /* Only the name of the library is known. */
    if (file.len == 0 || (f->line == 0 && gsp_sv_eq(name, file)))
        return;
    gsp_buf_puts(out, " (");
    gsp_buf_putsv(out, file);
    if (line > 0) {
        gsp_buf_putc(out, ':');
        gsp_buf_putu64(out, line);
    }
    gsp_buf_putc(out, ')');
}

static struct gsp_sv label_text(const struct gsp_tree *tree, uint32_t label)
{
    size_t at = tree->label_at[label];
    return (struct gsp_sv){tree->text.p + at, tree->label_at[label + 1] - at};
}

/* Makes a label of the text behind the last label, or drops the text if an equal label exists.
 * If the hash of a different text is equal, the next seed is tried. */
static bool label_intern(struct builder *build, uint32_t *out)
{
    struct gsp_tree *tree = build->tree;
    if (tree->text.failed)
        return false;
    size_t at = tree->label_at[tree->label_count];
    struct gsp_sv text = {tree->text.p + at, tree->text.len - at};
    for (uint64_t seed = 0;; seed++) {
        uint64_t hash = gsp_hash_bytes(text.p, text.len, seed);
        const uint32_t *known = gsp_hmap_get(&build->labels, hash, seed);
        if (known && gsp_sv_eq(label_text(tree, *known), text)) {
            tree->text.len = at;
            *out = *known;
            return true;
        }
        if (known)
            continue;
        if (!gsp_array_fit(&tree->label_at, &tree->label_cap, tree->label_count + 2) ||
            !gsp_hmap_put(&build->labels, hash, seed, (uint32_t)tree->label_count))
            return false;
        *out = (uint32_t)tree->label_count++;
        tree->label_at[tree->label_count] = tree->text.len;
        return true;
    }
}

static bool label_of_frame(struct builder *build, uint32_t frame, uint32_t *out)
{
    if (build->label_of_frame[frame] == 0) {
        gsp_model_frame_label(&build->view, build->profile, frame, &build->tree->text);
        uint32_t label = 0;
        if (!label_intern(build, &label))
            return false;
        build->label_of_frame[frame] = label + 1;
    }
    *out = build->label_of_frame[frame] - 1;
    return true;
}

/* The slot of a node in the table of children, or the free slot for it. A slot holds only the
 * index of the node, so that large tables fit into the cache longer. */
static uint32_t *child_slot(const struct builder *build, uint32_t parent, uint32_t label)
{
    size_t mask = build->children_cap - 1;
    for (size_t i = gsp_mix64((uint64_t)parent << 32 | label) & mask;; i = (i + 1) & mask) {
        uint32_t at = build->children[i];
        const struct gsp_node *node = &build->tree->nodes[at];
        if (at == 0 || (node->parent == parent && node->label == label))
            return &build->children[i];
    }
}

static bool grow_children(struct builder *build, size_t nodes)
{
    if (nodes < build->children_cap / 2)
        return true;
    size_t cap = build->children_cap ? build->children_cap : 64;
    while (cap / 2 <= nodes)
        cap *= 2;
    free(build->children);
    build->children = calloc(cap, sizeof(*build->children));
    build->children_cap = build->children ? cap : 0;
    for (uint32_t i = 1; build->children && i < build->tree->count; i++)
        *child_slot(build, build->tree->nodes[i].parent, build->tree->nodes[i].label) = i;
    return build->children != NULL;
}

/* Finds the child of parent with that label, or adds it. */
static bool child(struct builder *build, uint32_t parent, uint32_t label, uint32_t frame,
                  uint32_t *out)
{
    struct gsp_tree *tree = build->tree;
    uint32_t *slot = child_slot(build, parent, label);
    if (*slot != 0) {
        *out = *slot;
        return true;
    }
    if (tree->count >= UINT32_MAX || !gsp_array_fit(&tree->nodes, &tree->cap, tree->count + 1))
        return false;
    uint32_t depth = tree->nodes[parent].depth + 1;
    tree->nodes[tree->count] =
        (struct gsp_node){.parent = parent, .label = label, .frame = frame, .depth = depth};
    *slot = (uint32_t)tree->count;
    *out = (uint32_t)tree->count++;
    return grow_children(build, tree->count);
}

/* The parent node of the stacks of a thread: the root, or process and thread. */
static bool group_node(struct builder *build, uint32_t thread, uint32_t *out)
{
    *out = 0;
    const struct gsp_thread *t = gsp_model_profile_thread_at(build->profile, thread);
    struct gsp_buf *text = &build->tree->text;
    uint32_t label = 0;
    if (build->view.processes && t) {
        const struct gsp_process *p = gsp_model_profile_process_at(build->profile, t->process);
        struct gsp_sv name = gsp_model_profile_string_at(build->profile, p ? p->name : GSP_NONE);
        gsp_buf_printf(text, "process %" PRId32, p ? p->pid : -1);
        if (p && p->ns_pid)
            gsp_buf_printf(text, " (%" PRId32 " inside)", p->ns_pid);
        if (name.len > 0) {
            gsp_buf_puts(text, ": ");
            gsp_buf_putsv(text, name);
        }
        if (!label_intern(build, &label) || !child(build, *out, label, GSP_NONE, out))
            return false;
    }
    if (build->view.threads && t) {
        struct gsp_sv name = gsp_model_profile_string_at(build->profile, t->name);
        uint64_t id = t->os_id ? t->os_id : t->python_id;
        gsp_buf_puts(text, "thread ");
        gsp_buf_putsv(text, name);
        gsp_buf_printf(text, name.len > 0 ? " (%" PRIu64 ")" : "%" PRIu64, id);
        if (!label_intern(build, &label) || !child(build, *out, label, GSP_NONE, out))
            return false;
    }
    return true;
}

/* The node of a stack below the node of its group. Each stack is walked once per group. */
static bool stack_node(struct builder *build, uint32_t group, uint32_t base, uint32_t stack,
                       uint32_t *out)
{
    size_t n = 0;
    while (stack != GSP_NONE && build->memo[stack].group != group + 1 && n < GSP_STACK_DEPTH_MAX) {
        build->path[n++] = stack;
        stack = gsp_model_profile_stack_caller(build->profile, stack);
    }
    uint32_t node =
        stack != GSP_NONE && build->memo[stack].group == group + 1 ? build->memo[stack].node : base;
    while (n > 0) {
        uint32_t id = build->path[--n];
        uint32_t frame = gsp_model_profile_stack_frame(build->profile, id);
        uint32_t label = 0;
        if (!label_of_frame(build, frame, &label) || !child(build, node, label, frame, &node))
            return false;
        build->memo[id] = (struct memo){group + 1, node};
    }
    *out = node;
    return true;
}

static bool add_total(struct builder *build, const struct gsp_total *total, uint32_t group,
                      uint32_t base)
{
    uint32_t at = 0;
    if (!stack_node(build, group, base, total->stack, &at))
        return false;
    struct gsp_node *node = &build->tree->nodes[at];
    uint64_t count = total->count;
    if (build->count_is_weight)
        count = total->weight > 0 ? (uint64_t)total->weight : 0;
    node->self_count = gsp_sum_u64(node->self_count, count);
    node->self_weight = gsp_sum_i64(node->self_weight, total->weight);
    return true;
}

/* Rows sorted by thread (stable), so that the memo serves one group at a time. */
static size_t *rows_by_thread(const struct gsp_profile *profile, size_t *starts, size_t threads)
{
    size_t n = gsp_model_profile_total_count(profile);
    size_t *rows = calloc(n + 1, sizeof(*rows));
    if (!rows)
        return NULL;
    for (size_t i = 0; i < n; i++)
        starts[gsp_model_profile_total_at(profile, i)->thread + 1]++;
    for (size_t t = 0; t < threads; t++)
        starts[t + 1] += starts[t];
    for (size_t i = 0; i < n; i++)
        rows[starts[gsp_model_profile_total_at(profile, i)->thread]++] = i;
    return rows;
}

static bool add_grouped(struct builder *build)
{
    size_t threads = gsp_model_profile_thread_count(build->profile);
    size_t n = gsp_model_profile_total_count(build->profile);
    size_t *starts = calloc(threads + 2, sizeof(*starts));
    size_t *rows = starts ? rows_by_thread(build->profile, starts, threads) : NULL;
    bool ok = rows != NULL;
    uint32_t last = GSP_NO_INDEX;
    uint32_t base = 0;
    for (size_t i = 0; ok && i < n; i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(build->profile, rows[i]);
        if (total->thread != last)
            ok = group_node(build, total->thread, &base);
        last = total->thread;
        ok = ok && add_total(build, total, total->thread, base);
    }
    free(rows);
    free(starts);
    return ok;
}

static bool add_all(struct builder *build)
{
    if (build->view.threads || build->view.processes)
        return add_grouped(build);
    size_t n = gsp_model_profile_total_count(build->profile);
    for (size_t i = 0; i < n; i++)
        if (!add_total(build, gsp_model_profile_total_at(build->profile, i), 0, 0))
            return false;
    return true;
}

static int compare_labels(const void *a, const void *b, void *tree)
{
    struct gsp_sv x = label_text(tree, *(const uint32_t *)a);
    struct gsp_sv y = label_text(tree, *(const uint32_t *)b);
    int order = memcmp(x.p, y.p, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

/* Links every node to its parent in label order: puts the nodes into buckets by the rank of
 * their label, and pushes them from last to first. */
static bool link_children(struct gsp_tree *tree)
{
    size_t labels = tree->label_count;
    uint32_t *order = calloc(labels, sizeof(*order));
    uint32_t *head = calloc(labels, sizeof(*head)); /* first node of a label, 0: none */
    uint32_t *next = calloc(tree->count, sizeof(*next));
    bool ok = order && head && next;
    for (uint32_t i = 0; ok && i < labels; i++)
        order[i] = i;
    if (ok)
        qsort_r(order, labels, sizeof(*order), compare_labels, tree);
    for (uint32_t i = (uint32_t)tree->count; ok && i-- > 1;) {
        next[i] = head[tree->nodes[i].label];
        head[tree->nodes[i].label] = i;
    }
    for (size_t r = labels; ok && r-- > 0;) {
        for (uint32_t i = head[order[r]]; i != 0; i = next[i]) {
            struct gsp_node *parent = &tree->nodes[tree->nodes[i].parent];
            tree->nodes[i].next_sibling = parent->first_child;
            parent->first_child = i;
        }
    }
    free(order);
    free(head);
    free(next);
    return ok;
}

/* A node is always added after its parent, so one pass from last to first sums up the tree. */
static void sum_up(struct gsp_tree *tree)
{
    for (size_t i = tree->count; i-- > 0;) {
        struct gsp_node *node = &tree->nodes[i];
        node->total_count = gsp_sum_u64(node->total_count, node->self_count);
        node->total_weight = gsp_sum_i64(node->total_weight, node->self_weight);
        if (i == 0)
            break;
        gsp_assert(node->parent < i);
        struct gsp_node *parent = &tree->nodes[node->parent];
        parent->total_count = gsp_sum_u64(parent->total_count, node->total_count);
        parent->total_weight = gsp_sum_i64(parent->total_weight, node->total_weight);
    }
}

/* Returns whether more than one process has samples. */
static bool has_processes(const struct gsp_profile *profile)
{
    uint32_t first = GSP_NO_INDEX;
    size_t n =
        gsp_model_profile_process_count(profile) > 1 ? gsp_model_profile_total_count(profile) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct gsp_thread *t =
            gsp_model_profile_thread_at(profile, gsp_model_profile_total_at(profile, i)->thread);
        if (t && first != GSP_NO_INDEX && t->process != first)
            return true;
        first = t ? t->process : first;
    }
    return false;
}

static bool build_tree(struct builder *build)
{
    struct gsp_tree *tree = build->tree;
    build->label_of_frame =
        calloc(gsp_model_profile_frame_count(build->profile) + 1, sizeof(uint32_t));
    build->memo = calloc(gsp_model_profile_stack_count(build->profile) + 1, sizeof(*build->memo));
    build->path = calloc(GSP_STACK_DEPTH_MAX, sizeof(*build->path));
    tree->label_at = calloc(64, sizeof(*tree->label_at));
    tree->label_cap = 64;
    tree->nodes = calloc(64, sizeof(*tree->nodes));
    tree->cap = 64;
    if (!build->label_of_frame || !build->memo || !build->path || !tree->label_at || !tree->nodes)
        return false;
    tree->count = 1;
    /* Without threads on top there is at most one node per stack. */
    if (!grow_children(build, gsp_model_profile_stack_count(build->profile) + 1))
        return false;
    gsp_buf_puts(&tree->text, "all");
    return label_intern(build, &tree->nodes[0].label) && add_all(build) && link_children(tree);
}

int gsp_model_tree_new(const struct gsp_profile *profile, const struct gsp_view_options *view,
                       struct gsp_tree **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_tree *tree = calloc(1, sizeof(*tree));
    if (!tree)
        return gsp_err_nomem(err);
    struct builder build = {.tree = tree, .profile = profile};
    if (view)
        build.view = *view;
    build.count_is_weight = gsp_model_profile_meta_get(profile)->unit == GSP_UNIT_COUNT;
    build.view.processes = build.view.processes || has_processes(profile);
    bool ok = build_tree(&build);
    gsp_hmap_free(&build.labels);
    free(build.children);
    free(build.label_of_frame);
    free(build.memo);
    free(build.path);
    if (!ok) {
        gsp_model_tree_free(tree);
        return gsp_err_nomem(err);
    }
    sum_up(tree);
    *out = tree;
    return GSP_OK;
}

void gsp_model_tree_free(struct gsp_tree *tree)
{
    if (!tree)
        return;
    gsp_buf_free(&tree->text);
    free(tree->nodes);
    free(tree->label_at);
    free(tree);
}

size_t gsp_model_tree_count(const struct gsp_tree *tree)
{
    return tree->count;
}

const struct gsp_node *gsp_model_tree_at(const struct gsp_tree *tree, uint32_t i)
{
    return i < tree->count ? &tree->nodes[i] : NULL;
}

struct gsp_sv gsp_model_tree_label(const struct gsp_tree *tree, uint32_t label)
{
    return label < tree->label_count ? label_text(tree, label) : (struct gsp_sv){0};
}

size_t gsp_model_tree_label_count(const struct gsp_tree *tree)
{
    return tree->label_count;
}
