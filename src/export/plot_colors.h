/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot_colors.h -- the colours of a picture.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns 0xRRGGBB for an enum plot_color, on a light background. */
uint32_t gsp_export__plot_rgb(size_t color);
