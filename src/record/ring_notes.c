/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ring_notes.h"

#include <stdbool.h>
#include <string.h>

static const char *processes(size_t count)
{
    return count == 1 ? "process" : "processes";
}

/* Returns the length of the path of the parent folder. */
static int parent_len(const struct gsp_ring_dir *dir)
{
    const char *slash = strrchr(dir->path, '/');
    return slash ? (int)(slash - dir->path) : 0;
}

static bool has_same_parent(const struct gsp_ring_dir *a, const struct gsp_ring_dir *b)
{
    return a->note[0] && b->note[0] && parent_len(a) == parent_len(b) &&
           strncmp(a->path, b->path, (size_t)parent_len(a)) == 0;
}

/* Whether an earlier directory of the same process has small rings. */
static bool was_small(const struct gsp_ring_dir *dirs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (dirs[k].small_rings > 0 && gsp_ring_dir_is_same_process(&dirs[k], &dirs[i]))
            return true;
    return false;
}

void gsp_record_ring_notes_put(const struct gsp_ring_dir *dirs, size_t count, struct gsp_buf *out)
{
    size_t small = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        size_t same = 0;
        small += dirs[i].small_rings > 0 && !was_small(dirs, i);
        while (!has_same_parent(&dirs[first], &dirs[i]) && first < i)
            first++;
        if (first < i || !dirs[i].note[0])
            continue;
        for (size_t k = i; k < count; k++)
            same += has_same_parent(&dirs[i], &dirs[k]);
        gsp_buf_printf(out, "Tables of %zu %s are in %.*s: ", same, processes(same),
                       parent_len(&dirs[i]), dirs[i].path);
        gsp_buf_term(out, gsp_sv_of(dirs[i].note));
        gsp_buf_puts(out, ".\n");
    }
    if (small > 0)
        gsp_buf_printf(out, "Tables of %zu %s keep fewer rows than usual: little space is left.\n",
                       small, processes(small));
}
