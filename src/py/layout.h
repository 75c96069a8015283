/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- the offsets and sizes of CPython's structs, one struct gsp_py_layout per version.
 *
 * 3.8 to 3.12 come from tables that tools/gen_offsets.py generates from each version's headers
 * (py/layout_tables.c). From 3.13 on the target's _Py_DebugOffsets is copied and validated
 * (py/debug_offsets.c); offsets that it lacks come from the tables.
 *
 * A member that a version does not have is GSP_NO_OFFSET.
 * Threads: a layout is immutable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define GSP_NO_OFFSET     UINT16_MAX

/* The minor version of a PY_VERSION_HEX (3.11.7 is 0x030b07f0). */
#define GSP_PY_MINOR(hex) (((hex) >> 16) & 0xffU)

/* How a code object encodes its lines. */
enum gsp_py_lines {
    GSP_PY_LINES_LNOTAB,    /* up to 3.9: co_lnotab */
    GSP_PY_LINES_LINETABLE, /* 3.10: PEP 626 */
    GSP_PY_LINES_LOCATIONS, /* 3.11 and later: location table */
};

/* Where the chain of frames of a thread begins. */
enum gsp_py_frames {
    GSP_PY_FRAMES_OBJECTS, /* up to 3.10: PyFrameObject on the heap, linked by f_back */
    GSP_PY_FRAMES_CFRAME,  /* 3.11, 3.12: tstate->cframe->current_frame */
    GSP_PY_FRAMES_CURRENT, /* 3.13 and later: tstate->current_frame */
};

typedef uint16_t gsp_py_off;

/* Every name is <struct>_<member as CPython spells it>; sizes end in _size. */
struct gsp_py_layout {
    uint32_t version; /* PY_VERSION_HEX */
    enum gsp_py_lines lines;
    enum gsp_py_frames frames;

    /* _PyRuntime. Offsets here can be large. */
    uint32_t runtime_size; /* sizeof, for bounds; 0 if unknown */
    uint32_t runtime_interpreters_head;
    uint32_t runtime_main_thread;    /* unsigned long; UINT32_MAX if the version has none */
    uint32_t runtime_finalizing;     /* pointer, non-NULL while finalizing */
    uint32_t runtime_tstate_current; /* gilstate.tstate_current (3.8 to 3.11), else UINT32_MAX */
    uint32_t runtime_gil; /* ceval.gil embedded in the runtime (3.8 to 3.11), else UINT32_MAX */

    /* PyInterpreterState */
    uint32_t interp_size;
    uint32_t interp_id;
    uint32_t interp_next;
    uint32_t interp_tstate_head; /* threads.head */
    uint32_t interp_tstate_main; /* threads.main; UINT32_MAX if the version has none */
    uint32_t interp_gil;         /* ceval.gil pointer (3.12+), else UINT32_MAX */
    uint32_t interp_modules;     /* sys.modules dict: modules / imports.modules */
    uint32_t interp_sysdict;
    uint32_t interp_gc;
    uint32_t interp_code_object_generation; /* 3.14+, else UINT32_MAX */
    uint32_t interp_tlbc_generation;        /* 3.14+ free-threaded, else UINT32_MAX */

    /* struct _gil_runtime_state */
    gsp_py_off gil_last_holder;
    gsp_py_off gil_locked;
    gsp_py_off gil_enabled; /* free-threaded builds: whether the GIL is in use */

    /* struct _gc_runtime_state, at interp_gc (3.9+) */
    gsp_py_off gc_collecting; /* int, not 0 during a garbage collection */

