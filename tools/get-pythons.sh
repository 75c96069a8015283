#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-pythons.sh -- fetches newer versions of CPython than this machine has, for tests.
#
# Unpacks Debian's 3.13, 3.14 and 3.15 (interpreter and headers) into a folder, and makes each
# binary use the libc of its release, so that it runs on an older system. Needs no root
# privileges. Skips interpreters that exist.
#
#   tools/get-pythons.sh [--free-threaded] [DIR]
#
# --free-threaded also builds 3.13t, 3.14t and 3.15t from Debian's sources (minutes each).
# DIR defaults to ${XDG_CACHE_HOME:-~/.cache}/gsprof/pythons.
# Prints the path of every interpreter, one per line, to stdout and everything else to stderr.
set -eu

log() {
    echo "get-pythons: $*" >&2
}

die() {
    log "$*"
    exit 1
}

# Finds the Debian mirror of this machine.
find_mirror() {
    mirror=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' \
        2>/dev/null | sed -n 's/^Debian|//p' | head -n 1)
    if [ -z "$mirror" ]; then
        mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
            sed -n -e 's/^URIs:[ ]*//p' -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' |
            grep '/debian/\{0,1\}$' | head -n 1)
    fi
    [ -n "$mirror" ] || die "no Debian mirror in this machine's apt configuration"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keyring" ] || die "no $keyring (package debian-archive-keyring)"
}

# apt SUITE ARGS...: runs apt-get with a private state that has only that suite.
apt() {
    suite=$1
    shift
    state=$dir/.apt/$suite
    # Fetch the index in every run, because a moving suite removes old files.
    if [ ! -e "$state/fresh.$$" ]; then
        mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/etc"
        : >"$state/status"
        for kind in deb deb-src; do
            echo "$kind [signed-by=$keyring] $mirror $suite main"
        done >"$state/sources.list"
        cat >"$state/apt.conf" <<CONF
Dir::State "$state";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
Dir::Etc::sourcelist "$state/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Get::List-Cleanup "false";
APT::Sandbox::User "";
CONF
        APT_CONFIG=$state/apt.conf apt-get -q update >&2
        rm -f "$state"/fresh.*
        : >"$state/fresh.$$"
    fi
    APT_CONFIG=$state/apt.conf apt-get -q -y "$@" >&2
}

# patchelf runs on this machine, so it comes from the machine's suite.
get_patchelf() {
    if command -v patchelf >/dev/null; then
        patchelf=$(command -v patchelf)
        return
    fi
    patchelf=$dir/.tools/usr/bin/patchelf
    if [ ! -x "$patchelf" ]; then
        # shellcheck disable=SC1091 # a file of the system
        own_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
        [ -n "$own_suite" ] || die "patchelf is not installed, and this is not a Debian release"
        apt "$own_suite" --no-install-recommends --download-only install patchelf
        mkdir -p "$dir/.tools"
        dpkg-deb -x "$(ls "$dir/.apt/$own_suite"/cache/archives/patchelf_*.deb)" "$dir/.tools"
    fi
}

# get VERSION SUITE: creates DIR/VERSION/bin/pythonVERSION and DIR/VERSION/root.
get() {
    version=$1
    suite=$2
    home=$dir/$version
    exe=$home/bin/python$version
    if [ ! -x "$exe" ]; then
        log "fetching python$version from $suite"
        rm -rf "$home" "$dir/.apt/$suite/cache/archives"
        mkdir -p "$dir/.apt/$suite/cache/archives/partial"
        apt "$suite" --no-install-recommends --download-only install \
            base-files "python$version" "libpython$version-dev"
        # The packages of these suites expect a merged /usr.
        root=$home/root
        mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64"
        for folder in bin sbin lib lib64; do
            ln -s "usr/$folder" "$root/$folder"
        done
        for deb in "$dir/.apt/$suite"/cache/archives/*.deb; do
            dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink
        done
        point_at_own_libc "$root" "$root/usr/bin/python$version"
        "$root/usr/bin/python$version" -c 'import ctypes, hashlib, json, ssl, threading'
        mkdir -p "$home/bin"
        ln -s "../root/usr/bin/python$version" "$exe"
        rm -rf "$dir/.apt/$suite/cache/archives"
    fi
    echo "$exe"
}

# DT_RPATH, not DT_RUNPATH, because it also applies to libraries of extension modules.
point_at_own_libc() {
    interp=$1$("$patchelf" --print-interpreter "$2")
    libs=$1/usr/lib/$(basename "$(dirname "$(ls "$1"/usr/lib/*/libc.so.6)")")
    "$patchelf" --set-interpreter "$interp" --set-rpath "$libs" --force-rpath "$2"
}

# get_source VERSION SUITE FOLDER: fetches the newest source package that the mirror really has; a
# suite may list others.
get_source() {
    (
        cd "$3"
        apt "$2" check
        APT_CONFIG=$dir/.apt/$2/apt.conf apt-cache showsrc "python$1" |
            sed -n 's/^Version: //p' | sort -rV >versions
        while read -r release; do
            apt "$2" source --download-only "python$1=$release" && exit 0
        done <versions
        exit 1
    )
}

# build VERSION SUITE: builds DIR/VERSIONt/bin/pythonVERSIONt, without a GIL.
build() {
    version=$1
    suite=$2
    home=$dir/${version}t
    exe=$home/bin/python${version}t
    if [ ! -x "$exe" ]; then
        log "building python${version}t from the source package of $suite"
        work=$dir/.build/$version
        rm -rf "$work" "$home"
        mkdir -p "$work/src"
        if ! get_source "$version" "$suite" "$work"; then
            log "$suite has no source package of python$version: skipping ${version}t"
            return
        fi
        tar -xf "$(ls "$work/python${version}_"*.orig.tar.*[!c])" -C "$work/src" --strip-components=1
        (
            cd "$work/src"
            ./configure --disable-gil --prefix="$home" --without-ensurepip
            make -j2
            make install DESTDIR="$work/installed"
        ) >"$work/log" 2>&1 || die "build of ${version}t failed, see $work/log"
        # Atomic, so that an interrupted build is not mistaken for a complete one.
        mv "$work/installed$home" "$home"
        rm -rf "$work"
    fi
    echo "$exe"
}

free_threaded=no
dir=${XDG_CACHE_HOME:-$HOME/.cache}/gsprof/pythons
for arg in "$@"; do
    case $arg in
    --free-threaded) free_threaded=yes ;;
    -h | --help)
        sed -n '4,/^set/{s/^# \{0,1\}//p;}' "$0"
        exit 0
        ;;
    -*) die "unknown option $arg" ;;
    *) dir=$arg ;;
    esac
done
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "needs apt-get and dpkg-deb"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

find_mirror
get_patchelf
get 3.13 trixie
get 3.14 sid
get 3.15 sid
if [ "$free_threaded" = yes ]; then
    build 3.13 trixie
    build 3.14 sid
    build 3.15 sid
fi
