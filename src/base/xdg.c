/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xdg.h"

#include <stdio.h>
#include <stdlib.h>

bool gsp_xdg_path(enum gsp_xdg kind, const char *name, char *out, size_t cap)
{
    const bool is_config = kind == GSP_XDG_CONFIG;
    const char *set = secure_getenv(is_config ? "XDG_CONFIG_HOME" : "XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    const char *below = "";
    if (!set || set[0] != '/') {
        set = home;
        below = is_config ? "/.config" : "/.local/state";
    }
    if (!set || set[0] != '/')
        return false;
    const int n = snprintf(out, cap, "%s%s/gsprof%s%s", set, below, name[0] ? "/" : "", name);
    return n > 0 && (size_t)n < cap;
}
