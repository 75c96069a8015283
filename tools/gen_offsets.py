#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates src/py/layout_tables.c from CPython's own headers.

For every version a small C program that includes the internal headers prints the offsets and
sizes that struct gsp_py_layout names; the results become one table with a column per version.
From 3.13 on the position of each field inside _Py_DebugOffsets is written too, since that
struct differs between minor versions.

Offsets are those of LP64: x86-64 and aarch64 are the same.

    tools/gen_offsets.py             regenerate (needs headers of every version)
    tools/gen_offsets.py --check     compare with what is checked in, for the headers found here
    tools/gen_offsets.py --headers DIR ...   take headers from include folders, e.g.
                                             /usr/include/python3.11

Headers are looked for in pyenv's versions and in what tools/get-pythons.sh fetched.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parent.parent
OUTPUT = TREE / "src" / "py" / "layout_tables.c"

MINOR_MIN = 8
MINOR_DEBUG_OFFSETS = 13
MINOR_MAX = 15

NO_OFF = 0xFFFF  # GSP_NO_OFFSET
NO_BIG = 0xFFFFFFFF  # UINT32_MAX: the members of type uint32_t

# The C side of one generated program.  Everything it prints is "name value".
PROGRAM = """\
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#if __has_include("internal/pycore_pystate.h")
#include "internal/pycore_pystate.h"
#endif
#if __has_include("internal/pycore_runtime.h")
#include "internal/pycore_runtime.h"
#endif
#if __has_include("internal/pycore_interp.h")
#include "internal/pycore_interp.h"
#endif
#if __has_include("internal/pycore_gil.h")
#include "internal/pycore_gil.h"
#endif
#if __has_include("internal/pycore_frame.h")
#include "internal/pycore_frame.h"
#endif
#if __has_include("internal/pycore_dict.h")
#include "internal/pycore_dict.h"
#endif
#if __has_include("internal/pycore_code.h")
#include "internal/pycore_code.h"
#endif
#if __has_include("internal/pycore_object.h")
#include "internal/pycore_object.h"
#endif
#if __has_include("internal/pycore_genobject.h")
#include "internal/pycore_genobject.h"
#endif
#if __has_include("internal/pycore_debug_offsets.h")
#include "internal/pycore_debug_offsets.h"
#endif

#define OFF(type, member) (long)offsetof(type, member)
#define SIZE(type) (long)sizeof(type)

/* Where a bit field of a string's state begins in the 32-bit word. */
#define STATE_BIT(field) state_bit_##field()
#define STATE_BIT_FUNC(field)                                     \\
    static long state_bit_##field(void)                           \\
    {                                                             \\
        PyASCIIObject object;                                     \\
        unsigned word;                                            \\
        memset(&object, 0, sizeof(object));                       \\
        object.state.field = 1;                                   \\
        memcpy(&word, (char *)&object + OFF(PyASCIIObject, state), 4); \\
        return __builtin_ctz(word);                               \\
    }
STATE_BIT_FUNC(kind)
STATE_BIT_FUNC(compact)
STATE_BIT_FUNC(ascii)

int main(void)
{
    printf("version %ld\\n", (long)PY_VERSION_HEX);
@PRINTS@
    return 0;
}
"""


class Row(NamedTuple):
    """One member of struct gsp_py_layout: what it is in each range of minor versions."""

    member: str
    cases: tuple[tuple[int, int, str], ...]  # first minor, last minor, C expression
    big: bool  # uint32_t in the layout
    free_threaded_only: bool
    debug: str  # path in _Py_DebugOffsets, or ""
    debug_size: str  # path of the size that bounds it
    debug_from: int  # first minor whose _Py_DebugOffsets has it


# Fields of _Py_DebugOffsets that are sizes: no other size bounds them.
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
CODE = "PyCodeObject"
IFRAME = "_PyInterpreterFrame"

# In the order of struct gsp_py_layout.  A version without a case has no such offset.
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
    # In free-threaded builds the count is split; this is the owner's part.
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
    # How many bytes in front of an object: see struct gsp_py_layout.
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

# Fields of _Py_DebugOffsets that are checked but are no member of a layout.
EXTRA_DEBUG = ("free_threaded", "code_object.size")


class Build(NamedTuple):
    """One column: a minor version, with or without the GIL."""

    minor: int
    free_threaded: bool

    @property
    def label(self) -> str:
        return f"3.{self.minor}" + ("t" if self.free_threaded else "")