    /* PyThreadState */
    gsp_py_off tstate_size;
    gsp_py_off tstate_prev;
    gsp_py_off tstate_next;
    gsp_py_off tstate_interp;
    gsp_py_off tstate_frame;            /* 3.8 to 3.10: PyFrameObject * */
    gsp_py_off tstate_cframe;           /* 3.11, 3.12 */
    gsp_py_off tstate_current_frame;    /* 3.13+ */
    gsp_py_off tstate_thread_id;        /* pthread_self() */
    gsp_py_off tstate_native_thread_id; /* 3.11+ */
    gsp_py_off tstate_datastack_chunk;
    gsp_py_off tstate_status;    /* 3.12+: bit field word with initialized, finalizing... */
    gsp_py_off tstate_holds_gil; /* 3.14+ */
    gsp_py_off cframe_current_frame;
    gsp_py_off stack_chunk_previous;
    gsp_py_off stack_chunk_size;
    gsp_py_off stack_chunk_data;

    /* PyFrameObject, 3.8 to 3.10 */
    gsp_py_off frame_f_back;
    gsp_py_off frame_f_code;
    gsp_py_off frame_f_lasti;
    gsp_py_off frame_f_state; /* 3.10: f_state (signed char); 3.8, 3.9: f_executing */
    gsp_py_off frame_f_localsplus;
    gsp_py_off frame_size; /* sizeof up to f_localsplus */

    /* _PyInterpreterFrame, 3.11 and later */
    gsp_py_off iframe_size; /* sizeof with localsplus[1] */
    gsp_py_off iframe_previous;
    gsp_py_off iframe_executable; /* f_code (3.11, 3.12), f_executable (3.13+) */
    gsp_py_off iframe_funcobj;    /* f_func (3.11), f_funcobj */
    gsp_py_off iframe_instr_ptr;  /* prev_instr (3.11, 3.12), instr_ptr (3.13+) */
    gsp_py_off iframe_localsplus;
    gsp_py_off iframe_owner;
    gsp_py_off iframe_stacktop;     /* int (3.11 to 3.13), else none */
    gsp_py_off iframe_stackpointer; /* pointer (3.14+), else none */
    gsp_py_off iframe_is_entry;     /* 3.11 only */
    gsp_py_off iframe_tlbc_index;   /* 3.14+ free-threaded */

    /* PyCodeObject */
    gsp_py_off code_size; /* sizeof the part before the bytecode */
    gsp_py_off code_filename;
    gsp_py_off code_name;
    gsp_py_off code_qualname;  /* 3.11+ */
    gsp_py_off code_linetable; /* co_lnotab up to 3.9 */
    gsp_py_off code_firstlineno;
    gsp_py_off code_argcount;
    gsp_py_off code_kwonlyargcount;
    gsp_py_off code_posonlyargcount;
    gsp_py_off code_flags;
    gsp_py_off code_nlocals;
    gsp_py_off code_nlocalsplus;     /* 3.11+ */
    gsp_py_off code_localsplusnames; /* 3.11+; co_varnames up to 3.10 */
    gsp_py_off code_localspluskinds; /* 3.11+ */
    gsp_py_off code_cellvars;        /* 3.8 to 3.10 */
    gsp_py_off code_freevars;        /* 3.8 to 3.10 */
    gsp_py_off code_stacksize;
    gsp_py_off code_code_adaptive; /* 3.11+: inline; up to 3.10: co_code (bytes object) */
    gsp_py_off code_tlbc;          /* 3.14+ free-threaded */

