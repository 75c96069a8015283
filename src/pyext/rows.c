/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/json.h"
#include "base/time.h"
#include "pyext/pyapi.h"

#define ROW_BYTES_MAX (GSP_COLUMNS_MAX * sizeof(struct gsp_sv))
#define TEXT_MAX      200 /* characters of a str() */
#define ITEMS_MAX     64  /* of a list or dictionary in an attribute */
#define DEPTH_MAX     4
#define BYTES_MAX     4096 /* of all attributes of one row */

struct gsp_sv gsp_pyext__text(PyObject *text, PyObject **keep)
{
    *keep = NULL;
    Py_ssize_t len = 0;
    const char *p = PyUnicode_AsUTF8AndSize(text, &len);
    if (p)
        return (struct gsp_sv){p, (size_t)len};
    PyErr_Clear();
    char *bytes = NULL;
    *keep = PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    if (*keep && PyBytes_AsStringAndSize(*keep, &bytes, &len) == 0)
        return (struct gsp_sv){bytes, (size_t)len};
    PyErr_Clear();
    return gsp_sv_of("");
}

int64_t gsp_pyext__thread_id(void)
{
    static _Thread_local int64_t tid;
    static _Thread_local uint32_t generation;
    /* In the child, the thread that forked has a new id. Relaxed: it is this thread's own fork. */
    const uint32_t now = atomic_load_explicit(gsp_agent_generation(), memory_order_relaxed);
    if (gsp_unlikely(tid == 0 || generation != now)) {
        tid = syscall(SYS_gettid);
        generation = now;
    }
    return tid;
}

static void write_text(struct gsp_json *json, PyObject *text)
{
    PyObject *keep = NULL;
    struct gsp_sv sv = gsp_pyext__text(text, &keep);
    if (sv.len > BYTES_MAX)
        sv.len = BYTES_MAX;
    gsp_json_sv(json, sv);
    Py_XDECREF(keep);
}

/* Writes the type's name of tensors, whose str() may wait for a GPU. */
static void write_other(struct gsp_json *json, PyObject *value)
{
    PyObject *text = NULL;
    if (!PyObject_HasAttrString(value, "is_cuda"))
        text = PyObject_Str(value);
    if (!text) {
        PyErr_Clear();
        text = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    }
    PyObject *cut = text ? PyUnicode_Substring(text, 0, TEXT_MAX) : NULL;
    if (cut) {
        write_text(json, cut);
        Py_DECREF(cut);
    } else {
        PyErr_Clear();
        gsp_json_null(json);
    }
    Py_XDECREF(text);
}

static void write_number(struct gsp_json *json, PyObject *value)
{
    if (PyFloat_Check(value)) {
        gsp_json_f64(json, PyFloat_AsDouble(value));
        return;
    }
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        write_other(json, value);
    else
        gsp_json_i64(json, number);
}

static void write_value(struct gsp_json *json, PyObject *value, unsigned depth);

static void write_list(struct gsp_json *json, PyObject *list, unsigned depth)
{
    gsp_json_arr_begin(json);
    const Py_ssize_t count = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < count && i < ITEMS_MAX; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        if (!item)
            break;
        write_value(json, item, depth + 1);
        Py_DECREF(item);
    }
    PyErr_Clear();
    gsp_json_arr_end(json);
}

static void write_dict(struct gsp_json *json, PyObject *dict, unsigned depth)
{
    gsp_json_obj_begin(json);
    PyObject *keys = PyDict_Keys(dict);
    const Py_ssize_t count = keys ? PyList_Size(keys) : 0;
    for (Py_ssize_t i = 0; i < count && i < ITEMS_MAX; i++) {
        PyObject *key = PyList_GetItem(keys, i);
        PyObject *value = key && PyUnicode_Check(key) ? PyDict_GetItem(dict, key) : NULL;
        if (value) {
            PyObject *keep = NULL;
            Py_INCREF(value);
            gsp_json_keysv(json, gsp_pyext__text(key, &keep));
            write_value(json, value, depth + 1);
            Py_DECREF(value);
            Py_XDECREF(keep);
        }
    }
    Py_XDECREF(keys);
    PyErr_Clear();
    gsp_json_obj_end(json);
}

static void write_value(struct gsp_json *json, PyObject *value, unsigned depth)
{
    if (value == Py_None)
        gsp_json_null(json);
    else if (PyBool_Check(value))
        gsp_json_bool(json, value == Py_True);
    else if (PyFloat_Check(value) || PyLong_Check(value))
        write_number(json, value);
    else if (PyUnicode_Check(value))
        write_text(json, value);
    else if (depth < DEPTH_MAX && (PyList_Check(value) || PyTuple_Check(value)))
        write_list(json, value, depth);
    else if (depth < DEPTH_MAX && PyDict_Check(value))
        write_dict(json, value, depth);
    else
        write_other(json, value);
}

