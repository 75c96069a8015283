/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run_script.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "agent/memory.h"
#include "base/attr.h"
#include "base/file.h"

/* Python.h: Py_file_input */
#define FILE_INPUT    257
#define PATH_CAP      2048
#define SCRIPT_MAX    (8U << 20)
/* Waits up to five seconds for an interpreter that is starting. */
#define START_WAITS   1000
#define START_WAIT_NS 5000000L

struct object; /* PyObject */

struct interpreter; /* PyInterpreterState */
struct thread;      /* PyThreadState */

/* The functions of the interpreter. All are in the stable ABI since 3.2, except PyUnicode_AsUTF8
 * and PyInterpreterState_Main, which all versions export. */
struct python {
    int (*Py_IsInitialized)(void);
    struct interpreter *(*PyInterpreterState_Main)(void);
    struct thread *(*PyThreadState_New)(struct interpreter *interpreter);
    void (*PyThreadState_Clear)(struct thread *thread);
    void (*PyThreadState_DeleteCurrent)(void);
    void (*PyEval_RestoreThread)(struct thread *thread);
    struct object *(*Py_CompileString)(const char *text, const char *file, int start);
    struct object *(*PyEval_EvalCode)(struct object *code, struct object *globals,
                                      struct object *locals);
    struct object *(*PyDict_New)(void);
    int (*PyDict_SetItemString)(struct object *dict, const char *key, struct object *value);
    struct object *(*PyDict_GetItemString)(struct object *dict, const char *key); /* borrowed */
    struct object *(*PyImport_ImportModule)(const char *name);
    struct object *(*PyUnicode_DecodeFSDefault)(const char *text);
    struct object *(*PyBytes_FromStringAndSize)(const char *text, ssize_t len);
    int (*PyBytes_AsStringAndSize)(struct object *bytes, char **text, ssize_t *len); /* borrowed */
    const char *(*PyUnicode_AsUTF8)(struct object *text);                            /* borrowed */
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
    FUNCTION(PyInterpreterState_Main, false),
    FUNCTION(PyThreadState_New, false),
    FUNCTION(PyThreadState_Clear, false),
    FUNCTION(PyThreadState_DeleteCurrent, false),
    FUNCTION(PyEval_RestoreThread, false),
    FUNCTION(Py_CompileString, false),
    FUNCTION(PyEval_EvalCode, false),
    FUNCTION(PyDict_New, false),
    FUNCTION(PyDict_SetItemString, false),
    FUNCTION(PyDict_GetItemString, false),
    FUNCTION(PyImport_ImportModule, false),
    FUNCTION(PyUnicode_DecodeFSDefault, false),
    FUNCTION(PyBytes_FromStringAndSize, false),
    FUNCTION(PyBytes_AsStringAndSize, false),
    FUNCTION(PyUnicode_AsUTF8, false),
    FUNCTION(PyErr_Clear, false),
    FUNCTION(Py_DecRef, false),
    FUNCTION(Py_IsFinalizing, true),
    FUNCTION(_Py_IsFinalizing, true),
};

/* Catches all exceptions, so that the program sees no traceback and no SystemExit. The file name
 * marks the functions of the script as gsprof's. This thread collects no garbage: if the program
 * exits meanwhile, the interpreter ends the thread where it waits for the GIL, and in the middle of
 * a collection that would leave broken lists of objects, with which the exit crashes. */
static const char DRIVER[] = "name = text = b''\n"
                             "import gc\n"
                             "space = {'__name__': '__gsprof__', '__file__': path,\n"
                             "         'COLLECTS': gc.isenabled()}\n"
                             "gc.disable()\n"
                             "try:\n"
                             "    exec(compile(script, '<gsprof script>', 'exec'), space)\n"
                             "    name, text = space.get('ANSWER') or (b'', b'')\n"
                             "    said = 'ok'\n"
                             "except BaseException as error:\n"
                             "    said = 'error ' + type(error).__name__ + ': ' + str(error)\n"
                             "    said = ascii(' '.join(said.split()))[1:-1][:400]\n"
                             "if space['COLLECTS']:\n"
                             "    gc.enable()\n";

/* Finds the functions in a library. Returns false if a required one is missing. */
static bool find_functions(void *handle, struct python *out)
{
    for (size_t i = 0; i < GSP_COUNT(FUNCTIONS); i++) {
        void *address = dlsym(handle, FUNCTIONS[i].name);
        if (!address && !FUNCTIONS[i].may_be_missing)
            return false;
        memcpy((char *)out + FUNCTIONS[i].offset, &address, sizeof(address));
    }
    return true;
}

static bool is_finalizing(const struct python *py)
{
    int (*function)(void) = py->Py_IsFinalizing ? py->Py_IsFinalizing : py->_Py_IsFinalizing;
    return function && function();
}

/* The path of the n-th loaded library. */
struct nth {
    size_t left;
    char path[PATH_CAP];
};

static int copy_nth(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct nth *nth = arg;
    (void)size;
    if (nth->left-- > 0)
        return 0;
    snprintf(nth->path, sizeof(nth->path), "%s", info->dlpi_name ? info->dlpi_name : "");
    return 1;
}

