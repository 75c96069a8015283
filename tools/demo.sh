#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh -- runs the example training script with everything on, and names its report.
set -eu

cd "$(dirname "$0")/.."

# Interpreters of the machine, of pyenv and of conda; those of an active environment come first.
candidates() {
    echo python3
    for candidate in /usr/bin/python3 /usr/local/bin/python3 /opt/*/bin/python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "$HOME"/*conda*/bin/python3 "$HOME"/*conda*/envs/*/bin/python3; do
        [ ! -x "$candidate" ] || echo "$candidate"
    done
}

# The first that has a module.  The package needs 3.8.
find_python() {
    candidates | while read -r candidate; do
        if "$candidate" -c "import sys; assert sys.version_info >= (3, 8); import $1" 2>/dev/null
        then
            echo "$candidate"
            break
        fi
    done
}

# The interpreter with the most to show, unless one was named.
python=${PYTHON:-}
for module in torch numpy sys; do
    [ -n "$python" ] || python=$(find_python "$module")
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
