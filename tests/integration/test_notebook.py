# SPDX-License-Identifier: Apache-2.0
"""%%gsprof in IPython's shell, and in a notebook if nbclient is installed."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import pytest
from conftest import NEEDS_EXTENSION
from support import PACKAGE, PATIENCE_S, main_python


pytestmark = NEEDS_EXTENSION

CELL = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
burn(0.3)
answer = 42
answer + 1
"""

SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
steps = json.loads(sys.stdin.read())
results = []
for step in steps:
    with capture_output() as seen:
        result = shell.run_cell(step)
    results.append({
        "out": seen.stdout, "err": seen.stderr,
        "shown": [one.data for one in seen.outputs],
        "error": repr(result.error_before_exec or result.error_in_exec or ""),
    })
print(json.dumps({"results": results, "answer": shell.user_ns.get("answer")}))
"""


def shell(*steps: str, env: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
    """Runs cells with the extension loaded; returns their displays and output."""
    pytest.importorskip("IPython", reason="needs python3-ipython")
    whole = {**os.environ, "PYTHONPATH": str(PACKAGE), **(env or {})}
    done = subprocess.run(
        [main_python(), "-c", SHELL],
        input=json.dumps(["%load_ext gsprof", *steps]).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=whole,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: Dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    assert found["results"].pop(0)["error"] == "''"
    return found


def page_of(shown: Mapping[str, str]) -> str:
    found = re.fullmatch(r'<iframe [^>]* srcdoc="([^"]*)"></iframe>', shown["text/html"])
    assert found, shown["text/html"][:200]
    return html.unescape(found.group(1))


def test_cells_and_lines(tmp_path: Path) -> None:
    kept = tmp_path / "kept.html"
    found = shell(
        f"%%gsprof --rate 500 --height 300\n{CELL}",
        f"%gsprof -o {kept} burn(0.2)",
        "%%gsprof --text --cpu\nburn(0.2)\nraise KeyError('of the cell')",
    )
    cell, line, failed = found["results"]
    assert found["answer"] == 42 and cell["error"] == "''"
    report = cell["shown"][-1]
    assert "burn" in report["text/plain"] and 'height="300"' in report["text/html"]
    page = page_of(report)
    assert page.lower().startswith("<!doctype html>") and "burn" in page
    assert "43" in cell["out"], "the last expression's value is shown"
    assert line["error"] == "''" and "burn" in kept.read_text()
    assert page_of(line["shown"][-1]) == kept.read_text()
    # The report is shown even though the cell failed.
    assert "KeyError" in failed["error"] and "burn" in failed["shown"][-1]["text/plain"]
    assert "text/html" not in failed["shown"][-1]


def test_invalid_use_and_errors() -> None:
    found = shell(
        "%gsprof --fast 1 + 1",
        "%%gsprof --rate invalid\n1 + 1",
        "%%gsprof 1 + 1\n1 + 1",
        "%gsprof",
        "%gsprof answer = 7",
        env={"GSPROF_PROGRAM": "/bin/false"},
    )
    fast, invalid, both, nothing, trouble = found["results"]
    assert "--subprocesses" in fast["error"] + fast["err"] + fast["out"]
    for wrong in (invalid, both, nothing):
        assert "UsageError" in wrong["error"], wrong
    assert found["answer"] == 7 and trouble["error"] == "''"
    assert "no report" in trouble["err"] and not trouble["shown"]


def test_short_cell_is_not_an_error() -> None:
    """The warning is correct, and plain text even if colours are forced."""
    found = shell("%%gsprof\nanswer = 8", env={"CLICOLOR_FORCE": "1"})
    assert found["answer"] == 8
    warning = found["results"][0]["err"]
    assert "too short for 100 Hz; raise the rate: --rate 1000" in warning, warning
    assert "\x1b" not in warning and "interpreter" not in warning, warning


def rows_of(text: str) -> Dict[str, str]:
    """Returns the functions of a table and their files."""
    lines = [line.split() for line in text.splitlines() if "%" in line]
    return {words[-2]: words[-1] for words in lines}


def test_lines_are_those_of_the_cell() -> None:
    """Line numbers are those shown in the cell, also in tracebacks."""
    lines = "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
    lines += "    answer = traceback.format_exc()"
    found = shell(CELL, f"%%gsprof --text --rate 500\nburn(0.2)\n{lines}")
    assert rows_of(found["results"][1]["shown"][-1]["text/plain"])["<module>"].startswith("In[")
    assert "line 5, in <module>\n    1 / 0\n" in found["answer"], found["answer"]


def test_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook, executed as Jupyter does. The report omits the kernel's idle threads, unless
    requested, and the frames below the cell."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    v4 = nbformat.v4
    sources = ["%load_ext gsprof", CELL, "%%gsprof --rate 500\nburn(0.3)"]
    sources.append("%%gsprof --threads --text\nburn(0.3)")
    book = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(book, timeout=int(PATIENCE_S), kernel_name="python3").execute()

    def shown(cell: int) -> Dict[str, str]:
        outputs = book.cells[cell].outputs
        return next(one["data"] for one in outputs if one["output_type"] == "display_data")

    alone, every = shown(2), shown(3)
    assert "burn" in page_of(alone) and "In[2]" in page_of(alone)
    rows = rows_of(alone["text/plain"])
    assert rows["burn"].startswith("In[2]:") and rows["<module>"].startswith("In[3]:"), rows
    # The calls of the cell; the garbage collector or the shell's hooks may add more.
    first = next(line for line in alone["text/plain"].splitlines() if " burn " in line)
    assert float(first.split()[0].rstrip("%")) > 80, alone["text/plain"]
    assert not any("run_forever" in name for name in rows), rows
    assert any("select" in name for name in rows_of(every["text/plain"])), every["text/plain"]
