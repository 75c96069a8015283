/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_fixture.h -- the sums of gsprof top over fix_small(), and its rows as text.
 */
#pragma once

#include "profile_fixture.h"
#include "tui/rows.h"
#include "tui/top.h"

/* Returns the sums of all samples of the profile, in one interval as long as the recording. */
static inline struct gsp_top *fix_top(const struct gsp_profile *profile)
{
    struct gsp_top *top = NULL;
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    tap_require(gsp_tui_top_new(profile, &top, NULL) == GSP_OK);
    gsp_model_sample_iter_init(&iter, profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        tap_require(gsp_tui_top_add(top, &sample, NULL) == GSP_OK);
    gsp_tui_top_advance(top, gsp_model_profile_meta_get(profile)->duration_ns);
    return top;
}

/* Appends "depth name own/total samples" for each row. */
static inline void fix_rows_text(const struct gsp_profile *profile, const struct gsp_top_rows *rows,
                                 struct gsp_buf *out)
{
    for (size_t i = 0; i < rows->count; i++) {
        gsp_auto_buf name = {0};
        gsp_tui__top_row_name(profile, &rows->rows[i], &name);
        gsp_buf_printf(out, "%d ", (int)rows->rows[i].depth);
        gsp_buf_term(out, gsp_buf_sv(&name));
        gsp_buf_printf(out, " %d/%d\n", (int)rows->rows[i].own_count,
                       (int)rows->rows[i].total_count);
    }
}
