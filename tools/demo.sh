#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh -- records the example training script and shows where its time went.
set -eu

cd "$(dirname "$0")/.."
# The interpreter with the most to show, unless one was named.
python=${PYTHON:-}
for module in torch numpy sys; do
    for candidate in python3 /usr/bin/python3; do
        if [ -z "$python" ] && "$candidate" -c "import $module" 2>/dev/null; then
            python=$candidate
        fi
    done
done
gsprof=build/gsprof
out=build/demo

mkdir -p "$out"
echo "== recording $python examples/train.py"
"$gsprof" record -o "$out/profile.gsp" --force -- "$python" examples/train.py
echo
"$gsprof" report "$out/profile.gsp"
"$gsprof" convert -i "$out/profile.gsp" -o "$out/profile.svg" --force
"$gsprof" convert -i "$out/profile.gsp" -o "$out/profile.json" --force
echo
echo "Open $out/profile.svg in a browser. Next, profile a process that already runs:"
echo "  $gsprof record -d 10 -o profile.svg -p PID"
