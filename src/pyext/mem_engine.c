/* SPDX-License-Identifier: Apache-2.0 */
/* The memory engine for Python: interpreter offsets, start and stop, counters. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/memory.h"
#include "base/time.h"
#include "py/layout.h"
#include "py/lines.h"
#include "pyext/pyapi.h"

/* Form of this interpreter's line tables. */
static enum gsp_py_lines lines_form;

static int line_of(const uint8_t *table, size_t len, uint32_t first_line, uint32_t at_bytes)
{
    return gsp_py_line_of(lines_form, table, len, first_line, at_bytes);
}

/* ---------------------------------------------------------------------------- the interpreter */

uint32_t gsp_pyext__python_minor(void)
{
    unsigned long minor = 0;
    const char *text = Py_GetVersion();
    if (strncmp(text, "3.", 2) == 0)
        minor = strtoul(text + 2, NULL, 10);
    return (uint32_t)minor;
}

/* 3.13 and later publish their layout. */
static bool find_layout(struct gsp_py_layout *out)
{
    const uint32_t minor = gsp_pyext__python_minor();
    const void *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (minor >= 13) {
        return runtime &&
               gsp_py_debug_offsets_read(runtime, GSP_PY_DEBUG_OFFSETS_MAX, out, NULL) == 0;
    }
    const struct gsp_py_layout *known = gsp_py_layout_find(minor, false);
    if (known)
        *out = *known;
    return known != NULL;
}

static void offsets_of(const struct gsp_py_layout *from, struct gsp_agent_offsets *to)
{
    const bool objects = from->frames == GSP_PY_FRAMES_OBJECTS;
    const bool cframe = from->frames == GSP_PY_FRAMES_CFRAME;
    *to = (struct gsp_agent_offsets){
        .frames = objects  ? GSP_AGENT_FRAMES_OBJECTS
                  : cframe ? GSP_AGENT_FRAMES_CFRAME
                           : GSP_AGENT_FRAMES_CURRENT,
        .minor = gsp_pyext__python_minor(),
        .tstate_top = objects  ? from->tstate_frame
                      : cframe ? from->tstate_cframe
                               : from->tstate_current_frame,
        .cframe_frame = from->cframe_current_frame,
        .frame_back = objects ? from->frame_f_back : from->iframe_previous,
        .frame_code = objects ? from->frame_f_code : from->iframe_executable,
        .frame_instr = objects ? from->frame_f_lasti : from->iframe_instr_ptr,
        .frame_owner = objects ? GSP_AGENT_NO_OFFSET : from->iframe_owner,
        .frame_tlbc = from->iframe_tlbc_index,
        .object_type = from->object_type,
        .code_name = from->code_qualname != GSP_NO_OFFSET ? from->code_qualname : from->code_name,
        .code_file = from->code_filename,
        .code_table = from->code_linetable,
        .code_first_line = from->code_firstlineno,
        .code_start = from->code_code_adaptive,
        .code_tlbc = from->code_tlbc,
        .text_length = from->unicode_length,
        .text_state = from->unicode_state,
        .text_kind_bit = from->unicode_kind_bit,
        .text_compact_bit = from->unicode_compact_bit,
        .text_ascii_bit = from->unicode_ascii_bit,
        .text_ascii_size = from->unicode_ascii_size,
        .text_compact_size = from->unicode_compact_size,
        .bytes_size = from->bytes_size,
        .bytes_data = from->bytes_data,
    };
}

/* Looks up a function by name; out is the address of a function pointer. */
static bool find_function(const char *name, void *out)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(out, &found, sizeof(found));
    return found != NULL;
}

/* Looks it up by the name it has in this version; NULL: none. */
static int (*find_is_finalizing(void))(void)
{
    int (*found)(void) = NULL;
    if (!find_function("Py_IsFinalizing", (void *)&found))
        gsp_ignore(!find_function("_Py_IsFinalizing", (void *)&found)); /* before 3.13 */
    return found;
}

static void *this_thread(void)
{
    return PyGILState_GetThisThreadState();
}

static const void *word_at(const void *base, uint16_t off)
{
    const void *word = NULL;
    memcpy(&word, (const char *)base + off, sizeof(word));
    return word;
}

/* Whether the attribute of the code object is the object at that offset. */
static bool is_at(PyObject *code, const char *name, uint16_t off)
{
    PyObject *value = PyObject_GetAttrString(code, name);
    const bool same = value && word_at(code, off) == (const void *)value;
    Py_XDECREF(value);
    PyErr_Clear();
    return same;
}

/* Verifies the offsets on the running function: detects a build with other options, or a wrong
 * version, before the offsets are used. */
