# SPDX-License-Identifier: Apache-2.0
"""The checks of `make lint` that are ours reject what they must: each gets a small tree with one
fault."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, Tuple

import pytest

from support import PATIENCE_S, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import check_prose  # noqa: E402

Tree = Dict[str, str]
LAYERS = {"tools/layers.txt": "base:\ncli: base\n", "src/base/a.h": "", "src/base/a.c": ""}
CLI = {"src/cli/b.c": '#include "base/a.h"\n'}
PAGES = {
    "docs/index.md": "[page](page.md) [design](architecture.md)\n",
    "docs/formats.md": "",
    "docs/cli/gsprof.md": "",
    "docs/page.md": "# Title\n",
    "docs/architecture.md": "| `base/` | things (`a`) |\n",
    "src/base/a.c": "",
}


def check(script: str, tree: Tree, folder: Path) -> Tuple[int, str]:
    for name, text in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], timeout=PATIENCE_S, check=True)
    args = [str(folder / name) for name in tree] if script == "check_prose.py" else [str(folder)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / script), *args],
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, ""),
        ({"src/base/a.c": '#include "cli/b.h"\n'}, "base/ may not include cli/b.h"),
        ({"src/base/a.c": '#include "../cli/b.h"\n'}, "not ../cli/b.h"),
        ({"src/base/a.c": '#include "a.h"\n'}, "not a.h"),
        ({"src/cli/b.c": ""}, "cli/ does not use base/"),
        ({"src/new/c.c": ""}, "no line for new"),
        ({"tools/layers.txt": "base: cli\ncli: base\n"}, "cycle"),
        (
            {"src/base/a.c": "struct gsp_x {\n", "src/base/a.h": "struct gsp_x {\n"},
            "gsp_x is defined 2 times",
        ),
        (
            {"src/base/a.c": "struct x {\n", "src/base/a.h": "struct x {\n"},
            "x is defined 2 times",
        ),
    ],
)
def test_layers(changes: Tree, message: str, tmp_path: Path) -> None:
    status, text = check("check_layers.py", {**LAYERS, **CLI, **changes}, tmp_path)
    assert message in text and status == (1 if message else 0), text


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, ""),
        ({"docs/page.md": "[x](gone.md)\n"}, "docs/page.md:1: no such file: gone.md"),
        ({"docs/page.md": "[x](index.md#gone)\n"}, "no such heading"),
        ({"docs/page.md": "<img src=gone.png>\n"}, "no such file: gone.png"),
        ({"docs/other.md": ""}, "docs/other.md: not listed"),
        ({"docs/page.md": "See `src/base/gone.c`.\n"}, "no such file: src/base/gone.c"),
        ({"docs/page.md": "See `tools/gone.py`.\n"}, "no such file: tools/gone.py"),
        (
            {"src/base/a.c": "int x;\n/* see\n * gone.h */\n"},
            "src/base/a.c:2: no such file: gone.h",
        ),
        ({"docs/architecture.md": "| `base/` | (`gone`) |\n"}, "src/base/ has no file gone"),
    ],
)
def test_links(changes: Tree, message: str, tmp_path: Path) -> None:
    status, text = check("check_links.py", {**PAGES, **changes}, tmp_path)
    assert message in text and status == (1 if message else 0), text


@pytest.mark.parametrize(
    "name, caller, is_rejected",
    [
        ("gsp_ring__read", "ring", False),
        ("gsp_ring_read", "ring", True),
        ("gsp_ring_read", "store", False),
        ("gsp_ring__read", "store", True),
        ("gsp_read", "store", True),
        ("read_ring", "ring", True),
        ("gsp_agent_read", "store", True),
    ],
)
def test_names(name: str, caller: str, is_rejected: bool, tmp_path: Path) -> None:
    tree = {
        "src/ring/a.c": f"int {name}(void)\n{{\n}}\n/* {name} is also in store/. */\n",
        f"src/{caller}/b.c": f"static int x(void)\n{{\n    return {name}();\n}}\n",
        "src/store/c.c": f"/* {name} */\n",
    }
    status, text = check("check_names.py", tree, tmp_path)
    assert status == is_rejected and (name in text) == is_rejected, text


# One of the phrases, taken from the list because this file is checked too.
FIRST, SECOND = next(text for text in check_prose.PHRASES if re.fullmatch(r"\w+ \w+", text)).split()
REJECTED = f"{FIRST} {SECOND}"


@pytest.mark.parametrize(
    "name, text, is_rejected",
    [
        ("a.c", "/* The reader prints it. */\n", False),
        ("a.c", f"/* The reader {REJECTED}. */\n", True),
        ("a.c", f"/* The reader {FIRST}\n * {SECOND}. */\n", True),
        ("a.c", f'    "the reader {FIRST} "\n    "{SECOND}"\n', True),
        ("a.md", f"The reader {REJECTED}.\n", True),
        ("a.py", f'"""The reader {REJECTED}."""\n', True),
        ("a.ts", f"// The reader {REJECTED}.\n", True),
    ],
)
def test_prose(name: str, text: str, is_rejected: bool, tmp_path: Path) -> None:
    status, found = check("check_prose.py", {name: text}, tmp_path)
    assert status == is_rejected and (f"{name}:1: " in found) == is_rejected, found
