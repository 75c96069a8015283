/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_stream.h -- the .gsp file while it is being recorded.
 *
 * The recorder interns into a profile (that keeps no samples) and hands each sample to the
 * stream; new strings, frames, stacks, threads and processes of the profile are written
 * before the first sample that uses them.  Blocks are complete and checksummed, so a
 * recorder that is killed loses at most what was not flushed: call gsp_stream_flush() at
 * least once a second.  No allocation grows with the number of samples.
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
GSP_MUST_CHECK int gsp_stream_new(int fd, struct gsp_profile *profile, struct gsp_stream **out,
                                  struct gsp_err *err);
/* Adds a sample to the current block (and flushes by itself when the block is full). */
GSP_MUST_CHECK int gsp_stream_add(struct gsp_stream *stream, const struct gsp_sample *sample,
                                  struct gsp_err *err);
/* Thread or process i changed (its name became known): written with the next block. */
void gsp_stream_thread_changed(struct gsp_stream *stream, uint32_t thread);
void gsp_stream_process_changed(struct gsp_stream *stream, uint32_t process);
/* Everything so far, and the profile's meta (losses, ticks, duration), to the descriptor. */
GSP_MUST_CHECK int gsp_stream_flush(struct gsp_stream *stream, struct gsp_err *err);
/* Flushes and writes the end mark; frees the stream. */
GSP_MUST_CHECK int gsp_stream_finish(struct gsp_stream *stream, struct gsp_err *err);
void gsp_stream_free(struct gsp_stream *stream); /* without flushing */
