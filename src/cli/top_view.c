/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_view.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "cli/hint.h"
#include "record/launch.h"
#include "tui/screen.h"
#include "tui/text.h"

#define TEXT_ROWS 20

volatile sig_atomic_t gsp_top_stop;

static volatile sig_atomic_t signal_count;
static volatile sig_atomic_t child_pid;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    /* The terminal sends Ctrl-C to the child as well; forward signals sent to gsprof alone. */
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    gsp_top_stop = 1;
    signal_count++;
    if (signal_count > 1) {
        /* A child that ignores Ctrl-C must not outlive gsprof. */
        if (child_pid > 0)
            kill((pid_t)child_pid, SIGTERM);
        gsp_tui_screen_restore();
        _exit(128 + sig);
    }
    errno = saved;
}

static void on_crash(int sig)
{
    gsp_tui_screen_restore();
    signal(sig, SIG_DFL);
    raise(sig);
}

void gsp_cli__top_catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    gsp_record_signals_catch(ends, GSP_COUNT(ends), on_signal, 0);
    struct sigaction crash = {0};
    crash.sa_handler = on_crash;
    crash.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&crash.sa_mask);
    for (size_t i = 0; i < GSP_COUNT(crashes); i++)
        sigaction(crashes[i], &crash, NULL);
}

void gsp_cli__top_set_child(pid_t child)
{
    child_pid = child;
}

int gsp_cli__top_screen_begin(struct gsp_top_view *view, struct gsp_err *err)
{
    struct gsp_term out;
    if (view->is_printed)
        return GSP_OK;
    gsp_cli__term_init(&out, STDOUT_FILENO, view->parsed->globals.color);
    int rc = gsp_tui_screen_open(out.color, err);
    if (rc == GSP_OK)
        gsp_tui_screen_size(&view->ui.width, &view->ui.height);
    return rc;
}

bool gsp_cli__top_handle_keys(struct gsp_top_view *view, int timeout_ms)
{
    struct gsp_ui_key key;
    bool any = false;
    while (gsp_tui_screen_key(any ? 0 : timeout_ms, &key)) {
        any = true;
        gsp_tui_ui_press(&view->ui, &key, view->top, &view->rows);
        /* Several keys may be waiting: each must act on current rows. */
        gsp_ignore(gsp_tui_rows_build(view->top, &view->ui.query, &view->rows, NULL));
        gsp_tui_ui_clamp_cursor(&view->ui, view->rows.count);
    }
    gsp_tui_screen_size(&view->ui.width, &view->ui.height);
    return any;
}

int gsp_cli__top_draw(struct gsp_top_view *view, struct gsp_err *err)
{
    int64_t start_ns = gsp_now_ns();
    struct gsp_top_facts *facts = &view->facts;
    int rc = gsp_tui_rows_build(view->top, &view->ui.query, &view->rows, err);
    if (rc < 0)
        return rc;
    gsp_tui_ui_clamp_cursor(&view->ui, view->rows.count);
    gsp_tui_top_facts_sum(view->top, view->ui.query.whole, facts);
    facts->is_paused = view->ui.is_paused;
    gsp_tui_screen_draw(&(struct gsp_screen_view){view->top, &view->ui, facts, &view->rows});
    view->cost_ns = gsp_now_ns() - start_ns;
    return GSP_OK;
}

int gsp_cli__top_print(struct gsp_top_view *view, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = view->opts;
    const struct gsp_top_query *query = &view->ui.query;
    struct gsp_top_facts *facts = &view->facts;
    struct gsp_term out;
    gsp_auto_buf text = {0};
    int rc = GSP_OK;
    gsp_tui_top_facts_sum(view->top, query->whole, facts);
    gsp_cli__term_init(&out, STDOUT_FILENO, "never");
    if (opts->json) {
        rc = gsp_tui_top_json(view->top, query, facts, (size_t)opts->rows, &text);
    } else {
        if (view->printed)
            gsp_buf_putc(&text, '\n');
        rc = gsp_tui_top_text(view->top, query, facts, out.width,
                              opts->rows ? (size_t)opts->rows : TEXT_ROWS, &text);
    }
    view->printed++;
    if (rc < 0)
        return gsp_err_set(err, rc, 0, "out of memory");
    return gsp_file_put(NULL, false, &text, err);
}

int gsp_cli__top_fail(const struct gsp_top_view *view, const struct gsp_err *err)
{
    const struct gsp_top_opts *opts = view->opts;
    char **args = view->parsed->args;
    if (err->code != GSP_E_NOTSUP)
        return gsp_cli__fail(view->parsed,
                             &(struct gsp_hint_context){.pid = view->pid,
                                                        .path = opts->input,
                                                        .program = args[0],
                                                        .blocking = opts->sampling.blocking},
                             err);
    struct gsp_hint hint = {0};
    struct gsp_term term = view->term;
    gsp_auto_buf text = {0};
    snprintf(hint.what, sizeof(hint.what), "cannot open the live view: %s", err->msg);
    snprintf(hint.why, sizeof(hint.why), "the live view needs a terminal of at least 80x10");
    gsp_cli__hint_add(&hint, "prints one table", "gsprof top --once %s",
                      opts->input ? "--input FILE"
                      : args[0]   ? "-- COMMAND"
                                  : "--pid PID");
    gsp_cli__hint_add(&hint, "prints JSON", "gsprof top -n 10 --json %s",
                      opts->input ? "--input FILE"
                      : args[0]   ? "-- COMMAND"
                                  : "--pid PID");
    gsp_cli__hint_print(&hint, &term, &text);
    gsp_cli__term_write(&term, &text);
    return gsp_err_exit_status(err->code);
}
