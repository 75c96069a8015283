/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h -- the rows of the table in format.c, one constant per format's file.
 *
 * Used by: files of this folder only.
 * Threads: constants.
 */
#pragma once

#include "export/format.h"

extern const struct gsp_format gsp_format_gsp;
extern const struct gsp_format gsp_format_json;
extern const struct gsp_format gsp_format_speedscope;
extern const struct gsp_format gsp_format_folded;
extern const struct gsp_format gsp_format_chrome;
extern const struct gsp_format gsp_format_svg;
extern const struct gsp_format gsp_format_pstats;
extern const struct gsp_format gsp_format_pprof;
