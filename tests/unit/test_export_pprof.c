/* SPDX-License-Identifier: Apache-2.0 */
#include <zlib.h>

#include "model/tree.h"
#include "profile_fixture.h"

/* Compares totals, so that the order of samples does not matter. */
static void check_same_totals(const struct gsp_profile *a, const struct gsp_profile *b)
{
    tap_eq_int(gsp_model_profile_total_count(a), gsp_model_profile_total_count(b));
    for (size_t i = 0; i < gsp_model_profile_total_count(a); i++) {
        const struct gsp_total *t = gsp_model_profile_total_at(a, i);
        const struct gsp_total *u = gsp_model_profile_total_at(b, i);
        tap_require(t && u);
        tap_eq_int(t->count, u->count);
        tap_eq_int(t->weight, u->weight);
        tap_check(fix_same_stack(a, t->stack, b, u->stack));
        const struct gsp_thread *x = gsp_model_profile_thread_at(a, t->thread);
        const struct gsp_thread *y = gsp_model_profile_thread_at(b, u->thread);
        tap_eq_int(x->os_id, y->os_id);
        tap_check(fix_same_string(a, x->name, b, y->name));
        tap_eq_int(gsp_model_profile_process_at(a, x->process)->pid,
                   gsp_model_profile_process_at(b, y->process)->pid);
    }
}

/* fix_small() and a stack with frames of every kind. */
static struct gsp_profile *small(void)
{
    struct gsp_profile *p = fix_small();
    uint32_t stack = GSP_NONE;
    static const enum gsp_frame_kind KINDS[] = {
        GSP_FRAME_PYTHON, GSP_FRAME_NATIVE, GSP_FRAME_KERNEL, GSP_FRAME_MARK, GSP_FRAME_BRIDGED};
    for (size_t i = 0; i < GSP_COUNT(KINDS); i++) {
        struct gsp_frame frame = {.name = fix_string(p, "<lambda>"), .kind = KINDS[i]};
        uint32_t id = GSP_NONE;
        tap_require(gsp_model_profile_frame(p, &frame, &id, NULL) == GSP_OK);
        stack = fix_stack(p, stack, id);
    }
    fix_add(p, 0, stack, 90000, 0);
    return p;
}

static void gunzip(struct gsp_sv in, struct gsp_buf *out)
{
    union {
        const char *in;
        Bytef *next;
    } start = {in.p};
    z_stream zip = {.next_in = start.next, .avail_in = (uInt)in.len};
    tap_require(inflateInit2(&zip, 31) == Z_OK);
    char *space = gsp_buf_reserve(out, 1U << 20);
    tap_require(space != NULL);
    zip.next_out = (Bytef *)space;
    zip.avail_out = 1U << 20;
    tap_eq_int(inflate(&zip, Z_FINISH), Z_STREAM_END);
    out->len = (1U << 20) - zip.avail_out;
    inflateEnd(&zip);
}

