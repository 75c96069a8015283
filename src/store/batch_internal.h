/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_internal.h -- the constants of a batch, for the store that shows it.
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
