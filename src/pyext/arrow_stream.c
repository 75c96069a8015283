/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pyext/arrow.h"

#define NULLABLE 2

/* The position of a stream in the table. */
struct position {
    struct gsp_arrow_table *table;
    size_t next;
};

static void free_column(struct gsp_arrow_column *column)
{
    for (size_t i = 0; i < GSP_ARROW_BUFFERS; i++)
        free(column->buffers[i]);
}

void gsp_pyext__arrow_unref(struct gsp_arrow_table *table)
{
    if (!table || atomic_fetch_sub(&table->refs, 1) != 1)
        return;
    for (size_t i = 0; table->fields && i < table->field_count; i++) {
        free(table->fields[i].name);
        free(table->fields[i].format);
        free(table->fields[i].metadata);
        free_column(&table->fields[i].dictionary);
    }
    for (size_t i = 0; table->columns && i < table->field_count * table->batch_count; i++)
        free_column(&table->columns[i]);
    free(table->fields);
    free(table->lengths);
    free(table->columns);
    free(table);
}

static struct gsp_arrow_table *ref(struct gsp_arrow_table *table)
{
    atomic_fetch_add(&table->refs, 1);
    return table;
}

/* --------------------------------------------------------------------------------- schema */

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; schema->children && i < schema->n_children; i++) {
        /* A child that was moved has no release function. */
        struct ArrowSchema *child = schema->children[i];
        if (child && child->release)
            child->release(child);
    }
    if (schema->dictionary && schema->dictionary->release)
        schema->dictionary->release(schema->dictionary);
    /* All children are in one allocation. */
    if (schema->children)
        free(schema->children[0]);
    free(schema->children);
    free(schema->dictionary);
    gsp_pyext__arrow_unref(schema->private_data);
    schema->release = NULL;
}

static bool fill_field(const struct gsp_arrow_field *field, struct gsp_arrow_table *table,
                       struct ArrowSchema *out)
{
    *out = (struct ArrowSchema){.format = field->format,
                                .name = field->name,
                                .metadata = field->metadata,
                                .flags = NULLABLE,
                                .release = release_schema,
                                .private_data = ref(table)};
    if (!field->has_dictionary)
        return true;
    out->dictionary = malloc(sizeof(*out->dictionary));
    if (!out->dictionary)
        return false;
    *out->dictionary = (struct ArrowSchema){.format = "u",
                                            .name = "",
                                            .flags = NULLABLE,
                                            .release = release_schema,
                                            .private_data = ref(table)};
    return true;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    const struct position *position = stream->private_data;
    struct gsp_arrow_table *table = position->table;
    const size_t count = table->field_count;
    *out = (struct ArrowSchema){
        .format = "+s", .name = "", .release = release_schema, .private_data = ref(table)};
    struct ArrowSchema *block = calloc(count + 1, sizeof(*block));
    out->children = calloc(count + 1, sizeof(*out->children));
    bool ok = block && out->children;
    if (!ok) {
        free(block);
        free(out->children);
        out->children = NULL;
    } else {
        out->children[0] = block;
    }
    for (size_t i = 0; ok && i < count; i++) {
        out->children[i] = &block[i];
        out->n_children++;
        ok = fill_field(&table->fields[i], table, &block[i]);
    }
    if (!ok) {
        release_schema(out);
        return ENOMEM;
    }
    return 0;
}

/* ----------------------------------------------------------------------------------- rows */

static void release_array(struct ArrowArray *array)
{
    for (int64_t i = 0; array->children && i < array->n_children; i++) {
        struct ArrowArray *child = array->children[i];
        if (child && child->release)
            child->release(child);
    }
    if (array->dictionary && array->dictionary->release)
        array->dictionary->release(array->dictionary);
    if (array->children)
        free(array->children[0]);
    free(array->children);
    free(array->dictionary);
    free(array->buffers);
    gsp_pyext__arrow_unref(array->private_data);
    array->release = NULL;
}

static bool fill_array(const struct gsp_arrow_column *column, struct gsp_arrow_table *table,
                       struct ArrowArray *out)
{
    *out = (struct ArrowArray){.length = column->length,
                               .null_count = column->null_count,
                               .n_buffers = column->buffer_count,
                               .release = release_array,
                               .private_data = ref(table)};
    out->buffers = malloc(GSP_ARROW_BUFFERS * sizeof(*out->buffers));
    if (!out->buffers)
        return false;
    for (size_t i = 0; i < GSP_ARROW_BUFFERS; i++)
        out->buffers[i] = column->buffers[i];
    return true;
}

static bool fill_child(const struct gsp_arrow_table *table, size_t batch, size_t field,
                       struct gsp_arrow_table *owner, struct ArrowArray *out)
{
    if (!fill_array(&table->columns[batch * table->field_count + field], owner, out))
        return false;
    if (!table->fields[field].has_dictionary)
        return true;
    out->dictionary = calloc(1, sizeof(*out->dictionary));
    return out->dictionary && fill_array(&table->fields[field].dictionary, owner, out->dictionary);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct position *position = stream->private_data;
    struct gsp_arrow_table *table = position->table;
    *out = (struct ArrowArray){0};
    /* An array without release marks the end. */
    if (position->next == table->batch_count)
        return 0;
    const size_t batch = position->next++;
    const size_t count = table->field_count;
    const struct gsp_arrow_column rows = {.length = table->lengths[batch], .buffer_count = 1};
    bool ok = fill_array(&rows, table, out);
    struct ArrowArray *block = calloc(count + 1, sizeof(*block));
    out->children = calloc(count + 1, sizeof(*out->children));
    if (!block || !out->children) {
        free(block);
        free(out->children);
        out->children = NULL;
        ok = false;
    } else {
        out->children[0] = block;
    }
    for (size_t i = 0; ok && i < count; i++) {
        out->children[i] = &block[i];
        out->n_children++;
        ok = fill_child(table, batch, i, table, &block[i]);
    }
    if (!ok) {
        release_array(out);
        return ENOMEM;
    }
    return 0;
}

/* --------------------------------------------------------------------------------- stream */

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "out of memory";
}

static void release_stream(struct ArrowArrayStream *stream)
{
    struct position *position = stream->private_data;
    gsp_pyext__arrow_unref(position->table);
    free(position);
    stream->release = NULL;
}

struct ArrowArrayStream *gsp_pyext__arrow_stream_new(struct gsp_arrow_table *table)
{
    struct ArrowArrayStream *stream = malloc(sizeof(*stream));
    struct position *position = malloc(sizeof(*position));
    if (!stream || !position) {
        free(stream);
        free(position);
        return NULL;
    }
    *position = (struct position){.table = table};
    *stream = (struct ArrowArrayStream){.get_schema = get_schema,
                                        .get_next = get_next,
                                        .get_last_error = get_last_error,
                                        .release = release_stream,
                                        .private_data = position};
    return stream;
}

void gsp_pyext__arrow_stream_free(struct ArrowArrayStream *stream)
{
    /* A consumer that moved the content has cleared release. */
    if (stream && stream->release)
        stream->release(stream);
    free(stream);
}