void gsp_pyext__json_member(struct gsp_buf *out, struct gsp_sv name, PyObject *value)
{
    if (out->len == 0)
        gsp_buf_putc(out, '{');
    const size_t before = out->len;
    struct gsp_json json;
    gsp_json_init(&json, out);
    json.depth = 1;
    json.has_item[1] = before > 1;
    gsp_json_keysv(&json, name);
    write_value(&json, value, 0);
    /* A member that does not fit is omitted. */
    if (out->len > BYTES_MAX)
        out->len = before;
}

/* ------------------------------------------------------------------------ rows of any table */

static const struct gsp_table *find_table(PyObject *name, enum gsp_table_id *id)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return NULL;
    struct gsp_sv rest = gsp_sv_of(text);
    struct gsp_sv schema;
    if (gsp_sv_split(&rest, '.', &schema) && rest.p) {
        const struct gsp_table *table = NULL;
        for (size_t i = 0; (table = gsp_agent_table_at(i)); i++) {
            if (gsp_sv_eq(schema, gsp_sv_of(table->schema)) &&
                gsp_sv_eq(rest, gsp_sv_of(table->name))) {
                *id = (enum gsp_table_id)i;
                return table;
            }
        }
    }
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
}

/* Writes the NULL of the column's type. */
static void put_null(unsigned char *at, enum gsp_type type)
{
    switch (type) {
    case GSP_I64:
        *(int64_t *)(void *)at = GSP_NULL_I64;
        break;
    case GSP_F64:
        *(double *)(void *)at = gsp_null_f64();
        break;
    case GSP_BOOL:
        *at = GSP_NULL_BOOL;
        break;
    case GSP_STR:
        *(uint32_t *)(void *)at = GSP_NULL_STR;
        break;
    case GSP_TEXT:
        *(struct gsp_sv *)(void *)at = (struct gsp_sv){NULL, 0};
        break;
    default:
        break;
    }
}

/* Writes one value in the column's type. Returns false with an exception if it does not fit. */
static bool put_value(enum gsp_table_id id, enum gsp_type type, unsigned char *at, PyObject *value,
                      PyObject *keep)
{
    if (value == Py_None)
        return true;
    PyObject *held = NULL;
    switch (type) {
    case GSP_I64:
        *(int64_t *)(void *)at = PyLong_AsLongLong(value);
        break;
    case GSP_F64:
        *(double *)(void *)at = PyFloat_AsDouble(value);
        break;
    case GSP_BOOL:
        *at = PyObject_IsTrue(value) > 0;
        break;
    case GSP_STR:
        *(uint32_t *)(void *)at = gsp_agent_intern(id, gsp_pyext__text(value, &held));
        break;
    case GSP_TEXT:
        *(struct gsp_sv *)(void *)at = gsp_pyext__text(value, &held);
        break;
    default:
        break;
    }
    if (held) {
        /* The row borrows the bytes until it is written. */
        (void)PyList_Append(keep, held);
        Py_DECREF(held);
    }
    return !PyErr_Occurred();
}

static bool fill_row(const struct gsp_table *table, enum gsp_table_id id, unsigned char *row,
                     PyObject *values, PyObject *keep)
{
    const int64_t mono_ns = gsp_now_ns();
    const int64_t ts_ns = gsp_realtime_ns();
    for (uint32_t i = 0; i < table->column_count; i++) {
        const struct gsp_column *column = &table->columns[i];
        unsigned char *at = row + column->row_offset;
        put_null(at, column->type);
        PyObject *value = PyDict_GetItemString(values, column->name);
        if (value) {
            if (!put_value(id, column->type, at, value, keep))
                return false;
        } else if (table->scope != GSP_SCOPE_PLAIN && i < 2) {
            *(int64_t *)(void *)at = i == 0 ? ts_ns : mono_ns;
        } else if (table->scope == GSP_SCOPE_ROWS && i == 2) {
            *(int64_t *)(void *)at = getpid();
        }
    }
    return true;
}

static PyObject *put(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "put(table, {column: value})");
        return NULL;
    }
    enum gsp_table_id id = GSP_TABLE_COUNT;
    const struct gsp_table *table = find_table(args[0], &id);
    if (!table)
        return NULL;
    if (!gsp_agent_is_on())
        Py_RETURN_FALSE;
    _Alignas(16) unsigned char row[ROW_BYTES_MAX];
    PyObject *keep = PyList_New(0);
    if (!keep)
        return NULL;
    PyObject *result = NULL;
    if (fill_row(table, id, row, args[1], keep))
        result = PyBool_FromLong(gsp_agent_put(id, row));
    Py_DECREF(keep);
    return result;
}

static PyObject *thread_id(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(gsp_pyext__thread_id());
}

static PyMethodDef functions[] = {
    {"put", GSP_PY_METHOD(put), METH_FASTCALL,
     "put(table, {column: value}) -> bool\n\nAppends a row; columns not given are NULL, "
     "except the time and the pid."},
    {"thread_id", thread_id, METH_NOARGS,
     "thread_id() -> int\n\nReturns the kernel's id of this thread."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__rows_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
