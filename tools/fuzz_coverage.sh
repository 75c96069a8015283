#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fuzz_coverage.sh [CORPUS] -- replays the corpora of all fuzz targets and prints the line coverage
# of each file and folder in tests/fuzz/parsers.txt. CORPUS has a folder per target (default: the
# corpora of the repository and those that `make prove ROWS=fuzz` has collected).
set -eu

cd "$(dirname "$0")/.."
state=${GSPROF_PROVE_FUZZ:-${XDG_STATE_HOME:-$HOME/.local/state}/gsprof-prove/fuzz}
collected=${1:-$state/corpus}
flags="-fprofile-instr-generate -fcoverage-mapping"

if [ ! -f build-coverage/build.ninja ]; then
    CC=clang meson setup build-coverage -Dbuildtype=debug -Dc_args="$flags" -Dc_link_args="$flags" >/dev/null
fi
names=$(sed -n "s/^  '\([a-z_]*\)': \[[a-z_]*_dep\],\$/\1/p" tests/fuzz/meson.build)
programs=
objects=
for name in $names; do
    programs="$programs tests/fuzz/replay_$name"
    objects="$objects -object build-coverage/tests/fuzz/replay_$name"
done
# shellcheck disable=SC2086 # lists of words
ninja -C build-coverage $programs >/dev/null

rm -rf build-coverage/profiles
mkdir build-coverage/profiles
for name in $names; do
    for folder in "tests/fuzz/corpus/$name" "$collected/$name"; do
        [ -d "$folder" ] || continue
        LLVM_PROFILE_FILE="build-coverage/profiles/$name-%p.profraw" \
            "build-coverage/tests/fuzz/replay_$name" "$folder" >/dev/null 2>&1 ||
            echo "$name: cannot replay $folder" >&2
    done
done
llvm-profdata merge -sparse build-coverage/profiles/*.profraw -o build-coverage/all.profdata
files=$(sed -n 's/^\(src[^ ]*\) [^-].*$/\1/p' tests/fuzz/parsers.txt)
# shellcheck disable=SC2086
llvm-cov export -summary-only -instr-profile build-coverage/all.profdata $objects $files |
    python3 -c '
import json, os, sys
files = json.load(sys.stdin)["data"][0]["files"]
folders = {}
def add(name, count, covered):
    sums = folders.setdefault(name, [0, 0])
    sums[0] += count
    sums[1] += covered
def show(name, count, covered):
    share = 100 * covered / max(count, 1)
    print("%-36s %5d of %5d lines %5.1f %%" % (name, covered, count, share))
for entry in sorted(files, key=lambda entry: entry["filename"]):
    lines = entry["summary"]["lines"]
    name = os.path.relpath(entry["filename"])
    show(name, lines["count"], lines["covered"])
    add(os.path.dirname(name) + "/", lines["count"], lines["covered"])
    add("total", lines["count"], lines["covered"])
print()
for name in sorted(folders):
    show(name, *folders[name])
'