static void gzip(struct gsp_sv in, struct gsp_buf *out)
{
    union {
        const char *in;
        Bytef *next;
    } start = {in.p};
    z_stream zip = {.next_in = start.next, .avail_in = (uInt)in.len};
    tap_require(deflateInit2(&zip, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t cap = deflateBound(&zip, in.len);
    char *space = gsp_buf_reserve(out, cap);
    tap_require(space != NULL);
    zip.next_out = (Bytef *)space;
    zip.avail_out = (uInt)cap;
    tap_eq_int(deflate(&zip, Z_FINISH), Z_STREAM_END);
    out->len = cap - zip.avail_out;
    deflateEnd(&zip);
}

TAP_TEST(round_trip)
{
    struct gsp_profile *p = small();
    struct gsp_profile *q = NULL;
    struct gsp_buf bytes = {0};
    struct gsp_err err = {0};
    fix_write(p, "pprof", NULL, &bytes);
    tap_check(gsp_export_format_find("pprof")->sniff(gsp_buf_sv(&bytes)));
    int rc = fix_read(gsp_buf_sv(&bytes), "pprof", &q, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    const struct gsp_model_profile_meta *m = gsp_model_profile_meta_get(p);
    const struct gsp_model_profile_meta *n = gsp_model_profile_meta_get(q);
    tap_eq_int(m->start_ns, n->start_ns);
    tap_eq_int(m->duration_ns, n->duration_ns);
    tap_eq_int(m->period_ns, n->period_ns);
    tap_eq_int(m->unit, n->unit);
    tap_eq_int(gsp_model_profile_sample_count(p), gsp_model_profile_sample_count(q));
    /* The name with a newline is escaped. */
    struct gsp_tree *tree = NULL;
    tap_require(gsp_model_tree_new(q, NULL, &tree, NULL) == GSP_OK);
    bool escaped = false;
    for (uint32_t i = 0; i < gsp_model_tree_label_count(tree); i++)
        escaped = escaped || gsp_sv_starts(gsp_model_tree_label(tree, i), "a;b\\x0a<&\"");
    tap_check(escaped);
    gsp_model_tree_free(tree);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

/* Escaped names are not escaped again: the second round trip is exact. */
TAP_TEST(a_second_round_trip_changes_nothing)
{
    struct gsp_profile *p = small();
    struct gsp_profile *q = NULL;
    struct gsp_profile *r = NULL;
    struct gsp_buf bytes = {0};
    fix_write(p, "pprof", NULL, &bytes);
    tap_require(fix_read(gsp_buf_sv(&bytes), "pprof", &q, NULL) == GSP_OK);
    gsp_buf_clear(&bytes);
    fix_write(q, "pprof", NULL, &bytes);
    tap_require(fix_read(gsp_buf_sv(&bytes), "pprof", &r, NULL) == GSP_OK);
    check_same_totals(q, r);
    gsp_model_profile_free(r);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_TEST(golden)
{
    struct gsp_profile *p = small();
    struct gsp_buf bytes = {0};
    struct gsp_buf plain = {0};
    fix_write(p, "pprof", NULL, &bytes);
    gunzip(gsp_buf_sv(&bytes), &plain);
    fix_check_golden(&plain, "pprof/small.pb");
    gsp_buf_free(&plain);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_TEST(weights_keep_their_unit)
{
    for (int unit = GSP_UNIT_NS; unit <= GSP_UNIT_BYTES; unit++) {
        struct gsp_profile *p = small();
        struct gsp_profile *q = NULL;
        struct gsp_buf bytes = {0};
        gsp_model_profile_meta(p)->unit = (enum gsp_unit)unit;
        fix_write(p, "pprof", NULL, &bytes);
        tap_require(fix_read(gsp_buf_sv(&bytes), "pprof", &q, NULL) == GSP_OK);
        tap_eq_int(gsp_model_profile_meta_get(q)->unit, unit);
        int64_t a = 0;
        int64_t b = 0;
        for (size_t i = 0; i < gsp_model_profile_total_count(p); i++)
            a += gsp_model_profile_total_at(p, i)->weight;
        for (size_t i = 0; i < gsp_model_profile_total_count(q); i++)
            b += gsp_model_profile_total_at(q, i)->weight;
        tap_eq_int(a, b);
        gsp_buf_free(&bytes);
        gsp_model_profile_free(q);
        gsp_model_profile_free(p);
    }
}

static struct gsp_tree *tree_of_data(const char *name, struct gsp_profile **profile)
{
    char path[512];
    struct gsp_tree *tree = NULL;
    struct gsp_err err = {0};
    snprintf(path, sizeof(path), "%s/%s", GSP_TEST_DATA, name);
    int rc = gsp_export_format_load(path, NULL, false, profile, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    tap_require(gsp_model_tree_new(*profile, &(struct gsp_view_options){.no_lines = true}, &tree,
                                   NULL) == 0);
    return tree;
}

/* Files written by the Go runtime: 300 calls of burn() sampled at 100 Hz, and a heap profile. */
TAP_TEST(profiles_of_go_programs_are_read)
{
    struct gsp_profile *p = NULL;
    struct gsp_tree *tree = tree_of_data("go_cpu.pb.gz", &p);
    int64_t burn_ns = 0;
    for (uint32_t i = 1; i < gsp_model_tree_count(tree); i++) {
        const struct gsp_node *node = gsp_model_tree_at(tree, i);
        if (gsp_sv_starts(gsp_model_tree_label(tree, node->label), "main.burn"))
            burn_ns += node->self_weight;
    }
    const struct gsp_node *root = gsp_model_tree_at(tree, 0);
    tap_eq_int(gsp_model_profile_meta_get(p)->unit, GSP_UNIT_NS);
    tap_eq_int(gsp_model_profile_meta_get(p)->period_ns, 10000000);
    tap_eq_int(root->total_weight, (int64_t)root->total_count * 10000000);
    tap_check(burn_ns > root->total_weight / 2);
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
    tree = tree_of_data("go_heap.pb.gz", &p);
    tap_eq_int(gsp_model_profile_meta_get(p)->unit, GSP_UNIT_BYTES);
    gsp_model_tree_free(tree);
    gsp_model_profile_free(p);
}

/* Parts of a message. Each field is (number << 3 | 2), a length and bytes. */
#define TYPES "\x0a\x04\x08\x01\x10\x02"
#define STRINGS                                                                                    \
    "\x32\x00\x32\x01s\x32\x01"                                                                    \
    "c"
#define LOCATION "\x22\x06\x08\x01\x22\x02\x08\x01"
#define FUNCTION "\x2a\x04\x08\x01\x10\x01"
#define SAMPLE   "\x12\x04\x08\x01\x10\x05"

static int read_bytes(const char *bytes, size_t len, struct gsp_err *err)
{
    struct gsp_profile *p = NULL;
    int rc = fix_read((struct gsp_sv){bytes, len}, "pprof", &p, err);
    gsp_model_profile_free(p);
    return rc;
}

#define READ(text) read_bytes(text, sizeof(text) - 1, &err)

TAP_TEST(every_id_is_checked)
{
    struct gsp_err err = {0};
    tap_eq_int(READ(TYPES STRINGS FUNCTION LOCATION SAMPLE), GSP_OK);
    tap_eq_int(READ(TYPES STRINGS LOCATION SAMPLE), GSP_E_FORMAT);    /* no function */
    tap_eq_int(READ(TYPES STRINGS FUNCTION SAMPLE), GSP_E_FORMAT);    /* no location */
    tap_eq_int(READ(STRINGS FUNCTION LOCATION SAMPLE), GSP_E_FORMAT); /* no type */
    tap_eq_int(READ(TYPES FUNCTION LOCATION SAMPLE), GSP_E_FORMAT);   /* no strings */
    tap_eq_int(READ(TYPES STRINGS FUNCTION FUNCTION LOCATION SAMPLE), GSP_E_FORMAT);
    tap_eq_int(READ(TYPES STRINGS FUNCTION LOCATION LOCATION SAMPLE), GSP_E_FORMAT);
    tap_eq_int(READ(TYPES STRINGS "\x2a\x02\x10\x01"), GSP_E_FORMAT); /* id 0 */
    /* two values for one type; none; a mapping that does not exist */
    tap_eq_int(READ(TYPES STRINGS FUNCTION LOCATION "\x12\x06\x08\x01\x10\x05\x10\x05"),
               GSP_E_FORMAT);
    tap_eq_int(READ(TYPES STRINGS FUNCTION LOCATION "\x12\x02\x08\x01"), GSP_E_FORMAT);
    tap_eq_int(READ(TYPES STRINGS FUNCTION "\x22\x04\x08\x01\x10\x07" SAMPLE), GSP_E_FORMAT);
    tap_eq_int(READ("\xff\xff\xff"), GSP_E_FORMAT);
    tap_eq_int(READ("\x1f\x8b\x08nonsense"), GSP_E_FORMAT);
}

TAP_TEST(a_decompression_bomb_is_rejected)
{
    struct gsp_err err = {0};
    size_t len = 64U << 20;
    char *zeros = calloc(1, len);
    tap_require(zeros != NULL);
    struct gsp_buf bomb = {0};
    gzip((struct gsp_sv){zeros, len}, &bomb);
    free(zeros);
    tap_check(bomb.len < len / 900);
    tap_eq_int(read_bytes(bomb.p, bomb.len, &err), GSP_E_LIMIT);
    gsp_buf_free(&bomb);
}

/* A location with 1000 lines in 10,000 samples: ten million frames from a file of 60 KB. */
TAP_TEST(too_many_frames_for_the_size_of_the_file_are_rejected)
{
    struct gsp_err err = {0};
    gsp_auto_buf bytes = {0};
    gsp_buf_put(&bytes, TYPES STRINGS FUNCTION, sizeof(TYPES STRINGS FUNCTION) - 1);
    gsp_buf_putc(&bytes, 0x22);
    gsp_buf_varint(&bytes, 2 + 4 * 1000);
    gsp_buf_put(&bytes, "\x08\x01", 2);
    for (int i = 0; i < 1000; i++)
        gsp_buf_put(&bytes, "\x22\x02\x08\x01", 4);
    for (int i = 0; i < 10000; i++)
        gsp_buf_put(&bytes, SAMPLE, sizeof(SAMPLE) - 1);
    tap_eq_int(read_bytes(bytes.p, bytes.len, &err), GSP_E_LIMIT);
}

TAP_TEST(damaged_input_is_handled_safely)
{
    struct gsp_profile *p = small();
    struct gsp_buf bytes = {0};
    struct gsp_buf plain = {0};
    fix_write(p, "pprof", NULL, &bytes);
    fix_mangle(gsp_buf_sv(&bytes), "pprof", 1);
    gunzip(gsp_buf_sv(&bytes), &plain);
    fix_mangle(gsp_buf_sv(&plain), "pprof", 1);
    gsp_buf_free(&plain);
    gsp_buf_free(&bytes);
    gsp_model_profile_free(p);
}

TAP_MAIN()
