/* SPDX-License-Identifier: Apache-2.0 */
#include "model/profile.h"
#include "profile_fixture.h"

static struct gsp_profile *fresh(bool keep_samples)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(keep_samples, &p, NULL) == GSP_OK);
    return p;
}

TAP_TEST(equal_things_have_equal_ids)
{
    struct gsp_profile *p = fresh(false);
    uint32_t a = fix_string(p, "alpha");
    tap_check(a != GSP_NONE);
    tap_eq_int(fix_string(p, "alpha"), a);
    tap_check(fix_string(p, "beta") != a);
    tap_eq_int(fix_string(p, ""), GSP_NONE);
    tap_eq_int(gsp_model_profile_string_count(p), 2);
    tap_check(gsp_sv_eq(gsp_model_profile_string_at(p, a), gsp_sv_of("alpha")));

    uint32_t f = fix_frame(p, "alpha", "x.py", 3);
    tap_eq_int(fix_frame(p, "alpha", "x.py", 3), f);
    tap_check(fix_frame(p, "alpha", "x.py", 4) != f);
    tap_check(fix_frame(p, "alpha", "y.py", 3) != f);
    struct gsp_frame native = *gsp_model_profile_frame_at(p, f);
    native.kind = GSP_FRAME_NATIVE;
    uint32_t g = GSP_NONE;
    tap_eq_int(gsp_model_profile_frame(p, &native, &g, NULL), GSP_OK);
    tap_check(g != f);

    uint32_t root = fix_stack(p, GSP_NONE, f);
    uint32_t leaf = fix_stack(p, root, g);
    tap_eq_int(fix_stack(p, GSP_NONE, f), root);
    tap_eq_int(fix_stack(p, root, g), leaf);
    tap_check(fix_stack(p, root, f) != leaf);
    tap_eq_int(fix_stack(p, root, g), leaf);
    tap_eq_int(gsp_model_profile_stack_depth(p, leaf), 2);
    uint32_t frames[4] = {0};
    tap_eq_int(gsp_model_profile_stack_frames(p, leaf, frames, 4), 2);
    tap_eq_int(frames[0], f);
    tap_eq_int(frames[1], g);
    tap_eq_int(gsp_model_profile_stack_frames(p, leaf, frames, 1), 1);
    tap_eq_int(frames[0], f);
    gsp_model_profile_free(p);
}

TAP_TEST(many_strings_are_all_found)
{
    struct gsp_profile *p = fresh(false);
    char text[32];
    for (int i = 0; i < 50000; i++) {
        snprintf(text, sizeof(text), "name %d", i);
        tap_require(fix_string(p, text) == (uint32_t)i + 1);
    }
    for (int i = 0; i < 50000; i += 7) {
        snprintf(text, sizeof(text), "name %d", i);
        tap_require(fix_string(p, text) == (uint32_t)i + 1);
        tap_require(gsp_sv_eq(gsp_model_profile_string_at(p, (uint32_t)i + 1), gsp_sv_of(text)));
    }
    gsp_model_profile_free(p);
}

TAP_TEST(unknown_ids_are_rejected)
{
    struct gsp_profile *p = fix_small();
    struct gsp_err err = {0};
    uint32_t id = 7;
    struct gsp_frame frame = {.name = 10000};
    tap_eq_int(gsp_model_profile_frame(p, &frame, &id, &err), GSP_E_FORMAT);
    tap_eq_int(id, GSP_NONE);
    tap_eq_int(gsp_model_profile_stack(p, 10000, 1, &id, &err), GSP_E_FORMAT);
    tap_eq_int(gsp_model_profile_stack(p, GSP_NONE, 10000, &id, &err), GSP_E_FORMAT);
    tap_eq_int(gsp_model_profile_stack(p, GSP_NONE, GSP_NONE, &id, &err), GSP_E_FORMAT);
    struct gsp_thread thread = {.process = 2};
    tap_eq_int(gsp_model_profile_thread(p, &thread, &id, &err), GSP_E_FORMAT);
    struct gsp_process process = {.version = 10000};
    tap_eq_int(gsp_model_profile_process(p, &process, &id, &err), GSP_E_FORMAT);
    struct gsp_sample sample = {.thread = 3, .stack = 1};
    tap_eq_int(gsp_model_profile_add(p, &sample, &err), GSP_E_FORMAT);
    sample = (struct gsp_sample){.stack = 10000};
    tap_eq_int(gsp_model_profile_add(p, &sample, &err), GSP_E_FORMAT);
    tap_eq_int(gsp_model_profile_sample_count(p), 10);
    tap_eq_int(gsp_model_profile_string_at(p, 10000).len, 0);
    tap_check(gsp_model_profile_frame_at(p, GSP_NONE) == NULL);
    tap_check(gsp_model_profile_thread_at(p, 3) == NULL);
    thread = (struct gsp_thread){.process = 9};
    gsp_model_profile_set_thread(p, 0, &thread);
    tap_eq_int(gsp_model_profile_thread_at(p, 0)->os_id, 100);
    gsp_model_profile_free(p);
}

