/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_stream.h -- writes a .gsp file during a recording.
 *
 * The recorder interns strings, frames, stacks, threads and processes in a profile that keeps
 * no samples, and adds each sample to the stream. The stream writes new definitions before the
 * first sample that refers to them. Every block is complete and has a checksum, so a killed
 * recorder loses only samples that are not flushed: call gsp_export_stream_flush() at least once a
 * second. Memory does not grow with the number of samples.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

struct gsp_stream;

/* Writes the header to fd (borrowed). */
GSP_MUST_CHECK int gsp_export_stream_new(int fd, struct gsp_profile *profile,
                                         struct gsp_stream **out, struct gsp_err *err);
/* Adds a sample to the current block, and writes the block if it is full. */
GSP_MUST_CHECK int gsp_export_stream_add(struct gsp_stream *stream, const struct gsp_sample *sample,
                                         struct gsp_err *err);
/* Writes the thread or process again with the next block, because a member changed (its name
 * became known). */
void gsp_export_stream_thread_changed(struct gsp_stream *stream, uint32_t thread);
void gsp_export_stream_process_changed(struct gsp_stream *stream, uint32_t process);
/* Writes all samples added so far, and the profile's meta (losses, ticks, duration). */
GSP_MUST_CHECK int gsp_export_stream_flush(struct gsp_stream *stream, struct gsp_err *err);
/* Flushes, writes the end block and frees the stream. */
GSP_MUST_CHECK int gsp_export_stream_finish(struct gsp_stream *stream, struct gsp_err *err);
void gsp_export_stream_free(struct gsp_stream *stream); /* without flushing */
