#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-arm64.sh -- fetches the libraries of gsprof for aarch64, for tests.
#
# Unpacks Debian's arm64 packages into a folder, a system root for the cross compiler and for
# qemu. Installs nothing and needs no root privileges. Does nothing if the folder exists.
#
#   tools/get-arm64.sh [--kernel] [DIR]
#
# With --kernel, unpacks a kernel to boot in qemu instead. DIR defaults to
# ${XDG_CACHE_HOME:-~/.cache}/gsprof/arm64. Prints the path of the system root, or of the folder
# with boot/vmlinuz-*, to stdout and everything else to stderr.
set -eu

# Increase this number if the list below changes.
edition=3
packages='libc6-dev libelf-dev libdw-dev liblzma-dev libiberty-dev zlib1g-dev libzstd-dev
    libprotobuf-c-dev libncurses-dev libedit-dev libmicrohttpd-dev libcurl4-gnutls-dev'

die() {
    echo "get-arm64: $*" >&2
    exit 1
}

dir=${XDG_CACHE_HOME:-$HOME/.cache}/gsprof/arm64
name=root-$edition
case ${1:-} in
--kernel)
    packages=linux-image-arm64
    name=kernel-1
    shift
    ;;
esac
case ${1:-} in
-h | --help)
    sed -n '4,/^set/{s/^# \{0,1\}//p;}' "$0"
    exit 0
    ;;
-*) die "unknown option $1" ;;
?*) dir=$1 ;;
esac
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
root=$dir/$name
if [ -d "$root" ]; then
    echo "$root"
    exit 0
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "needs apt-get and dpkg-deb"

# The mirror and release of this machine, because the cross compiler matches its libc.
mirror=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian|//p' | head -n 1)
[ -n "$mirror" ] || die "no Debian mirror in this machine's apt configuration"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || die "no $keyring (package debian-archive-keyring)"
# shellcheck disable=SC1091 # a file of the system
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$suite" ] || die "not a Debian release"

# Use a temporary name, so that concurrent or interrupted runs leave no incomplete root.
work=$(mktemp -d "$dir/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
: >"$work/status"
echo "deb [signed-by=$keyring arch=arm64] $mirror $suite main" >"$work/sources.list"
cat >"$work/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$work";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "";
CONF
export APT_CONFIG="$work/apt.conf"
apt-get -q update >&2
# shellcheck disable=SC2086 # a list of words
apt-get -q -y --no-install-recommends --download-only install $packages >&2
mkdir "$work/tree"
for deb in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$deb" "$work/tree"
done
rm -rf "$work/tree/lib/modules" # large; the kernel needs none to boot
# Absolute links must point into the root.
find "$work/tree" -type l -lname '/*' | while read -r link; do
    ln -sfn "$root$(readlink "$link")" "$link"
done
mv -T "$work/tree" "$root" 2>/dev/null || [ -d "$root" ] || die "cannot create $root"
echo "$root"
