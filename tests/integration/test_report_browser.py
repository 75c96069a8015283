# SPDX-License-Identifier: Apache-2.0
"""The report's page in a real browser, with made-up documents: tests/web/report.mjs has the checks.

The browser starts once for all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Callable, Dict, Optional

import pytest

import report_documents
from support import PATIENCE_S, ROOT
from test_flamegraph_browser import BROWSER

CHECKS = ROOT / "tests" / "web" / "report.mjs"
NAMES = re.findall(r'^check\("([^"]+)"', CHECKS.read_text(encoding="utf-8"), re.MULTILINE)
DOCUMENTS: Dict[str, Callable[[], report_documents.Json]] = {
    "ordinary": report_documents.ordinary,
    "comparison": report_documents.comparison,
    "hostile": report_documents.hostile,
    "large": report_documents.large,
    "empty": report_documents.empty,
    "bare": report_documents.bare,
    "timeless": report_documents.timeless,
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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Optional[str]]:
    folder = tmp_path_factory.mktemp("pages")
    get_web(str(folder / "template"))
    template = (folder / "template").read_text(encoding="ascii")
    head, tail = template.split("@GSPROF_DOCUMENT@")
    for name, make in DOCUMENTS.items():
        # As gsp_page_write() does it.
        text = json.dumps(make(), ensure_ascii=False).replace("<", "\\u003c")
        (folder / f"{name}.html").write_text(head + text + tail, encoding="utf-8")
    modules = get_web("--modules", "tests/web")
    done = subprocess.run(
        ["node", str(CHECKS), modules, str(folder), BROWSER or ""],
        stdout=subprocess.PIPE,
        timeout=4 * PATIENCE_S,
        check=True,
    )
    found: Dict[str, Optional[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_page(results: Dict[str, Optional[str]], name: str) -> None:
    assert results[name] is None, results[name]


def test_building_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    get_web(str(tmp_path / "one.html"))
    kept = Path(get_web("--modules")).parent
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / kept.name).symlink_to(kept)
    get_web(str(tmp_path / "two.html"), cache=cache)
    assert [path.suffix for path in cache.glob("page-*")] == [".html"]
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
