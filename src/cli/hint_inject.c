/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/hint.h"
#include "proc/perm.h"

static void set_why(struct gsp_hint *out, const char *text)
{
    snprintf(out->why, sizeof(out->why), "%s", text);
}

/* The command as part of a sentence: "cannot inject into process 4242". */
static const char *verb_of(const char *command)
{
    if (strcmp(command, "inject") == 0)
        return "inject into";
    return strcmp(command, "eject") == 0 ? "eject from" : "run code in";
}

static void not_possible(const struct gsp_err *err, const struct gsp_hint_context *context,
                         struct gsp_hint *out)
{
    struct gsp_perm perm;
    const int pid = (int)context->pid;
    set_why(out, err->msg);
    gsp_proc_perm_read(context->root, context->pid, &perm);
    if (perm.tracer > 0)
        gsp_cli__hint_add(out, "shows the tracer", "ps -o pid,user,args -p %d", (int)perm.tracer);
    else if (perm.state == 'T')
        gsp_cli__hint_add(out, "continues the process", "kill -CONT %d", pid);
    else if (err->reason == GSP_REASON_SECCOMP)
        gsp_cli__hint_add(out, "if the filter allows it", "gsprof %s --force %d", context->command,
                          pid);
    else if (err->reason == GSP_REASON_NAMESPACE)
        gsp_cli__hint_add(out, "inside the container", "nsenter -t %d -a gsprof %s PID", pid,
                          context->command);
    if (strcmp(context->command, "inject") == 0)
        gsp_cli__hint_add(out, "samples from outside", "gsprof record --pid %d", pid);
}

void gsp_cli__hint_inject(const struct gsp_err *err, const struct gsp_hint_context *context,
                          struct gsp_hint *out)
{
    const int pid = (int)context->pid;
    switch (err->code) {
    case GSP_E_NOTSUP:
    case GSP_E_FORMAT:
    case GSP_E_FAULT:
        snprintf(out->what, sizeof(out->what), "cannot %s process %d", verb_of(context->command),
                 pid);
        not_possible(err, context, out);
        return;
    case GSP_E_TIMEOUT:
        snprintf(out->what, sizeof(out->what), "timed out: %s process %d", context->command, pid);
        set_why(out, err->msg);
        gsp_cli__hint_add(out, "shows what its threads do", "gsprof dump --native --pid %d", pid);
        if (err->reason == GSP_REASON_TRANSFER)
            gsp_cli__hint_add(out, "if the program sends the rest again", "gsprof %s --force %d",
                              context->command, pid);
        return;
    case GSP_E_EXISTS:
        gsp_cli__hint_add(out, "removes the other agent first", "gsprof eject %d", pid);
        break;
    case GSP_E_NOFILE:
        if (pid > 0)
            gsp_cli__hint_add(out, "loads the agent", "gsprof inject %d", pid);
        break;
    default:
        break;
    }
    snprintf(out->what, sizeof(out->what), "%s", err->msg[0] ? err->msg : gsp_err_text(err->code));
}
