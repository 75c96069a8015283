/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_fixture.h"
#include "record/stack_rows.h"
#include "ring_fixture.h"
#include "wire/table.h"

#define SAMPLES    50U
#define FRAMES     512U
#define DEPTH_MAX  64U
#define STACKS_MAX 400U

static uint32_t column_of(enum gsp_table_id table, const char *name)
{
    const struct gsp_table *about = gsp_wire_table_at(table);
    for (uint32_t i = 0; i < about->column_count; i++)
        if (strcmp(about->columns[i].name, name) == 0)
            return i;
    tap_require(false);
    return 0;
}

/* All values of an I64 column, oldest first. */
static size_t read_i64(struct gsp_ring_view *view, uint32_t column, int64_t *out, size_t cap)
{
    struct gsp_ring_range spans[GSP_RING_LANES_MAX];
    const size_t count = gsp_ring_ranges(view, spans, GSP_RING_LANES_MAX, NULL);
    if (count == 0)
        return 0;
    tap_require(count == 1 && spans[0].to - spans[0].from <= cap);
    const size_t n = (size_t)(spans[0].to - spans[0].from);
    gsp_ring_copy(view, spans[0].lane, column, spans[0].from, n, out);
    return n;
}

struct both {
    int folder;
    struct gsp_ring_view *samples;
    struct gsp_ring_view *frames;
    int64_t sample_id[SAMPLES];
    int64_t frame_id[FRAMES];
    int64_t frame_depth[FRAMES];
    size_t sample_count;
    size_t frame_count;
};

static void read_both(struct both *both)
{
    both->sample_count =
        read_i64(both->samples, column_of(GSP_TABLE_python_stack_sample, "stack_id"),
                 both->sample_id, SAMPLES);
    both->frame_count = read_i64(both->frames, column_of(GSP_TABLE_python_stack, "stack_id"),
                                 both->frame_id, FRAMES);
    read_i64(both->frames, column_of(GSP_TABLE_python_stack, "depth"), both->frame_depth, FRAMES);
}

/* Returns the number of frames of a stack; -1 if a frame is missing or duplicated. */
static int frames_of(const struct both *both, int64_t id)
{
    bool seen[DEPTH_MAX] = {false};
    int count = 0;
    for (size_t i = 0; i < both->frame_count; i++) {
        if (both->frame_id[i] != id)
            continue;
        const int64_t depth = both->frame_depth[i];
        if (depth < 0 || depth >= DEPTH_MAX || seen[depth])
            return -1;
        seen[depth] = true;
        count++;
    }
    for (int i = 0; i < count; i++)
        if (!seen[i])
            return -1;
    return count;
}

static bool is_whole(const struct both *both)
{
    for (size_t i = 0; i < both->sample_count; i++)
        if (frames_of(both, both->sample_id[i]) <= 0)
            return false;
    return true;
}

static struct gsp_stack_rows *open_rows(int folder)
{
    struct gsp_err err = {0};
    struct gsp_stack_rows *rows = NULL;
    const struct gsp_stack_rows_spec spec = {.folder_fd = folder,
                                             .pid = 4242,
                                             .start_time = 1,
                                             .rank = GSP_NULL_I64,
                                             .samples = SAMPLES,
                                             .frames = FRAMES};
    if (gsp_record__stack_rows_open(&spec, &rows, &err) != GSP_OK)
        printf("# %s\n", err.msg);
    tap_require(rows != NULL);
    return rows;
}

static void open_both(struct both *both)
{
    both->samples = ring_view(both->folder, "python.stack_sample.ring");
    both->frames = ring_view(both->folder, "python.stack.ring");
}

static void close_both(struct both *both)
{
    gsp_ring_view_close(both->samples);
    gsp_ring_view_close(both->frames);
    ring_folder_remove(both->folder);
}

static uint32_t random_to(uint64_t *state, uint32_t n)
{
    *state = gsp_mix64(*state + 0x9e3779b97f4a7c15ULL);
    return (uint32_t)(*state % n);
}

/* Creates a stack. Stacks of the same family share their outermost frames. */
static uint32_t make_stack(struct gsp_profile *profile, uint32_t family, uint32_t depth)
{
    char name[32];
    uint32_t stack = GSP_NONE;
    for (uint32_t i = 0; i < depth; i++) {
        snprintf(name, sizeof(name), "f%u_%u", i < 3 ? 0 : family, i);
        stack = fix_stack(profile, stack, fix_frame(profile, name, "a.py", i + 1));
    }
    return stack;
}

