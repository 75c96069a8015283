/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdg.h -- the paths of the user's files (XDG Base Directory Specification).
 *
 * Reads:   XDG_CONFIG_HOME, XDG_STATE_HOME and HOME; ignores relative paths.
 * Threads: do not call while another thread changes the environment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum gsp_xdg {
    GSP_XDG_CONFIG, /* $XDG_CONFIG_HOME, or ~/.config */
    GSP_XDG_STATE,  /* $XDG_STATE_HOME, or ~/.local/state */
};

/* Writes the path of the file or folder `name` in gsprof's folder ("": the folder itself).
 * Returns false if the environment does not name a folder or the path does not fit. */
bool gsp_xdg_path(enum gsp_xdg kind, const char *name, char *out, size_t cap);
