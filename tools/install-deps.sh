#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install-deps.sh [GROUP...] -- installs the missing Debian packages for groups of make targets.
# Groups: build (default), lint, test, aarch64, docs, demo, bench.
#
# On another distribution, prints the missing packages and exits with status 69.
set -eu

# The sanitizers are in a package with clang's version; without clang, use Debian's default.
sanitizers=libclang-rt-dev
if command -v clang >/dev/null; then
    version=$(clang -dumpversion)
    sanitizers=libclang-rt-${version%%.*}-dev
fi

# Packages and how to detect them: cmd:PROGRAM, pc:PKG-CONFIG-NAME, py:MODULE, file:PATH,
# lib:NAME, san:SANITIZER (whether clang can link a program with it).
packages() {
    case $1 in
    build) echo '
        gcc                     cmd:cc
        libc6-dev               file:/usr/include/stdio.h
        meson                   cmd:meson
        ninja-build             cmd:ninja
        pkg-config              cmd:pkg-config
        python3                 cmd:python3
        python3-dev             pc:python3
        xz-utils                cmd:xz
        libelf-dev              pc:libelf
        libdw-dev               pc:libdw
        liblzma-dev             pc:liblzma
        libiberty-dev           file:/usr/include/libiberty/demangle.h
        zlib1g-dev              pc:zlib
        libzstd-dev             pc:libzstd
        libprotobuf-c-dev       pc:libprotobuf-c
        libncurses-dev          pc:ncursesw
        libedit-dev             pc:libedit
        libmicrohttpd-dev       pc:libmicrohttpd
        libcurl4-gnutls-dev     pc:libcurl
        protobuf-c-compiler     cmd:protoc-c
        nodejs                  cmd:node
        npm                     cmd:npm' ;;
    lint) echo '
        clang                   cmd:clang
        '"$sanitizers"' san:address,undefined
        clang-format            cmd:clang-format
        clang-tidy              cmd:clang-tidy
        cppcheck                cmd:cppcheck
        codespell               cmd:codespell
        shellcheck              cmd:shellcheck
        git                     cmd:git
        black                   py:black
        mypy                    py:mypy
        python3-flake8          py:flake8
        python3-pytest          py:pytest' ;;
    test) echo '
        clang                   cmd:clang
        '"$sanitizers"' san:thread
        g++                     cmd:g++
        python3-pytest          py:pytest
        python3-pytest-xdist    py:xdist
        python3-ipython         py:IPython
        python3-ipykernel       py:ipykernel
        python3-nbclient        py:nbclient
        binutils                cmd:objdump
        python3-requests        py:requests
        python3-jsonschema      py:jsonschema
        python3-numpy           py:numpy
        python3-torch           py:torch
        golang-go               cmd:go
        gdb                     cmd:gcore
        python3-greenlet        py:greenlet
        python3-gevent          py:gevent
        chromium                cmd:chromium
        tmux                    cmd:tmux
        npm                     cmd:npm
        python3-pip             py:pip
        python3-venv            py:ensurepip
        mypy                    py:mypy
        fish                    cmd:fish
        zsh                     cmd:zsh
        libjemalloc2            lib:libjemalloc.so.2
        gcc-aarch64-linux-gnu   cmd:aarch64-linux-gnu-gcc
        libc6-dev-arm64-cross   file:/usr/aarch64-linux-gnu/include/stdio.h
        qemu-user-static        cmd:qemu-aarch64-static' ;;
    aarch64) echo '
        gcc-aarch64-linux-gnu   cmd:aarch64-linux-gnu-gcc
        libc6-dev-arm64-cross   file:/usr/aarch64-linux-gnu/include/stdio.h
        qemu-user-static        cmd:qemu-aarch64-static
        qemu-system-arm         cmd:qemu-system-aarch64' ;;
    docs) echo '
        python3-sphinx          py:sphinx
        python3-myst-parser     py:myst_parser
        python3-sphinx-rtd-theme py:sphinx_rtd_theme' ;;
    demo) echo '
        python3-numpy           py:numpy' ;;
    bench) echo '
        wrk                     cmd:wrk
        python3-numpy           py:numpy' ;;
    *)
        echo "install-deps: unknown group: $1 (build, lint, test, aarch64, docs, demo, bench)" >&2
        exit 64
        ;;
    esac
}

# Debian's modules are for the system's interpreter.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

is_installed() {
    case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    file:*) [ -e "${1#file:}" ] ;;
    lib:*) [ -n "$(find /usr/lib -maxdepth 2 -name "${1#lib:}" -print -quit)" ] ;;
    san:*) echo 'int main(void) { return 0; }' |
        clang -fsanitize="${1#san:}" -x c -o /dev/null - 2>/dev/null ;;
    py:*) "$python" -c "import importlib.util as u, sys
sys.exit(u.find_spec('${1#py:}') is None)" 2>/dev/null ;;
    esac
}

[ $# -gt 0 ] || set -- build
missing=
for group in "$@"; do
    list=$(packages "$group")
    while read -r package check; do
        [ -n "$package" ] || continue
        case " $missing " in *" $package "*) continue ;; esac
        is_installed "$check" || missing="$missing $package"
    done <<LIST
$list
LIST
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "install-deps: apt-get does not exist; install these (names as in Debian):" >&2
    echo " $missing" >&2
    exit 69
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "install-deps: missing:$missing" >&2
        echo "  run: sudo apt-get install -y --no-install-recommends$missing" >&2
        exit 69
    fi
    sudo='sudo -n'
fi
echo "install-deps: installing$missing"
# Continue if a third-party list is broken.
$sudo apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null || true
# shellcheck disable=SC2086 # a list of words
if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
    --no-install-recommends install $missing >/dev/null; then
    echo "install-deps: apt-get cannot install$missing" >&2
    exit 69
fi
