/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "export/plot.h"
#include "frames/session_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pieces {
    const uint8_t *data;
    size_t size;
    size_t at;
    size_t piece;
};

static int64_t read_piece(void *ctx, char *out, size_t n, struct gsp_err *err)
{
    struct pieces *pieces = ctx;
    (void)err;
    size_t left = pieces->size - pieces->at;
    n = n < pieces->piece ? n : pieces->piece;
    n = n < left ? n : left;
    memcpy(out, pieces->data + pieces->at, n);
    pieces->at += n;
    return (int64_t)n;
}

static bool all_bins(void *ctx, const char *metric)
{
    (void)ctx;
    (void)metric;
    return true;
}

/* The first byte is the size of the pieces in which the file is read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct pieces pieces = {data + 1, size - 1, 0, (size_t)data[0] + 1};
    struct gsp_session_read_options options = {.values = true, .bins = all_bins};
    struct gsp_session_data *session = NULL;
    struct gsp_err err = {0};
    if (gsp_frames_session_read(read_piece, &pieces, &options, &session, &err) != GSP_OK)
        return 0;
    gsp_auto_buf out = {0};
    struct gsp_plot plot = {.metrics = "e,u,a", .format = GSP_PLOT_HTML};
    if (gsp_export_plot_draw(&plot, session, &out, &err) != GSP_OK && err.msg[0] == '\0')
        abort(); /* a failure without a message */
    gsp_frames_session_data_free(session);
    return 0;
}
