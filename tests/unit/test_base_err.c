/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "tap.h"

TAP_TEST(codes_have_names_and_statuses)
{
    tap_eq_str(gsp_err_name(GSP_E_PERM), "PERM");
    tap_eq_int(gsp_err_exit_status(GSP_E_PERM), 77);
    tap_eq_int(gsp_err_http_status(GSP_E_PERM), 403);
    tap_eq_int(gsp_err_exit_status(GSP_OK), 0);
}

TAP_TEST(unknown_codes_are_internal_errors)
{
    tap_eq_int(gsp_err_exit_status(-9999), 70);
    tap_eq_int(gsp_err_http_status(12345), 500);
    tap_check(gsp_err_text(-9999) != NULL);
}

TAP_TEST(every_code_is_negative_and_unique)
{
    static const int CODES[] = {
#define CODE(name, code, exit_status, http, text) (code),
        GSP_ERR_MAP(CODE)
#undef CODE
    };
    for (size_t i = 0; i < GSP_COUNT(CODES); i++) {
        tap_check(CODES[i] < 0);
        for (size_t j = 0; j < i; j++)
            tap_check(CODES[i] != CODES[j]);
    }
}

TAP_TEST(set_fills_the_struct_and_returns_the_code)
{
    struct gsp_err err = {0};
    errno = EAGAIN;
    tap_eq_int(gsp_err_set(&err, GSP_E_IO, ENOSPC, "disk %d", 7), GSP_E_IO);
    tap_eq_int(errno, EAGAIN);
    tap_eq_int(err.code, GSP_E_IO);
    tap_eq_int(err.sys, ENOSPC);
    tap_eq_str(err.msg, "disk 7");
    tap_eq_int(gsp_err_set(NULL, GSP_E_NOMEM, 0, "not stored"), GSP_E_NOMEM);
}

TAP_TEST(long_messages_are_truncated)
{
    struct gsp_err err;
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    gsp_err_fill(&err, GSP_E_IO, 0, "%s", text);
    tap_eq_int(strlen(err.msg), sizeof(err.msg) - 1);
}

static int lines;
static char last_line[64];

static void sink(enum gsp_log_level level, const char *domain, const char *line)
{
    lines++;
    snprintf(last_line, sizeof(last_line), "%d %s %s", (int)level, domain, line);
}

TAP_TEST(the_sink_receives_messages_up_to_its_level)
{
    gsp_log_warn("proc", "no sink");
    gsp_log_set_sink(sink, GSP_LOG_INFO);
    gsp_log_debug("proc", "above the level");
    tap_eq_int(lines, 0);
    gsp_log_info("py", "found %s", "3.11");
    tap_eq_int(lines, 1);
    tap_eq_str(last_line, "1 py found 3.11");
}

TAP_TEST(clocks_move_forward)
{
    int64_t a = gsp_now_ns();
    int64_t b = gsp_now_ns();
    tap_check(b >= a && a > 0);
    tap_check(gsp_realtime_ns() > 1600000000LL * GSP_NS_PER_S);
    tap_check(gsp_cputime_ns() > 0);
}

TAP_TEST(durations_have_three_digits)
{
    char text[32];
    tap_eq_str(gsp_fmt_duration(1500 * GSP_NS_PER_MS, text, sizeof(text)), "1.50 s");
    tap_eq_str(gsp_fmt_duration(12 * GSP_NS_PER_MS, text, sizeof(text)), "12.0 ms");
    tap_eq_str(gsp_fmt_duration(123456, text, sizeof(text)), "123 us");
    tap_eq_str(gsp_fmt_duration(0, text, sizeof(text)), "0 ns");
    tap_eq_str(gsp_fmt_duration(90 * GSP_NS_PER_S, text, sizeof(text)), "1.50 min");
    tap_eq_str(gsp_fmt_duration(-2 * GSP_NS_PER_S, text, sizeof(text)), "-2.00 s");
}

TAP_MAIN()
