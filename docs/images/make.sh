#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# make.sh [RUN] -- takes the screenshots in this folder again, with build/gsprof.
#
# RUN is a run of examples/train.py; without it, one of 20 seconds is recorded. Needs chromium,
# tmux and aha.
set -eu

cd "$(dirname "$0")/../.."
images=docs/images
gsprof=$PWD/build/gsprof
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run=${1:-}
if [ -z "$run" ]; then
    run=$work/train
    TRAIN_SECONDS=20 "$gsprof" run -o "$run" -- "$python" examples/train.py
fi

# gsprof top in a terminal of 110 x 25.
TRAIN_SECONDS=30 "$python" examples/train.py >"$work/train.log" &
pid=$!
sleep 5
tmux -L gsprof-images -f /dev/null new-session -d -x 110 -y 25 \
    "env TERM=screen-256color $gsprof top -p $pid"
sleep 12
tmux -L gsprof-images capture-pane -e -N -p >"$work/top.ansi"
tmux -L gsprof-images send-keys q
wait "$pid"
{
    cat "$images/terminal.html"
    aha --no-header --stylesheet <"$work/top.ansi"
    echo '</pre>'
} >"$work/top.html"

modules=$(tools/get-web.sh --modules tests/web)
node "$images/make.mjs" "$modules" "$(command -v chromium)" "$run/report.html" "$work/top.html" \
    "$images"