static bool is_right(const struct gsp_agent_python *python, PyObject *code)
{
    const struct gsp_agent_offsets *at = &python->at;
    const char *thread = this_thread();
    if ((const void *)Py_TYPE(code) != python->code_type || !thread ||
        !is_at(code, "co_filename", at->code_file) ||
        !is_at(code, at->minor >= 11 ? "co_qualname" : "co_name", at->code_name))
        return false;
    const void *frame = word_at(thread, at->tstate_top);
    if (frame && at->frames == GSP_AGENT_FRAMES_CFRAME)
        frame = word_at(frame, at->cframe_frame);
    const uintptr_t marks = 7; /* tag bits of references since 3.14 */
    return frame && ((uintptr_t)word_at(frame, at->frame_code) & ~marks) == (uintptr_t)code;
}

static bool find_python(struct gsp_agent_python *out, PyObject *code)
{
    struct gsp_py_layout layout;
    memset(out, 0, sizeof(*out));
    if (!find_layout(&layout) ||
        !find_function("PyMem_GetAllocator", (void *)&out->get_allocator) ||
        !find_function("PyMem_SetAllocator", (void *)&out->set_allocator))
        return false;
    out->code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    out->this_thread = this_thread;
    gsp_ignore(!find_function("PyThreadState_GetUnchecked", (void *)&out->attached)); /* 3.13+ */
    out->is_finalizing = find_is_finalizing();
    out->line_of = line_of;
    lines_form = layout.lines;
    offsets_of(&layout, &out->at);
    return out->is_finalizing && is_right(out, code);
}

/* -------------------------------------------------------------------------- once a second */

static _Atomic bool tick_is_due;

/* Looks up by name: a stored reference could belong to an interpreter that has ended. */
static PyObject *find_module(const char *name)
{
    PyObject *text = PyUnicode_FromString(name);
    PyObject *module = text ? PyImport_GetModule(text) : NULL;
    Py_XDECREF(text);
    return module;
}

/* Whether PyTorch uses a GPU, or files are written. If not, no Python code runs: a program that
 * traces or profiles itself would see it. */
static bool has_work(PyObject *package)
{
    PyObject *ticks = PyObject_GetAttrString(package, "_ticks");
    PyObject *cuda = find_module("torch.cuda");
    PyObject *is_used = cuda ? PyObject_GetAttrString(cuda, "_initialized") : NULL;
    const bool is_idle = cuda == NULL || is_used == Py_False;
    const bool found = !is_idle || (ticks && PyObject_Size(ticks) > 1);
    Py_XDECREF(is_used);
    Py_XDECREF(cuda);
    Py_XDECREF(ticks);
    return found;
}

void gsp_pyext__memory_tick(void)
{
    if (gsp_likely(!atomic_load_explicit(&tick_is_due, memory_order_relaxed)) ||
        !atomic_exchange(&tick_is_due, false))
        return;
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *package = find_module("gsprof._memory");
    if (package && has_work(package)) {
        PyErr_Clear(); /* has_work() may have looked up a missing name */
        Py_XDECREF(PyObject_CallMethod(package, "_tick", NULL));
    }
    Py_XDECREF(package);
    PyErr_Restore(type, value, trace);
}

static int run_tick(void *unused)
{
    (void)unused;
    gsp_pyext__memory_tick();
    return 0;
}

/* Called in an allocation of the main thread: only schedules the work. 3.8 prints an error if a
 * pending call is added during shutdown; there the next garbage collection does the work. */
static void tick(void)
{
    atomic_store(&tick_is_due, true);
    if (gsp_pyext__python_minor() >= 9)
        gsp_ignore(Py_AddPendingCall(run_tick, NULL) != 0); /* the queue is full: try next time */
}

static PyObject *memory_python_ends(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gsp_agent_memory_python_ends();
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------ start and stop */

/* Returns the folder of the package, with its slash, from the code of one of its functions; NULL if
 * the path is too long. */
static const char *own_folder(PyObject *code)
{
    static char folder[PATH_MAX];
    PyObject *keep = NULL;
    PyObject *file = PyObject_GetAttrString(code, "co_filename");
    const struct gsp_sv path = file ? gsp_pyext__text(file, &keep) : gsp_sv_of("");
    const char *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
    const size_t len = slash ? (size_t)(slash - path.p) + 1 : 0;
    if (folder[0] == '\0' && len > 1 && len < sizeof(folder))
        memcpy(folder, path.p, len);
    Py_XDECREF(keep);
    Py_XDECREF(file);
    PyErr_Clear();
    return folder[0] ? folder : NULL;
}

static PyObject *memory_start(PyObject *module, PyObject *args)
{
    (void)module;
    int exact = 0;
    unsigned long long interval = 0;
    unsigned long long notice = 0;
    PyObject *code = NULL;
    struct gsp_agent_python python;
    if (!PyArg_ParseTuple(args, "pKKO:memory_start", &exact, &interval, &notice, &code))
        return NULL;
    if (!find_python(&python, code)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "gsprof does not know the frame layout of this interpreter");
        return NULL;
    }
    python.own_folder = own_folder(code);
    const struct gsp_agent_memory_opts opts = {
        .tick = tick,
        .tick_ns = GSP_NS_PER_S,
        .mode = exact ? GSP_MEMORY_EXACT : GSP_MEMORY_SAMPLED,
        .interval_bytes = interval,
        .notice_bytes = notice,
        .python = &python,
    };
    return PyLong_FromLong((long)gsp_agent_memory_start(&opts));
}

