/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "daemon/settings.h"
#include "tap.h"

static char parsed[512]; /* "line:key=value;" for each pair */

static int add_pair(void *ctx GSP_UNUSED, struct gsp_sv key, struct gsp_sv value, unsigned line,
                    struct gsp_err *err GSP_UNUSED)
{
    const size_t len = strlen(parsed);
    snprintf(parsed + len, sizeof(parsed) - len, "%u:%.*s=%.*s;", line, (int)key.len, key.p,
             (int)value.len, value.p);
    return GSP_OK;
}

static int parse(const char *text, struct gsp_err *err)
{
    parsed[0] = '\0';
    return gsp_daemon__settings_parse(gsp_sv_of(text), add_pair, NULL, err);
}

TAP_TEST(parses_keys_and_values)
{
    tap_eq_int(parse("# comment\n\na = 1_000 # more\n b.c='x # y'\r\n[s]\nk = \"q\\\"\\n\"\n"
                     "[gsprof]  # s\nflag=true",
                     NULL),
               GSP_OK);
    tap_eq_str(parsed, "3:a=1000;4:b.c=x # y;6:s.k=q\"\n;8:gsprof.flag=true;");
}

TAP_TEST(errors_name_the_line)
{
    static const char *const wrong[] = {
        "\nx",     "\nx =", "\nx = \"a", "\nx = \"a\" b", "\nx = [1]",     "\n[a",     "\n[]",
        "\n[[a]]", "\n= 1", "\na b = 1", "\nx = 1 2",     "\nx = \"\\q\"", "\n.a = 1", "\nx = {}",
    };
    for (size_t i = 0; i < GSP_COUNT(wrong); i++) {
        struct gsp_err err = {0};
        tap_eq_int(parse(wrong[i], &err), GSP_E_FORMAT);
        tap_check(strncmp(err.msg, "line 2: ", 8) == 0);
    }
}

static int set(struct gsp_settings *settings, const char *name, const char *value)
{
    int i = gsp_daemon_setting_find(gsp_sv_of(name));
    if (i < 0)
        return 1;
    return gsp_daemon_setting_set(settings, (size_t)i, gsp_sv_of(value), GSP_FROM_REQUEST, NULL);
}

TAP_TEST(values_have_types_and_ranges)
{
    struct gsp_settings settings;
    tap_eq_int(gsp_daemon_settings_load(&settings, "/dev/null", NULL), GSP_OK);
    tap_check(settings.live.period_ns == 200000000);
    tap_eq_str(settings.fixed.bind, "127.0.0.1");
    tap_eq_int(set(&settings, "gsprof.sample_rate", "0.1"), GSP_OK);
    tap_check(settings.live.period_ns == 100000000);
    tap_eq_int(set(&settings, "sample_rate", "10ms"), GSP_OK);
    tap_eq_int(set(&settings, "sample_rate", "9ms"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "sample_rate", "2h"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "sample_rate", "soon"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "sample_rate", "nan"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "port", "65536"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "port", "80.5"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "pss", "maybe"), GSP_E_USAGE);
    tap_eq_int(set(&settings, "pss", "on"), GSP_OK);
    tap_check(settings.fixed.pss);
    tap_eq_int(set(&settings, "nothing", "1"), 1);
    tap_eq_str(gsp_daemon__setting_nearest(gsp_sv_of("gsprof.samplerate")), "sample_rate");
    tap_check(gsp_daemon__setting_nearest(gsp_sv_of("quite another thing")) == NULL);
    tap_check(gsp_daemon__setting_nearest(gsp_sv_of("gsprof.nix")) ==
              NULL); /* "bind" is not similar enough */
    tap_eq_str(gsp_daemon__setting_nearest(gsp_sv_of("bnd")), "bind");
    tap_check(settings.live.period_ns == 10000000);
}

TAP_TEST(environment_overrides_file)
{
    char path[] = "/tmp/gsprof-settings-XXXXXX";
    static const char text[] = "sample_rate = 1\n[gsprof]\nport = 99\nunknown = 5\n";
    struct gsp_settings settings;
    struct gsp_err err = {0};
    gsp_auto_fd fd = mkstemp(path);
    tap_eq_int(gsp_fd_write_all(fd, text, sizeof(text) - 1, NULL), GSP_OK);
    setenv("GSPROF_PORT", "100", 1);
    tap_eq_int(gsp_daemon_settings_load(&settings, path, &err), GSP_OK);
    tap_check(settings.live.period_ns == 1000000000);
    tap_check(settings.fixed.port == 100);
    tap_eq_str(gsp_daemon__setting_origin_name(gsp_daemon__setting_origin_of(&settings, 0)),
               "file");
    setenv("GSPROF_PORT", "x", 1);
    tap_eq_int(gsp_daemon_settings_load(&settings, path, &err), GSP_E_USAGE);
    unlink(path);
    tap_eq_int(gsp_daemon_settings_load(&settings, path, &err), GSP_E_NOFILE);
}

TAP_MAIN()
