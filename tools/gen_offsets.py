#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates src/py/layout_tables.c from CPython's headers.

For every version, a small C program that includes the internal headers prints the offsets and
sizes in struct gsp_py_layout. The results form a table with one column per version. From 3.13 on
the table also has the position of each field in _Py_DebugOffsets, which differs between minor
versions.

Offsets are the same on x86-64 and aarch64 (LP64).

    tools/gen_offsets.py             generate (needs headers of every version)
    tools/gen_offsets.py --check     compare the file with the headers found here
    tools/gen_offsets.py --headers DIR ...   read headers from include folders such as
                                             /usr/include/python3.11

Also reads headers of pyenv's versions and of tools/get-pythons.sh.
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

from layout_rows import MINOR_DEBUG_OFFSETS, MINOR_MIN, ROWS, Row

TREE = Path(__file__).resolve().parent.parent
OUTPUT = TREE / "src" / "py" / "layout_tables.c"

MINOR_MAX = 15

NO_OFF = 0xFFFF  # GSP_NO_OFFSET
NO_BIG = 0xFFFFFFFF  # UINT32_MAX, for members of type uint32_t

# The generated C program. It prints lines of "name value".
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
#define ALIGN_OFF(type, member) (long)__alignof__(((type *)0)->member)
#define ALIGN_SIZE(type) 1L

/* The position of a bit field of a string's state in its 32-bit word. */
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


# Members of _Py_DebugOffsets that are not in struct gsp_py_layout.
EXTRA_DEBUG = ("free_threaded",)


class Build(NamedTuple):
    """One column: a minor version, with or without a GIL."""

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
        raise SystemExit(f"gen_offsets: {headers}/patchlevel.h has no version")
    return int(found.group(1))


def find_headers(given: list[str]) -> list[Path]:
    """All include folders, the given ones first."""
    dirs = [Path(g) for g in given]
    for d in dirs:
        if not (d / "internal" / "pycore_pystate.h").exists():
            raise SystemExit(f"gen_offsets: {d} has no internal headers")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    dirs += sorted(pyenv.glob("versions/3.*/include/python3.*"))
    fetched = cache / "gsprof" / "pythons"
    dirs += sorted(fetched.glob("3.*/root/usr/include/python3.*"))
    dirs += sorted(fetched.glob("3.*t/include/python3.*t"))
    return [
        d
        for d in dirs
        if (d / "internal" / "pycore_pystate.h").exists() and MINOR_MIN <= minor_of(d) <= MINOR_MAX
    ]


def run_program(headers: Path, free_threaded: bool, prints: str) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as tmp:
        source, exe = Path(tmp) / "offsets.c", Path(tmp) / "offsets"
        source.write_text(PROGRAM.replace("@PRINTS@", prints))
        command = [os.environ.get("CC", "cc"), "-w", "-std=gnu11"]
        if free_threaded:
            command.append("-DPy_GIL_DISABLED=1")
        command += [f"-I{headers}", f"-I{headers}/internal"]
        # Debian's pyconfig.h is in a folder per architecture, one level up. This comes last, so
        # that no other header is read from there.
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
    """All values of one column. Keys are "version", members, and "debug:<path>"."""
    lines = []
    for r in ROWS:
        expression = case_of(r, build)
        if expression is not None:
            lines.append(f'    printf("{r.member} %ld\\n", (long)({expression}));')
    if build.minor >= MINOR_DEBUG_OFFSETS:
        paths = {r.debug for r in ROWS if has_debug(r, build.minor)}
        paths |= {r.debug_size for r in ROWS if has_debug(r, build.minor) and r.debug_size}
        paths |= set(EXTRA_DEBUG)
        for r in ROWS:
            expression = case_of(r, build)
            if has_debug(r, build.minor) and expression is not None:
                lines.append(f'    printf("align:{r.member} %ld\\n", ALIGN_{expression});')
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
        # Members of type uint32_t need the 32-bit form of NONE.
        out.append(text.replace(" NONE", "  BIG") if r.big else text)
    return out


