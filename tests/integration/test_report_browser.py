# SPDX-License-Identifier: Apache-2.0
"""The report page: in a browser, with the checks of tests/web/report.mjs, and its unit tests."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, Optional

import pytest

import report_documents
from support import PATIENCE_S, ROOT, gsprof
from test_flamegraph_browser import BROWSER

CHECKS = ROOT / "tests" / "web" / "report.mjs"
NAMES = re.findall(r'^check\("([^"]+)"', CHECKS.read_text(encoding="utf-8"), re.MULTILINE)
DOCUMENTS: Dict[str, Callable[[], report_documents.Json]] = {
    "ordinary": report_documents.ordinary,
    "comparison": report_documents.comparison,
    "hostile": report_documents.hostile,
    "late": report_documents.late,
    "large": report_documents.large,
    "empty": report_documents.empty,
    "bare": report_documents.bare,
    "timeless": report_documents.timeless,
    "memory": report_documents.memory,
    "newer": report_documents.newer,
    "malformed": report_documents.malformed,
    **{f"bars-{seed}": functools.partial(report_documents.bars, seed) for seed in range(3)},
}
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium: tools/install-deps.sh test installs it"
)


def get_web(*words: str, cache: Optional[Path] = None) -> str:
    env = dict(os.environ)
    if cache:
        env["GSPROF_WEB_CACHE"] = str(cache)
    command = [str(ROOT / "tools" / "get-web.sh"), *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, env=env, timeout=4 * PATIENCE_S, check=True, text=True
    ).stdout.strip()


# A named thread and a forked child, which a real document must distinguish.
PROGRAM = """
import os, threading, time
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(2000))
def wait(event):
    event.wait()
def main():
    event = threading.Event()
    thread = threading.Thread(target=wait, args=(event,), name="waiter")
    thread.start()
    pid = os.fork()
    burn(0.6)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    event.set()
    thread.join()
main()
"""


def make_real_document(folder: Path) -> report_documents.Json:
    """Returns the document of a real run, with weights rounded so that their sums are exact."""
    program = folder / "forks.py"
    program.write_text(PROGRAM, encoding="utf-8")
    gsprof("run", "-q", "-o", folder / "run", "--", sys.executable, program, cwd=folder)
    text = gsprof("report", folder / "run", "-f", "json", cwd=folder).out
    document: report_documents.Json = json.loads(text)
    samples = document["stacks"]["samples"]
    samples["weight"] = [max(1, round(weight * 2**20)) / 2**20 for weight in samples["weight"]]
    return document


@pytest.fixture(scope="module", name="real")
def fixture_real(tmp_path_factory: pytest.TempPathFactory) -> report_documents.Json:
    return make_real_document(tmp_path_factory.mktemp("real"))


def test_a_run_has_lines_and_names_and_no_frames_of_gsprof(real: report_documents.Json) -> None:
    stacks = real["stacks"]
    lines = PROGRAM.splitlines()
    hot = {frame["func"]: frame.get("hot_line") for frame in stacks["frames"]}
    assert lines[hot["burn"] - 1].strip() in ("while time.monotonic() < end:", "sum(range(2000))")
    assert len(stacks["nodes"]["line"]) == len(stacks["nodes"]["parent"])
    assert len({thread["pid"] for thread in stacks["threads"]}) == 2
    names = {thread["name"] for thread in stacks["threads"]}
    assert names == {"MainThread", "waiter"}, names
    # Every frame is used by a node.
    used = set(stacks["nodes"]["frame"])
    assert used == set(range(len(stacks["frames"])))
    files = [frame["file"] or "" for frame in stacks["frames"]]
    assert not [name for name in files if "/gsprof/" in name or "<gsprof" in name], files


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, real: report_documents.Json
) -> Dict[str, Optional[str]]:
    folder = tmp_path_factory.mktemp("pages")
    get_web(str(folder / "template"))
    template = (folder / "template").read_text(encoding="ascii")
    head, tail = template.split("@GSPROF_DOCUMENT@")
    documents = {**{name: make() for name, make in DOCUMENTS.items()}, "real": real}
    for name, document in documents.items():
        # As in gsp_export_page_write().
        text = json.dumps(document, ensure_ascii=False).replace("<", "\\u003c")
        (folder / f"{name}.html").write_text(head + text + tail, encoding="utf-8")
    modules = get_web("--modules", "tests/web")
    done = subprocess.run(
        ["node", str(CHECKS), modules, str(folder), BROWSER or ""],
        stdout=subprocess.PIPE,
        timeout=10 * PATIENCE_S,
        check=True,
    )
    found: Dict[str, Optional[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_page(results: Dict[str, Optional[str]], name: str) -> None:
    assert results[name] is None, results[name]


def test_the_build_is_reproducible(tmp_path: Path) -> None:
    get_web(str(tmp_path / "one.html"))
    kept = Path(get_web("--modules")).parent
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / kept.name).symlink_to(kept)
    get_web(str(tmp_path / "two.html"), cache=cache)
    assert [path.suffix for path in cache.glob("page-*")] == [".html"]
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
