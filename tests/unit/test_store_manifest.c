/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/file.h"
#include "store/manifest.h"
#include "tap.h"

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/gsprof-test-XXXXXX");
    tap_require(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, GSP_MANIFEST_NAME);
    unlink(path);
    tap_check(rmdir(folder) == 0);
}

static void put_file(const char *text, size_t len)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, GSP_MANIFEST_NAME);
    FILE *file = fopen(path, "wb");
    tap_require(file != NULL);
    tap_eq_int(fwrite(text, 1, len, file), len);
    tap_require(fclose(file) == 0);
}

static struct gsp_manifest small(void)
{
    struct gsp_manifest m = {.next = 9};
    const struct gsp_drain_cursor key = {
        .schema = "python", .table = "torch_trace", .pid = 42, .start_time = 77, .created_ns = 5};
    for (unsigned i = 0; i < 3; i++) {
        struct gsp_segment s = {.schema = "python",
                                .table = "torch_trace",
                                .rows = 10 + i,
                                .bytes = 100,
                                .written_ns = 3};
        snprintf(s.file, sizeof(s.file), "python.torch_trace.%u.parquet", i + 1);
        tap_require(gsp_store__manifest_add_segment(&m, &s, NULL) == GSP_OK);
    }
    for (uint32_t lane = 0; lane < 5; lane++)
        tap_require(gsp_store__manifest_set_cursor(&m, &key, lane, 1000 + lane, NULL) == GSP_OK);
    const struct gsp_segment_loss loss = {
        .schema = "python", .table = "torch_trace", .cause = "overwritten", .pid = 42, .count = 8};
    tap_require(gsp_store__manifest_add_loss(&m, &loss, NULL) == GSP_OK);
    tap_require(gsp_store__manifest_add_loss(&m, &loss, NULL) == GSP_OK);
    return m;
}

TAP_TEST(a_written_manifest_is_read_back)
{
    struct gsp_manifest m = small();
    struct gsp_manifest n = {0};
    struct gsp_err err = {0};
    make_folder();
    tap_require(gsp_store__manifest_write(folder, &m, &err) == GSP_OK);
    tap_require(gsp_store__manifest_read(folder, &n, &err) == GSP_OK);
    tap_eq_int(n.next, 9);
    tap_require(n.segment_count == 3 && n.cursor_count == 1 && n.loss_count == 1);
    tap_eq_str(n.segments[2].file, "python.torch_trace.3.parquet");
    tap_eq_str(n.segments[2].table, "torch_trace");
    tap_eq_int(n.segments[2].rows, 12);
    tap_eq_int(n.losses[0].count, 16);
    tap_eq_int(n.losses[0].pid, 42);
    const struct gsp_drain_cursor *cursor = gsp_store__manifest_cursor(&n, &m.cursors[0]);
    tap_require(cursor != NULL);
    tap_eq_int(gsp_store__cursor_row(cursor, 4), 1004);
    tap_eq_int(gsp_store__cursor_row(cursor, 5), 0);
    struct gsp_drain_cursor other = m.cursors[0];
    other.created_ns++;
    tap_check(gsp_store__manifest_cursor(&n, &other) == NULL);
    gsp_store__manifest_free(&m);
    gsp_store__manifest_free(&n);
    remove_folder();
}

TAP_TEST(a_copy_is_independent)
{
    struct gsp_manifest m = small();
    struct gsp_manifest n = {0};
    tap_require(gsp_store__manifest_copy(&m, &n, NULL) == GSP_OK);
    gsp_store__manifest_remove_segment(&n, 0);
    tap_require(gsp_store__manifest_set_cursor(&n, &m.cursors[0], 0, 7, NULL) == GSP_OK);
    tap_eq_int(m.segment_count, 3);
    tap_eq_int(gsp_store__cursor_row(&m.cursors[0], 0), 1000);
    tap_eq_str(n.segments[0].file, "python.torch_trace.2.parquet");
    gsp_store__manifest_free(&m);
    gsp_store__manifest_free(&n);
}

