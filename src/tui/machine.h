/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h -- how busy the whole machine is: processors and memory.
 *
 * Reads:   /proc/stat and /proc/meminfo, or texts of that form.
 * Used by: tui/ and cli/ (top).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

/* Since boot, in ticks of the kernel's choice. */
struct gsp_machine_times {
    uint64_t busy;
    uint64_t all;
    uint32_t cores; /* online now */
};

struct gsp_machine {
    bool has_cpu; /* the first reading has nothing to compare with */
    bool has_memory;
    bool gpu_asked; /* once: devices do not come and go */
    bool has_gpu;
    double cpu_pct; /* of all cores together */
    uint32_t cores; /* 0 when unknown */
    uint64_t memory_used_bytes;
    uint64_t memory_total_bytes;
    struct gsp_machine_times last;
};

/* False when the text is not of that form; *out is as before then. */
GSP_MUST_CHECK bool gsp_machine_parse_stat(struct gsp_sv text, struct gsp_machine_times *out);
/* Used is what programs cannot have for the asking: MemTotal - MemAvailable. */
GSP_MUST_CHECK bool gsp_machine_parse_meminfo(struct gsp_sv text, uint64_t *used_bytes,
                                              uint64_t *total_bytes);

/* The load since times->last, which become the last ones. */
void gsp_machine_load(struct gsp_machine *machine, const struct gsp_machine_times *now);

/* Is there a driver of a GPU that computes?  root stands before the paths: "", or a folder. */
bool gsp_machine_find_gpu(const char *root);

/* Reads both files; what cannot be read is unknown. {0} is the state to begin with. */
void gsp_machine_read(struct gsp_machine *machine);
