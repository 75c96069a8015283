/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot_colors.h -- how the colours of a picture look.
 *
 * Used by: the writers of export/plot alone.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 0xRRGGBB of an enum plot_color, on light ground. */
uint32_t gsp_plot__rgb(size_t color);
