/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ids.h"
#include "profile_fixture.h"
#include "store/batch.h"
#include "store/profile_tables.h"

#define BATCHES_MAX 16

struct seen {
    struct gsp_batch *batches[BATCHES_MAX];
    size_t count;
};

static int keep(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    struct seen *seen = ctx;
    (void)err;
    tap_require(seen->count < BATCHES_MAX);
    seen->batches[seen->count++] = batch;
    return GSP_OK;
}

static struct seen tables_of(const struct gsp_profile *profile, size_t rows_max)
{
    struct seen seen = {0};
    struct gsp_err err = {0};
    const struct gsp_batch_sink sink = {.take = keep, .ctx = &seen, .rows_max = rows_max};
    const int rc = gsp_store__profile_write(profile, "box", &sink, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return seen;
}

static void seen_free(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        gsp_store_batch_free(seen->batches[i]);
}

static const void *column(const struct gsp_batch *batch, const char *name)
{
    const struct gsp_table *table = gsp_store_batch_table(batch);
    for (uint32_t c = 0; c < table->column_count; c++)
        if (strcmp(table->columns[c].name, name) == 0)
            return gsp_store__batch_column(batch, c);
    printf("# no column %s\n", name);
    tap_require(false);
    return NULL;
}

static int64_t number_at(const struct gsp_batch *batch, const char *name, size_t row)
{
    const int64_t *values = column(batch, name);
    return values[row];
}

static const char *text_at(const struct gsp_batch *batch, const char *name, size_t row)
{
    static char text[256];
    uint32_t count = 0;
    const struct gsp_sv *strings = gsp_store__batch_strings(batch, &count);
    const uint32_t *ids = column(batch, name);
    tap_require(ids[row] < count);
    if (ids[row] == GSP_NULL_STR)
        return NULL;
    snprintf(text, sizeof(text), "%.*s", (int)strings[ids[row]].len, strings[ids[row]].p);
    return text;
}

TAP_TEST(samples_become_rows)
{
    struct gsp_profile *p = fix_small();
    struct seen seen = tables_of(p, 0);
    tap_require(seen.count == 3);
    const struct gsp_batch *samples = seen.batches[0];
    tap_eq_int(gsp_store__batch_rows(samples), 10);
    tap_eq_int(number_at(samples, "ts_ns", 0), 1700000000123456000 + 3000);
    tap_eq_int(number_at(samples, "pid", 0), 100);
    tap_eq_int(number_at(samples, "pid", 1), 101);
    tap_eq_int(number_at(samples, "thread_id", 4), 105);
    tap_eq_str(text_at(samples, "thread_name", 4), "loader \"1\";<x>");
    tap_eq_int(number_at(samples, "weight_ns", 2), 10000000);
    const uint8_t *gil = column(samples, "has_gil");
    tap_eq_int(gil[0], 1);
    tap_eq_int(gil[1], 0);
    /* Equal stacks, a different stack, no stack. */
    tap_eq_int(number_at(samples, "stack_id", 0), number_at(samples, "stack_id", 2));
    tap_check(number_at(samples, "stack_id", 0) != number_at(samples, "stack_id", 3));
    tap_check(number_at(samples, "stack_id", 0) > 0);
    tap_check(number_at(samples, "stack_id", 9) == GSP_NULL_I64);
    seen_free(&seen);
    gsp_model_profile_free(p);
}

TAP_TEST(frames_are_innermost_first)
{
    struct gsp_profile *p = fix_small();
    struct seen seen = tables_of(p, 0);
    tap_require(seen.count == 3);
    const struct gsp_batch *stacks = seen.batches[1];
    const int64_t expected = number_at(seen.batches[0], "stack_id", 0);
    static const char *const NAMES[] = {"load", "main", "<module>"};
    size_t found = 0;
    for (size_t i = 0; i < gsp_store__batch_rows(stacks); i++) {
        if (number_at(stacks, "stack_id", i) != expected)
            continue;
        tap_require(found < GSP_COUNT(NAMES));
        tap_eq_int(number_at(stacks, "depth", i), found);
        tap_eq_str(text_at(stacks, "func", i), NAMES[found]);
        tap_eq_str(text_at(stacks, "frame_type", i), "Python");
        found++;
    }
    tap_eq_int(found, GSP_COUNT(NAMES));
    seen_free(&seen);
    gsp_model_profile_free(p);
}

TAP_TEST(losses_become_rows)
{
    struct gsp_profile *p = fix_small();
    gsp_model_profile_meta(p)->losses.unmerged = 7;
    struct seen seen = tables_of(p, 0);
    tap_require(seen.count == 3);
    const struct gsp_batch *losses = seen.batches[2];
    tap_eq_int(gsp_store__batch_rows(losses), 6);
    tap_eq_str(text_at(losses, "cause", 5), "unmerged");
    tap_eq_int(number_at(losses, "count", 5), 7);
    tap_eq_str(text_at(losses, "source", 1), "sampler");
    tap_eq_str(text_at(losses, "cause", 1), "late");
    tap_eq_int(number_at(losses, "count", 1), 2);
    seen_free(&seen);
    gsp_model_profile_free(p);
}

TAP_TEST(many_samples_are_split_into_batches)
{
    struct gsp_profile *p = fix_small();
    struct seen seen = tables_of(p, 4);
    tap_eq_int(seen.count, 5); /* 4 + 4 + 2 samples, stacks, losses */
    tap_eq_int(gsp_store__batch_rows(seen.batches[2]), 2);
    tap_eq_str(text_at(seen.batches[2], "thread_name", 0), "MainThread");
    seen_free(&seen);
    gsp_model_profile_free(p);
}

/* Ids depend on the frames, not on their order in the recording. */
TAP_TEST(equal_stacks_have_equal_ids_in_every_recording)
{
    struct gsp_profile *a = fix_small();
    struct gsp_profile *b = NULL;
    int64_t *ids_a = NULL;
    int64_t *ids_b = NULL;
    tap_require(gsp_model_profile_new(false, &b, NULL) == GSP_OK);
    (void)fix_stack(b, GSP_NONE, fix_frame(b, "other", "/x.py", 1));
    const uint32_t root = fix_stack(b, GSP_NONE, fix_frame(b, "<module>", "/srv/app.py", 40));
    const uint32_t run = fix_stack(b, root, fix_frame(b, "main", "/srv/app.py", 30));
    const uint32_t line = fix_stack(b, root, fix_frame(b, "main", "/srv/app.py", 31));
    tap_require(gsp_model_stack_ids(a, &ids_a, NULL) == GSP_OK);
    tap_require(gsp_model_stack_ids(b, &ids_b, NULL) == GSP_OK);
    tap_eq_int(ids_b[root], ids_a[1]);
    tap_eq_int(ids_b[run], ids_a[2]);
    tap_check(ids_b[line] != ids_a[2]);
    free(ids_a);
    free(ids_b);
    gsp_model_profile_free(a);
    gsp_model_profile_free(b);
}

TAP_TEST(totals_become_rows)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(false, &p, NULL) == GSP_OK);
    gsp_model_profile_meta(p)->unit = GSP_UNIT_COUNT;
    const uint32_t thread = fix_thread(p, fix_process(p, 7, "rank 3: train.py"), 7, "MainThread");
    const uint32_t stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "a.py", 0));
    tap_require(gsp_model_profile_add_total(p, &(struct gsp_total){thread, stack, 12, 12}, NULL) ==
                GSP_OK);
    struct seen seen = tables_of(p, 0);
    tap_require(seen.count == 3);
    tap_eq_int(gsp_store__batch_rows(seen.batches[0]), 1);
    tap_check(number_at(seen.batches[0], "ts_ns", 0) == GSP_NULL_I64);
    tap_eq_int(number_at(seen.batches[0], "rank", 0), 3);
    tap_eq_int(number_at(seen.batches[0], "weight_ns", 0), 12);
    const uint8_t *on_cpu = column(seen.batches[0], "on_cpu");
    tap_eq_int(on_cpu[0], GSP_NULL_BOOL);
    tap_check(number_at(seen.batches[1], "lineno", 0) == GSP_NULL_I64);
    seen_free(&seen);
    gsp_model_profile_free(p);
}

TAP_TEST(ranks_are_parsed_from_process_names)
{
    tap_eq_int(gsp_model_rank_of_name(gsp_sv_of("rank 12: python3 x")), 12);
    tap_check(gsp_model_rank_of_name(gsp_sv_of("rank : x")) == GSP_NULL_I64);
    tap_check(gsp_model_rank_of_name(gsp_sv_of("rank 1")) == GSP_NULL_I64);
    tap_check(gsp_model_rank_of_name(gsp_sv_of("rank 99999999999: x")) == GSP_NULL_I64);
    tap_check(gsp_model_rank_of_name(gsp_sv_of("local rank 1: x")) == GSP_NULL_I64);
    tap_check(gsp_model_rank_of_name(gsp_sv_of("")) == GSP_NULL_I64);
}

TAP_MAIN()
