/* SPDX-License-Identifier: Apache-2.0 */
/* Copies columns from Python to a table, and exports it as an Arrow stream. */
#include "pyext/arrow.h"

#include <stdlib.h>
#include <string.h>

#include "pyext/pyapi.h"

static const char CAPSULE[] = "arrow_array_stream";

/* Copies bytes and appends a NUL; None becomes NULL. Returns false with an exception. */
static bool copy_bytes(PyObject *from, void **out)
{
    char *data = NULL;
    Py_ssize_t len = 0;
    *out = NULL;
    if (from == Py_None)
        return true;
    if (PyBytes_AsStringAndSize(from, &data, &len) < 0)
        return false;
    char *copy = malloc((size_t)len + 1);
    if (!copy) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(copy, data, (size_t)len);
    copy[len] = '\0';
    *out = copy;
    return true;
}

/* (length, null_count, (buffer, ...)) */
static bool read_column(PyObject *from, struct gsp_arrow_column *out)
{
    long long length = 0;
    long long null_count = 0;
    PyObject *buffers = NULL;
    if (!PyArg_ParseTuple(from, "LLO!", &length, &null_count, &PyTuple_Type, &buffers))
        return false;
    const Py_ssize_t count = PyTuple_Size(buffers);
    if (count > GSP_ARROW_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "a column has at most three buffers");
        return false;
    }
    out->length = length;
    out->null_count = null_count;
    out->buffer_count = count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!copy_bytes(PyTuple_GetItem(buffers, i), &out->buffers[i]))
            return false;
    return true;
}

/* (name, format, metadata, dictionary): bytes, and a column or None */
static bool read_field(PyObject *from, struct gsp_arrow_field *out)
{
    PyObject *name = NULL;
    PyObject *format = NULL;
    PyObject *metadata = NULL;
    PyObject *dictionary = NULL;
    void *texts[3] = {NULL, NULL, NULL};
    if (!PyArg_ParseTuple(from, "OOOO", &name, &format, &metadata, &dictionary))
        return false;
    const bool ok = copy_bytes(name, &texts[0]) && copy_bytes(format, &texts[1]) &&
                    copy_bytes(metadata, &texts[2]);
    out->name = texts[0];
    out->format = texts[1];
    out->metadata = texts[2];
    out->has_dictionary = dictionary != Py_None;
    return ok && (!out->has_dictionary || read_column(dictionary, &out->dictionary));
}

/* (length, (column, ...)) */
static bool read_batch(PyObject *from, struct gsp_arrow_table *table, size_t batch)
{
    long long length = 0;
    PyObject *columns = NULL;
    if (!PyArg_ParseTuple(from, "LO!", &length, &PyTuple_Type, &columns))
        return false;
    if ((size_t)PyTuple_Size(columns) != table->field_count) {
        PyErr_SetString(PyExc_ValueError, "each field needs a column");
        return false;
    }
    table->lengths[batch] = length;
    for (size_t i = 0; i < table->field_count; i++)
        if (!read_column(PyTuple_GetItem(columns, (Py_ssize_t)i),
                         &table->columns[batch * table->field_count + i]))
            return false;
    return true;
}

static bool read_table(PyObject *fields, PyObject *batches, struct gsp_arrow_table *table)
{
    table->field_count = (size_t)PyTuple_Size(fields);
    table->batch_count = (size_t)PyTuple_Size(batches);
    /* + 1: calloc() of 0 items may return NULL. */
    table->fields = calloc(table->field_count + 1, sizeof(*table->fields));
    table->lengths = calloc(table->batch_count + 1, sizeof(*table->lengths));
    table->columns = calloc(table->field_count * table->batch_count + 1, sizeof(*table->columns));
    if (!table->fields || !table->lengths || !table->columns) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < table->field_count; i++)
        if (!read_field(PyTuple_GetItem(fields, (Py_ssize_t)i), &table->fields[i]))
            return false;
    for (size_t i = 0; i < table->batch_count; i++)
        if (!read_batch(PyTuple_GetItem(batches, (Py_ssize_t)i), table, i))
            return false;
    return true;
}

static void free_capsule(PyObject *capsule)
{
    gsp_pyext__arrow_stream_free(PyCapsule_GetPointer(capsule, CAPSULE));
}

static PyObject *arrow_stream(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *fields = NULL;
    PyObject *batches = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &fields, &PyTuple_Type, &batches))
        return NULL;
    struct gsp_arrow_table *table = calloc(1, sizeof(*table));
    if (!table)
        return PyErr_NoMemory();
    atomic_init(&table->refs, 1);
    if (!read_table(fields, batches, table)) {
        gsp_pyext__arrow_unref(table);
        return NULL;
    }
    struct ArrowArrayStream *stream = gsp_pyext__arrow_stream_new(table);
    if (!stream) {
        gsp_pyext__arrow_unref(table);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(stream, CAPSULE, free_capsule);
    if (!capsule)
        gsp_pyext__arrow_stream_free(stream);
    return capsule;
}

static PyMethodDef functions[] = {
    {"arrow_stream", arrow_stream, METH_VARARGS,
     "arrow_stream(fields, batches) -> a capsule of the Arrow PyCapsule interface"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__arrow_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
