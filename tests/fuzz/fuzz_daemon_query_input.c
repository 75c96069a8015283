/* SPDX-License-Identifier: Apache-2.0 */
/* The input of the query process: parameters, sessions and ranges of frames, as JSON. Replaces the
 * store, which would need the engine. */
#include "daemon/query_input.h"
#include "fuzz_file.h"
#include "source/metric_frames.h"
#include "store/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                               struct gsp_err *err);
int __wrap_gsp_store_add_live(struct gsp_store *store, const struct gsp_table *table,
                              int (*fill)(void *ctx, struct gsp_batch *batch, struct gsp_err *err),
                              void *ctx, struct gsp_err *err);
int __wrap_gsp_source_metric_frames_add(const struct gsp_source_frame_log *log,
                                        struct gsp_store *store, struct gsp_err *err);

int __wrap_gsp_store_add_batch(struct gsp_store *store, struct gsp_batch *batch,
                               struct gsp_err *err)
{
    (void)store;
    (void)err;
    gsp_store_batch_free(batch);
    return GSP_OK;
}

int __wrap_gsp_store_add_live(struct gsp_store *store, const struct gsp_table *table,
                              int (*fill)(void *ctx, struct gsp_batch *batch, struct gsp_err *err),
                              void *ctx, struct gsp_err *err)
{
    (void)store;
    (void)table;
    return fill(ctx, NULL, err);
}

int __wrap_gsp_source_metric_frames_add(const struct gsp_source_frame_log *log,
                                        struct gsp_store *store, struct gsp_err *err)
{
    (void)store;
    for (size_t i = 1; i < log->session_count; i++)
        if (log->sessions[i - 1].start_ns < log->sessions[i].start_ns)
            abort();
    return gsp_err_set(err, GSP_E_NOFILE, 0, "no frame log in %.100s", log->folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_body *body = NULL;
    struct gsp_param *params = NULL;
    size_t count = 0;
    struct gsp_err trouble = {0};
    struct gsp_err err = {0};
    if (gsp_http_body_read((struct gsp_sv){(const char *)data, size}, &body, NULL) != GSP_OK)
        return 0;
    gsp_ignore(gsp_daemon__query_params_read(body, &params, &count, &err));
    free(params);
    gsp_ignore(gsp_daemon__query_input_add(body, NULL, &trouble, &err));
    gsp_http_body_free(body);
    return 0;
}
