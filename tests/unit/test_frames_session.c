/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_scan.h"
#include "base/time.h"
#include "export/plot.h"
#include "frames/session_format.h"
#include "frames/session_read.h"
#include "tap.h"

/* A text that is read in pieces of a given size, so that tokens are split. */
struct pieces {
    const char *text;
    size_t len;
    size_t at;
    size_t piece;
};

static int64_t read_piece(void *ctx, char *out, size_t n, struct gsp_err *err)
{
    struct pieces *pieces = ctx;
    (void)err;
    size_t left = pieces->len - pieces->at;
    n = n < pieces->piece ? n : pieces->piece;
    n = n < left ? n : left;
    memcpy(out, pieces->text + pieces->at, n);
    pieces->at += n;
    return (int64_t)n;
}

/* Tokenizes the text and writes the tokens as JSON; "" if the text is rejected. */
static void retokenize(const char *text, size_t piece, struct gsp_buf *out, struct gsp_err *err)
{
    struct pieces pieces = {text, strlen(text), 0, piece};
    struct gsp_json_scan scan;
    struct gsp_json json;
    gsp_buf_clear(out);
    gsp_json_init(&json, out);
    int rc = gsp_json_scan_open(&scan, read_piece, &pieces, err);
    if (rc == GSP_OK)
        rc = gsp_json_scan_next(&scan, err);
    if (rc == GSP_OK)
        rc = gsp_json_scan_copy(&scan, &json, err);
    if (rc == GSP_OK)
        rc = gsp_json_scan_next(&scan, err);
    if (rc == GSP_OK)
        tap_eq_int(scan.kind, GSP_JSON_SCAN_END);
    else
        gsp_buf_clear(out);
    gsp_json_scan_close(&scan);
}

TAP_TEST(tokens_may_be_split_anywhere)
{
    static const char TEXT[] =
        " {\"a\" : [1, -2.5, 1e3, 0.1, 12345678901234567890, true,false , null], "
        "\"b\\n\\u00e9\\ud83d\\ude00\":\"\\\"\\\\/\\/\", \"c\":{}, \"d\":[ ], \"\": \"\"}\n";
    static const char SAME[] = "{\"a\":[1,-2.5,1000,0.1,12345678901234567000,true,false,null],"
                               "\"b\\n\xc3\xa9\xf0\x9f\x98\x80\":\"\\\"\\\\//\",\"c\":{},\"d\":[],"
                               "\"\":\"\"}";
    for (size_t piece = 1; piece < sizeof(TEXT); piece++) {
        gsp_auto_buf out = {0};
        struct gsp_err err = {0};
        retokenize(TEXT, piece, &out, &err);
        const char *got = gsp_buf_cstr(&out);
        tap_check(got && (strcmp(got, SAME) == 0 || strstr(got, "1.2345678901234567e+19")));
        tap_eq_str(err.msg, "");
    }
}

TAP_TEST(malformed_json_is_rejected)
{
    static const char *const TEXTS[] = {
        "",        "{",       "[1,]",    "{\"a\":1,}",  "[1 2]",  "{\"a\" 1}", "{1:2}",
        "01",      "1.",      ".5",      "+1",          "1e",     "--1",       "tru",
        "nul",     "\"abc",   "\"\\x\"", "\"\\u12g4\"", "[1]]",   "{}{}",      "\"a\nb\"",
        "[\"a\\]", "{\"a\":", "]",       "}",           "[1,2",   "NaN",       "Infinity",
        "'a'",     "[}",      "{]",      "{\"a\":1]",   "\"\\\"", "1 1",       "[,1]",
    };
    for (size_t i = 0; i < GSP_COUNT(TEXTS); i++) {
        for (size_t piece = 1; piece < 5; piece++) {
            gsp_auto_buf out = {0};
            struct gsp_err err = {0};
            retokenize(TEXTS[i], piece, &out, &err);
            if (!tap_eq_int(err.code, GSP_E_FORMAT))
                printf("#   %s\n", TEXTS[i]);
        }
    }
}

TAP_TEST(depth_and_length_are_limited)
{
    gsp_auto_buf text = {0};
    gsp_auto_buf out = {0};
    struct gsp_err err = {0};
    for (size_t i = 0; i < 1000; i++)
        gsp_buf_putc(&text, '[');
    retokenize(gsp_buf_cstr(&text), 100, &out, &err);
    tap_eq_int(err.code, GSP_E_LIMIT);
    gsp_buf_clear(&text);
    gsp_buf_putc(&text, '"');
    for (size_t i = 0; i < GSP_JSON_SCAN_TOKEN_MAX + 10; i++)
        gsp_buf_putc(&text, 'x');
    gsp_buf_putc(&text, '"');
    err = (struct gsp_err){0};
    retokenize(gsp_buf_cstr(&text), 1U << 20, &out, &err);
    tap_eq_int(err.code, GSP_E_LIMIT);
}

