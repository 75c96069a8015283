#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-web.sh OUT.html [DEPFILE] -- builds the report page (web/) into one HTML file.
# get-web.sh --modules [FOLDER] -- prints the path of the npm packages of a folder (default: web).
# get-web.sh --check -- checks types and format of web/, and the format of tests/web/.
#
# npm fetches the packages of package-lock.json from the registry of this machine and compares them
# with the checksums in the file. Install scripts are not run. Packages and the page are cached in
# ${XDG_CACHE_HOME:-~/.cache}/gsprof/web (or GSPROF_WEB_CACHE), by the hash of the lock file and of
# all sources: an unchanged page is not built again, and cached packages need no network.
set -eu

die() {
    echo "get-web: $*" >&2
    exit 69
}

no_packages() {
    echo "get-web: $*" >&2
    echo "  without network: build on another machine, copy its ~/.cache/gsprof/web, and set" >&2
    echo "  GSPROF_WEB_CACHE to the copy" >&2
    exit 69
}

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${GSPROF_WEB_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/gsprof/web}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
# new_work: makes a temporary folder in the cache; a rename publishes it at once.
new_work() {
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/new.XXXXXX")
}

hash_of() {
    sha256sum | cut -c1-16
}

# modules FOLDER: fetches its packages if needed; sets $packages to their path.
modules() {
    kept=$cache/modules-$(cat "$1/package-lock.json" "$1/package.json" | hash_of)
    if [ ! -d "$kept/node_modules" ]; then
        command -v npm >/dev/null || no_packages "npm is not installed, and $cache has no packages"
        new_work
        cp "$1/package.json" "$1/package-lock.json" "$work/"
        (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error \
            --cache "$work/npm" >log 2>&1) || {
            tail -n 5 "$work/log" >&2
            no_packages "npm cannot fetch the packages of $(basename "$1")"
        }
        rm -rf "$work/npm" "$work/log"
        # A concurrent run may have been faster.
        mv -T "$work" "$kept" 2>/dev/null || rm -rf "$work"
        work=
        [ -d "$kept/node_modules" ] || die "cannot create $kept"
    fi
    packages=$kept/node_modules
}

# sources: prints the source files of the page, one per line.
sources() {
    (cd "$root/web" && find . -name node_modules -prune -o -type f -print | LC_ALL=C sort)
}

# copy_sources: copies web/ to $work and links its packages.
copy_sources() {
    modules "$root/web"
    new_work
    cp -R "$root/web" "$work/web"
    rm -rf "$work/web/node_modules"
    ln -s "$packages" "$work/web/node_modules"
}

case ${1:-} in
--modules)
    modules "$root/${2:-web}"
    echo "$packages"
    exit 0
    ;;
--check)
    copy_sources
    cp "$root"/tests/web/*.mjs "$work/web/"
    cd "$work/web"
    node node_modules/typescript/bin/tsc --noEmit --pretty false
    node node_modules/prettier/bin/prettier.cjs --log-level warn --check .
    exit 0
    ;;
-* | '')
    sed -n '4,/^set/{s/^# \{0,1\}//p;}' "$0" >&2
    exit 64
    ;;
esac

out=$1
# A package build may have no home directory.
mkdir -p "$cache" 2>/dev/null || cache=$(dirname "$out")/web-cache
page=$cache/page-$(sources | (cd "$root/web" && xargs sha256sum) | hash_of).html
if [ ! -f "$page" ]; then
    copy_sources
    (cd "$work/web" && node node_modules/vite/bin/vite.js build --logLevel warn --outDir "$work/dist" \
        >"$work/log" 2>&1) || {
        cat "$work/log" >&2
        die "vite cannot build web/"
    }
    mv "$work/dist/index.html" "$page"
fi
cmp -s "$page" "$out" || cp "$page" "$out"
if [ $# -gt 1 ]; then
    {
        printf '%s:' "$out"
        sources | sed "s|^\./| $root/web/|" | tr -d '\n'
        echo
    } >"$2"
fi
