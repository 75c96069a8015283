/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "py/object.h"
#include "py/object_internal.h"

#define LOCALS_MAX       1024U
#define NAME_BYTES_MAX   256U

/* co_flags */
#define CODE_VARARGS     0x04U
#define CODE_VARKEYWORDS 0x08U

/* co_localspluskinds */
#define KIND_HIDDEN      0x10U
#define KIND_CELL        0x40U
#define KIND_FREE        0x80U

/* References of 3.14 and later have tags in the lowest bits; a tagged int has all of them set. */
#define TAG_BITS         3U

struct slots {
    size_t count;
    uint64_t names[LOCALS_MAX];
    uint64_t values[LOCALS_MAX];
    uint8_t kinds[LOCALS_MAX];
};

static int read_int(const struct gsp_py__view *v, gsp_raddr addr, uint32_t *out)
{
    return gsp_proc_mem_read(v->mem, addr, out, sizeof(*out));
}

/* Adds the items of a tuple to slots->names. */
static int add_names(const struct gsp_py__view *v, gsp_raddr tuple, uint8_t kind,
                     struct slots *slots)
{
    uint64_t count = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, tuple + v->layout->var_ob_size, &count);
    if (rc != 0)
        return rc;
    if (count > LOCALS_MAX - slots->count)
        return GSP_E_FORMAT;
    if (count > 0) {
        rc = gsp_proc_mem_read(v->mem, tuple + v->layout->tuple_items, slots->names + slots->count,
                               (size_t)count * sizeof(uint64_t));
        memset(slots->kinds + slots->count, kind, (size_t)count);
    }
    slots->count += (size_t)count;
    return rc;
}

