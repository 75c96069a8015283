/* SPDX-License-Identifier: Apache-2.0 */
#include "record/stream_sink.h"

static int add_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    struct gsp_stream_sink *sink = user;
    atomic_fetch_add_explicit(&sink->samples, 1, memory_order_relaxed);
    return gsp_export_stream_add(sink->stream, sample, err);
}

static void thread_changed(void *user, uint32_t thread)
{
    const struct gsp_stream_sink *sink = user;
    gsp_export_stream_thread_changed(sink->stream, thread);
}

static void process_changed(void *user, uint32_t process)
{
    const struct gsp_stream_sink *sink = user;
    gsp_export_stream_process_changed(sink->stream, process);
}

static int flush(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    const struct gsp_stream_sink *sink = user;
    const int rc = gsp_export_stream_flush(sink->stream, err);
    return rc == GSP_OK && sink->flushed ? sink->flushed(sink->user, stats, err) : rc;
}

int gsp_record_stream_sink_init(struct gsp_stream_sink *sink, struct gsp_err *err)
{
    *sink = (struct gsp_stream_sink){.sink = {.user = sink,
                                              .sample = add_sample,
                                              .thread_changed = thread_changed,
                                              .process_changed = process_changed,
                                              .poll = flush}};
    return gsp_model_profile_new(false, &sink->profile, err);
}

int gsp_record_stream_sink_open(struct gsp_stream_sink *sink, int fd, struct gsp_err *err)
{
    return gsp_export_stream_new(fd, sink->profile, &sink->stream, err);
}

int gsp_record_stream_sink_finish(struct gsp_stream_sink *sink, struct gsp_err *err)
{
    const int rc = sink->stream ? gsp_export_stream_finish(sink->stream, err) : GSP_OK;
    sink->stream = NULL;
    return rc;
}

void gsp_record_stream_sink_free(struct gsp_stream_sink *sink)
{
    gsp_export_stream_free(sink->stream);
    gsp_model_profile_free(sink->profile);
    sink->stream = NULL;
    sink->profile = NULL;
}