BUILDS = tuple(Build(m, False) for m in range(MINOR_MIN, MINOR_MAX + 1)) + tuple(
    Build(m, True) for m in range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1)
)


def minor_of(headers: Path) -> int:
    text = (headers / "patchlevel.h").read_text()
    found = re.search(r"#define\s+PY_MINOR_VERSION\s+(\d+)", text)
    if found is None:
        raise SystemExit(f"gen_offsets: no version in {headers}/patchlevel.h")
    return int(found.group(1))


def find_headers(given: list[str]) -> list[Path]:
    """Every include folder at hand, those given first."""
    dirs = [Path(g) for g in given]
    for d in dirs:
        if not (d / "internal" / "pycore_pystate.h").exists():
            raise SystemExit(f"gen_offsets: no internal headers in {d}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    dirs += sorted(pyenv.glob("versions/3.*/include/python3.*"))
    dirs += sorted((cache / "gsprof" / "pythons").glob("3.*/root/usr/include/python3.*"))
    return [
        d
        for d in dirs
        if (d / "internal" / "pycore_pystate.h").exists()
        and MINOR_MIN <= minor_of(d) <= MINOR_MAX
        and "t" not in d.name.removeprefix("python")
    ]


def run_program(headers: Path, free_threaded: bool, prints: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as tmp:
        source, exe = Path(tmp) / "offsets.c", Path(tmp) / "offsets"
        source.write_text(PROGRAM.replace("@PRINTS@", prints))
        command = [os.environ.get("CC", "cc"), "-w", "-std=gnu11"]
        if free_threaded:
            command.append("-DPy_GIL_DISABLED=1")
        command += [f"-I{headers}", f"-I{headers}/internal"]
        # Debian keeps the true pyconfig.h in a folder per architecture one level up; last, so
        # that nothing else of that system is taken.
        command += ["-idirafter", str(headers.parent)]
        subprocess.run([*command, str(source), "-o", str(exe)], check=True)
        out = subprocess.run([str(exe)], check=True, capture_output=True, text=True).stdout
    pairs = (line.split() for line in out.splitlines())
    return {name: int(value) for name, value in pairs}


def case_of(r: Row, build: Build) -> str | None:
    if r.free_threaded_only and not build.free_threaded:
        return None
    for first, last, expression in r.cases:
        if first <= build.minor <= last:
            if expression == "OBJECT_REFCNT":
                field = "ob_ref_local" if build.free_threaded else "ob_refcnt"
                return f"OFF(PyObject, {field})"
            return expression
    return None


def has_debug(r: Row, minor: int) -> bool:
    return bool(r.debug) and minor >= max(r.debug_from, MINOR_DEBUG_OFFSETS)


def measure(headers: Path, build: Build) -> dict[str, int]:
    """All values of one column; keys "version", members, and "debug:<path>"."""
    lines = []
    for r in ROWS:
        expression = case_of(r, build)
        if expression is not None:
            lines.append(f'    printf("{r.member} %ld\\n", (long)({expression}));')
    if build.minor >= MINOR_DEBUG_OFFSETS:
        paths = {r.debug for r in ROWS if has_debug(r, build.minor)}
        paths |= {r.debug_size for r in ROWS if has_debug(r, build.minor) and r.debug_size}
        paths |= set(EXTRA_DEBUG)
        lines.append('    printf("debug: %ld\\n", SIZE(_Py_DebugOffsets));')
        lines += [
            f'    printf("debug:{p} %ld\\n", OFF(_Py_DebugOffsets, {p}));' for p in sorted(paths)
        ]
    values = run_program(headers, build.free_threaded, "\n".join(lines))
    for r in ROWS:
        values.setdefault(r.member, NO_BIG if r.big else NO_OFF)
    return values


def literal(value: int) -> str:
    return "NONE" if value in (NO_OFF, NO_BIG) else str(value)


def table_line(name: str, cells: list[str], width: int, tail: str) -> str:
    text = f"    X({name}," + " " * (width - len(name))
    return text + ", ".join(c.rjust(6) for c in cells) + ")" + tail


def emit_rows(columns: dict[Build, dict[str, int]]) -> list[str]:
    out = ["#define LAYOUT_ROWS(X) \\"]
    width = max(len(r.member) for r in ROWS)
    for i, r in enumerate(ROWS):
        cells = [literal(columns[b][r.member]) for b in BUILDS]
        text = table_line(r.member, cells, width, " \\" if i + 1 < len(ROWS) else "")
        # The members of type uint32_t need the wide form of "none".
        out.append(text.replace(" NONE", "  BIG") if r.big else text)
    return out


def emit_debug(columns: dict[Build, dict[str, int]]) -> list[str]:
    minors = range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1)
    rows = [r for r in ROWS if r.debug]
    width = max(len(r.member) for r in rows)
    out = ["#define DEBUG_ROWS(X) \\"]
    for i, r in enumerate(rows):
        cells = []
        for m in minors:
            values = columns[Build(m, False)]
            at = values[f"debug:{r.debug}"] if has_debug(r, m) else NO_OFF
            bounded = has_debug(r, m) and r.debug_size
            bound = values[f"debug:{r.debug_size}"] if bounded else NO_OFF
            cells += [literal(at), literal(bound)]
        out.append(table_line(r.member, cells, width, " \\" if i + 1 < len(rows) else ""))
    return out


HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_tables.c -- generated by tools/gen_offsets.py from CPython's headers; do not edit.
 *
 * One column a version, "t" for free-threaded builds; NONE and BIG (the same for uint32_t)
 * where a version has no such member.  LP64: the same on x86-64 and aarch64.
 */
#include "py/layout_tables.h"

#include "base/attr.h"
#include "py/layout.h"

#define NONE GSP_NO_OFFSET
#define BIG  UINT32_MAX

/* clang-format off */

"""


def version_text(value: int) -> str:
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}"


def column_name(build: Build) -> str:
    return "COLUMN_" + build.label.replace(".", "_").upper()


def layout_entry(build: Build, version: int) -> str:
    lines = "LNOTAB" if build.minor <= 9 else "LINETABLE" if build.minor == 10 else "LOCATIONS"
    frames = "OBJECTS" if build.minor <= 10 else "CFRAME" if build.minor <= 12 else "CURRENT"
    ft = "true" if build.free_threaded else "false"
    return (
        f"    {{ /* {version_text(version)} */\n"
        f"        .version = 0x{version:08x},\n"
        f"        .free_threaded = {ft},\n"
        f"        .lines = GSP_PY_LINES_{lines},\n"
        f"        .frames = GSP_PY_FRAMES_{frames},\n"
        f"        LAYOUT_ROWS({column_name(build)})\n"
        f"    }},\n"
    )


def debug_entry(minor: int, values: dict[str, int]) -> str:
    return (
        f"    {{{minor}, {values['debug:']}, {values['debug:free_threaded']}, "
        f"{values['debug:code_object.size']}, "
        f"debug_3_{minor}, GSP_COUNT(debug_3_{minor})}},\n"
    )


def emit(columns: dict[Build, dict[str, int]]) -> str:
    minors = range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1)
    out = [HEAD]
    width = max(len(r.member) for r in ROWS)
    out.append("/*" + " " * (width + 4) + ", ".join(b.label.rjust(6) for b in BUILDS) + " */\n")
    out.append("\n".join(emit_rows(columns)) + "\n\n")
    names = ", ".join(f"c{i}" for i in range(len(BUILDS)))
    for i, build in enumerate(BUILDS):
        out.append(f"#define {column_name(build)}(m, {names}) .m = c{i},\n")
    out.append("\nconst struct gsp_py_layout gsp_py__layouts[] = {\n")
    out += [layout_entry(b, columns[b]["version"]) for b in BUILDS]
    out.append("};\n\nconst size_t gsp_py__layout_count = GSP_COUNT(gsp_py__layouts);\n\n")

    out.append("/* Where a field is in _Py_DebugOffsets, and where the size that bounds it:\n")
    out.append(f" * {', '.join(f'3.{m}' for m in minors)}. */\n")
    out.append("\n".join(emit_debug(columns)) + "\n\n")
    names = ", ".join(f"c{i}" for i in range(2 * len(minors)))
    for i, m in enumerate(minors):
        out.append(f"#define DEBUG_3_{m}(m, {names}) FIELD(m, c{2 * i}, c{2 * i + 1})\n")
    out.append(
        "#define FIELD(m, at, bound) {offsetof(struct gsp_py_layout, m), "
        "sizeof(((struct gsp_py_layout *)0)->m), at, bound},\n\n"
    )
    for m in minors:
        out.append(
            f"static const struct gsp_py__debug_field debug_3_{m}[] "
            f"= {{DEBUG_ROWS(DEBUG_3_{m})}};\n"
        )
    out.append("\nconst struct gsp_py__debug_table gsp_py__debug_tables[] = {\n")
    out += [debug_entry(m, columns[Build(m, False)]) for m in minors]
    out.append("};\n\n")
    out.append("const size_t gsp_py__debug_table_count = GSP_COUNT(gsp_py__debug_tables);\n")
    return "".join(out)


def parse(text: str) -> dict[Build, dict[str, int]]:
    """The columns of a generated file: emit() backwards."""
    columns: dict[Build, dict[str, int]] = {b: {} for b in BUILDS}
    by_member = {r.member: r for r in ROWS}
    layout_part, _, debug_part = text.partition("#define DEBUG_ROWS")
    for member, cells in re.findall(r"^    X\((\w+), *([^)]*)\)", layout_part, re.M):
        r = by_member.get(member)
        values = [c.strip() for c in cells.split(",")]
        if r is None or len(values) != len(BUILDS):
            continue
        for build, cell in zip(BUILDS, values):
            none = NO_BIG if r.big else NO_OFF
            columns[build][member] = int(cell) if cell.isdigit() else none
    for build, version in zip(BUILDS, re.findall(r"\.version = (0x[0-9a-f]+)", layout_part)):
        columns[build]["version"] = int(version, 16)
    for member, cells in re.findall(r"^    X\((\w+), *([^)]*)\)", debug_part, re.M):
        r = by_member.get(member)
        values = [c.strip() for c in cells.split(",")]
        for i, minor in enumerate(range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1)):
            if r is None or 2 * i + 1 >= len(values):
                continue
            for path, cell in ((r.debug, values[2 * i]), (r.debug_size, values[2 * i + 1])):
                if cell.isdigit():
                    columns[Build(minor, False)][f"debug:{path}"] = int(cell)
    entry = r"^    \{(\d+), (\d+), (\d+), (\d+), debug_3_"
    for minor, size, ft, code in re.findall(entry, debug_part, re.M):
        column = columns[Build(int(minor), False)]
        column["debug:"] = int(size)
        column["debug:free_threaded"] = int(ft)
        column["debug:code_object.size"] = int(code)
    return columns


def differences(
    build: Build, measured: dict[str, int], stored: dict[str, int], same_patch: bool
) -> list[str]:
    """What a table says and the headers do not.

    Of another patch release only what the target does not tell itself must be the same.
    """
    found = []
    for r in ROWS:
        told = has_debug(r, build.minor) and not same_patch
        if not told and measured[r.member] != stored.get(r.member):
            found.append(f"{r.member}: headers {measured[r.member]}, table {stored.get(r.member)}")
    if not build.free_threaded:
        for key, value in measured.items():
            if key.startswith("debug:") and key in stored and stored[key] != value:
                found.append(f"{key}: headers {value}, table {stored[key]}")
    return found


def builds_of(headers: Path) -> list[Build]:
    minor = minor_of(headers)
    return [b for b in BUILDS if b.minor == minor]


def check(dirs: list[Path]) -> int:
    text = OUTPUT.read_text()
    stored = parse(text)
    if any("version" not in c for c in stored.values()) or emit(stored) != text:
        print(f"gen_offsets: {OUTPUT.name} was edited by hand or is out of date")
        return 1
    bad = 0
    for headers in dirs:
        for build in builds_of(headers):
            measured = measure(headers, build)
            same_patch = measured["version"] == stored[build]["version"]
            for line in differences(build, measured, stored[build], same_patch):
                print(f"gen_offsets: {version_text(measured['version'])} {build.label}: {line}")
                bad = 1
    if not dirs:
        print("gen_offsets: no headers with internals here; only the form was checked")
    return bad


def generate(dirs: list[Path], output: Path) -> int:
    columns = parse(output.read_text()) if output.exists() else {b: {} for b in BUILDS}
    seen: set[Build] = set()
    for headers in dirs:
        for build in builds_of(headers):
            measured = measure(headers, build)
            if build in seen and measured["version"] <= columns[build]["version"]:
                continue
            columns[build] = measured
            seen.add(build)
    for build in BUILDS:
        if "version" not in columns[build]:
            print(f"gen_offsets: no headers of {build.label}, and no table to keep")
            return 1
        if build not in seen:
            print(f"gen_offsets: no headers of {build.label}; its table is kept")
    output.write_text(emit(columns))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--headers", action="append", default=[], metavar="DIR")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    dirs = find_headers(args.headers)
    return check(dirs) if args.check else generate(dirs, OUTPUT)


if __name__ == "__main__":
    sys.exit(main())
