# SPDX-License-Identifier: Apache-2.0
"""The members of struct gsp_py_layout in each version, for gen_offsets.py."""

from __future__ import annotations

from typing import NamedTuple

MINOR_MIN = 8
MINOR_DEBUG_OFFSETS = 13  # the first with _Py_DebugOffsets


class Row(NamedTuple):
    """One member of struct gsp_py_layout: its C expression for ranges of minor versions."""

    member: str
    cases: tuple[tuple[int, int, str], ...]  # first minor, last minor, C expression
    big: bool  # of type uint32_t
    free_threaded_only: bool
    debug: str  # path in _Py_DebugOffsets, or ""
    debug_size: str  # path of the size that bounds it
    debug_from: int  # the first minor version whose _Py_DebugOffsets has it


# Fields of _Py_DebugOffsets that are sizes, which no other size bounds.
SIZES = ("size", "asciiobject_size", "compactunicodeobject_size")


def row(
    member: str,
    *cases: str | tuple[int, int, str],
    big: bool = False,
    ft: bool = False,
    debug: str = "",
    debug_from: int = MINOR_DEBUG_OFFSETS,
) -> Row:
    full = tuple((MINOR_MIN, 99, c) if isinstance(c, str) else c for c in cases)
    group, _, field = debug.partition(".")
    size = f"{group}.size" if debug and field not in SIZES else ""
    return Row(member, full, big, ft, debug, size, debug_from)


RT = "_PyRuntimeState"
IS = "PyInterpreterState"
TS = "PyThreadState"
GIL = "struct _gil_runtime_state"
GC = "struct _gc_runtime_state"
CODE = "PyCodeObject"
IFRAME = "_PyInterpreterFrame"

