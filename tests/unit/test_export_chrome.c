/* SPDX-License-Identifier: Apache-2.0 */
#include <yyjson.h>

#include "profile_fixture.h"

#define TIDS 3

struct track {
    uint64_t tid;
    double last_us;
    int open;
    int slices;
};

static struct track *find_track(struct track *tracks, uint64_t tid)
{
    for (size_t i = 0; i < TIDS; i++) {
        if (tracks[i].tid == tid || tracks[i].tid == 0) {
            tracks[i].tid = tid;
            return &tracks[i];
        }
    }
    tap_require(false);
    return NULL;
}

/* Times of a thread never decrease, and every slice is closed exactly once. */
static void check_events(yyjson_val *events, struct track *tracks)
{
    size_t i = 0;
    size_t count = 0;
    yyjson_val *event = NULL;
    tap_require(yyjson_is_arr(events));
    yyjson_arr_foreach(events, i, count, event)
    {
        const char *phase = yyjson_get_str(yyjson_obj_get(event, "ph"));
        struct track *track = find_track(tracks, yyjson_get_uint(yyjson_obj_get(event, "tid")));
        tap_require(phase != NULL);
        tap_check(yyjson_is_uint(yyjson_obj_get(event, "pid")));
        if (*phase == 'M')
            continue;
        double us = yyjson_get_num(yyjson_obj_get(event, "ts"));
        tap_check(us >= track->last_us);
        track->last_us = us;
        tap_check(*phase == 'B' || *phase == 'E');
        track->open += *phase == 'B' ? 1 : -1;
        track->slices += *phase == 'B';
        tap_check(track->open >= 0);
        tap_check(*phase == 'E' || yyjson_is_str(yyjson_obj_get(event, "name")));
    }
    for (i = 0; i < TIDS; i++)
        tap_eq_int(tracks[i].open, 0);
}

TAP_TEST(slices_nest_and_last)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "chrome", NULL, &bytes);
    fix_check_golden(&bytes, "chrome/small.trace.json");
    yyjson_doc *doc = yyjson_read(bytes.p, bytes.len, 0);
    tap_require(doc != NULL);
    struct track tracks[TIDS] = {0};
    check_events(yyjson_doc_ptr_get(doc, "/traceEvents"), tracks);
    /* Thread 100: <module>, main, load (recursive) and odd; after a gap <module> and main again. */
    tap_eq_int(tracks[0].tid, 100);
    tap_eq_int(tracks[0].slices, 7);
    tap_check(tracks[0].last_us == 70002.0);
    /* Thread 105: two samples of the same stack are one slice per function. */
    tap_eq_int(tracks[1].tid, 105);
    tap_eq_int(tracks[1].slices, 2);
    tap_check(yyjson_equals_str(yyjson_doc_ptr_get(doc, "/traceEvents/1/args/name"), "MainThread"));
    tap_check(yyjson_equals_str(yyjson_doc_ptr_get(doc, "/traceEvents/0/args/name"), "python3"));
    yyjson_doc_free(doc);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_TEST(a_profile_without_times_is_rejected)
{
    struct gsp_profile *p = NULL;
    tap_require(fix_read(gsp_sv_of("a;b 1\n"), "folded", &p, NULL) == GSP_OK);
    struct gsp_out out;
    gsp_out_init(&out, -1);
    struct gsp_err err = {0};
    tap_eq_int(gsp_export_format_find("chrome")->write(p, NULL, &out, &err), GSP_E_NOTSUP);
    tap_eq_str(err.msg, "the profile has no times, which a trace needs");
    gsp_buf_free(&out.buf);
    gsp_model_profile_free(p);
}

TAP_MAIN()