TAP_TEST(every_sample_has_its_stack)
{
    struct both both = {.folder = ring_folder()};
    struct gsp_stack_rows *rows = open_rows(both.folder);
    struct gsp_profile *profile = NULL;
    uint32_t stacks[STACKS_MAX];
    uint64_t seed = 7;
    tap_require(gsp_model_profile_new(false, &profile, NULL) == GSP_OK);
    const uint32_t process = fix_process(profile, 4242, "python3 x.py");
    const uint32_t thread = fix_thread(profile, process, 4242, "MainThread");
    for (uint32_t i = 0; i < STACKS_MAX; i++)
        stacks[i] = make_stack(profile, i + 1, 1 + random_to(&seed, DEPTH_MAX - 1));
    gsp_record__stack_rows_set_profile(rows, profile);
    open_both(&both);
    bool good = true;
    bool added = true;
    for (uint32_t i = 0; i < 20000; i++) {
        /* A few stacks for a while, then all of them, then those few again. */
        const uint32_t among = i / 500 % 3 == 1 ? STACKS_MAX : 12;
        const struct gsp_sample sample = {.weight = 1,
                                          .thread = thread,
                                          .stack = stacks[random_to(&seed, among)],
                                          .flags = GSP_SAMPLE_ON_CPU};
        added = added && gsp_record__stack_rows_add(rows, &sample, NULL) == GSP_OK;
        if (i % 23 == 0 || i % 500 < 3) {
            read_both(&both);
            good = good && is_whole(&both);
        }
    }
    tap_check(added);
    tap_check(good);
    tap_eq_int(both.sample_count, SAMPLES);
    gsp_record__stack_rows_close(rows);
    gsp_model_profile_free(profile);
    close_both(&both);
}

TAP_TEST(stacks_within_the_budget_are_not_cut)
{
    struct both both = {.folder = ring_folder()};
    struct gsp_stack_rows *rows = open_rows(both.folder);
    struct gsp_profile *profile = NULL;
    tap_require(gsp_model_profile_new(false, &profile, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(profile, fix_process(profile, 1, "p"), 1, "t");
    gsp_record__stack_rows_set_profile(rows, profile);
    open_both(&both);
    for (uint32_t i = 0; i < 40; i++) {
        const struct gsp_sample sample = {.weight = 1,
                                          .thread = thread,
                                          .stack = make_stack(profile, i % 2, 30),
                                          .flags = GSP_SAMPLE_ON_CPU};
        tap_require(gsp_record__stack_rows_add(rows, &sample, NULL) == GSP_OK);
    }
    read_both(&both);
    tap_eq_int(both.sample_count, 40);
    tap_eq_int(both.frame_count, 60);
    tap_eq_int(frames_of(&both, both.sample_id[0]), 30);
    tap_eq_int(frames_of(&both, both.sample_id[1]), 30);
    gsp_record__stack_rows_close(rows);
    gsp_model_profile_free(profile);
    close_both(&both);
}

/* One row when it becomes idle, and its pending weight at the end. */
TAP_TEST(an_idle_thread_has_few_rows)
{
    struct both both = {.folder = ring_folder()};
    struct gsp_stack_rows *rows = open_rows(both.folder);
    struct gsp_profile *profile = NULL;
    int64_t weights[SAMPLES];
    tap_require(gsp_model_profile_new(false, &profile, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(profile, fix_process(profile, 1, "p"), 1, "t");
    const struct gsp_sample sample = {
        .weight = 100, .thread = thread, .stack = make_stack(profile, 1, 4)};
    gsp_record__stack_rows_set_profile(rows, profile);
    open_both(&both);
    for (uint32_t i = 0; i < 10; i++)
        tap_require(gsp_record__stack_rows_add(rows, &sample, NULL) == GSP_OK);
    gsp_record__stack_rows_close(rows);
    gsp_model_profile_free(profile);
    const size_t n = read_i64(both.samples, column_of(GSP_TABLE_python_stack_sample, "weight_ns"),
                              weights, SAMPLES);
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += weights[i];
    tap_check(n >= 2 && n < 10);
    tap_eq_int(sum, 1000);
    close_both(&both);
}

TAP_TEST(too_few_rows_are_rejected)
{
    struct gsp_stack_rows *rows = NULL;
    const struct gsp_stack_rows_spec spec = {.folder_fd = -1, .samples = 100, .frames = 400};
    tap_eq_int(gsp_record__stack_rows_open(&spec, &rows, NULL), GSP_E_USAGE);
    tap_check(rows == NULL);
}

TAP_MAIN()
