/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdg.h -- where a user's files belong (XDG Base Directory Specification).
 *
 * Reads:   XDG_CONFIG_HOME, XDG_STATE_HOME and HOME. Only absolute paths count.
 * Threads: call it before other threads change the environment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum gsp_xdg {
    GSP_XDG_CONFIG, /* $XDG_CONFIG_HOME, or ~/.config */
    GSP_XDG_STATE,  /* $XDG_STATE_HOME, or ~/.local/state */
};

/* Writes the path of gsprof's file or folder `name` there ("" is gsprof's folder itself).
 * Returns false if the environment names no folder or the path does not fit. */
bool gsp_xdg_path(enum gsp_xdg kind, const char *name, char *out, size_t cap);
