/* SPDX-License-Identifier: Apache-2.0 */
#include "record/ring_notes.h"

#include <stdbool.h>
#include <string.h>

static const char *processes(size_t count)
{
    return count == 1 ? "process" : "processes";
}

/* Returns the length of the path of the parent folder. */
static int parent_len(const struct gsp_ring_dir *place)
{
    const char *slash = strrchr(place->path, '/');
    return slash ? (int)(slash - place->path) : 0;
}

static bool has_same_parent(const struct gsp_ring_dir *a, const struct gsp_ring_dir *b)
{
    return a->note[0] && b->note[0] && parent_len(a) == parent_len(b) &&
           strncmp(a->path, b->path, (size_t)parent_len(a)) == 0;
}

void gsp_record_ring_notes_put(const struct gsp_ring_dir *places, size_t count, struct gsp_buf *out)
{
    size_t small = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        size_t same = 0;
        small += places[i].small_rings > 0;
        while (!has_same_parent(&places[first], &places[i]) && first < i)
            first++;
        if (first < i || !places[i].note[0])
            continue;
        for (size_t k = i; k < count; k++)
            same += has_same_parent(&places[i], &places[k]);
        gsp_buf_printf(out, "Tables of %zu %s are in %.*s: ", same, processes(same),
                       parent_len(&places[i]), places[i].path);
        gsp_buf_term(out, gsp_sv_of(places[i].note));
        gsp_buf_puts(out, ".\n");
    }
    if (small > 0)
        gsp_buf_printf(out, "Tables of %zu %s keep fewer rows than usual: little space is left.\n",
                       small, processes(small));
}
