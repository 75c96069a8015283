#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh [SECONDS [TARGET...]] -- runs each fuzz target with libFuzzer (default: 60 seconds).
#
# New inputs are written to build-fuzz/corpus/TARGET; the corpus of the repository is only read.
# Inputs that crash a target are written to build-fuzz/crash/.
set -eu

cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift

if [ ! -f build-fuzz/build.ninja ]; then
    CC=clang meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
fi
ninja -C build-fuzz

if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=tests/fuzz/leaks.txt:print_suppressions=0
failed=
mkdir -p build-fuzz/crash
for name in "$@"; do
    echo "== $name"
    mkdir -p "build-fuzz/corpus/$name"
    if ! "build-fuzz/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="build-fuzz/crash/$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"build-fuzz/$name.log" 2>&1; then
        failed="$failed $name"
        tail -n 40 "build-fuzz/$name.log"
    else
        grep -E 'number_of_executed_units|average_exec_per_sec|peak_rss' "build-fuzz/$name.log"
    fi
done
if [ -n "$failed" ]; then
    echo "fuzz: failed:$failed"
    exit 1
fi
