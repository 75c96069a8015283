# SPDX-License-Identifier: Apache-2.0
"""The page of a session in a browser: values under the pointer, the theme, hostile names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import PATIENCE_S, gsprof
from test_flamegraph_browser import BROWSER
from test_stat import session

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="needs chromium: tools/install-deps.sh test installs it"
)

POINT = """<script>
const place = document.querySelector("svg.plot").getBoundingClientRect();
const scale = place.width / 1200;
document.querySelector("svg.plot").dispatchEvent(new PointerEvent("pointermove",
  {clientX: place.left + 600 * scale, clientY: place.top + 160 * scale, bubbles: true}));
document.getElementById("theme").click();
</script>"""


def dom(page: Path, folder: Path) -> str:
    assert BROWSER is not None
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    argv += [f"--user-data-dir={folder / 'browser'}", "--window-size=1200,900", page.as_uri()]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=PATIENCE_S)
    return done.stdout.decode("utf-8", "replace")


def test_values_under_the_pointer(tmp_path: Path) -> None:
    page = tmp_path / "s.html"
    gsprof("stat", session(tmp_path / "s.json"), "--plot", page)
    text = page.read_text(encoding="utf-8").replace("</body>", POINT + "</body>")
    page.write_text(text, encoding="utf-8")
    seen = dom(page, tmp_path)
    tip = re.search(r'<div id="tip"[^>]*>(.*?)</div></div>', seen, re.S)
    assert tip, seen[-2000:]
    assert "2026-01-31 23:54" in tip[1]
    assert "box:1:STAND-IN: 50%" in tip[1]
    assert re.search(r'<html lang="en" data-theme="(dark|light)"', seen)


def test_names_are_text(tmp_path: Path) -> None:
    page = tmp_path / "s.html"
    evil = "</script><script>document.title='owned'</script>"
    metadata = {"name": evil, "host": evil, "format": 1}
    gsprof("stat", session(tmp_path / "s.json", frames=5, metadata=metadata), "--plot", page)
    seen = dom(page, tmp_path)
    assert "<title>owned" not in seen and "&lt;script&gt;" in seen