/* Searches one library per iteration of the list, because dlopen() must not be called during
 * dl_iterate_phdr(). */
static bool find_anywhere(struct python *out)
{
    for (size_t n = 0;; n++) {
        struct nth nth;
        nth.left = n;
        nth.path[0] = '\0';
        if (dl_iterate_phdr(copy_nth, &nth) == 0)
            return false;
        if (nth.path[0] != '/')
            continue;
        void *handle = dlopen(nth.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
        if (!handle)
            continue;
        const bool found = find_functions(handle, out);
        /* The library stays loaded. */
        dlclose(handle);
        if (found)
            return true;
    }
}

static void set_line(struct gsp_agent__script_outcome *out, const char *line)
{
    snprintf(out->line, sizeof(out->line), "%s", line);
}

static void set_and_release(const struct python *py, struct object *dict, const char *name,
                            struct object *value)
{
    if (value) {
        py->PyDict_SetItemString(dict, name, value);
        py->Py_DecRef(value);
    }
}

/* Appends the bytes object `name`, if it exists, to out. */
static void copy_bytes(const struct python *py, struct object *globals, const char *name,
                       struct gsp_buf *out)
{
    struct object *found = py->PyDict_GetItemString(globals, name);
    char *text = NULL;
    ssize_t len = 0;
    if (found && py->PyBytes_AsStringAndSize(found, &text, &len) == 0)
        gsp_buf_put(out, text, (size_t)len);
}

/* The caller holds the GIL. */
static void run_script(const struct python *py, const char *path, const struct gsp_buf *script,
                       struct gsp_agent__script_outcome *out)
{
    struct object *globals = py->PyDict_New();
    struct object *code = py->Py_CompileString(DRIVER, "<gsprof>", FILE_INPUT);
    if (globals && code) {
        set_and_release(py, globals, "__builtins__", py->PyImport_ImportModule("builtins"));
        set_and_release(py, globals, "path", py->PyUnicode_DecodeFSDefault(path));
        set_and_release(py, globals, "script",
                        py->PyBytes_FromStringAndSize(script->p, (ssize_t)script->len));
        struct object *result = py->PyEval_EvalCode(code, globals, globals);
        struct object *text = py->PyDict_GetItemString(globals, "said");
        const char *line = result && text ? py->PyUnicode_AsUTF8(text) : NULL;
        if (line) {
            set_line(out, line);
            copy_bytes(py, globals, "name", &out->file);
            copy_bytes(py, globals, "text", &out->text);
        }
        if (result)
            py->Py_DecRef(result);
    }
    py->PyErr_Clear();
    if (code)
        py->Py_DecRef(code);
    if (globals)
        py->Py_DecRef(globals);
}

/* Waits, because a program that has just started may still initialize its interpreter. */
static bool wait_until_initialized(const struct python *py)
{
    const struct timespec pause = {.tv_nsec = START_WAIT_NS};
    for (int i = 0; i < START_WAITS && !py->Py_IsInitialized(); i++)
        nanosleep(&pause, NULL);
    return py->Py_IsInitialized() != 0;
}

/* The interpreter's list of threads has a lock, which a new thread takes without the GIL. Before
 * 3.13, a child that is forked meanwhile may wait for this lock forever. So no fork happens then.
 * Since 3.13, os.fork() takes the lock itself. */
static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&creating);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&creating);
}

static void watch_forks(void)
{
    gsp_ignore(pthread_atfork(before_fork, after_fork, after_fork) != 0);
}

/* Returns the state of this thread for the interpreter; NULL without memory. */
static struct thread *create_thread(const struct python *py)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (py->Py_IsFinalizing) /* 3.13+ */
        return py->PyThreadState_New(py->PyInterpreterState_Main());
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&creating);
    struct thread *thread = py->PyThreadState_New(py->PyInterpreterState_Main());
    pthread_mutex_unlock(&creating);
    return thread;
}

void gsp_agent__python_run(const char *path, struct gsp_agent__script_outcome *out)
{
    struct python py;
    gsp_auto_buf script = {0};
    if (!find_functions(RTLD_DEFAULT, &py) && !find_anywhere(&py)) {
        set_line(out, "error not a Python process");
        return;
    }
    if (!wait_until_initialized(&py)) {
        set_line(out, "error the interpreter has not started, or has ended");
        return;
    }
    if (is_finalizing(&py)) {
        set_line(out, "error the interpreter is shutting down");
        return;
    }
    /* Read the file before taking the GIL. */
    if (gsp_file_read(path, SCRIPT_MAX, &script, NULL) != 0) {
        set_line(out, "error cannot read the script");
        return;
    }
    gsp_agent_memory_pause(true); /* these are not allocations of the program */
    struct thread *thread = create_thread(&py);
    if (!thread) {
        set_line(out, "error out of memory");
        return;
    }
    /* The outcome if the interpreter ends this thread while it waits. */
    set_line(out, "error the interpreter is shutting down");
    py.PyEval_RestoreThread(thread);
    set_line(out, "error the interpreter could not run the script");
    run_script(&py, path, &script, out);
    py.PyThreadState_Clear(thread);
    py.PyThreadState_DeleteCurrent();
}
