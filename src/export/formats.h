/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h -- the rows of the format table, each defined in the source file of its format.
 *
 * Threads: constants.
 */
#pragma once

#include <string.h>

#include "export/format.h"

/* Formats are detected within this many bytes from the start of a file. */
#define GSP_SNIFF_BYTES 65536U

/* Whether the first bytes of a file contain the mark. */
static inline bool gsp_export__head_has(struct gsp_sv head, const char *mark)
{
    size_t len = head.len < GSP_SNIFF_BYTES ? head.len : GSP_SNIFF_BYTES;
    return head.p && memmem(head.p, len, mark, strlen(mark)) != NULL;
}

extern const struct gsp_format gsp_format_gsp;
extern const struct gsp_format gsp_format_json;
extern const struct gsp_format gsp_format_speedscope;
extern const struct gsp_format gsp_format_folded;
extern const struct gsp_format gsp_format_chrome;
extern const struct gsp_format gsp_format_svg;
extern const struct gsp_format gsp_format_pstats;
extern const struct gsp_format gsp_format_pprof;
