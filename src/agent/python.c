/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

/* Python.h: Py_file_input */
#define FILE_INPUT 257
#define PATH_CAP   2048

struct object; /* PyObject */

/* What is used of the interpreter: all of it is in the stable ABI since 3.2, but for
 * PyUnicode_AsUTF8, which all versions export. */
struct python {
    int (*Py_IsInitialized)(void);
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int state);
    struct object *(*Py_CompileString)(const char *text, const char *file, int start);
    struct object *(*PyEval_EvalCode)(struct object *code, struct object *globals,
                                      struct object *locals);
    struct object *(*PyDict_New)(void);
    int (*PyDict_SetItemString)(struct object *dict, const char *key, struct object *value);
    struct object *(*PyDict_GetItemString)(struct object *dict, const char *key); /* borrowed */
    struct object *(*PyImport_ImportModule)(const char *name);
    struct object *(*PyUnicode_DecodeFSDefault)(const char *text);
    const char *(*PyUnicode_AsUTF8)(struct object *text); /* borrowed */
    void (*PyErr_Clear)(void);
    void (*Py_DecRef)(struct object *object);
    int (*Py_IsFinalizing)(void);  /* since 3.13; NULL before */
    int (*_Py_IsFinalizing)(void); /* before 3.13; NULL since */
};

#define FUNCTION(name, may_be_missing)                                                             \
    {                                                                                              \
#name, offsetof(struct python, name), may_be_missing                                       \
    }

static const struct {
    const char *name;
    size_t offset;
    bool may_be_missing;
} FUNCTIONS[] = {
    FUNCTION(Py_IsInitialized, false),
    FUNCTION(PyGILState_Ensure, false),
    FUNCTION(PyGILState_Release, false),
    FUNCTION(Py_CompileString, false),
    FUNCTION(PyEval_EvalCode, false),
    FUNCTION(PyDict_New, false),
    FUNCTION(PyDict_SetItemString, false),
    FUNCTION(PyDict_GetItemString, false),
    FUNCTION(PyImport_ImportModule, false),
    FUNCTION(PyUnicode_DecodeFSDefault, false),
    FUNCTION(PyUnicode_AsUTF8, false),
    FUNCTION(PyErr_Clear, false),
    FUNCTION(Py_DecRef, false),
    FUNCTION(Py_IsFinalizing, true),
    FUNCTION(_Py_IsFinalizing, true),
};

/* Nothing of the script reaches the program: no traceback on its stderr, no SystemExit. */
static const char DRIVER[] = "try:\n"
                             "    with open(path, 'rb') as file:\n"
                             "        code = compile(file.read(), path, 'exec')\n"
                             "    exec(code, {'__name__': '__gsprof__', '__file__': path})\n"
                             "    said = 'ok'\n"
                             "except BaseException as error:\n"
                             "    said = 'error ' + type(error).__name__ + ': ' + str(error)\n"
                             "    said = ascii(' '.join(said.split()))[1:-1][:400]\n";

/* Whether the object behind a handle has all functions. */
static bool find_functions(void *handle, struct python *out)
{
    for (size_t i = 0; i < GSP_COUNT(FUNCTIONS); i++) {
        void *address = dlsym(handle, FUNCTIONS[i].name);
        if (!address && !FUNCTIONS[i].may_be_missing) {
            return false;
        }
        memcpy((char *)out + FUNCTIONS[i].offset, &address, sizeof(address));
    }
    return true;
}

static bool is_finalizing(const struct python *py)
{
    int (*ask)(void) = py->Py_IsFinalizing ? py->Py_IsFinalizing : py->_Py_IsFinalizing;
    return ask && ask();
}

/* The path of the n-th loaded object. */
struct nth {
    size_t left;
    char path[PATH_CAP];
};

static int copy_nth(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct nth *nth = arg;
    (void)size;
    if (nth->left-- > 0) {
        return 0;
    }
    snprintf(nth->path, sizeof(nth->path), "%s", info->dlpi_name ? info->dlpi_name : "");
    return 1;
}

/* One by one: a library must not be opened while the list is held. */
static bool find_anywhere(struct python *out)
{
    for (size_t n = 0;; n++) {
        struct nth nth;
        nth.left = n;
        nth.path[0] = '\0';
        if (dl_iterate_phdr(copy_nth, &nth) == 0) {
            return false;
        }
        if (nth.path[0] != '/') {
            continue;
        }
        void *handle = dlopen(nth.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
        if (!handle) {
            continue;
        }
        const bool found = find_functions(handle, out);
        /* It was loaded before and stays so. */
        dlclose(handle);
        if (found) {
            return true;
        }
    }
}

static void set_and_release(const struct python *py, struct object *dict, const char *name,
                            struct object *value)
{
    if (value) {
        py->PyDict_SetItemString(dict, name, value);
        py->Py_DecRef(value);
    }
}

/* Holds the interpreter's lock. */
static void run(const struct python *py, const char *script, char *said, size_t cap)
{
    struct object *globals = py->PyDict_New();
    struct object *code = py->Py_CompileString(DRIVER, "<gsprof>", FILE_INPUT);
    if (globals && code) {
        set_and_release(py, globals, "__builtins__", py->PyImport_ImportModule("builtins"));
        set_and_release(py, globals, "path", py->PyUnicode_DecodeFSDefault(script));
        struct object *result = py->PyEval_EvalCode(code, globals, globals);
        struct object *text = py->PyDict_GetItemString(globals, "said");
        const char *line = result && text ? py->PyUnicode_AsUTF8(text) : NULL;
        if (line) {
            snprintf(said, cap, "%s", line);
        }
        if (result) {
            py->Py_DecRef(result);
        }
    }
    py->PyErr_Clear();
    if (code) {
        py->Py_DecRef(code);
    }
    if (globals) {
        py->Py_DecRef(globals);
    }
}

void gsp_agent__python_run(const char *script, char *said, size_t cap)
{
    struct python py;
    if (!find_functions(RTLD_DEFAULT, &py) && !find_anywhere(&py)) {
        snprintf(said, cap, "error no Python in this process");
        return;
    }
    if (!py.Py_IsInitialized()) {
        snprintf(said, cap, "error the interpreter has not started, or has ended");
        return;
    }
    if (is_finalizing(&py)) {
        snprintf(said, cap, "error the interpreter is shutting down");
        return;
    }
    /* What is left if the interpreter ends this thread while it waits. */
    snprintf(said, cap, "error the interpreter is shutting down");
    const int state = py.PyGILState_Ensure();
    snprintf(said, cap, "error the interpreter could not run the script");
    run(&py, script, said, cap);
    py.PyGILState_Release(state);
}
