/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/hint.h"

void gsp_hint__serve(const struct gsp_err *err, struct gsp_hint *out)
{
    snprintf(out->what, sizeof(out->what), "%s", err->msg[0] ? err->msg : gsp_err_text(err->code));
    if (err->code == GSP_E_EXISTS && err->sys == EADDRINUSE) {
        gsp_hint_add(out, "who has it", "ss -tlnp");
        gsp_hint_add(out, "takes a free one", "gsprof serve --port 0");
    } else if (err->code == GSP_E_EXISTS) {
        gsp_hint_add(out, "who it is", "pgrep -af 'gsprof serve'");
        gsp_hint_add(out, "beside it", "gsprof serve --port 0 --state-dir ./state");
    } else if (strstr(err->msg, "token")) {
        gsp_hint_add(out, "makes one", "(umask 077; openssl rand -hex 24 > token)");
        gsp_hint_add(out, "", "gsprof serve --bind 0.0.0.0 --token-file token");
    } else if (err->code == GSP_E_NOWRITE || strstr(err->msg, "folder")) {
        gsp_hint_add(out, "another folder", "gsprof serve --output-dir ./sessions");
        gsp_hint_add(out, "another one for its own files", "gsprof serve --state-dir ./state");
    } else if (err->code == GSP_E_USAGE) {
        gsp_hint_add(out, "what the settings take", "gsprof serve --help");
    }
}
