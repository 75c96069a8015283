/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "wire/ring.h"
#include "wire/table.h"

TAP_TEST(tables_are_found_by_name_and_number)
{
    size_t count = 0;
    for (; gsp_wire_table_at(count); count++) {
        const struct gsp_table *table = gsp_wire_table_at(count);
        tap_check(gsp_wire_table_find(table->schema, table->name) == table);
        tap_check(gsp_wire_table_name_is_valid(gsp_sv_of(table->schema)));
        tap_check(table->column_count > 0 && table->column_count <= GSP_COLUMNS_MAX);
        for (uint32_t i = 0; i < table->column_count; i++) {
            const struct gsp_column *column = &table->columns[i];
            tap_check(gsp_wire_table_name_is_valid(gsp_sv_of(column->name)));
            tap_check(gsp_wire_type_width(column->type) > 0);
            tap_check(column->row_offset < table->row_bytes);
        }
    }
    tap_eq_int(count, GSP_TABLE_COUNT);
    tap_check(gsp_wire_table_find("python", "nothing") == NULL);
}

TAP_TEST(common_columns_come_first)
{
    const struct gsp_table *trace = gsp_wire_table_find("python", "torch_trace");
    const struct gsp_table *metrics = gsp_wire_table_find("process", "metrics");
    const struct gsp_table *stack = gsp_wire_table_find("python", "stack");
    tap_require(trace && metrics && stack);
    tap_eq_str(trace->columns[0].name, "ts_ns");
    tap_eq_str(trace->columns[1].name, "mono_ns");
    tap_eq_str(trace->columns[2].name, "step");
    tap_eq_str(metrics->columns[2].name, "pid");
    tap_eq_str(metrics->columns[3].name, "rank");
    tap_eq_str(stack->columns[0].name, "stack_id");
}

TAP_TEST(nulls_are_reserved_values)
{
    tap_check(gsp_is_null_f64(gsp_null_f64()));
    tap_check(!gsp_is_null_f64(0.0 / 0.0));
    tap_check(!gsp_is_null_f64(0));
    tap_eq_int(gsp_wire_type_width(0), 0);
    tap_eq_int(gsp_wire_type_width(99), 0);
    tap_eq_str(gsp_wire_type_name(GSP_TEXT), "text");
    tap_eq_str(gsp_wire_type_name(0), "?");
}

TAP_TEST(names_are_checked)
{
    tap_check(gsp_wire_table_name_is_valid(gsp_sv_of("torch_trace2")));
    tap_check(!gsp_wire_table_name_is_valid(gsp_sv_of("")));
    tap_check(!gsp_wire_table_name_is_valid(gsp_sv_of("2x")));
    tap_check(!gsp_wire_table_name_is_valid(gsp_sv_of("Big")));
    tap_check(!gsp_wire_table_name_is_valid(gsp_sv_of("a.b")));
    tap_check(!gsp_wire_table_name_is_valid((struct gsp_sv){"a\0b", 3}));
    char text[80];
    memset(text, 'a', sizeof(text));
    tap_check(gsp_wire_table_name_is_valid((struct gsp_sv){text, 63}));
    tap_check(!gsp_wire_table_name_is_valid((struct gsp_sv){text, 64}));
}

static int make(const char *name, const struct gsp_column_spec *columns, size_t count,
                struct gsp_err *err)
{
    const struct gsp_table_spec spec = {.schema = "user",
                                        .name = name,
                                        .columns = columns,
                                        .column_count = count,
                                        .scope = GSP_SCOPE_ROWS};
    struct gsp_table *table = NULL;
    const int rc = gsp_wire_table_new(&spec, &table, err);
    tap_check((rc == 0) == (table != NULL));
    gsp_wire_table_free(table);
    return rc;
}

TAP_TEST(a_users_table_is_checked)
{
    struct gsp_err err = {0};
    const struct gsp_column_spec good[] = {{"a", NULL, NULL, GSP_I64}, {"b", "s", "x", GSP_F64}};
    const struct gsp_column_spec twice[] = {{"a", NULL, NULL, GSP_I64}, {"a", "s", "x", GSP_F64}};
    const struct gsp_column_spec common[] = {{"ts_ns", NULL, NULL, GSP_I64}};
    const struct gsp_column_spec bad_type[] = {{"a", NULL, NULL, (enum gsp_type)9}};
    const struct gsp_column_spec bad_name[] = {{"A", NULL, NULL, GSP_I64}};
    const struct gsp_column_spec no_name[] = {{NULL, NULL, NULL, GSP_I64}};
    tap_eq_int(make("fine", good, 2, &err), 0);
    tap_eq_int(make("Not fine", good, 2, &err), GSP_E_USAGE);
    tap_eq_int(make(NULL, good, 2, &err), GSP_E_USAGE);
    tap_eq_int(make("t", twice, 2, &err), GSP_E_USAGE);
    tap_eq_str(err.msg, "column a is defined twice");
    tap_eq_int(make("t", common, 1, &err), GSP_E_USAGE);
    tap_eq_int(make("t", bad_type, 1, &err), GSP_E_USAGE);
    tap_eq_int(make("t", bad_name, 1, &err), GSP_E_USAGE);
    tap_eq_int(make("t", no_name, 1, &err), GSP_E_USAGE);
    struct gsp_column_spec many[GSP_COLUMNS_MAX];
    char names[GSP_COLUMNS_MAX][8];
    for (size_t i = 0; i < GSP_COLUMNS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "c%zu", i);
        many[i] = (struct gsp_column_spec){names[i], NULL, NULL, GSP_BOOL};
    }
    tap_eq_int(make("t", many, GSP_COLUMNS_MAX - 4, &err), 0);
    tap_eq_int(make("t", many, GSP_COLUMNS_MAX - 3, &err), GSP_E_LIMIT);
}

TAP_TEST(string_references_pack)
{
    const uint64_t ref = gsp_ring_ref(GSP_RING_POS_MASK, GSP_RING_REF_LEN_MAX);
    tap_check(gsp_ring_ref_pos(ref) == GSP_RING_POS_MASK);
    tap_eq_int(gsp_ring_ref_len(ref), GSP_RING_REF_LEN_MAX);
    tap_check(ref != GSP_NULL_TEXT);
}

TAP_MAIN()
