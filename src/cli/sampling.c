/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sampling.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "proc/task.h"

/* In the order of enum gsp_capture_policy. */
static const char *const CAPTURES[] = {"auto", "stop", "perf"};

const char *gsp_cli__capture_choice(size_t i)
{
    return i < GSP_COUNT(CAPTURES) ? CAPTURES[i] : NULL;
}

static enum gsp_capture_policy capture_of(const char *name)
{
    for (size_t i = 0; i < GSP_COUNT(CAPTURES); i++)
        if (name && strcmp(name, CAPTURES[i]) == 0)
            return (enum gsp_capture_policy)i;
    return GSP_CAPTURE_AUTO;
}

int gsp_cli__sampling_check(const struct gsp_sampling *sampling, struct gsp_err *err)
{
    const struct gsp_select_opts *select = &sampling->select;
    if (sampling->cpu && (sampling->idle || sampling->wall))
        return gsp_err_set(err, GSP_E_USAGE, 0, "--cpu and --wall exclude each other");
    if (sampling->blocking && sampling->nonblocking)
        return gsp_err_set(err, GSP_E_USAGE, 0, "--blocking and --nonblocking exclude each other");
    const char *const expressions[] = {select->include, select->exclude, select->thread,
                                       select->below};
    for (size_t i = 0; i < GSP_COUNT(expressions); i++) {
        int rc = gsp_sample_select_check(expressions[i], err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

void gsp_cli__sampling_title(char *const *args, pid_t pid, char *out, size_t cap)
{
    gsp_auto_buf raw = {0};
    gsp_auto_buf shown = {0};
    for (size_t i = 0; args && args[i]; i++)
        gsp_buf_printf(&raw, "%s%s", i ? " " : "", args[i]);
    if (!args || !args[0])
        gsp_proc_cmdline(pid, &raw);
    gsp_buf_term(&shown, gsp_buf_sv(&raw));
    const char *title = gsp_buf_cstr(&shown);
    if (title && title[0])
        snprintf(out, cap, "%s", title);
}

struct gsp_record_opts gsp_cli__sampling_begin(const struct gsp_sampling *sampling, pid_t pid,
                                               bool is_child)
{
    /* A tree of hundreds of processes needs thousands of descriptors. */
    gsp_cli__raise_descriptors();
    return (struct gsp_record_opts){
        .pid = pid,
        .rate_hz = sampling->rate_hz,
        .duration_ns = sampling->duration_ns,
        .subprocesses = sampling->subprocesses,
        .gil_only = sampling->gil,
        .idle = sampling->idle || sampling->wall,
        .blocking = sampling->blocking,
        .native = sampling->native,
        .capture = capture_of(sampling->native_capture),
        .jitter = sampling->jitter,
        .is_child = is_child,
        .select = sampling->select,
    };
}
