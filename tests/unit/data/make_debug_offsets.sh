#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# make_debug_offsets.sh -- extracts the first bytes of _PyRuntime from an interpreter's file.
#
#   make_debug_offsets.sh ELF > debug_offsets_3.X.bin
#   make_debug_offsets.sh --headers INCLUDE_DIR > debug_offsets_3.Xt.bin
#
# The second form compiles the free-threaded struct from the headers, for versions without an
# installed free-threaded build.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$1" = --headers ]; then
    cat >"$work/main.c" <<'C'
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stdio.h>
#include "internal/pycore_code.h"
#include "internal/pycore_debug_offsets.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_llist.h"
#include "internal/pycore_runtime.h"
#if __has_include("internal/pycore_interpframe_structs.h")
#include "internal/pycore_interpframe_structs.h"
#endif
int main(void)
{
    static const _Py_DebugOffsets offsets = _Py_DebugOffsets_INIT(_Py_Debug_Cookie);
    return fwrite(&offsets, sizeof(offsets), 1, stdout) != 1;
}
C
    cc -w -DPy_GIL_DISABLED=1 -I"$2" -I"$2/internal" -idirafter "$2/.." "$work/main.c" \
        -o "$work/main"
    "$work/main"
else
    objcopy -O binary --only-section=.PyRuntime "$1" "$work/runtime"
    head -c 1024 "$work/runtime"
fi
