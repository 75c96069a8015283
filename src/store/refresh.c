/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refresh.c -- updates the rows and strings of the tables that a statement uses.
 *
 * The writers of rings decide how many strings they have. So only the strings of tables that the
 * statement uses are read, and only up to a sum. A source that cannot be read is left out with a
 * warning.
 */
#include <inttypes.h>

#include "base/time.h"
#include "store/store_internal.h"

/* Of all strings that one statement reads. */
#define STRING_BYTES_MAX (UINT64_C(256) << 20)

static uint64_t string_limit(const struct gsp_store *store)
{
    const uint64_t half = store->memory_bytes / 2;
    return half > 0 && half < STRING_BYTES_MAX ? half : STRING_BYTES_MAX;
}

static void leave_out(struct gsp_store *store, const struct gsp_store_table *view,
                      struct gsp_source *source, const struct gsp_err *why)
{
    if (!source->left_out) {
        gsp_store_warn(store, "left out: %s.%s of process %" PRId64 ": %s", view->schema,
                       view->name, source->pid, why->msg);
    }
    source->left_out = true;
}

/* Refreshes a table; without a budget only its rows. */
static int refresh_table(struct gsp_store *store, struct gsp_store_table *view,
                         struct gsp_string_budget *budget, int64_t end_ns, struct gsp_err *err)
{
    bool changed = false;
    for (size_t i = 0; i < view->source_count; i++) {
        struct gsp_err why = {0};
        struct gsp_source *source = view->sources[i];
        if (source->ops->refresh(source, budget, &changed, &why) != GSP_OK)
            leave_out(store, view, source, &why);
        if (gsp_now_ns() > end_ns) {
            return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the query took longer than %.3g s",
                               (double)store->timeout_ns / 1e9);
        }
    }
    return changed ? gsp_store__table_merge_strings(store->catalog.duck, view, err) : GSP_OK;
}

int gsp_store__refresh(struct gsp_store *store, struct gsp_err *err)
{
    struct gsp_string_budget budget = {string_limit(store)};
    bool has_loss = false;
    for (size_t i = 0; i < store->catalog.view_count; i++) {
        const struct gsp_store_table *view = store->catalog.views[i];
        has_loss =
            has_loss || (view->needed && view->table == gsp_wire_table_at(GSP_TABLE_gsprof_loss));
    }
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < store->catalog.view_count; i++) {
        struct gsp_store_table *view = store->catalog.views[i];
        /* gsprof.loss counts the lost rows of every table. */
        if (view->needed || has_loss)
            rc = refresh_table(store, view, view->needed ? &budget : NULL, store->refresh_end_ns,
                               err);
    }
    return rc;
}