TAP_TEST(stacks_deeper_than_the_limit_are_rejected)
{
    struct gsp_profile *p = fresh(false);
    uint32_t frame = fix_frame(p, "f", "f.py", 1);
    uint32_t stack = GSP_NONE;
    for (uint32_t i = 0; i < GSP_STACK_DEPTH_MAX; i++)
        stack = fix_stack(p, stack, frame);
    uint32_t id = GSP_NONE;
    tap_eq_int(gsp_model_profile_stack(p, stack, frame, &id, NULL), GSP_E_LIMIT);
    gsp_model_profile_free(p);
}

/* Arbitrary numbers: all widths, both signs, many blocks. */
static struct gsp_sample odd_sample(uint64_t *seed)
{
    uint64_t r[4];
    for (size_t i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005U + 1442695040888963407U;
        r[i] = *seed >> 13;
    }
    return (struct gsp_sample){.time_ns = (int64_t)(r[0] >> (r[1] % 50)),
                               .weight = (int64_t)(r[1] >> (r[2] % 51)) - 1000,
                               .thread = (uint32_t)(r[2] % 3),
                               .stack = (uint32_t)(r[3] % 7),
                               .flags = (uint32_t)(r[3] >> 20) % 4};
}

TAP_TEST(samples_come_back_in_order)
{
    struct gsp_profile *p = fix_small();
    int64_t newest[3] = {70002000, 80004000, 60002000};
    uint64_t seed = 42;
    for (int i = 0; i < 100000; i++) {
        struct gsp_sample sample = odd_sample(&seed);
        tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    }
    struct gsp_sample_iter iter;
    struct gsp_sample got;
    gsp_model_sample_iter_init(&iter, p);
    for (int i = 0; i < 10; i++)
        tap_require(gsp_model_sample_iter_next(&iter, &got));
    seed = 42;
    for (int i = 0; i < 100000; i++) {
        struct gsp_sample want = odd_sample(&seed);
        if (want.time_ns < newest[want.thread])
            want.time_ns = newest[want.thread]; /* clamped */
        newest[want.thread] = want.time_ns;
        tap_require(gsp_model_sample_iter_next(&iter, &got));
        tap_require(got.time_ns == want.time_ns && got.weight == want.weight &&
                    got.thread == want.thread && got.stack == want.stack &&
                    got.flags == want.flags);
    }
    tap_check(!gsp_model_sample_iter_next(&iter, &got));
    gsp_model_profile_free(p);
}

TAP_TEST(sums_add_up)
{
    struct gsp_profile *p = fix_small();
    uint64_t count = 0;
    int64_t weight = 0;
    for (size_t i = 0; i < gsp_model_profile_total_count(p); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(p, i);
        count += total->count;
        weight += total->weight;
        for (size_t k = 0; k < i; k++)
            tap_check(gsp_model_profile_total_at(p, k)->thread != total->thread ||
                      gsp_model_profile_total_at(p, k)->stack != total->stack);
    }
    tap_eq_int(count, 10);
    tap_eq_int(weight, 100000000);
    tap_eq_int(gsp_model_profile_total_at(p, 0)->count, 2);
    tap_check(gsp_model_profile_has_samples(p));

    struct gsp_total sum = {.thread = 0, .stack = 1, .count = 5, .weight = INT64_MAX};
    tap_eq_int(gsp_model_profile_add_total(p, &sum, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_add_total(p, &sum, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_sample_count(p), 20);
    tap_check(!gsp_model_profile_has_samples(p));
    const struct gsp_total *last =
        gsp_model_profile_total_at(p, gsp_model_profile_total_count(p) - 1);
    tap_eq_int(last->count, 10);
    tap_check(last->weight == INT64_MAX); /* saturated */
    gsp_model_profile_free(p);
}

TAP_TEST(without_samples_only_sums_are_kept)
{
    struct gsp_profile *p = fresh(false);
    uint32_t thread = fix_thread(p, fix_process(p, 1, "x"), 1, "MainThread");
    uint32_t stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 1));
    for (int i = 0; i < 1000; i++)
        fix_add(p, thread, stack, i, 0);
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, p);
    tap_check(!gsp_model_sample_iter_next(&iter, &sample));
    tap_check(!gsp_model_profile_has_samples(p));
    tap_eq_int(gsp_model_profile_sample_count(p), 1000);
    tap_eq_int(gsp_model_profile_total_at(p, 0)->count, 1000);
    gsp_model_profile_free(p);
}

TAP_MAIN()
