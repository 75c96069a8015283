/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_fault.h"

#include "base/str.h"

/* The command that prints the traceback, with the program itself if it is a Python interpreter. */
static void put_import(const char *python_dir, const char *program, struct gsp_buf *out)
{
    const struct gsp_sv name = gsp_sv_basename(gsp_sv_of(program));
    gsp_buf_puts(out, "PYTHONPATH=");
    gsp_buf_shell(out, gsp_sv_of(python_dir));
    gsp_buf_putc(out, ' ');
    gsp_buf_shell(out, gsp_sv_of(gsp_sv_starts(name, "python") ? program : "python3"));
    gsp_buf_puts(out, " -c 'import gsprof._environment'");
}

void gsp_cli__run_fault_explain(const struct gsp_announcements *announced, const char *python_dir,
                                const char *program, struct gsp_buf *out)
{
    if (!announced->inside) {
        gsp_buf_puts(out, "gsprof: no spans, steps or modules: the program's Python runs with -E, "
                          "-I, -S or another PYTHONPATH; try: gsprof inject PID");
        return;
    }
    if (announced->cause == GSP_ANNOUNCED_NONE)
        return;
    gsp_buf_printf(out, "gsprof: no %s of process %d: %s",
                   announced->cause == GSP_ANNOUNCED_NO_TORCH ? "PyTorch modules"
                                                              : "spans, steps or modules",
                   (int)announced->faulty, announced->why);
    if (announced->cause == GSP_ANNOUNCED_NOT_LOADED) {
        gsp_buf_puts(out, "; try: ");
        put_import(python_dir, program, out);
    } else if (announced->cause == GSP_ANNOUNCED_NO_RINGS) {
        gsp_buf_puts(out, "; try: gsprof list --clean");
    } else if (announced->cause == GSP_ANNOUNCED_NO_TORCH) {
        gsp_buf_puts(out, "; without them: gsprof run --torch off");
    }
}