static void check_time(const char *text, int64_t seconds, int64_t ns, int32_t zone)
{
    int64_t got = 0;
    int32_t zone_s = 0;
    bool has_zone = false;
    tap_check(gsp_frames__session_time_parse(gsp_sv_of(text), &got, &zone_s, &has_zone));
    tap_check(got == seconds * GSP_NS_PER_S + ns);
    tap_eq_int(zone_s, zone);
}

TAP_TEST(times)
{
    static const char *const MALFORMED[] = {"",
                                            "2026",
                                            "2026-01-31",
                                            "2026-13-01T00:00:00",
                                            "2026-01-31T25:00:00",
                                            "2026-01-31T12:34:56+1",
                                            "2026-01-31T12:34:56 CET",
                                            "1969-01-01T00:00:00Z",
                                            "9999-01-01T00:00:00Z",
                                            "2026/01/31T12:34:56"};
    check_time("1970-01-01T00:00:00Z", 0, 0, 0);
    check_time("2026-01-31T12:34:56.789+01:00", 1769859296, 789000000, 3600);
    check_time("2024-02-29T23:59:59.000000001-0330", 1709263799, 1, -12600);
    check_time("2024-01-15T10:30:00", 1705314600, 0, 0);
    for (size_t i = 0; i < GSP_COUNT(MALFORMED); i++) {
        int64_t ns = 0;
        int32_t zone = 0;
        bool has = false;
        if (!tap_check(!gsp_frames__session_time_parse(gsp_sv_of(MALFORMED[i]), &ns, &zone, &has)))
            printf("#   %s\n", MALFORMED[i]);
    }
}

static bool all_bins(void *ctx, const char *metric)
{
    (void)ctx;
    (void)metric;
    return true;
}

static int load(const char *text, struct gsp_session_data **out, struct gsp_err *err)
{
    struct pieces pieces = {text, strlen(text), 0, 7};
    struct gsp_session_read_options options = {.values = true, .bins = all_bins};
    return gsp_frames_session_read(read_piece, &pieces, &options, out, err);
}

static const struct gsp_session_series *find(const struct gsp_session_data *data,
                                             const char *metric, const char *device)
{
    for (size_t i = 0; i < data->series_count; i++)
        if (strcmp(data->series[i].metric, metric) == 0 &&
            strcmp(data->series[i].device, device) == 0)
            return &data->series[i];
    return NULL;
}

#define FRAME(id, time, a, b)                                                                      \
    "{\"frame_id\":" id ",\"time\":\"" time "\",\"gpu_id\":[\"h:0:X\",\"h:1:X\"],"                 \
    "\"gpu_util\":[" a "," b "],\"dram_util\":[40],"                                               \
    "\"cpu\":{\"util_percent\":" a ",\"cores\":[" a "," b "],\"limit_source\":\"machine\"},"       \
    "\"disk\":{\"sda\":{\"read_bytes_per_s\":" b "}},"                                             \
    "\"gpu\":[{\"gpu\":1,\"power_watts\":" b ",\"throttle\":\"none\"}],"                           \
    "\"processes\":[{\"pid\":42,\"rss_bytes\":1000,\"x\":[1],\"y\":{\"z\":1}}]}"

TAP_TEST(frames_become_series)
{
    static const char TEXT[] =
        "{\"metadata\":{\"name\":\"n\",\"host\":\"h\",\"format\":1,\"frequency_ms\":200,"
        "\"labels\":{\"k\":[1]}},\"frames\":[" FRAME(
            "1", "2026-01-31T12:00:00.000+01:00", "10",
            "20") "," FRAME("2", "2026-01-31T12:00:10.000+01:00", "30",
                            "null") "],\"summary\":[{\"metric\":\"m\",\"device\":null,\"mean\":1.5,"
                                    "\"p99\":null,\"new\":{}}],\"losses\":{\"gaps\":0},\"other\":"
                                    "[[1]]}";
    struct gsp_session_data *data = NULL;
    struct gsp_err err = {0};
    tap_eq_int(load(TEXT, &data, &err), GSP_OK);
    tap_eq_str(err.msg, "");
    if (!data)
        return;
    tap_eq_int((int)data->frames, 2);
    tap_check(data->last_ns - data->first_ns == 10 * GSP_NS_PER_S);
    tap_eq_str(data->name, "n");
    tap_check(data->has_format && data->frequency_ms == 200);
    const struct gsp_session_series *util = find(data, "gpu_util", "h:0:X");
    tap_check(util && util->count == 2 && util->mean == 20 && util->min == 10 && util->max == 30);
    const struct gsp_session_series *other = find(data, "gpu_util", "h:1:X");
    tap_check(other && other->count == 1 && other->mean == 20); /* null does not count */
    tap_check(find(data, "cpu.util_percent", "") != NULL);
    tap_check(find(data, "cpu.cores", "1") != NULL);
    tap_check(find(data, "disk.read_bytes_per_s", "sda") != NULL);
    tap_check(find(data, "gpu.power_watts", "h:1:X") != NULL);
    tap_check(find(data, "processes.rss_bytes", "42") != NULL);
    tap_check(find(data, "dram_util", "") != NULL);
    tap_check(find(data, "frame_id", "") == NULL && find(data, "processes.pid", "42") == NULL);
    tap_eq_int((int)data->row_count, 1);
    tap_check(data->rows[0].mean == 1.5 && isnan(data->rows[0].p99));
    tap_eq_str(gsp_buf_cstr(&data->losses), "{\"gaps\":0}");
    uint64_t in_bins = 0;
    for (size_t i = 0; util && i < GSP_SESSION_BINS; i++)
        in_bins += util->bins[i].count;
    tap_eq_int((int)in_bins, 2);
    gsp_frames_session_data_free(data);
}

