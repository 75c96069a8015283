/* SPDX-License-Identifier: Apache-2.0 */
#include "source/processes.h"

#include <stdlib.h>

#include "source/allocations.h"

int gsp_source_processes_add(struct gsp_source_processes *all, struct gsp_store *store,
                             bool with_stacks, bool all_users, struct gsp_err *err)
{
    *all = (struct gsp_source_processes){0};
    const int rc = gsp_ring_dirs_read(all_users, &all->dirs, err);
    if (rc < 0)
        return rc;
    size_t left_out = all->dirs.left_out;
    if (all->dirs.refused[0])
        gsp_store_warn(store, "skipped: %s", all->dirs.refused);
    all->backtraces = calloc(all->dirs.count + 1, sizeof(*all->backtraces));
    if (!all->backtraces)
        return gsp_err_nomem(err);
    for (size_t i = 0; i < all->dirs.count; i++) {
        struct gsp_ring_dir *dir = &all->dirs.at[i];
        const int added = gsp_store_add_ring_dir(store, dir, NULL);
        left_out += added < 0 && added != GSP_E_NOFILE;
        if (added < 0)
            continue;
        gsp_ignore(gsp_source__allocations_add(store, dir, NULL));
        all->backtraces[i] =
            (struct gsp_source_backtraces){.pid = dir->pid, .is_one_of_many = true};
        if (with_stacks && dir->live)
            gsp_ignore(gsp_source__backtraces_add(store, &all->backtraces[i], NULL));
    }
    if (left_out > 0)
        gsp_store_warn(store, "left out: the tables of %zu process%s", left_out,
                       left_out == 1 ? "" : "es");
    return GSP_OK;
}

void gsp_source_processes_free(struct gsp_source_processes *all)
{
    free(all->backtraces);
    gsp_ring_dirs_free(&all->dirs);
    *all = (struct gsp_source_processes){0};
}
