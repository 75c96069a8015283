# SPDX-License-Identifier: Apache-2.0
"""%load_ext gsprof: the magics %%gsprof and %gsprof of IPython and Jupyter.

    %%gsprof --rate 500
    train(model, data)

A recorder samples the cell from outside while it runs. The report is shown below the cell: a page
in a notebook, a table in a terminal. It has the calls of the cell, without the shell that runs the
cell and without the kernel's other threads."""

from __future__ import annotations

import ast
import html
import os
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

from . import _recorder
from .errors import GsprofError, NothingRecorded

DEFAULT_HEIGHT = 640
DEFAULT_RATE = 100
# With fewer samples than this, a warning is printed.
FEW = 10

# Option: whether it has a value, and its meaning.
OPTIONS = {
    "--rate": (True, f"samples per second (default: {DEFAULT_RATE})"),
    "--threads": (False, "all threads of this process instead of the calls of the cell"),
    "--cpu": (False, "only running threads, not those that wait"),
    "--native": (False, "native frames too (C, C++, Rust)"),
    "--subprocesses": (False, "all threads, and those of child processes"),
    "--height": (True, f"height of the report in pixels (default: {DEFAULT_HEIGHT})"),
    "--output": (True, "file to keep the report in (.html)"),
    "--text": (False, "a table instead of a page"),
}
SHORT = {
    "-r": "--rate",
    "-t": "--threads",
    "-n": "--native",
    "-s": "--subprocesses",
    "-o": "--output",
}


def split_options(line: str) -> Tuple[Dict[str, str], str]:
    """Returns the options at the start of a line, and the code after them.

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
    """The report of a cell; Jupyter shows the page, a terminal the text."""

    def __init__(self, page: str, text: str, height: int = DEFAULT_HEIGHT) -> None:
        self.page = page
        self.text = text
        self.height = height

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> Optional[str]:
        """Returns the page in an iframe, apart from the notebook's styles and scripts."""
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


def _names(shell: Any) -> Dict[str, int]:
    """Returns the cell number of each file name."""
    return dict(getattr(shell.compile, "_filename_map", {}))


def _number(shell: Any) -> int:
    """Returns the number of the running cell; shells differ in when they increment it."""
    names = _names(shell)
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename in names:
            return names[frame.f_code.co_filename]
        frame = frame.f_back  # type: ignore[assignment]
    return int(shell.execution_count)


class _Code:
    """The code of a cell, compiled as IPython does."""

    def __init__(self, shell: Any, code: str, head: str = "") -> None:
        """head is the line of the magic above the code, or "": it counts as line 1."""
        source = shell.transform_cell(code)
        text = f"{head}\n{source}" if head else source
        self.space = shell.user_ns
        self.name = shell.compile.cache(text, _number(shell))
        tree = ast.parse("\n" + source if head else source, self.name)
        last: List[ast.stmt] = []
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last.append(tree.body.pop())
        self.parts = [
            compile(tree, self.name, "exec"),
            compile(ast.Interactive(last), self.name, "single"),
        ]


def _gsprof_cell(code: _Code) -> None:
    """Runs the code as a cell: shows the value of a final expression, and lets exceptions pass. The
    report starts below this function."""
    for part in code.parts:
        exec(part, code.space)


def _record_options(options: Dict[str, str], shell: Any, folder: str) -> List[str]:
    words = [] if "--cpu" in options else ["--idle"]
    words += ["--rate", options["--rate"]] if "--rate" in options else []
    words += [name for name in ("--native", "--subprocesses") if name in options]
    if "--threads" not in options and "--subprocesses" not in options:
        words += ["--below", f"^{_gsprof_cell.__name__}$"]
    path = os.path.join(folder, "names")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{name}\tIn[{number}]\n" for name, number in _names(shell).items())
    return [*words, "--file-names", path]


def _print_error(error: BaseException) -> None:
    print(f"gsprof: no report: {error}", file=sys.stderr)


def _few(samples: int, seconds: float, options: Dict[str, str]) -> str:
    """Returns the warning for a recording with few samples."""
    rate = int(options.get("--rate", DEFAULT_RATE))
    took = f"{seconds:.3g} s" if seconds >= 1 else f"{max(1, round(1000 * seconds))} ms"
    count = f"{samples or 'no'} sample{'' if samples == 1 else 's'} in {took}"
    if "--cpu" in options and seconds * rate >= 2 * FEW:
        return f"{count}: the cell waited nearly all the time, which --cpu leaves out"
    faster = min(max(1000, 10 * rate), 100000)
    if rate >= faster:
        return f"{count}: the cell is too short for a profile"
    return f"{count}: the cell is too short for {rate} Hz; raise the rate: --rate {faster}"


class Magic:
    """%%gsprof and %gsprof of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: Optional[str] = None) -> None:
        """Run code and show where its time went.

        %%gsprof [--rate HZ] [--threads] [--cpu] [--native] [--subprocesses] [--height PX]
        [--output FILE] [--text], with the code below; or %gsprof [OPTIONS] CODE."""
        from IPython.core.error import UsageError

        try:
            options, rest = split_options(line)
        except ValueError as error:
            raise UsageError(str(error)) from None
        code = rest if cell is None else cell
        if cell is not None and rest:
            raise UsageError(f"%%gsprof accepts only options on its line, not: {rest}")
        if not code.strip():
            raise UsageError("%gsprof needs code after the options, %%gsprof in the lines below")
        head = "" if cell is None else f"%%gsprof {line}".rstrip()
        with tempfile.TemporaryDirectory(prefix="gsprof-cell-") as folder:
            self._run(_Code(self._shell, code, head), folder, options)

    def _run(self, code: _Code, folder: str, options: Dict[str, str]) -> None:
        words = _record_options(options, self._shell, folder)
        recording = _recorder.Recording(os.path.join(folder, "cell.gsp"), words)
        try:
            recording.start()
        except (GsprofError, OSError) as error:
            # Run the code even without a recorder.
            _print_error(error)
            _gsprof_cell(code)
            return
        began_s = time.perf_counter()
        try:
            _gsprof_cell(code)
        finally:
            self._show(recording, folder, options, time.perf_counter() - began_s)

    def _show(
        self, recording: _recorder.Recording, folder: str, options: Dict[str, str], took_s: float
    ) -> None:
        from IPython.display import display

        try:
            recording.stop()
            report = _make_report(recording.output, folder, options)
        except NothingRecorded:
            print(f"gsprof: no report: {_few(0, took_s, options)}", file=sys.stderr)
            return
        except (GsprofError, OSError) as error:
            _print_error(error)
            return
        display(report)
        if recording.samples < FEW:
            print(f"gsprof: {_few(recording.samples, took_s, options)}", file=sys.stderr)


def load(shell: Any) -> None:
    """Registers the magics; called by %load_ext gsprof."""
    shell.register_magic_function(Magic(shell), magic_kind="line_cell", magic_name="gsprof")
