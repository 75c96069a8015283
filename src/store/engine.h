/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h -- DuckDB's C API, loaded on first use.
 *
 * gsprof is not linked against it, so commands without SQL start faster.
 * Threads: any. The table of functions never changes once it is loaded.
 */
#pragma once

#include <duckdb.h>

#include "base/err.h"

/* The functions that store/ calls, without the prefix "duckdb_". */
#define GSP_DUCK_FUNCTIONS(X)                                                                      \
    X(array_type_array_size)                                                                       \
    X(array_type_child_type)                                                                       \
    X(array_vector_get_child)                                                                      \
    X(bind_add_result_column)                                                                      \
    X(bind_boolean)                                                                                \
    X(bind_double)                                                                                 \
    X(bind_get_extra_info)                                                                         \
    X(bind_get_named_parameter)                                                                    \
    X(bind_get_parameter)                                                                          \
    X(bind_int64)                                                                                  \
    X(bind_null)                                                                                   \
    X(bind_parameter_index)                                                                        \
    X(bind_set_bind_data)                                                                          \
    X(bind_set_cardinality)                                                                        \
    X(bind_set_error)                                                                              \
    X(bind_varchar_length)                                                                         \
    X(close)                                                                                       \
    X(column_count)                                                                                \
    X(column_logical_type)                                                                         \
    X(column_name)                                                                                 \
    X(connect)                                                                                     \
    X(create_config)                                                                               \
    X(create_enum_type)                                                                            \
    X(create_logical_type)                                                                         \
    X(create_table_function)                                                                       \
    X(data_chunk_get_column_count)                                                                 \
    X(data_chunk_get_size)                                                                         \
    X(data_chunk_get_vector)                                                                       \
    X(data_chunk_set_size)                                                                         \
    X(decimal_internal_type)                                                                       \
    X(decimal_scale)                                                                               \
    X(decimal_width)                                                                               \
    X(destroy_config)                                                                              \
    X(destroy_data_chunk)                                                                          \
    X(destroy_extracted)                                                                           \
    X(destroy_logical_type)                                                                        \
    X(destroy_pending)                                                                             \
    X(destroy_prepare)                                                                             \
    X(destroy_result)                                                                              \
    X(destroy_table_function)                                                                      \
    X(destroy_value)                                                                               \
    X(disconnect)                                                                                  \
    X(enum_dictionary_size)                                                                        \
    X(enum_dictionary_value)                                                                       \
    X(enum_internal_type)                                                                          \
    X(execute_pending)                                                                             \
    X(extract_statements)                                                                          \
    X(extract_statements_error)                                                                    \
    X(fetch_chunk)                                                                                 \
    X(free)                                                                                        \
    X(from_date)                                                                                   \
    X(from_time_tz)                                                                                \
    X(function_get_bind_data)                                                                      \
    X(function_get_init_data)                                                                      \
    X(get_int64)                                                                                   \
    X(get_type_id)                                                                                 \
    X(get_varchar)                                                                                 \
    X(init_get_bind_data)                                                                          \
    X(init_get_column_count)                                                                       \
    X(init_get_column_index)                                                                       \
    X(init_set_error)                                                                              \
    X(init_set_init_data)                                                                          \
    X(init_set_max_threads)                                                                        \
    X(interrupt)                                                                                   \
    X(is_null_value)                                                                               \
    X(library_version)                                                                             \
    X(list_type_child_type)                                                                        \
    X(list_vector_get_child)                                                                       \
    X(list_vector_get_size)                                                                        \
    X(logical_type_get_alias)                                                                      \
    X(map_type_key_type)                                                                           \
    X(map_type_value_type)                                                                         \
    X(nparams)                                                                                     \
    X(open_ext)                                                                                    \
    X(parameter_name)                                                                              \
    X(pending_error)                                                                               \
    X(pending_execute_task)                                                                        \
    X(pending_prepared_streaming)                                                                  \
    X(prepare_error)                                                                               \
    X(prepare_extracted_statement)                                                                 \
    X(prepared_statement_type)                                                                     \
    X(query)                                                                                       \
    X(register_table_function)                                                                     \
    X(result_error)                                                                                \
    X(result_error_type)                                                                           \
    X(set_config)                                                                                  \
    X(struct_type_child_count)                                                                     \
    X(struct_type_child_name)                                                                      \
    X(struct_type_child_type)                                                                      \
    X(struct_vector_get_child)                                                                     \
    X(table_function_add_named_parameter)                                                          \
    X(table_function_add_parameter)                                                                \
    X(table_function_set_bind)                                                                     \
    X(table_function_set_extra_info)                                                               \
    X(table_function_set_function)                                                                 \
    X(table_function_set_init)                                                                     \
    X(table_function_set_name)                                                                     \
    X(table_function_supports_projection_pushdown)                                                 \
    X(union_type_member_count)                                                                     \
    X(union_type_member_name)                                                                      \
    X(union_type_member_type)                                                                      \
    X(vector_assign_string_element_len)                                                            \
    X(vector_ensure_validity_writable)                                                             \
    X(vector_get_column_type)                                                                      \
    X(vector_get_data)                                                                             \
    X(vector_get_validity)                                                                         \
    X(vector_size)

struct gsp_duckdb {
#define GSP_DUCK_MEMBER(name) __typeof__ (&duckdb_##name)(name);
    GSP_DUCK_FUNCTIONS(GSP_DUCK_MEMBER)
#undef GSP_DUCK_MEMBER
};

/* Loads the library `path`. If path is NULL, searches beside the program, in ../lib/gsprof, in the
 * build folder and in the system's libraries. *out stays valid until the process ends.
 * Fails with NOTSUP (not found; the message lists the searched folders), VERSION or LIMIT. */
GSP_MUST_CHECK int gsp_store__engine_load(const char *path, const struct gsp_duckdb **out,
                                          struct gsp_err *err);
