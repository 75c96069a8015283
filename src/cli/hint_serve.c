/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/hint.h"

void gsp_cli__hint_serve(const struct gsp_err *err, struct gsp_hint *out)
{
    snprintf(out->what, sizeof(out->what), "%s", err->msg[0] ? err->msg : gsp_err_text(err->code));
    if (err->code == GSP_E_EXISTS && err->sys == EADDRINUSE) {
        gsp_cli__hint_add(out, "lists listening ports", "ss -tlnp");
        gsp_cli__hint_add(out, "uses a free port", "gsprof serve --port 0");
    } else if (err->code == GSP_E_EXISTS) {
        gsp_cli__hint_add(out, "shows the other daemon", "pgrep -af 'gsprof serve'");
        gsp_cli__hint_add(out, "runs a second one", "gsprof serve --port 0 --state-dir ./state");
    } else if (err->reason == GSP_REASON_TOKEN) {
        gsp_cli__hint_add(out, "creates a token", "(umask 077; openssl rand -hex 24 > token)");
        gsp_cli__hint_add(out, "", "gsprof serve --bind 0.0.0.0 --token-file token");
    } else if (err->code == GSP_E_NOWRITE || err->reason == GSP_REASON_FOLDER) {
        gsp_cli__hint_add(out, "another output folder", "gsprof serve --output-dir ./sessions");
        gsp_cli__hint_add(out, "another state folder", "gsprof serve --state-dir ./state");
    } else if (err->code == GSP_E_USAGE) {
        gsp_cli__hint_add(out, "describes the options", "gsprof serve --help");
    }
}
