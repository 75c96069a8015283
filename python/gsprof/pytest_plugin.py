# SPDX-License-Identifier: Apache-2.0
"""pytest --gsprof: shows where the time of each test went.

A recorder samples the test session from outside; each phase of each test is a span. The slowest
tests are printed at the end. The plugin is active only with the option or @pytest.mark.gsprof, and
never makes a test fail."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple, TypeVar, cast

import pytest

DEFAULT_DIR = "gsprof-pytest"
# Resolves milliseconds, at an overhead of some thousandths.
DEFAULT_RATE_HZ = 500
ROWS_SHOWN = 10
FUNCTIONS_SHOWN = 3
TEST_WIDTH = 48

# The samples of a span are those of its thread between its start and its end.
_SQL = """
WITH tests AS (
    SELECT span_id, name, phase, thread_id, start_ns, duration_ns
    FROM python.span WHERE phase IN ('setup', 'call', 'teardown') AND parent IS NULL
), walls AS (
    SELECT name, sum(duration_ns) AS wall_ns FROM tests GROUP BY name
), seen AS (
    SELECT tests.name, samples.on_cpu, samples.weight_ns, frames.func, frames.file
    FROM tests JOIN python.stack_sample AS samples
        ON samples.thread_id = tests.thread_id AND samples.ts_ns >= tests.start_ns
        AND samples.ts_ns < tests.start_ns + tests.duration_ns
    LEFT JOIN python.stack AS frames
        ON frames.stack_id = samples.stack_id AND frames.depth = 0
), functions AS (
    SELECT name, func, file, sum(weight_ns) AS own_ns FROM seen GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY name ORDER BY own_ns DESC, func) AS place
    FROM functions WHERE func IS NOT NULL
), cpu AS (
    SELECT name, sum(weight_ns) AS seen_ns,
        sum(CASE WHEN on_cpu THEN weight_ns ELSE 0 END) AS cpu_ns
    FROM seen GROUP BY name
)
SELECT walls.name, wall_ns::BIGINT AS wall_ns, seen_ns::BIGINT AS seen_ns,
    cpu_ns::BIGINT AS cpu_ns, func, file, own_ns::BIGINT AS own_ns