def emit_debug(columns: dict[Build, dict[str, int]]) -> list[str]:
    minors = range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1)
    rows = [r for r in ROWS if r.debug]
    width = max(len(r.member) for r in rows)
    out = ["#define DEBUG_ROWS(X) \\"]
    for i, r in enumerate(rows):
        # Only the free-threaded build has all members.
        cells = [str(columns[Build(MINOR_MAX, True)][f"align:{r.member}"])]
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
 * One column per version, with "t" for free-threaded builds. NONE, or BIG for uint32_t, marks a
 * member that a version does not have. The offsets are the same on x86-64 and aarch64 (LP64).
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
        out.append(f"#define {column_name(build)}(m, {names}) .m = (c{i}),\n")
    out.append("\nconst struct gsp_py_layout gsp_py__layouts[] = {\n")
    out += [layout_entry(b, columns[b]["version"]) for b in BUILDS]
    out.append("};\n\nconst size_t gsp_py__layout_count = GSP_COUNT(gsp_py__layouts);\n\n")

    out.append(
        "/* The alignment of a field, its position in _Py_DebugOffsets and that of the size that\n"
    )
    out.append(f" * bounds it, for {', '.join(f'3.{m}' for m in minors)}. */\n")
    out.append("\n".join(emit_debug(columns)) + "\n\n")
    names = ", ".join(f"c{i}" for i in range(2 * len(minors)))
    for i, m in enumerate(minors):
        out.append(f"#define DEBUG_3_{m}(m, a, {names}) FIELD(m, a, c{2 * i}, c{2 * i + 1})\n")
    out.append(
        "#define FIELD(m, align, at, bound) {offsetof(struct gsp_py_layout, m), "
        "sizeof(((struct gsp_py_layout *)0)->m), (align), (at), (bound)},\n\n"
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
    """Parses the columns of a generated file: the inverse of emit()."""
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
        if r is None or len(values) % 2 == 0:
            continue
        columns[Build(MINOR_MAX, True)][f"align:{member}"] = int(values[0])
        for minor in range(MINOR_DEBUG_OFFSETS, MINOR_MAX + 1):
            i = 1 + 2 * (minor - MINOR_DEBUG_OFFSETS)
            if i + 1 >= len(values):
                continue
            for path, cell in ((r.debug, values[i]), (r.debug_size, values[i + 1])):
                if cell.isdigit():
                    columns[Build(minor, False)][f"debug:{path}"] = int(cell)
    entry = r"^    \{(\d+), (\d+), (\d+), debug_3_"
    for minor, size, ft in re.findall(entry, debug_part, re.M):
        column = columns[Build(int(minor), False)]
        column["debug:"] = int(size)
        column["debug:free_threaded"] = int(ft)
    return columns


def differences(
    build: Build, measured: dict[str, int], stored: dict[str, int], same_patch: bool
) -> list[str]:
    """The differences between a table and the headers.

    In another patch release, members that the target describes itself may differ.
    """
    found = []
    for r in ROWS:
        described = has_debug(r, build.minor) and not same_patch
        if not described and measured[r.member] != stored.get(r.member):
            found.append(f"{r.member}: headers {measured[r.member]}, table {stored.get(r.member)}")
    if not build.free_threaded:
        for key, value in measured.items():
            if key.startswith("debug:") and key in stored and stored[key] != value:
                found.append(f"{key}: headers {value}, table {stored[key]}")
    return found


def builds_of(headers: Path) -> list[Build]:
    """Headers of an ordinary build also serve for the free-threaded one, but not vice versa."""
    minor, free_threaded = minor_of(headers), headers.name.endswith("t")
    return [b for b in BUILDS if b.minor == minor and (b.free_threaded or not free_threaded)]


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
        print("gen_offsets: no internal headers found; only the format was checked")
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
            print(f"gen_offsets: no headers of {build.label} and no previous table")
            return 1
        if build not in seen:
            print(f"gen_offsets: no headers of {build.label}; keeping its table")
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
