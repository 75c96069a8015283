/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h -- load of the whole machine: processors and memory.
 *
 * Reads:   /proc/stat and /proc/meminfo, or texts of that form.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

/* Since boot, in kernel ticks. */
struct gsp_machine_times {
    uint64_t busy;
    uint64_t all;
    uint32_t cores; /* online */
};

struct gsp_machine {
    bool has_cpu; /* false after the first reading */
    bool has_memory;
    bool gpu_asked; /* checked once */
    bool has_gpu;
    double cpu_pct; /* of all cores together */
    uint32_t cores; /* 0 when unknown */
    uint64_t memory_used_bytes;
    uint64_t memory_total_bytes;
    struct gsp_machine_times last;
};

/* Returns false if the text is malformed; *out is then unchanged. */
GSP_MUST_CHECK bool gsp_tui__machine_parse_stat(struct gsp_sv text, struct gsp_machine_times *out);
/* Used memory is MemTotal - MemAvailable. */
GSP_MUST_CHECK bool gsp_tui__machine_parse_meminfo(struct gsp_sv text, uint64_t *used_bytes,
                                                   uint64_t *total_bytes);

/* Computes the load since machine->last, and replaces it. */
void gsp_tui__machine_load(struct gsp_machine *machine, const struct gsp_machine_times *now);

/* Returns whether the driver of a compute GPU is loaded. root is a prefix of the paths: "", or a
 * folder. */
bool gsp_tui__machine_find_gpu(const char *root);

/* Reads both files; values that cannot be read are unknown. Initialize *machine to {0}. */
void gsp_tui_machine_read(struct gsp_machine *machine);
