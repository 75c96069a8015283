/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_internal.h -- the values that all rows of a batch share.
 *
 * Threads: as batch.h.
 */
#pragma once

#include <stdint.h>

#include "store/batch.h"

struct gsp_batch_about {
    const char *host; /* borrowed; NULL: unknown */
    int64_t pid;
    int64_t rank;
};

struct gsp_batch_about gsp_store__batch_about(const struct gsp_batch *batch);
