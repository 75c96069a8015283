/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h -- groups the sites of a recording by line, function, module, thread, process or
 * allocator.
 *
 * The line of a stack is its innermost Python line, also if a native library below it allocated the
 * memory. A stack without Python frames is grouped by its innermost frame.
 *
 * Threads: immutable after creation.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "memlog/log.h"

enum gsp_memlog_group_by {
    GSP_MEMBY_LINE,
    GSP_MEMBY_FUNCTION,
    GSP_MEMBY_MODULE, /* the file */
    GSP_MEMBY_THREAD,
    GSP_MEMBY_PROCESS,
    GSP_MEMBY_ALLOCATOR,
    GSP_MEMBYS
};

/* "line", "function", ...; NULL past the last. */
const char *gsp_memlog_group_by_name(size_t i);

struct gsp_memlog_groups {
    enum gsp_memlog_group_by by;
    uint32_t *of_site; /* the group of each site */
    uint32_t *ids;     /* frame, thread, process or allocator of each group */
    size_t count;
};

/* Fails with NOMEM. */
GSP_MUST_CHECK int gsp_memlog_groups_create(struct gsp_memlog_groups *groups,
                                            const struct gsp_memlog *log,
                                            enum gsp_memlog_group_by by, struct gsp_err *err);
void gsp_memlog_groups_free(struct gsp_memlog_groups *groups);

/* Returns the frame by which a stack is grouped, or GSP_NONE. */
uint32_t gsp_memlog_group_frame(const struct gsp_profile *profile, uint32_t stack);
/* Returns the innermost frame of the program itself, not of a library. Returns GSP_NONE if it does
 * not exist or is the frame by which the stack is grouped. */
uint32_t gsp_memlog_group_caller(const struct gsp_profile *profile, uint32_t stack);

/* Appends the name of the group. It contains bytes of the target, which every output must escape.
 */
void gsp_memlog_group_name(const struct gsp_memlog_groups *groups, const struct gsp_memlog *log,
                           uint32_t group, struct gsp_buf *out);
