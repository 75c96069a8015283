/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_sink.h -- writes the samples of a sampler to a .gsp file.
 *
 *   gsp_record_stream_sink_init()     creates the profile that the sampler fills
 *   gsp_sample_record_new()           with &sink->sink; sets the sampling period
 *   gsp_record_stream_sink_open()     writes the header
 *   gsp_sample_record_run()           writes the samples
 *   gsp_record_stream_sink_finish()   writes the end mark
 *
 * Threads: one owner; samples may be read by any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "export/gsp_stream.h"
#include "model/profile.h"
#include "sample/record.h"

struct gsp_stream_sink {
    struct gsp_record_sink sink; /* for gsp_sample_record_new() */
    struct gsp_profile *profile;
    struct gsp_stream *stream; /* NULL: not open */
    _Atomic uint64_t samples;
    /* Called after each flush; may be NULL. A failure ends the recording. */
    int (*flushed)(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err);
    void *user;
};

/* The caller may set `flushed` and `user` afterwards. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_record_stream_sink_init(struct gsp_stream_sink *sink, struct gsp_err *err);
/* fd is borrowed until the sink is finished. Fails with NOMEM, IO. */
GSP_MUST_CHECK int gsp_record_stream_sink_open(struct gsp_stream_sink *sink, int fd,
                                               struct gsp_err *err);
/* Writes the remaining samples and the end mark. Does nothing if the sink is not open. Fails with
 * IO. */
GSP_MUST_CHECK int gsp_record_stream_sink_finish(struct gsp_stream_sink *sink, struct gsp_err *err);
void gsp_record_stream_sink_free(struct gsp_stream_sink *sink); /* {0} does nothing */
