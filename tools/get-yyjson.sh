#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-yyjson.sh -- fetches yyjson into subprojects/yyjson, unless the system has a package of it.
#
# Debian has it from trixie on. On an older Debian, fetches the source package of a newer suite
# from this machine's mirror, with a private apt state, and compares it with the checksums below.
set -eu

cd "$(dirname "$0")/.."
target=subprojects/yyjson
recipe=subprojects/packagefiles/yyjson/meson.build

# suite and sha256 of the original tarball, in order of preference
pins='
trixie ae6fde69a193e10afab426ef13f113d6903446405f9db9ee98bfb572bd6c961a
sid    40828f17feddccf475c164d1aa913476656b4263ab9896392106e4517d5b69dc
'

if pkg-config --exists yyjson 2>/dev/null; then
    exit 0
fi
if [ -f "$target/yyjson.c" ]; then
    cmp -s "$recipe" "$target/meson.build" || cp "$recipe" "$target/"
    exit 0
fi

give_up() {
    echo "get-yyjson: $1" >&2
    echo "  install yyjson with its pkg-config file, or put yyjson.c and yyjson.h into $target" >&2
    exit 69
}

command -v apt-get >/dev/null || give_up "neither yyjson nor apt-get is installed"

# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$codename" '$1 == release { print $2; exit }')
[ -n "$mirror" ] || give_up "apt has no mirror for '$codename'"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
options=
[ -f "$keyring" ] && options="[signed-by=$keyring]"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As root, apt fetches files as another user, which needs access.
chmod 755 "$work"

private_apt() {
    state=$1
    shift
    apt-get -q -o "Dir::State=$state" -o "Dir::State::status=$state/status" \
        -o "Dir::Cache=$state/cache" -o "Dir::Etc::SourceList=$state/sources.list" \
        -o Dir::Etc::SourceParts=- -o Acquire::Languages=none \
        -o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 \
        -o APT::Sandbox::User=root "$@"
}

# Prints the path of a tarball with a pinned checksum; fails if the suite has none.
fetch() {
    suite=$1
    state=$work/$suite
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/source"
    : >"$state/status"
    echo "deb-src $options $mirror $suite main" >"$state/sources.list"
    private_apt "$state" update >"$state/log" 2>&1 || return 1
    # The packaging files are not needed.
    (cd "$state/source" && private_apt "$state" --tar-only --download-only source yyjson) \
        >>"$state/log" 2>&1 || return 1
    for tarball in "$state"/source/*.orig.tar.*; do
        sum=$(sha256sum "$tarball" | cut -d' ' -f1)
        if echo "$pins" | grep -q " $sum\$"; then
            echo "$tarball"
            return 0
        fi
        echo "$tarball has the unknown checksum $sum" >>"$state/log"
    done
    return 1
}

tarball=
for suite in $(echo "$pins" | awk 'NF { print $1 }'); do
    if tarball=$(fetch "$suite"); then
        break
    fi
    tail -n 3 "$work/$suite/log" >&2
done
[ -n "$tarball" ] || give_up "no suite has a source package with a pinned checksum"

mkdir "$work/new" "$work/unpacked"
tar -xf "$tarball" -C "$work/unpacked" --strip-components=1 --wildcards \
    '*/src/yyjson.c' '*/src/yyjson.h' '*/LICENSE'
cp "$work/unpacked/src/yyjson.c" "$work/unpacked/src/yyjson.h" "$work/unpacked/LICENSE" "$work/new/"
version=$(sed -n 's/^#define YYJSON_VERSION_STRING *"\(.*\)"/\1/p' "$work/new/yyjson.h")
cp "$recipe" "$work/new/"
chmod 755 "$work/new"
# A concurrent run may have finished first.
mv -T "$work/new" "$target" 2>/dev/null || [ -f "$target/yyjson.c" ]
echo "yyjson $version is in $target"