# In the order of struct gsp_py_layout. A version without a case does not have the member.
ROWS = (
    row("runtime_size", f"SIZE({RT})", big=True, debug="runtime_state.size"),
    row(
        "runtime_interpreters_head",
        f"OFF({RT}, interpreters.head)",
        big=True,
        debug="runtime_state.interpreters_head",
    ),
    row("runtime_main_thread", f"OFF({RT}, main_thread)", big=True),
    row(
        "runtime_finalizing",
        (8, 8, f"OFF({RT}, finalizing)"),
        (9, 99, f"OFF({RT}, _finalizing)"),
        big=True,
        debug="runtime_state.finalizing",
    ),
    row("runtime_tstate_current", (8, 11, f"OFF({RT}, gilstate.tstate_current)"), big=True),
    row("runtime_gil", (8, 11, f"OFF({RT}, ceval.gil)"), big=True),
    row("interp_size", f"SIZE({IS})", big=True, debug="interpreter_state.size"),
    row("interp_id", f"OFF({IS}, id)", big=True, debug="interpreter_state.id"),
    row("interp_next", f"OFF({IS}, next)", big=True, debug="interpreter_state.next"),
    row(
        "interp_tstate_head",
        (8, 10, f"OFF({IS}, tstate_head)"),
        (11, 99, f"OFF({IS}, threads.head)"),
        big=True,
        debug="interpreter_state.threads_head",
    ),
    row(
        "interp_tstate_main",
        (13, 99, f"OFF({IS}, threads.main)"),
        big=True,
        debug="interpreter_state.threads_main",
        debug_from=14,
    ),
    row(
        "interp_gil",
        (12, 99, f"OFF({IS}, ceval.gil)"),
        big=True,
        debug="interpreter_state.ceval_gil",
    ),
    row(
        "interp_modules",
        (8, 11, f"OFF({IS}, modules)"),
        (12, 99, f"OFF({IS}, imports.modules)"),
        big=True,
        debug="interpreter_state.imports_modules",
    ),
    row("interp_sysdict", f"OFF({IS}, sysdict)", big=True, debug="interpreter_state.sysdict"),
    row("interp_gc", (9, 99, f"OFF({IS}, gc)"), big=True, debug="interpreter_state.gc"),
    row(
        "interp_code_object_generation",
        (14, 99, f"OFF({IS}, _code_object_generation)"),
        big=True,
        debug="interpreter_state.code_object_generation",
        debug_from=14,
    ),
    row(
        "interp_tlbc_generation",
        (14, 99, f"OFF({IS}, tlbc_indices.tlbc_generation)"),
        big=True,
        ft=True,
        debug="interpreter_state.tlbc_generation",
        debug_from=14,
    ),
    row("gil_last_holder", f"OFF({GIL}, last_holder)"),
    row("gil_locked", f"OFF({GIL}, locked)"),
    row("gil_enabled", (13, 99, f"OFF({GIL}, enabled)"), ft=True),
    row("gc_collecting", (9, 99, f"OFF({GC}, collecting)"), debug="gc.collecting"),
    row("tstate_size", f"SIZE({TS})", debug="thread_state.size"),
    row("tstate_prev", f"OFF({TS}, prev)", debug="thread_state.prev"),
    row("tstate_next", f"OFF({TS}, next)", debug="thread_state.next"),
    row("tstate_interp", f"OFF({TS}, interp)", debug="thread_state.interp"),
    row("tstate_frame", (8, 10, f"OFF({TS}, frame)")),
    row("tstate_cframe", (11, 12, f"OFF({TS}, cframe)")),
    row(
        "tstate_current_frame",
        (13, 99, f"OFF({TS}, current_frame)"),
        debug="thread_state.current_frame",
    ),
    row("tstate_thread_id", f"OFF({TS}, thread_id)", debug="thread_state.thread_id"),
    row(
        "tstate_native_thread_id",
        (11, 99, f"OFF({TS}, native_thread_id)"),
        debug="thread_state.native_thread_id",
    ),
    row(
        "tstate_datastack_chunk",
        (11, 99, f"OFF({TS}, datastack_chunk)"),
        debug="thread_state.datastack_chunk",
    ),
    row("tstate_status", (12, 99, f"OFF({TS}, _status)"), debug="thread_state.status"),
    row(
        "tstate_holds_gil",
        (14, 99, f"OFF({TS}, holds_gil)"),
        debug="thread_state.holds_gil",
        debug_from=15,
    ),
    row("cframe_current_frame", (11, 12, "OFF(_PyCFrame, current_frame)")),
    row("stack_chunk_previous", (11, 99, "OFF(_PyStackChunk, previous)")),
    row("stack_chunk_size", (11, 99, "OFF(_PyStackChunk, size)")),
    row("stack_chunk_data", (11, 99, "OFF(_PyStackChunk, data)")),
    row("frame_f_back", "OFF(PyFrameObject, f_back)"),
    row("frame_f_code", (8, 10, "OFF(PyFrameObject, f_code)")),
    row("frame_f_lasti", (8, 10, "OFF(PyFrameObject, f_lasti)")),
    row(
        "frame_f_state",
        (8, 9, "OFF(PyFrameObject, f_executing)"),
        (10, 10, "OFF(PyFrameObject, f_state)"),
    ),
    row("frame_f_localsplus", (8, 10, "OFF(PyFrameObject, f_localsplus)")),
    row("frame_size", (8, 10, "OFF(PyFrameObject, f_localsplus)")),
    row("iframe_size", (11, 99, f"SIZE({IFRAME})"), debug="interpreter_frame.size"),
    row(
        "iframe_previous",
        (11, 99, f"OFF({IFRAME}, previous)"),
        debug="interpreter_frame.previous",
    ),
    row(
        "iframe_executable",
        (11, 12, f"OFF({IFRAME}, f_code)"),
        (13, 99, f"OFF({IFRAME}, f_executable)"),
        debug="interpreter_frame.executable",
    ),
    row(
        "iframe_funcobj",
        (11, 11, f"OFF({IFRAME}, f_func)"),
        (12, 99, f"OFF({IFRAME}, f_funcobj)"),
    ),
    row(
        "iframe_instr_ptr",
        (11, 12, f"OFF({IFRAME}, prev_instr)"),
        (13, 99, f"OFF({IFRAME}, instr_ptr)"),
        debug="interpreter_frame.instr_ptr",
    ),
    row(
        "iframe_localsplus",
        (11, 99, f"OFF({IFRAME}, localsplus)"),
        debug="interpreter_frame.localsplus",
    ),
    row("iframe_owner", (11, 99, f"OFF({IFRAME}, owner)"), debug="interpreter_frame.owner"),
    row("iframe_stacktop", (11, 13, f"OFF({IFRAME}, stacktop)")),
    row(
        "iframe_stackpointer",
        (14, 99, f"OFF({IFRAME}, stackpointer)"),
        debug="interpreter_frame.stackpointer",
        debug_from=14,
    ),
    row("iframe_is_entry", (11, 11, f"OFF({IFRAME}, is_entry)")),
    row(
        "iframe_tlbc_index",
        (14, 99, f"OFF({IFRAME}, tlbc_index)"),
        ft=True,
        debug="interpreter_frame.tlbc_index",
        debug_from=14,
    ),
    row("code_size", (8, 10, f"SIZE({CODE})"), (11, 99, f"OFF({CODE}, co_code_adaptive)")),
    row("code_filename", f"OFF({CODE}, co_filename)", debug="code_object.filename"),
    row("code_name", f"OFF({CODE}, co_name)", debug="code_object.name"),
    row("code_qualname", (11, 99, f"OFF({CODE}, co_qualname)"), debug="code_object.qualname"),
    row(
        "code_linetable",
        (8, 9, f"OFF({CODE}, co_lnotab)"),
        (10, 99, f"OFF({CODE}, co_linetable)"),
        debug="code_object.linetable",
    ),
    row("code_firstlineno", f"OFF({CODE}, co_firstlineno)", debug="code_object.firstlineno"),
    row("code_argcount", f"OFF({CODE}, co_argcount)", debug="code_object.argcount"),
    row("code_kwonlyargcount", f"OFF({CODE}, co_kwonlyargcount)"),
    row("code_posonlyargcount", f"OFF({CODE}, co_posonlyargcount)"),
    row("code_flags", f"OFF({CODE}, co_flags)"),
    row("code_nlocals", f"OFF({CODE}, co_nlocals)"),
    row("code_nlocalsplus", (11, 99, f"OFF({CODE}, co_nlocalsplus)")),
    row(
        "code_localsplusnames",
        (8, 10, f"OFF({CODE}, co_varnames)"),
        (11, 99, f"OFF({CODE}, co_localsplusnames)"),
        debug="code_object.localsplusnames",
    ),
    row(
        "code_localspluskinds",
        (11, 99, f"OFF({CODE}, co_localspluskinds)"),
        debug="code_object.localspluskinds",
    ),
    row("code_cellvars", (8, 10, f"OFF({CODE}, co_cellvars)")),
    row("code_freevars", (8, 10, f"OFF({CODE}, co_freevars)")),
    row("code_stacksize", f"OFF({CODE}, co_stacksize)"),
    row(
        "code_code_adaptive",
        (8, 10, f"OFF({CODE}, co_code)"),
        (11, 99, f"OFF({CODE}, co_code_adaptive)"),
        debug="code_object.co_code_adaptive",
    ),
    row(
        "code_tlbc",
        (14, 99, f"OFF({CODE}, co_tlbc)"),
        ft=True,
        debug="code_object.co_tlbc",
        debug_from=14,
    ),
    row("object_type", "OFF(PyObject, ob_type)", debug="pyobject.ob_type"),
    row("object_size", "SIZE(PyObject)", debug="pyobject.size"),
    # Free-threaded builds split the count; this is the owner's part.
    row("object_refcnt", "OBJECT_REFCNT"),
    row("var_ob_size", "OFF(PyVarObject, ob_size)"),
    row("type_size", "SIZE(PyTypeObject)", debug="type_object.size"),
    row("type_name", "OFF(PyTypeObject, tp_name)", debug="type_object.tp_name"),
    row(
        "type_basicsize",
        "OFF(PyTypeObject, tp_basicsize)",
        debug="type_object.tp_basicsize",
        debug_from=15,
    ),
    row("type_itemsize", "OFF(PyTypeObject, tp_itemsize)"),
    row("type_flags", "OFF(PyTypeObject, tp_flags)", debug="type_object.tp_flags"),
    row(
        "type_dictoffset",
        "OFF(PyTypeObject, tp_dictoffset)",
        debug="type_object.tp_dictoffset",
        debug_from=15,
    ),
    row("type_repr", "OFF(PyTypeObject, tp_repr)", debug="type_object.tp_repr"),
    row("type_base", "OFF(PyTypeObject, tp_base)"),
    row(
        "type_cached_keys",
        "OFF(PyHeapTypeObject, ht_cached_keys)",
        debug="heap_type_object.ht_cached_keys",
        debug_from=15,
    ),
    row("unicode_length", "OFF(PyASCIIObject, length)", debug="unicode_object.length"),
    row("unicode_hash", "OFF(PyASCIIObject, hash)"),
    row("unicode_state", "OFF(PyASCIIObject, state)", debug="unicode_object.state"),
    row("unicode_kind_bit", "STATE_BIT(kind)"),
    row("unicode_compact_bit", "STATE_BIT(compact)"),
    row("unicode_ascii_bit", "STATE_BIT(ascii)"),
    row(
        "unicode_ascii_size",
        "SIZE(PyASCIIObject)",
        debug="unicode_object.asciiobject_size",
    ),
    row(
        "unicode_compact_size",
        "SIZE(PyCompactUnicodeObject)",
        debug="unicode_object.compactunicodeobject_size",
        debug_from=15,
    ),
    row("bytes_size", "OFF(PyBytesObject, ob_base.ob_size)", debug="bytes_object.ob_size"),
    row("bytes_data", "OFF(PyBytesObject, ob_sval)", debug="bytes_object.ob_sval"),
    row(
        "long_digits",
        (8, 11, "OFF(PyLongObject, ob_digit)"),
        (12, 99, "OFF(PyLongObject, long_value.ob_digit)"),
        debug="long_object.ob_digit",
    ),
    row(
        "long_tag",
        (8, 11, "OFF(PyVarObject, ob_size)"),
        (12, 99, "OFF(PyLongObject, long_value.lv_tag)"),
        debug="long_object.lv_tag",
    ),
    row("float_value", "OFF(PyFloatObject, ob_fval)", debug="float_object.ob_fval"),
    row("list_items", "OFF(PyListObject, ob_item)", debug="list_object.ob_item"),
    row("tuple_items", "OFF(PyTupleObject, ob_item)", debug="tuple_object.ob_item"),
    row("dict_used", "OFF(PyDictObject, ma_used)"),
    row("dict_keys", "OFF(PyDictObject, ma_keys)", debug="dict_object.ma_keys"),
    row("dict_values", "OFF(PyDictObject, ma_values)", debug="dict_object.ma_values"),
    # Up to 3.10 the struct is private to Objects/dict-common.h: refcnt, size, lookup function,
    # usable, nentries, indices, each of 8 bytes.
    row(
        "dictkeys_log2_size",
        (8, 10, "8"),
        (11, 99, "OFF(PyDictKeysObject, dk_log2_size)"),
    ),
    row("dictkeys_log2_index", (11, 99, "OFF(PyDictKeysObject, dk_log2_index_bytes)")),
    row("dictkeys_kind", (11, 99, "OFF(PyDictKeysObject, dk_kind)")),
    row("dictkeys_nentries", (8, 10, "32"), (11, 99, "OFF(PyDictKeysObject, dk_nentries)")),
    row("dictkeys_usable", (8, 10, "24"), (11, 99, "OFF(PyDictKeysObject, dk_usable)")),
    row("dictkeys_indices", (8, 10, "40"), (11, 99, "OFF(PyDictKeysObject, dk_indices)")),
    row("dictvalues_values", (8, 10, "0"), (11, 99, "OFF(PyDictValues, values)")),
    row("dictvalues_valid", (13, 99, "OFF(PyDictValues, valid)")),
    # Number of bytes before an object, see struct gsp_py_layout.
    row(
        "managed_dict",
        (11, 11, "-(long)MANAGED_DICT_OFFSET"),
        (12, 12, "3 * SIZE(PyObject *)"),
        (13, 99, "-(long)MANAGED_DICT_OFFSET"),
    ),
    row("managed_values", (11, 11, "4 * SIZE(PyObject *)")),
    row("set_used", "OFF(PySetObject, used)", debug="set_object.used", debug_from=14),
    row("set_table", "OFF(PySetObject, table)", debug="set_object.table", debug_from=14),
    row("set_mask", "OFF(PySetObject, mask)", debug="set_object.mask", debug_from=14),
    row("function_code", "OFF(PyFunctionObject, func_code)"),
    row("function_version", (11, 99, "OFF(PyFunctionObject, func_version)")),
    row("cell_ref", "OFF(PyCellObject, ob_ref)"),
    row(
        "gen_iframe",
        (11, 99, "OFF(PyGenObject, gi_iframe)"),
        debug="gen_object.gi_iframe",
        debug_from=14,
    ),
    row(
        "gen_frame_state",
        (11, 99, "OFF(PyGenObject, gi_frame_state)"),
        debug="gen_object.gi_frame_state",
        debug_from=14,
    ),
    row(
        "gen_name",
        "OFF(PyGenObject, gi_name)",
        debug="gen_object.gi_name",
        debug_from=14,
    ),
)
