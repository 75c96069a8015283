/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "pyext/pyapi.h"

#define SCHEMA "python"

static const struct {
    const char *name;
    enum gsp_type type;
} TYPES[] = {
    {"int", GSP_I64},  {"float", GSP_F64},    {"bool", GSP_BOOL},
    {"str", GSP_TEXT}, {"category", GSP_STR},
};

/* Every table of a process has these columns. */
static bool is_common(const char *name)
{
    return strcmp(name, "host") == 0 || strcmp(name, "pid") == 0 || strcmp(name, "rank") == 0;
}

/* Reads one (name, type); returns false with an exception. The name is borrowed from the pair. */
static bool read_column(PyObject *pair, struct gsp_column_spec *out)
{
    const char *type = NULL;
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "ss", &out->name, &type)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a column is (name, type)");
        return false;
    }
    if (is_common(out->name)) {
        PyErr_Format(PyExc_ValueError, "column %s is in every table", out->name);
        return false;
    }
    for (size_t i = 0; i < GSP_COUNT(TYPES); i++) {
        if (strcmp(TYPES[i].name, type) == 0) {
            out->type = TYPES[i].type;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "column %s: unknown type %s", out->name, type);
    return false;
}

static bool is_same(const struct gsp_table *a, const struct gsp_table *b)
{
    bool same = a->column_count == b->column_count;
    for (uint32_t i = 0; same && i < a->column_count; i++) {
        same = a->columns[i].type == b->columns[i].type &&
               strcmp(a->columns[i].name, b->columns[i].name) == 0;
    }
    return same;
}

/* Adds the table, which it takes ownership of. An existing table must have the same columns. */
static bool add(struct gsp_table *table)
{
    const enum gsp_table_id id = gsp_agent_table_add(table);
    const struct gsp_table *existing = gsp_agent_table_at((size_t)id);
    if (existing == table)
        return true;
    if (!existing)
        PyErr_SetString(PyExc_ValueError, "too many tables");
    else if (!is_same(existing, table))
        PyErr_Format(PyExc_ValueError, "table %s already exists with other columns", table->name);
    gsp_wire_table_free(table);
    return !PyErr_Occurred();
}

/* define(name, [(column, type), ...]) */
static PyObject *define(PyObject *module, PyObject *args)
{
    (void)module;
    struct gsp_column_spec columns[GSP_COLUMNS_MAX] = {{0}};
    struct gsp_table_spec spec = {.schema = SCHEMA, .columns = columns, .scope = GSP_SCOPE_TARGET};
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(args, "sO:define", &spec.name, &list))
        return NULL;
    const Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : 0;
    if (count < 1 || count > (Py_ssize_t)GSP_COUNT(columns)) {
        PyErr_Format(PyExc_ValueError, "a table has 1 to %d columns", (int)GSP_COUNT(columns));
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_column(PyList_GetItem(list, i), &columns[i]))
            return NULL;
    spec.column_count = (size_t)count;
    if (gsp_wire_table_find(SCHEMA, spec.name)) {
        PyErr_Format(PyExc_ValueError, "table %s is a table of gsprof", spec.name);
        return NULL;
    }
    struct gsp_err err = {0};
    struct gsp_table *table = NULL;
    if (gsp_wire_table_new(&spec, &table, &err) != 0) {
        PyErr_SetString(PyExc_ValueError, err.msg);
        return NULL;
    }
    if (!add(table))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"define", define, METH_VARARGS,
     "define(name, [(column, type)])\n\nDefines a table for put(); types: int, float, bool, str, "
     "category."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__user_table_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
