#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh -- runs the example training script with everything on, and names its report.
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
out=build/demo/run

mkdir -p build/demo
echo "== gsprof run -- $python examples/train.py"
"$gsprof" run -o "$out" --force -- "$python" examples/train.py
echo
echo "The report is $PWD/$out/report.html: open it in a browser."
echo "The program says how long it waited for its data, and the verdict found that from outside."
echo "Apply the remedy, and compare:"
echo "  TRAIN_CACHE=1 $gsprof run -o build/demo/cached -- $python examples/train.py"
echo "  $gsprof compare $out build/demo/cached"
echo "To profile a process that already runs:"
echo "  $gsprof record -d 10 -o profile.svg -p PID"
