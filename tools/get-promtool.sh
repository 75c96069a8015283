#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# get-promtool.sh [DIR] -- prints the path of promtool, which checks the Prometheus format: an
# installed one, or that of Debian's package, unpacked into DIR (default:
# ${XDG_CACHE_HOME:-~/.cache}/gsprof/promtool).
#
# Does not install the package (20 MB), because that would start a server. apt checks its signature.
set -eu

die() {
    echo "get-promtool: $*" >&2
    exit 1
}

case ${1:-} in
-h | --help)
    sed -n '4,/^set/{s/^# \{0,1\}//p;}' "$0"
    exit 0
    ;;
-*) die "unknown option $1" ;;
esac
if command -v promtool; then
    exit 0
fi
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gsprof/promtool}
tool=$dir/usr/bin/promtool
if [ -x "$tool" ]; then
    echo "$tool"
    exit 0
fi
command -v apt-get >/dev/null || die "needs apt-get"
command -v dpkg-deb >/dev/null || die "needs dpkg-deb"

# Use a temporary name, so that concurrent or interrupted runs leave no incomplete folder.
mkdir -p "$(dirname "$dir")"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -q download prometheus >&2) || die "apt-get cannot download prometheus"
dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
mv -T "$work/root" "$dir" 2>/dev/null || [ -x "$tool" ] || die "cannot create $dir"
echo "$tool"
