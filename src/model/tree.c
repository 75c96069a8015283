/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tree.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/map.h"

/* What a stack was turned into, for the group (thread or process) that is being added. */
struct memo {
    uint32_t group; /* 1 + the group the node belongs to; another value: not yet known */
    uint32_t node;
};

struct gsp_tree {
    struct gsp_node *nodes;
    size_t count;
    size_t cap;
    uint32_t depth;
    size_t *label_at; /* where each label begins in text; label_count + 1 of them */
    size_t label_count;
    size_t label_cap;
    struct gsp_buf text;
};

/* What is only needed while a tree is being made. */
struct maker {
    struct gsp_tree *tree;
    const struct gsp_profile *profile;
    struct gsp_view view;
    bool count_is_weight;
    struct gsp_hmap labels;   /* hash of the text -> label */
    uint32_t *children;       /* hash table of nodes by parent and label; 0 is a free slot */
    size_t children_cap;      /* power of two, at least twice the nodes */
    uint32_t *label_of_frame; /* 1 + label; 0: not yet known */
    struct memo *memo;        /* by stack */
    uint32_t *path;           /* stacks between a known one and the one being added */
};

/* Folders whose content is imported by the name below them. */
static const char *const IMPORT_ROOTS[] = {"/site-packages/", "/dist-packages/", "/lib-dynload/"};

/* Where the text after the last occurrence of word begins, or 0. */
static size_t after_last(struct gsp_sv text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = text.len; i >= n; i--) {
        if (memcmp(text.p + i - n, word, n) == 0)
            return i;
    }
    return 0;
}

/* Where the module path begins after ".../lib/python3.11/", or 0. */
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

struct gsp_sv gsp_view_file(const struct gsp_view *view, struct gsp_sv path)
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
    struct gsp_sv base = gsp_sv_basename(path);
    if (base.len == 0)
        return path;
    /* "__init__.py" alone says nothing: it goes by its package. */
    if (gsp_sv_starts(base, "__") && base.len + 1 < path.len) {
        struct gsp_sv folder = gsp_sv_basename((struct gsp_sv){path.p, path.len - base.len - 1});
        return (struct gsp_sv){folder.p, folder.len + 1 + base.len};
    }
    return base;
}