static PyObject *memory_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gsp_agent_memory_stop();
    Py_RETURN_NONE;
}

static PyObject *memory_mode(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(gsp_wire_memory_mode_name(gsp_agent_memory_mode()));
}

static PyObject *memory_pause(PyObject *module, PyObject *flag)
{
    (void)module;
    const int pause = PyObject_IsTrue(flag);
    if (pause < 0)
        return NULL;
    gsp_agent_memory_pause(pause != 0);
    Py_RETURN_NONE;
}

static PyObject *memory_device(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long allocated = 0;
    unsigned long long reserved = 0;
    unsigned long long peak = 0;
    if (!PyArg_ParseTuple(args, "KKK:memory_device", &allocated, &reserved, &peak))
        return NULL;
    gsp_agent_memory_device(allocated, reserved, peak);
    Py_RETURN_NONE;
}

/* -------------------------------------------------------------------------------- the counters */

/* Appends the item, whose reference it steals. Returns the list; on failure, releases it and
 * returns NULL. */
static PyObject *push(PyObject *list, PyObject *item)
{
    const bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    if (!done)
        Py_DECREF(list);
    return done ? list : NULL;
}

/* Does the same with a number and a dictionary. */
static PyObject *put_number(PyObject *dict, const char *name, unsigned long long number)
{
    PyObject *value = PyLong_FromUnsignedLongLong(number);
    const bool done = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    if (!done)
        Py_DECREF(dict);
    return done ? dict : NULL;
}

static unsigned long long live_at_peak(const struct gsp_memory_head *head,
                                       const struct gsp_memory_site *site,
                                       unsigned long long live_bytes)
{
    const uint64_t epoch = atomic_load_explicit(&head->peak_epoch, memory_order_relaxed);
    return atomic_load_explicit(&site->peak_epoch, memory_order_relaxed) == epoch
               ? atomic_load_explicit(&site->peak_bytes, memory_order_relaxed)
               : live_bytes;
}

static PyObject *site_tuple(const struct gsp_memory_head *head, const struct gsp_memory_site *site)
{
    const unsigned long long free_bytes = site->free_bytes;
    const unsigned long long free_count = site->free_count;
    const unsigned long long free_var = site->free_var;
    const unsigned long long alloc_bytes = site->alloc_bytes;
    const unsigned long long alloc_count = site->alloc_count;
    const unsigned long long alloc_var = site->alloc_var;
    return Py_BuildValue("IsKKKKKKK", site->node, gsp_wire_memory_allocator_name(site->allocator),
                         alloc_bytes, alloc_count, free_bytes, free_count,
                         live_at_peak(head, site, alloc_bytes - free_bytes), alloc_var, free_var);
}

static PyObject *sites_list(const struct gsp_memory_head *head)
{
    PyObject *list = PyList_New(0);
    const struct gsp_memory_site *sites = (const void *)((const char *)head + head->sites_off);
    const uint32_t count = head->site_count;
    for (uint32_t i = 0; list && i < count; i++)
        list = push(list, site_tuple(head, &sites[i]));
    return list;
}

static PyObject *nodes_list(const struct gsp_memory_head *head)
{
    PyObject *list = PyList_New(0);
    const struct gsp_memory_node *nodes = (const void *)((const char *)head + head->nodes_off);
    const uint32_t count = head->node_count;
    for (uint32_t i = 0; list && i < count; i++)
        list = push(list, Py_BuildValue("II", nodes[i].parent, nodes[i].frame));
    return list;
}

static PyObject *text_of(const struct gsp_memory_head *head, uint32_t at)
{
    const char *strings = (const char *)head + head->strings_off;
    const struct gsp_sv text = gsp_wire_memory_text(strings, head->strings_used, at);
    return PyUnicode_DecodeUTF8(text.p, (Py_ssize_t)text.len, "replace");
}

static PyObject *frames_list(const struct gsp_memory_head *head)
{
    PyObject *list = PyList_New(0);
    const struct gsp_memory_frame *frames = (const void *)((const char *)head + head->frames_off);
    const uint32_t count = head->frame_count;
    for (uint32_t i = 0; list && i < count; i++) {
        /* N steals the references, also if one of them is NULL. */
        list = push(list,
                    Py_BuildValue("NNII", text_of(head, frames[i].name),
                                  text_of(head, frames[i].file), frames[i].line, frames[i].kind));
    }
    return list;
}

