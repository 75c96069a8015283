#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh -- profiles the example training script and prints the path of the report.
set -eu

cd "$(dirname "$0")/.."

# Interpreters of an active environment, of the system, of pyenv and of conda.
candidates() {
    echo python3
    for candidate in /usr/bin/python3 /usr/local/bin/python3 /opt/*/bin/python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "$HOME"/*conda*/bin/python3 "$HOME"/*conda*/envs/*/bin/python3; do
        [ ! -x "$candidate" ] || echo "$candidate"
    done
}

# Prints the first interpreter with a module. The package needs Python 3.8.
find_python() {
    candidates | while read -r candidate; do
        if "$candidate" -c "import sys; assert sys.version_info >= (3, 8); import $1" 2>/dev/null
        then
            echo "$candidate"
            break
        fi
    done
}

# Prefer an interpreter with PyTorch, then one with NumPy, unless PYTHON is set.
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
echo "Open the report in a browser: $PWD/$out/report.html"
echo "The last line of the program is the time it spent on its data; the verdict should agree."
echo "Apply the remedy and compare:"
echo "  TRAIN_CACHE=1 $gsprof run -o build/demo/cached -- $python examples/train.py"
echo "  $gsprof compare $out build/demo/cached"
echo "Profile a running process:"
echo "  $gsprof record -d 10 -o profile.svg -p PID"