TAP_TEST(files_of_other_tools)
{
    struct gsp_session_data *data = NULL;
    struct gsp_err err = {0};
    tap_eq_int(load("{\"frames\":[{\"time\":\"2024-01-15T10:30:00\",\"gpu_id\":[\"a\"],"
                    "\"gpu_util\":[\"0.52\"]},{\"gpu_util\":[\"x\"]}]}",
                    &data, &err),
               GSP_OK);
    const struct gsp_session_series *util = data ? find(data, "gpu_util", "a") : NULL;
    tap_check(util && util->count == 1 && util->mean == 0.52);
    tap_eq_int(data ? (int)data->timeless : 0, 1);
    gsp_frames_session_data_free(data);
}

TAP_TEST(malformed_sessions_are_rejected)
{
    static const char *const TEXTS[] = {"[]",
                                        "{}",
                                        "{\"frames\":{}}",
                                        "{\"frames\":[1]}",
                                        "3",
                                        "{\"frames\":[]} x",
                                        "{\"frames\":[],\"summary\":[1]}"};
    for (size_t i = 0; i < GSP_COUNT(TEXTS); i++) {
        struct gsp_session_data *data = NULL;
        struct gsp_err err = {0};
        tap_eq_int(load(TEXTS[i], &data, &err), GSP_E_FORMAT);
        tap_check(!data && err.msg[0]);
    }
}

TAP_TEST(pictures_escape_names)
{
    static const char TEXT[] =
        "{\"metadata\":{\"name\":\"</script><script>alert(1)\",\"format\":1},\"frames\":["
        "{\"time\":\"2026-01-31T12:00:00Z\",\"gpu_id\":[\"<b>&\\\"\"],\"gpu_util\":[5]},"
        "{\"time\":\"2026-01-31T12:00:01Z\",\"gpu_id\":[\"<b>&\\\"\"],\"gpu_util\":[7]}]}";
    struct gsp_session_data *data = NULL;
    struct gsp_err err = {0};
    tap_eq_int(load(TEXT, &data, &err), GSP_OK);
    if (!data)
        return;
    for (int format = GSP_PLOT_SVG; format <= GSP_PLOT_HTML; format++) {
        gsp_auto_buf out = {0};
        struct gsp_plot plot = {.format = (enum gsp_export_plot_format)format};
        tap_eq_int(gsp_export_plot_draw(&plot, data, &out, &err), GSP_OK);
        tap_check(out.len > 1000);
        if (format == GSP_PLOT_PNG)
            continue;
        const char *text = gsp_buf_cstr(&out);
        tap_check(text && !strstr(text, "<b>") && !strstr(text, "<script>alert"));
    }
    gsp_frames_session_data_free(data);
}

TAP_TEST(a_session_without_matching_metrics_is_rejected)
{
    struct gsp_session_data *data = NULL;
    struct gsp_err err = {0};
    gsp_auto_buf out = {0};
    struct gsp_plot plot = {.metrics = "nosuch"};
    tap_eq_int(load("{\"frames\":[]}", &data, &err), GSP_OK);
    tap_eq_int(gsp_export_plot_draw(&plot, data, &out, &err), GSP_E_EMPTY);
    gsp_frames_session_data_free(data);
    tap_eq_int(load("{\"frames\":[{\"time\":\"2026-01-31T12:00:00Z\",\"odd\":1}]}", &data, &err),
               GSP_OK);
    tap_eq_int(gsp_export_plot_draw(&plot, data, &out, &err), GSP_E_EMPTY);
    gsp_frames_session_data_free(data);
}

TAP_MAIN()
