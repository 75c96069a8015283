#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-duckdb.sh -- fetches DuckDB's library and C header into subprojects/duckdb, unless the
# system has them.
#
# Debian has no package of DuckDB. Its authors publish the library in a package for Node.js, which
# npm fetches from the configured registry. No code of it is run, and its files must match the
# checksums below ("integrity" in npm, here in hexadecimal).
set -eu

cd "$(dirname "$0")/.."
target=subprojects/duckdb
recipe=subprojects/packagefiles/duckdb/meson.build

# machine, package of the library, sha512
pins='
x86_64  @duckdb/node-bindings-linux-x64@1.5.6-r.1   21772b64913a904a8cd19e30c1d5671811d7fdface4b7dd53cd0300d743f43e16cf386f4e7c41ef78721ac208870d2651bc6375072145387817824315b998dd5
aarch64 @duckdb/node-bindings-linux-arm64@1.5.5-r.5 09a7c7d8022f5eda700f29c6dca07fe2e10e1d11a516807b6ae091308c07dc128d2286ec00d5792d2a43277b5fc9108522c2ba7bc013d5eb1e5959eed83bf773
'
# The header. The libraries above are newer and have all of its functions.
header_package=duckdb@1.4.4
header_sum=844249e61c9517454b8f776638ba6c5ab411d1bddde1892ab72826ea25178c72430e74aa83f5122b171be6abcdace84560f824b5ac94e9d5c2b603ea7269a9a2

if [ -f /usr/include/duckdb.h ] && ldconfig -p 2>/dev/null | grep -q 'libduckdb\.so'; then
    exit 0
fi
if [ -f "$target/duckdb.h" ] && [ -f "$target/libduckdb.so" ]; then
    cmp -s "$recipe" "$target/meson.build" || cp "$recipe" "$target/"
    exit 0
fi

give_up() {
    echo "get-duckdb: $1" >&2
    echo "  put libduckdb.so (1.4 or newer) and duckdb.h into $target, or install them" >&2
    exit 69
}

machine=$(uname -m)
package=$(echo "$pins" | awk -v machine="$machine" '$1 == machine { print $2 }')
library_sum=$(echo "$pins" | awk -v machine="$machine" '$1 == machine { print $3 }')
[ -n "$package" ] || give_up "no library available for $machine"
command -v npm >/dev/null || give_up "neither DuckDB nor npm is installed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch PACKAGE SHA512 FOLDER MEMBER...: unpacks some files of a package.
fetch() {
    name=$1
    sum=$2
    folder=$work/$3
    shift 3
    mkdir "$folder"
    (cd "$folder" && npm pack --silent "$name" >/dev/null 2>"$folder/log") || {
        tail -n 3 "$folder/log" >&2
        give_up "npm cannot fetch $name"
    }
    [ "$(sha512sum "$folder"/*.tgz | cut -d' ' -f1)" = "$sum" ] ||
        give_up "$name has the wrong checksum"
    tar -xzf "$folder"/*.tgz -C "$folder" "$@"
}

fetch "$package" "$library_sum" library package/libduckdb.so package/LICENSE
fetch "$header_package" "$header_sum" header package/src/duckdb/src/include/duckdb.h

mkdir "$work/new"
cp "$work/library/package/libduckdb.so" "$work/library/package/LICENSE" "$work/new/"
cp "$work/header/package/src/duckdb/src/include/duckdb.h" "$recipe" "$work/new/"
chmod 755 "$work/new" "$work/new/libduckdb.so"
# A concurrent run may have finished first.
mv -T "$work/new" "$target" 2>/dev/null || [ -f "$target/libduckdb.so" ]
echo "DuckDB ($package) is in $target"