static PyObject *totals_dict(const struct gsp_memory_head *head)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i < GSP_MEMORY_ALLOCATORS; i++) {
        const struct gsp_memory_total *total = &head->total[i];
        const unsigned long long freed = total->free_bytes;
        dict = put_number(dict, gsp_wire_memory_allocator_name(i), total->alloc_bytes - freed);
    }
    return dict;
}

static PyObject *losses_dict(const struct gsp_memory_head *head)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i < GSP_MEMORY_LOSSES; i++)
        dict = put_number(dict, gsp_wire_memory_loss_name(i), head->lost[i]);
    return dict;
}

static PyObject *memory_view(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct gsp_memory_head *head = gsp_agent_memory_view();
    if (!head)
        Py_RETURN_NONE;
    gsp_agent_memory_pause(true);
    /* Sites first: the nodes and frames they refer to were written before them. */
    PyObject *sites = sites_list(head);
    PyObject *view = Py_BuildValue(
        "{s:s,s:K,s:K,s:K,s:L,s:L,s:N,s:N,s:N,s:N,s:N}", "mode",
        gsp_wire_memory_mode_name(head->mode), "interval_bytes",
        (unsigned long long)head->interval_bytes, "live_bytes",
        (unsigned long long)head->live_bytes, "peak_bytes", (unsigned long long)head->peak_bytes,
        "peak_ns", (long long)head->peak_ns, "began_ns", (long long)head->began_ns, "sites", sites,
        "nodes", nodes_list(head), "frames", frames_list(head), "live_by_allocator",
        totals_dict(head), "lost", losses_dict(head));
    gsp_agent_memory_pause(false);
    return view;
}

/* memory_events(from_bytes or None) -> int */
static PyObject *memory_events(PyObject *module, PyObject *from)
{
    (void)module;
    size_t from_bytes = SIZE_MAX;
    if (from != Py_None) {
        from_bytes = PyLong_AsSize_t(from);
        if (from_bytes == (size_t)-1 && PyErr_Occurred())
            return NULL;
    }
    return PyLong_FromUnsignedLongLong(gsp_agent_memory_events(from_bytes));
}

static bool add_event(PyObject *list, const struct gsp_agent_memory_event *event)
{
    PyObject *triple = Py_BuildValue("(LLK)", (long long)event->at_ns, (long long)event->bytes,
                                     (unsigned long long)event->address);
    const bool is_added = triple && PyList_Append(list, triple) == 0;
    Py_XDECREF(triple);
    return is_added;
}

/* memory_events_since(number) -> [(ns, bytes, address), ...] */
static PyObject *memory_events_since(PyObject *module, PyObject *number)
{
    (void)module;
    uint64_t at = PyLong_AsUnsignedLongLong(number);
    PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);
    struct gsp_agent_memory_event some[64];
    size_t n = 0;
    bool good = list != NULL;
    while (good && (n = gsp_agent_memory_events_read(&at, some, GSP_COUNT(some))) > 0)
        for (size_t i = 0; good && i < n; i++)
            good = add_event(list, &some[i]);
    if (!good)
        Py_CLEAR(list);
    return list;
}

static PyMethodDef functions[] = {
    {"memory_events", memory_events, METH_O,
     "memory_events(from_bytes or None) -> int\n\nStarts or stops recording large allocations one "
     "by one; returns their number so far."},
    {"memory_events_since", memory_events_since, METH_O,
     "memory_events_since(number) -> [(ns, bytes, address), ...]\n\nFrees have negative bytes."},
    {"memory_start", memory_start, METH_VARARGS,
     "memory_start(exact, interval_bytes, notice_bytes, code) -> int\n\n"
     "Starts counting allocations; 0: ok. code is that of the calling function."},
    {"memory_python_ends", memory_python_ends, METH_NOARGS,
     "memory_python_ends()\n\nCalled before finalization: hooks no longer use the interpreter."},
    {"memory_stop", memory_stop, METH_NOARGS,
     "memory_stop()\n\nStops counting; the counters stay readable."},
    {"memory_mode", memory_mode, METH_NOARGS, "memory_mode() -> 'off', 'sampled' or 'exact'"},
    {"memory_pause", memory_pause, METH_O,
     "memory_pause(flag)\n\nTrue: this thread's allocations are not counted until False."},
    {"memory_device", memory_device, METH_VARARGS,
     "memory_device(allocated, reserved, peak)\n\nSets the GPU allocator's counters, in bytes."},
    {"memory_view", memory_view, METH_NOARGS,
     "memory_view() -> dict or None\n\nReturns a copy of the counters, for gsprof._memory."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__mem_engine_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