/* Up to 3.10 each of the three kinds of variables has its own tuple of names. */
static int read_slots_old(const struct gsp_py__view *v, gsp_raddr code, struct slots *slots)
{
    const struct {
        gsp_py_off at;
        uint8_t kind;
    } tuples[] = {
        {v->layout->code_localsplusnames, 0},
        {v->layout->code_cellvars, KIND_CELL},
        {v->layout->code_freevars, KIND_FREE},
    };
    for (size_t i = 0; i < GSP_COUNT(tuples); i++) {
        uint64_t tuple = 0;
        int rc = gsp_proc_mem_read_u64(v->mem, code + tuples[i].at, &tuple);
        if (rc == 0)
            rc = add_names(v, tuple, tuples[i].kind, slots);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int read_slots_new(const struct gsp_py__view *v, gsp_raddr code, struct slots *slots)
{
    uint64_t names = 0;
    uint64_t kinds = 0;
    uint64_t kinds_len = 0;
    struct gsp_mem_span spans[2] = {
        {code + v->layout->code_localsplusnames, sizeof(names), &names},
        {code + v->layout->code_localspluskinds, sizeof(kinds), &kinds},
    };
    int rc = gsp_proc_mem_gather(v->mem, spans, 2, NULL);
    rc = rc != 0 ? rc : add_names(v, names, 0, slots);
    rc = rc != 0 ? rc : gsp_proc_mem_read_u64(v->mem, kinds + v->layout->bytes_size, &kinds_len);
    if (rc != 0 || slots->count == 0)
        return rc;
    if (kinds_len != slots->count)
        return GSP_E_FORMAT;
    return gsp_proc_mem_read(v->mem, kinds + v->layout->bytes_data, slots->kinds, slots->count);
}

static int count_args(const struct gsp_py__view *v, gsp_raddr code, size_t *out)
{
    uint32_t args = 0;
    uint32_t kwonly = 0;
    uint32_t flags = 0;
    int rc = read_int(v, code + v->layout->code_argcount, &args);
    rc = rc != 0 ? rc : read_int(v, code + v->layout->code_kwonlyargcount, &kwonly);
    rc = rc != 0 ? rc : read_int(v, code + v->layout->code_flags, &flags);
    if (rc != 0)
        return rc;
    *out =
        (size_t)args + kwonly + ((flags & CODE_VARARGS) != 0) + ((flags & CODE_VARKEYWORDS) != 0);
    return 0;
}

/* The object in a slot: without tags, and a cell's content instead of the cell. At the start of a
 * function, the slot of a cell variable can still hold the plain argument. */
static int slot_value(const struct gsp_py__view *v, const struct slots *slots, size_t i,
                      gsp_raddr *out)
{
    gsp_auto_buf name = {0};
    struct gsp_py__type type;
    gsp_raddr value = slots->values[i];
    *out = 0;
    if ((value & TAG_BITS) == TAG_BITS)
        return 0;
    value &= ~(gsp_raddr)TAG_BITS;
    if (value == 0 || (slots->kinds[i] & (KIND_CELL | KIND_FREE)) == 0) {
        *out = value;
        return 0;
    }
    int rc = gsp_py__type_read(v, value, &type);
    rc = rc != 0 ? rc : gsp_py__type_name(v->mem, v->layout, type.addr, &name);
    if (rc != 0)
        return rc;
    if (!gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("cell"))) {
        *out = value;
        return 0;
    }
    return gsp_proc_mem_read_u64(v->mem, value + v->layout->cell_ref, out);
}

struct callback {
    gsp_py_local_fn *fn;
    void *arg;
};

/* Up to 3.10 an argument that became a cell has its value in the cell variable of the same name. */
static size_t cell_of(const struct slots *slots, size_t arg)
{
    for (size_t i = arg + 1; i < slots->count; i++)
        if ((slots->kinds[i] & KIND_CELL) != 0 && slots->names[i] == slots->names[arg])
            return i;
    return arg;
}

static int report_local(const struct gsp_py__view *v, const struct slots *slots, size_t i,
                        bool is_arg, const struct callback *callback)
{
    gsp_auto_buf name = {0};
    struct gsp_py_local local = {.is_arg = is_arg};
    if ((slots->kinds[i] & KIND_HIDDEN) != 0)
        return 0; /* of an inlined comprehension */
    int rc = slot_value(v, slots, i, &local.value);
    if (rc == 0 && local.value != 0) {
        rc = gsp_py__str_read(v->mem, v->layout, slots->names[i], NAME_BYTES_MAX, &name);
        local.name = gsp_buf_sv(&name);
        if (rc == 0)
            callback->fn(callback->arg, &local);
    }
    /* One malformed variable does not hide the others. */
    return rc == GSP_E_FAULT || rc == GSP_E_FORMAT ? 0 : rc;
}

static int read_slots(const struct gsp_py__view *v, gsp_raddr frame, gsp_raddr code,
                      struct slots *slots)
{
    bool old = v->layout->frames == GSP_PY_FRAMES_OBJECTS;
    int rc = old ? read_slots_old(v, code, slots) : read_slots_new(v, code, slots);
    if (rc != 0 || slots->count == 0)
        return rc;
    gsp_raddr at = frame + (old ? v->layout->frame_f_localsplus : v->layout->iframe_localsplus);
    return gsp_proc_mem_read(v->mem, at, slots->values, slots->count * sizeof(uint64_t));
}

int gsp_py_locals(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr frame,
                  gsp_raddr code, gsp_py_local_fn *fn, void *arg)
{
    const struct gsp_py__view view = {mem, layout};
    const struct callback callback = {fn, arg};
    size_t arg_count = 0;
    struct slots *slots = calloc(1, sizeof(*slots));
    if (!slots)
        return GSP_E_NOMEM;
    int rc = count_args(&view, code, &arg_count);
    rc = rc != 0 ? rc : read_slots(&view, frame, code, slots);
    for (size_t i = 0; i < slots->count && rc == 0; i++) {
        size_t cell = i < arg_count ? cell_of(slots, i) : i;
        rc = report_local(&view, slots, cell, i < arg_count, &callback);
        if (cell != i)
            slots->values[cell] = 0; /* reported */
    }
    free(slots);
    return rc;
}