void gsp_view_label(const struct gsp_view *view, const struct gsp_profile *profile, uint32_t frame,
                    struct gsp_buf *out)
{
    const struct gsp_frame *f = gsp_profile_frame_at(profile, frame);
    if (!f)
        return;
    struct gsp_sv name = gsp_profile_string_at(profile, f->name);
    struct gsp_sv file = gsp_view_file(view, gsp_profile_string_at(profile, f->file));
    uint32_t line = view->by_function ? f->first_line : f->line;
    if (view->no_lines)
        line = 0;
    if (name.len == 0)
        name = gsp_sv_of("(unknown)");
    gsp_buf_putsv(out, name);
    /* A library of which no more than its name is known. */
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

/* Grows an array to hold one more; false when there is no memory. */
static bool grow(void **array, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 64;
    void *p = reallocarray(*array, want, size);
    if (!p)
        return false;
    *array = p;
    *cap = want;
    return true;
}

static struct gsp_sv label_text(const struct gsp_tree *tree, uint32_t label)
{
    size_t at = tree->label_at[label];
    return (struct gsp_sv){tree->text.p + at, tree->label_at[label + 1] - at};
}

/* The text behind the last label becomes a label itself, or is dropped for an equal one.
 * Hashes of different texts may be equal: the next seed is tried then. */
static bool label_intern(struct maker *mk, uint32_t *out)
{
    struct gsp_tree *tree = mk->tree;
    if (tree->text.failed)
        return false;
    size_t at = tree->label_at[tree->label_count];
    struct gsp_sv text = {tree->text.p + at, tree->text.len - at};
    for (uint64_t seed = 0;; seed++) {
        uint64_t hash = gsp_hash_bytes(text.p, text.len, seed);
        const uint32_t *known = gsp_hmap_get(&mk->labels, hash, seed);
        if (known && gsp_sv_eq(label_text(tree, *known), text)) {
            tree->text.len = at;
            *out = *known;
            return true;
        }
        if (known)
            continue;
        void *starts = tree->label_at;
        bool ok = grow(&starts, &tree->label_cap, tree->label_count + 2, sizeof(*tree->label_at));
        tree->label_at = starts;
        if (!ok || !gsp_hmap_put(&mk->labels, hash, seed, (uint32_t)tree->label_count))
            return false;
        *out = (uint32_t)tree->label_count++;
        tree->label_at[tree->label_count] = tree->text.len;
        return true;
    }
}

static bool label_of_frame(struct maker *mk, uint32_t frame, uint32_t *out)
{
    if (mk->label_of_frame[frame] == 0) {
        gsp_view_label(&mk->view, mk->profile, frame, &mk->tree->text);
        uint32_t label = 0;
        if (!label_intern(mk, &label))
            return false;
        mk->label_of_frame[frame] = label + 1;
    }
    *out = mk->label_of_frame[frame] - 1;
    return true;
}

/* The slot of a node in the table of children, or the free one where it belongs.  Slots
 * hold only the node's number, which keeps a table of millions in the cache for longer. */
static uint32_t *child_slot(const struct maker *mk, uint32_t parent, uint32_t label)
{
    size_t mask = mk->children_cap - 1;
    for (size_t i = gsp_mix64((uint64_t)parent << 32 | label) & mask;; i = (i + 1) & mask) {
        uint32_t at = mk->children[i];
        const struct gsp_node *node = &mk->tree->nodes[at];
        if (at == 0 || (node->parent == parent && node->label == label))
            return &mk->children[i];
    }
}

static bool grow_children(struct maker *mk, size_t nodes)
{
    if (nodes < mk->children_cap / 2)
        return true;
    size_t cap = mk->children_cap ? mk->children_cap : 64;
    while (cap / 2 <= nodes)
        cap *= 2;
    free(mk->children);
    mk->children = calloc(cap, sizeof(*mk->children));
    mk->children_cap = mk->children ? cap : 0;
    for (uint32_t i = 1; mk->children && i < mk->tree->count; i++)
        *child_slot(mk, mk->tree->nodes[i].parent, mk->tree->nodes[i].label) = i;
    return mk->children != NULL;
}

/* The child of parent with that label; made if there is none. */
static bool child(struct maker *mk, uint32_t parent, uint32_t label, uint32_t frame, uint32_t *out)
{
    struct gsp_tree *tree = mk->tree;
    uint32_t *slot = child_slot(mk, parent, label);
    if (*slot != 0) {
        *out = *slot;
        return true;
    }
    void *nodes = tree->nodes;
    bool ok =
        tree->count < UINT32_MAX && grow(&nodes, &tree->cap, tree->count, sizeof(*tree->nodes));
    tree->nodes = nodes;
    if (!ok)
        return false;
    uint32_t depth = tree->nodes[parent].depth + 1;
    tree->nodes[tree->count] =
        (struct gsp_node){.parent = parent, .label = label, .frame = frame, .depth = depth};
    if (depth > tree->depth)
        tree->depth = depth;
    *slot = (uint32_t)tree->count;
    *out = (uint32_t)tree->count++;
    return grow_children(mk, tree->count);
}

/* The node under which the stacks of a thread stand: the root, or process and thread. */
static bool group_node(struct maker *mk, uint32_t thread, uint32_t *out)
{
    *out = 0;
    const struct gsp_thread *t = gsp_profile_thread_at(mk->profile, thread);
    struct gsp_buf *text = &mk->tree->text;
    uint32_t label = 0;
    if (mk->view.processes && t) {
        const struct gsp_process *p = gsp_profile_process_at(mk->profile, t->process);
        struct gsp_sv name = gsp_profile_string_at(mk->profile, p ? p->name : GSP_NONE);
        gsp_buf_printf(text, "process %" PRId32, p ? p->pid : -1);
        if (p && p->ns_pid)
            gsp_buf_printf(text, " (%" PRId32 " inside)", p->ns_pid);
        if (name.len > 0) {
            gsp_buf_puts(text, ": ");
            gsp_buf_putsv(text, name);
        }
        if (!label_intern(mk, &label) || !child(mk, *out, label, GSP_NONE, out))
            return false;
    }
    if (mk->view.threads && t) {
        struct gsp_sv name = gsp_profile_string_at(mk->profile, t->name);
        uint64_t id = t->os_id ? t->os_id : t->python_id;
        gsp_buf_puts(text, "thread ");
        gsp_buf_putsv(text, name);
        gsp_buf_printf(text, name.len > 0 ? " (%" PRIu64 ")" : "%" PRIu64, id);
        if (!label_intern(mk, &label) || !child(mk, *out, label, GSP_NONE, out))
            return false;
    }
    return true;
}

/* The node of a stack below the group's node; each stack is walked once per group. */
static bool stack_node(struct maker *mk, uint32_t group, uint32_t base, uint32_t stack,
                       uint32_t *out)
{
    size_t n = 0;
    while (stack != GSP_NONE && mk->memo[stack].group != group + 1 && n < GSP_STACK_DEPTH_MAX) {
        mk->path[n++] = stack;
        stack = gsp_profile_stack_caller(mk->profile, stack);
    }
    uint32_t node =
        stack != GSP_NONE && mk->memo[stack].group == group + 1 ? mk->memo[stack].node : base;
    while (n > 0) {
        uint32_t id = mk->path[--n];
        uint32_t frame = gsp_profile_stack_frame(mk->profile, id);
        uint32_t label = 0;
        if (!label_of_frame(mk, frame, &label) || !child(mk, node, label, frame, &node))
            return false;
        mk->memo[id] = (struct memo){group + 1, node};
    }
    *out = node;
    return true;
}

static bool add_total(struct maker *mk, const struct gsp_total *total, uint32_t group,
                      uint32_t base)
{
    uint32_t at = 0;
    if (!stack_node(mk, group, base, total->stack, &at))
        return false;
    struct gsp_node *node = &mk->tree->nodes[at];
    uint64_t count = total->count;
    if (mk->count_is_weight)
        count = total->weight > 0 ? (uint64_t)total->weight : 0;
    node->self_count = gsp_sum_u64(node->self_count, count);
    node->self_weight = gsp_sum_i64(node->self_weight, total->weight);
    return true;
}

/* Rows in the order of their threads (stable), so that the memo serves one group at a time. */
static size_t *rows_by_thread(const struct gsp_profile *profile, size_t *starts, size_t threads)
{
    size_t n = gsp_profile_total_count(profile);
    size_t *rows = calloc(n + 1, sizeof(*rows));
    if (!rows)
        return NULL;
    for (size_t i = 0; i < n; i++)
        starts[gsp_profile_total_at(profile, i)->thread + 1]++;
    for (size_t t = 0; t < threads; t++)
        starts[t + 1] += starts[t];
    for (size_t i = 0; i < n; i++)
        rows[starts[gsp_profile_total_at(profile, i)->thread]++] = i;
    return rows;
}

static bool add_grouped(struct maker *mk)
{
    size_t threads = gsp_profile_thread_count(mk->profile);
    size_t n = gsp_profile_total_count(mk->profile);
    size_t *starts = calloc(threads + 2, sizeof(*starts));
    size_t *rows = starts ? rows_by_thread(mk->profile, starts, threads) : NULL;
    bool ok = rows != NULL;
    uint32_t last = GSP_NO_INDEX;
    uint32_t base = 0;
    for (size_t i = 0; ok && i < n; i++) {
        const struct gsp_total *total = gsp_profile_total_at(mk->profile, rows[i]);
        if (total->thread != last)
            ok = group_node(mk, total->thread, &base);
        last = total->thread;
        ok = ok && add_total(mk, total, total->thread, base);
    }
    free(rows);
    free(starts);
    return ok;
}

static bool add_all(struct maker *mk)
{
    if (mk->view.threads || mk->view.processes)
        return add_grouped(mk);
    size_t n = gsp_profile_total_count(mk->profile);
    for (size_t i = 0; i < n; i++) {
        if (!add_total(mk, gsp_profile_total_at(mk->profile, i), 0, 0))
            return false;
    }
    return true;
}

static int compare_labels(const void *a, const void *b, void *tree)
{
    struct gsp_sv x = label_text(tree, *(const uint32_t *)a);
    struct gsp_sv y = label_text(tree, *(const uint32_t *)b);
    int order = memcmp(x.p, y.p, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

/* Links every node to its parent in the order of labels: the nodes are dealt into buckets
 * by the rank of their label, and pushed from the last to the first. */
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

/* A node is always made after its parent: from the last to the first, sums flow upwards. */
static void sum_up(struct gsp_tree *tree)
{
    for (size_t i = tree->count; i-- > 0;) {
        struct gsp_node *node = &tree->nodes[i];
        node->total_count = gsp_sum_u64(node->total_count, node->self_count);
        node->total_weight = gsp_sum_i64(node->total_weight, node->self_weight);
        if (i == 0)
            break;
        struct gsp_node *parent = &tree->nodes[node->parent];
        parent->total_count = gsp_sum_u64(parent->total_count, node->total_count);
        parent->total_weight = gsp_sum_i64(parent->total_weight, node->total_weight);
    }
}

/* Does more than one process have samples? */
static bool has_processes(const struct gsp_profile *profile)
{
    uint32_t first = GSP_NO_INDEX;
    size_t n = gsp_profile_process_count(profile) > 1 ? gsp_profile_total_count(profile) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct gsp_thread *t =
            gsp_profile_thread_at(profile, gsp_profile_total_at(profile, i)->thread);
        if (t && first != GSP_NO_INDEX && t->process != first)
            return true;
        first = t ? t->process : first;
    }
    return false;
}

static bool fill(struct maker *mk)
{
    struct gsp_tree *tree = mk->tree;
    mk->label_of_frame = calloc(gsp_profile_frame_count(mk->profile) + 1, sizeof(uint32_t));
    mk->memo = calloc(gsp_profile_stack_count(mk->profile) + 1, sizeof(*mk->memo));
    mk->path = calloc(GSP_STACK_DEPTH_MAX, sizeof(*mk->path));
    tree->label_at = calloc(64, sizeof(*tree->label_at));
    tree->label_cap = 64;
    tree->nodes = calloc(64, sizeof(*tree->nodes));
    tree->cap = 64;
    if (!mk->label_of_frame || !mk->memo || !mk->path || !tree->label_at || !tree->nodes)
        return false;
    tree->count = 1;
    /* Without threads on top there is at most a node for each stack. */
    if (!grow_children(mk, gsp_profile_stack_count(mk->profile) + 1))
        return false;
    gsp_buf_puts(&tree->text, "all");
    return label_intern(mk, &tree->nodes[0].label) && add_all(mk) && link_children(tree);
}

int gsp_tree_new(const struct gsp_profile *profile, const struct gsp_view *view,
                 struct gsp_tree **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_tree *tree = calloc(1, sizeof(*tree));
    if (!tree)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a call tree");
    struct maker mk = {.tree = tree, .profile = profile};
    if (view)
        mk.view = *view;
    mk.count_is_weight = gsp_profile_meta_get(profile)->unit == GSP_UNIT_COUNT;
    mk.view.processes = mk.view.processes || has_processes(profile);
    bool ok = fill(&mk);
    gsp_hmap_free(&mk.labels);
    free(mk.children);
    free(mk.label_of_frame);
    free(mk.memo);
    free(mk.path);
    if (!ok) {
        gsp_tree_free(tree);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a call tree");
    }
    sum_up(tree);
    *out = tree;
    return GSP_OK;
}

void gsp_tree_free(struct gsp_tree *tree)
{
    if (!tree)
        return;
    gsp_buf_free(&tree->text);
    free(tree->nodes);
    free(tree->label_at);
    free(tree);
}

size_t gsp_tree_count(const struct gsp_tree *tree)
{
    return tree->count;
}

const struct gsp_node *gsp_tree_at(const struct gsp_tree *tree, uint32_t i)
{
    return i < tree->count ? &tree->nodes[i] : NULL;
}

struct gsp_sv gsp_tree_label(const struct gsp_tree *tree, uint32_t label)
{
    return label < tree->label_count ? label_text(tree, label) : (struct gsp_sv){0};
}

size_t gsp_tree_label_count(const struct gsp_tree *tree)
{
    return tree->label_count;
}

uint32_t gsp_tree_depth(const struct gsp_tree *tree)
{
    return tree->depth;
}