FROM walls LEFT JOIN cpu USING (name)
LEFT JOIN ranked ON ranked.name = walls.name AND place <= 3
ORDER BY wall_ns DESC, walls.name, place
"""

Row = Dict[str, Any]
Hook = TypeVar("Hook", bound=Callable[..., Any])


def _hook(**options: bool) -> Callable[[Hook], Hook]:
    """pytest.hookimpl, which is untyped in some versions."""
    return cast(Callable[[Hook], Hook], pytest.hookimpl(**options))


# ------------------------------------------------------------------------- options


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gsprof", "profiling by gsprof")
    group.addoption(
        "--gsprof",
        nargs="?",
        const=DEFAULT_DIR,
        metavar="DIR",
        help="profile every test and print where the time of the slowest went;"
        f" the recording is a new folder in DIR (default: {DEFAULT_DIR})",
    )
    group.addoption("--gsprof-dir", metavar="DIR", help="the same folder, also for marked tests")
    group.addoption(
        "--gsprof-rate",
        type=int,
        default=DEFAULT_RATE_HZ,
        metavar="HZ",
        help="samples per second (default: %(default)s)",
    )


@_hook(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: List[str]
) -> None:
    """Makes `tests` in `pytest --gsprof tests` a path to test, not the value of --gsprof."""
    if "--gsprof" in args:
        args[:] = [f"--gsprof={DEFAULT_DIR}" if word == "--gsprof" else word for word in args]
        early_config.known_args_namespace = parser.parse_known_args(
            args, namespace=copy.copy(early_config.option)
        )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "gsprof: profile this test even without --gsprof on the command line"
    )
    config.pluginmanager.register(_Plugin(config), "gsprof-session")


# ----------------------------------------------------------------------- recording


def _free_name(folder: str, name: str) -> str:
    """Returns a path that does not exist: older recordings are kept."""
    path, count = os.path.join(folder, name), 1
    while os.path.exists(path):
        count += 1
        path = os.path.join(folder, f"{name}-{count}")
    return path


class _Session:
    """The recording of this process; starts with the first test to profile."""

    def __init__(self, folder: str, worker: str, rate_hz: int) -> None:
        from . import _gsprof
        from ._recorder import Recording

        self._gsprof = _gsprof
        self._ours = not _gsprof.is_on()
        if self._ours and _gsprof.start() != 0:
            raise OSError("no space left in shared memory for the agent's rings")
        os.makedirs(folder, exist_ok=True)
        self.folder = _free_name(folder, worker or "run")
        options = ["--format", "run", "--rate", str(rate_hz), "--idle"]
        self._recording = Recording(self.folder, options)
        self._recording.start()

    def span(self, item: pytest.Item, phase: str) -> Any:
        return self._gsprof.span(item.nodeid, phase=phase)

    def finish(self) -> List[Row]:
        from ._recorder import run

        self._recording.stop()
        if self._ours:
            self._gsprof.stop()
        rows: List[Row] = json.loads(run("query", self.folder, _SQL, "--format", "json"))
        return rows


class _Plugin:
    """The hooks swallow their own errors; the first one is printed at the end."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        self._all = option.gsprof is not None
        self._folder = str(option.gsprof_dir or option.gsprof or DEFAULT_DIR)
        self._rate_hz = int(option.gsprof_rate)
        self._config = config
        # Id of an xdist worker; the controller has none and runs no tests.
        self._worker = str(getattr(config, "workerinput", {}).get("workerid", ""))
        self._session: Optional[_Session] = None
        self._trouble = ""
        self._rows: List[Row] = []
        self._folders: List[str] = []

    def _is_profiled(self, item: pytest.Item) -> bool:
        return not self._trouble and (self._all or item.get_closest_marker("gsprof") is not None)

    def _failed(self, error: BaseException) -> None:
        lines = str(error).strip().splitlines()
        self._trouble = self._trouble or (lines[0] if lines else type(error).__name__)

    def _span(self, item: pytest.Item, phase: str) -> Any:
        if not self._is_profiled(item):
            return None
        try:
            if self._session is None:
                self._session = _Session(self._folder, self._worker, self._rate_hz)
            span = self._session.span(item, phase)
            span.__enter__()
            return span
        except Exception as error:
            self._failed(error)
            return None

    def _leave(self, span: Any) -> None:
        if span is not None:
            try:
                span.__exit__(None, None, None)
            except Exception as error:
                self._failed(error)

    @_hook(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        span = self._span(item, "setup")
        yield
        self._leave(span)

    @_hook(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        span = self._span(item, "call")
        yield
        self._leave(span)

    @_hook(hookwrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        span = self._span(item, "teardown")
        yield
        self._leave(span)

    def pytest_sessionfinish(self) -> None:
        if self._session is not None:
            try:
                self._rows += self._session.finish()
                self._folders.append(self._session.folder)
            except Exception as error:
                self._failed(error)
            self._session = None
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["gsprof"] = json.dumps([self._rows, self._folders, self._trouble])

    @_hook(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Collects the results of an xdist worker; a crashed worker has none."""
        output = getattr(node, "workeroutput", {}).get("gsprof")
        if output is not None:
            rows, folders, trouble = json.loads(output)
            self._rows += rows
            self._folders += folders
            self._trouble = self._trouble or trouble

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker or not (self._rows or self._trouble):
            return
        terminalreporter.section("gsprof: where the time of the slowest tests went")
        for line in table(self._rows):
            terminalreporter.write_line(line)
        for folder in sorted(self._folders):
            terminalreporter.write_line(f"gsprof report {folder}")
        if self._trouble:
            terminalreporter.write_line(f"gsprof: not everything was profiled: {self._trouble}")


# -------------------------------------------------------------------------- table


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else "..." + name[3 - width :]


def _in_parens(file: Optional[str]) -> str:
    """Returns " (file)"; pseudo-frames, such as the garbage collector's, have no file."""
    return f" ({os.path.basename(file)})" if file else ""


def _tests(rows: List[Row]) -> List[Tuple[Row, List[Row]]]:
    """Returns one entry per test, the slowest first; a test that ran in two workers has two."""
    found: List[Tuple[Row, List[Row]]] = []
    for row in rows:
        if not found or found[-1][0]["name"] != row["name"]:
            found.append((row, []))
        if row["func"] is not None:
            found[-1][1].append(row)
    return sorted(found, key=lambda one: -int(one[0]["wall_ns"]))


def table(rows: List[Row]) -> List[str]:
    """Returns the lines of the summary.

    >>> row = {"name": "test_a.py::test_x", "wall_ns": 1500000000, "seen_ns": 1500000000,
    ...     "cpu_ns": 750000000, "func": "load", "file": "/src/a.py", "own_ns": 750000000}
    >>> mark = {**row, "func": "(import)", "file": None, "own_ns": 300000000}
    >>> for line in table([row, mark]):
    ...     print(line.rstrip())
     wall s  on CPU  test                                              own time
      1.500     50%  test_a.py::test_x                                 50% load (a.py), 20% (import)
    """
    lines = [f"{'wall s':>7}  {'on CPU':>6}  {'test':<{TEST_WIDTH}}  own time"]
    for test, functions in _tests(rows)[:ROWS_SHOWN]:
        # A test without samples has an unknown share, not 0.
        seen = int(test["seen_ns"] or 0)
        share = f"{100 * int(test['cpu_ns'] or 0) / seen:.0f}%" if seen else "-"
        parts = [
            f"{100 * int(one['own_ns']) / seen:.0f}% {one['func']}{_in_parens(one['file'])}"
            for one in functions[:FUNCTIONS_SHOWN]
        ]
        name = _short(str(test["name"]), TEST_WIDTH)
        wall_s = int(test["wall_ns"]) / 1e9
        lines.append(f"{wall_s:7.3f}  {share:>6}  {name:<{TEST_WIDTH}}  {', '.join(parts) or '-'}")
    if len(_tests(rows)) > ROWS_SHOWN:
        lines.append(f"... and {len(_tests(rows)) - ROWS_SHOWN} more")
    return lines
