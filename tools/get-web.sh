#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-web.sh OUT.html [DEPFILE] -- builds the report's page (web/) into one HTML file.
# get-web.sh --modules [FOLDER] -- prints where the npm packages of a folder (web) are.
# get-web.sh --check -- types and format of web/, and format of the browser's tests.
#
# Packages are those of the folder's package-lock.json, fetched by npm from whatever registry this
# machine uses and compared with the checksums in it; none of their install scripts is run.  They
# are kept outside the tree, by the hash of the lock file, in ${XDG_CACHE_HOME:-~/.cache}/gsprof/web
# (or GSPROF_WEB_CACHE), and so is the page, by the hash of everything it is made of: what did not
# change is not built again, and what is there needs no network.
set -eu

die() {
    echo "get-web: $*" >&2
    exit 69
}

no_packages() {
    echo "get-web: $*" >&2
    echo "  without network: build once elsewhere, bring ~/.cache/gsprof/web along, and name the" >&2
    echo "  folder in GSPROF_WEB_CACHE" >&2
    exit 69
}

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${GSPROF_WEB_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/gsprof/web}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
# new_work: a folder beside what it will become, so that it appears whole or not at all.
new_work() {
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/new.XXXXXX")
}

hash_of() {
    sha256sum | cut -c1-16
}

# modules FOLDER: fetches its packages if need be; $packages is where they are.
modules() {
    kept=$cache/modules-$(cat "$1/package-lock.json" "$1/package.json" | hash_of)
    if [ ! -d "$kept/node_modules" ]; then
        command -v npm >/dev/null || no_packages "no npm here, and no packages in $cache"
        new_work
        cp "$1/package.json" "$1/package-lock.json" "$work/"
        (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error \
            --cache "$work/npm" >log 2>&1) || {
            tail -n 5 "$work/log" >&2
            no_packages "npm could not fetch the packages of $(basename "$1")"
        }
        rm -rf "$work/npm" "$work/log"
        # A second run at the same time may have been faster.
        mv -T "$work" "$kept" 2>/dev/null || rm -rf "$work"
        work=
        [ -d "$kept/node_modules" ] || die "cannot make $kept"
    fi
    packages=$kept/node_modules
}

# sources: what the page is made of, one name a line.
sources() {
    (cd "$root/web" && find . -name node_modules -prune -o -type f -print | LC_ALL=C sort)
}

# lay_out: a copy of web/ with its packages beside it, in $work.
lay_out() {
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
    lay_out
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
# Who builds packages may have no home.
mkdir -p "$cache" 2>/dev/null || cache=$(dirname "$out")/web-cache
page=$cache/page-$(sources | (cd "$root/web" && xargs sha256sum) | hash_of).html
if [ ! -f "$page" ]; then
    lay_out
    (cd "$work/web" && node node_modules/vite/bin/vite.js build --logLevel warn --outDir "$work/dist" \
        >"$work/log" 2>&1) || {
        cat "$work/log" >&2
        die "vite could not build web/"
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
