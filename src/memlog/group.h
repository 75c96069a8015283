/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h -- the sites of a recording put together: by line, function, module, thread, process.
 *
 * A line is the innermost Python line of a stack: a library below it that asked for the memory is
 * its doing.  Stacks without Python go by their innermost frame.
 *
 * Used by: view.h, leak.h, cli/ (mem report).
 * Threads: never changes once made.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "memlog/log.h"

enum gsp_memby {
    GSP_MEMBY_LINE,
    GSP_MEMBY_FUNCTION,
    GSP_MEMBY_MODULE, /* the file */
    GSP_MEMBY_THREAD,
    GSP_MEMBY_PROCESS,
    GSP_MEMBY_ALLOCATOR,
    GSP_MEMBYS
};

/* "line", "function", ...; NULL past the last. */
const char *gsp_memby_name(size_t i);

struct gsp_memgroups {
    enum gsp_memby by;
    uint32_t *of_site; /* the group of each site */
    uint32_t *ids;     /* of each group: frame, thread, process or allocator */
    size_t count;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memgroups_make(struct gsp_memgroups *groups, const struct gsp_memlog *log,
                                      enum gsp_memby by, struct gsp_err *err);
void gsp_memgroups_free(struct gsp_memgroups *groups);

/* The frame that a stack goes by: GSP_NONE for none. */
uint32_t gsp_memgroup_frame(const struct gsp_profile *profile, uint32_t stack);
/* The nearest frame of a stack that is the program's own and not of a library: GSP_NONE when that
 * is the one that it goes by, or there is none. */
uint32_t gsp_memgroup_caller(const struct gsp_profile *profile, uint32_t stack);

/* Appends what the group is called; bytes of the target, to be escaped by whoever shows them. */
void gsp_memgroup_name(const struct gsp_memgroups *groups, const struct gsp_memlog *log,
                       uint32_t group, struct gsp_buf *out);