TAP_TEST(a_missing_manifest_is_empty)
{
    struct gsp_manifest m = {0};
    make_folder();
    tap_require(gsp_store__manifest_read(folder, &m, NULL) == GSP_OK);
    tap_eq_int(m.next, 1);
    tap_eq_int(m.segment_count, 0);
    gsp_store__manifest_free(&m);
    remove_folder();
}

TAP_TEST(file_names_are_never_paths)
{
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    tap_check(gsp_store__segment_name_is_valid("python.torch_trace.parquet", schema, table));
    tap_eq_str(schema, "python");
    tap_eq_str(table, "torch_trace");
    tap_check(gsp_store__segment_name_is_valid("python.torch_trace.17.parquet", NULL, NULL));
    static const char *const BAD[] = {"",
                                      ".parquet",
                                      "python.parquet",
                                      "python..parquet",
                                      "../a.b.parquet",
                                      "a/b.c.parquet",
                                      "python.torch_trace.x.parquet",
                                      "python.torch_trace.1.2.parquet",
                                      "python.torch_trace..parquet",
                                      "python.torch_trace.parquet.tmp",
                                      ".python.torch_trace.parquet",
                                      "python.torch_trace.123456789012345678901.parquet",
                                      "Python.torch_trace.parquet"};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++) {
        if (gsp_store__segment_name_is_valid(BAD[i], NULL, NULL))
            printf("# %s\n", BAD[i]);
        tap_check(!gsp_store__segment_name_is_valid(BAD[i], NULL, NULL));
    }
}

TAP_TEST(other_versions_and_malformed_files_are_rejected)
{
    static const struct {
        const char *text;
        int code;
    } CASES[] = {
        {"", GSP_E_FORMAT},
        {"[]", GSP_E_FORMAT},
        {"{\"version\":1}", GSP_E_FORMAT},
        {"{\"version\":2,\"next\":1,\"segments\":[],\"cursors\":[],\"losses\":[]}", GSP_E_VERSION},
        {"{\"version\":1,\"next\":1,\"segments\":[{\"file\":\"../../etc/x.y.parquet\",\"rows\":1,"
         "\"bytes\":1,\"written_ns\":1}],\"cursors\":[],\"losses\":[]}",
         GSP_E_FORMAT},
        {"{\"version\":1,\"next\":1,\"segments\":[],\"cursors\":[{\"schema\":\"a\",\"table\":\"b\","
         "\"pid\":1,\"start_time\":1,\"created_ns\":1,\"lanes\":[[99999,1]]}],\"losses\":[]}",
         GSP_E_FORMAT},
        {"{\"version\":1,\"next\":1,\"segments\":[],\"cursors\":[{\"schema\":\"a\",\"table\":\"b\","
         "\"pid\":-1,\"start_time\":1,\"created_ns\":1,\"lanes\":[]}],\"losses\":[]}",
         GSP_E_FORMAT},
    };
    make_folder();
    for (size_t i = 0; i < GSP_COUNT(CASES); i++) {
        struct gsp_manifest m = {0};
        struct gsp_err err = {0};
        put_file(CASES[i].text, strlen(CASES[i].text));
        tap_eq_int(gsp_store__manifest_read(folder, &m, &err), CASES[i].code);
        tap_check(err.msg[0] != '\0');
        tap_eq_int(m.segment_count + m.cursor_count + m.loss_count, 0);
    }
    remove_folder();
}

TAP_TEST(truncated_manifests_are_rejected)
{
    struct gsp_manifest m = small();
    struct gsp_buf text = {0};
    char path[128];
    make_folder();
    tap_require(gsp_store__manifest_write(folder, &m, NULL) == GSP_OK);
    snprintf(path, sizeof(path), "%s/%s", folder, GSP_MANIFEST_NAME);
    tap_require(gsp_file_read(path, 1U << 20, &text, NULL) == GSP_OK);
    for (size_t len = 0; len + 2 < text.len; len += 7) {
        struct gsp_manifest n = {0};
        put_file(text.p, len);
        tap_check(gsp_store__manifest_read(folder, &n, NULL) == GSP_E_FORMAT);
    }
    gsp_buf_free(&text);
    gsp_store__manifest_free(&m);
    remove_folder();
}

TAP_MAIN()
