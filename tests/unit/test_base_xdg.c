/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/xdg.h"
#include "tap.h"

TAP_TEST(the_xdg_variable_takes_precedence)
{
    char out[64];
    setenv("HOME", "/h", 1);
    setenv("XDG_CONFIG_HOME", "/c", 1);
    unsetenv("XDG_STATE_HOME");
    tap_check(gsp_xdg_path(GSP_XDG_CONFIG, "token", out, sizeof(out)));
    tap_eq_str(out, "/c/gsprof/token");
    tap_check(gsp_xdg_path(GSP_XDG_STATE, "", out, sizeof(out)));
    tap_eq_str(out, "/h/.local/state/gsprof");
}

TAP_TEST(a_relative_path_is_ignored)
{
    char out[64];
    setenv("XDG_CONFIG_HOME", "c", 1);
    setenv("HOME", "/h", 1);
    tap_check(gsp_xdg_path(GSP_XDG_CONFIG, "config.toml", out, sizeof(out)));
    tap_eq_str(out, "/h/.config/gsprof/config.toml");
    setenv("HOME", "h", 1);
    tap_check(!gsp_xdg_path(GSP_XDG_CONFIG, "config.toml", out, sizeof(out)));
}

TAP_TEST(a_path_that_does_not_fit_is_rejected)
{
    char out[8];
    setenv("XDG_CONFIG_HOME", "/config", 1);
    tap_check(!gsp_xdg_path(GSP_XDG_CONFIG, "token", out, sizeof(out)));
}

TAP_MAIN()