    /* Objects */
    gsp_py_off object_type; /* ob_type */
    gsp_py_off object_size; /* sizeof(PyObject) */
    gsp_py_off object_refcnt;
    gsp_py_off var_ob_size;
    gsp_py_off type_size; /* sizeof(PyTypeObject) */
    gsp_py_off type_name; /* tp_name */
    gsp_py_off type_basicsize;
    gsp_py_off type_itemsize;
    gsp_py_off type_flags;
    gsp_py_off type_dictoffset;
    gsp_py_off type_repr;        /* tp_repr */
    gsp_py_off type_base;        /* tp_base */
    gsp_py_off type_cached_keys; /* PyHeapTypeObject.ht_cached_keys */
    gsp_py_off unicode_length;
    gsp_py_off unicode_hash;
    gsp_py_off unicode_state;
    gsp_py_off unicode_kind_bit; /* first bit of the field in the 32-bit state */
    gsp_py_off unicode_compact_bit;
    gsp_py_off unicode_ascii_bit;
    gsp_py_off unicode_ascii_size;   /* sizeof(PyASCIIObject): data of compact ASCII */
    gsp_py_off unicode_compact_size; /* sizeof(PyCompactUnicodeObject) */
    gsp_py_off bytes_size;           /* ob_size */
    gsp_py_off bytes_data;           /* ob_sval */
    gsp_py_off long_digits;
    gsp_py_off long_tag; /* lv_tag (3.12+), ob_size before */
    gsp_py_off float_value;
    gsp_py_off list_items;
    gsp_py_off tuple_items;
    gsp_py_off dict_used;
    gsp_py_off dict_keys;
    gsp_py_off dict_values;
    gsp_py_off dictkeys_log2_size;  /* 3.11+: dk_log2_size; up to 3.10: dk_size (Py_ssize_t) */
    gsp_py_off dictkeys_log2_index; /* 3.11+: dk_log2_index_bytes */
    gsp_py_off dictkeys_kind;       /* 3.11+ */
    gsp_py_off dictkeys_nentries;
    gsp_py_off dictkeys_usable;
    gsp_py_off dictkeys_indices;  /* dk_indices */
    gsp_py_off dictvalues_values; /* values array inside PyDictValues */
    gsp_py_off dictvalues_valid;  /* 3.13+: uint8_t, 0 if the values have moved to a dict */
    gsp_py_off managed_dict;      /* 3.11+: bytes before an object with Py_TPFLAGS_MANAGED_DICT; in
                                     3.12 a pointer to its dict or, with bit 0 set, to its values - 1 */
    gsp_py_off managed_values;    /* 3.11: bytes before an object, pointer to its PyDictValues */
    gsp_py_off set_used;
    gsp_py_off set_table;
    gsp_py_off set_mask;
    gsp_py_off function_code;
    gsp_py_off function_version; /* 3.11+: uint32_t, stored in the inline caches of calls */
    gsp_py_off cell_ref;
    gsp_py_off gen_iframe; /* embedded frame of a generator, 3.11+ */
    gsp_py_off gen_frame_state;
    gsp_py_off gen_name;

    bool free_threaded; /* last, to avoid padding */
};

/* The table of a minor version (complete for 8 to 12; for 13 and later the members that the debug
 * offsets lack) and build; NULL if none exists. Static. */
const struct gsp_py_layout *gsp_py_layout_find(uint32_t minor, bool free_threaded);

/* The first and last supported minor version. */
#define GSP_PY_MINOR_MIN         8U
#define GSP_PY_MINOR_MAX         15U

/* Bytes of _Py_DebugOffsets to read at the start of _PyRuntime; enough for every version. */
#define GSP_PY_DEBUG_OFFSETS_MAX 2048U

/* Builds a layout from a copy of the start of _PyRuntime (3.13+). The bytes are untrusted: checks
 * the cookie, the version, and every offset against the size of its struct and its usual value.
 * Fails with FORMAT (no cookie, or invalid offsets) or VERSION. */
GSP_MUST_CHECK int gsp_py_debug_offsets_read(const void *bytes, size_t len,
                                             struct gsp_py_layout *out, struct gsp_err *err);

/* Offsets for remote execution of a file (PEP 768, 3.14 and later). */
struct gsp_py_remote_exec {
    uint32_t eval_breaker; /* in the thread state: uintptr_t, one bit requests a stop */
    uint32_t pending;      /* in the thread state: int32_t, 1 if there is a file to run */
    uint32_t path;         /* in the thread state: path of the file */
    uint32_t path_size;    /* size of that buffer */
    uint32_t enabled;      /* in the interpreter state: int, 0 if disabled */
};

/* Reads these offsets from the same untrusted bytes. Fails with FORMAT, or VERSION before 3.14. */
GSP_MUST_CHECK int gsp_py_remote_exec_read(const void *bytes, size_t len,
                                           struct gsp_py_remote_exec *out, struct gsp_err *err);
