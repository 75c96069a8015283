# SPDX-License-Identifier: Apache-2.0
"""%load_ext gsprof: the magics %%gsprof and %gsprof of IPython and Jupyter.

    %%gsprof --rate 500
    train(model, data)

The cell runs as it would; what it did was recorded from outside, and the report is shown below
it: as a page in a notebook, as a table in a terminal."""

from __future__ import annotations

import ast
import html
import os
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

from . import _recorder
from .errors import GsprofError

DEFAULT_HEIGHT = 640

# Option, whether a value follows, what it means.
OPTIONS = {
    "--rate": (True, "samples a second (100)"),
    "--cpu": (False, "only threads that run; without it also those that wait"),
    "--native": (False, "native frames too (C, C++, Rust)"),
    "--subprocesses": (False, "children of this process too"),
    "--height": (True, f"of the report, in pixels ({DEFAULT_HEIGHT})"),
    "--output": (True, "keep the report as this file (.html)"),
    "--text": (False, "a table instead of a page"),
}
SHORT = {"-r": "--rate", "-n": "--native", "-s": "--subprocesses", "-o": "--output"}


def split_options(line: str) -> Tuple[Dict[str, str], str]:
    """The options at the begin of a line, and the code behind them.

    >>> split_options("-r 500 --cpu sum(range(10)) - 1")
    ({'--rate': '500', '--cpu': ''}, 'sum(range(10)) - 1')
    >>> split_options("--fast f()")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: --fast: no such option of %gsprof; known: --rate, ...
    """
    found: Dict[str, str] = {}
    rest = line.strip()
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        if word == "--":
            break
        name, equals, value = word.partition("=")
        name = SHORT.get(name, name)
        if name not in OPTIONS:
            known = ", ".join(list(OPTIONS))
            raise ValueError(f"{name}: no such option of %gsprof; known: {known}")
        if OPTIONS[name][0] and not equals:
            value, _, rest = rest.strip().partition(" ")
        if OPTIONS[name][0] and not value:
            raise ValueError(f"{name}: {OPTIONS[name][1]}: a value is missing")
        found[name] = value
        rest = rest.strip()
    for name in ("--rate", "--height"):
        if name in found and not found[name].isdigit():
            raise ValueError(f"{name}: not a number: {found[name]}")
    return found, rest


class Report:
    """What a cell did; Jupyter shows the page, a terminal the text."""

    def __init__(self, page: str, text: str, height: int = DEFAULT_HEIGHT) -> None:
        self.page = page
        self.text = text
        self.height = height

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> Optional[str]:
        """In a frame of its own: neither styles nor scripts meet those of the notebook."""
        if not self.page:
            return None
        return (
            f'<iframe title="gsprof" sandbox="allow-scripts" width="100%" height="{self.height}"'
            f' style="border: 0" srcdoc="{html.escape(self.page)}"></iframe>'
        )


def _make_report(profile: str, folder: str, options: Dict[str, str]) -> Report:
    text = _recorder.run("report", profile).decode("utf-8", "replace").rstrip()
    if "--text" in options:
        return Report("", text)
    path = options.get("--output") or os.path.join(folder, "report.html")
    _recorder.run("report", profile, "--format", "html", "--output", path, "--force")
    with open(path, encoding="utf-8") as file:
        return Report(file.read(), text, int(options.get("--height", DEFAULT_HEIGHT)))


def _record_options(options: Dict[str, str]) -> List[str]:
    words = [] if "--cpu" in options else ["--idle"]
    words += ["--rate", options["--rate"]] if "--rate" in options else []
    words += [name for name in ("--native", "--subprocesses") if name in options]
    return words


def _run_code(shell: Any, code: str) -> None:
    """As a cell runs: a value at its end is shown, and what it raises comes out of it."""
    source = shell.transform_cell(code)
    name = shell.compile.cache(source, shell.execution_count)
    tree = ast.parse(source, name)
    last: List[ast.stmt] = []
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last.append(tree.body.pop())
    exec(compile(tree, name, "exec"), shell.user_ns)
    exec(compile(ast.Interactive(last), name, "single"), shell.user_ns)


def _tell(error: BaseException) -> None:
    print(f"gsprof: no report: {error}", file=sys.stderr)


class Magic:
    """%%gsprof and %gsprof of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: Optional[str] = None) -> None:
        """Run code and show where its time went.

        %%gsprof [--rate HZ] [--cpu] [--native] [--subprocesses] [--height PX] [--output FILE]
        [--text], with the code below; or %gsprof [OPTIONS] CODE."""
        from IPython.core.error import UsageError

        try:
            options, rest = split_options(line)
        except ValueError as error:
            raise UsageError(str(error)) from None
        code = rest if cell is None else cell
        if cell is not None and rest:
            raise UsageError(f"only options stand behind %%gsprof, not: {rest}")
        if not code.strip():
            raise UsageError("%gsprof needs code to run, %%gsprof has it in the lines below")
        with tempfile.TemporaryDirectory(prefix="gsprof-cell-") as folder:
            self._run(code, folder, options)

    def _run(self, code: str, folder: str, options: Dict[str, str]) -> None:
        recording = _recorder.Recording(os.path.join(folder, "cell.gsp"), _record_options(options))
        try:
            recording.start()
        except (GsprofError, OSError) as error:
            # The code is what matters.
            _tell(error)
            _run_code(self._shell, code)
            return
        try:
            _run_code(self._shell, code)
        finally:
            self._show(recording, folder, options)

    def _show(self, recording: _recorder.Recording, folder: str, options: Dict[str, str]) -> None:
        from IPython.display import display

        try:
            recording.stop()
            report = _make_report(recording.output, folder, options)
        except (GsprofError, OSError) as error:
            _tell(error)
            return
        display(report)


def load(shell: Any) -> None:
    """What %load_ext gsprof does."""
    shell.register_magic_function(Magic(shell), magic_kind="line_cell", magic_name="gsprof")
