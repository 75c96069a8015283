/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sandbox.h"

#include <sys/prctl.h>

static struct {
    bool is_noted;
    int seccomp;
    int no_new_privs;
} before;

void gsp_sandbox_note(void)
{
    if (before.is_noted)
        return;
    before.seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    before.no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    before.is_noted = true;
}

bool gsp_sandbox_is_new(void)
{
    if (!before.is_noted)
        return false;
    const int seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    return seccomp > 0 && (seccomp != before.seccomp ||
                           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != before.no_new_privs);
}
