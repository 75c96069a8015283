# SPDX-License-Identifier: Apache-2.0
"""The flame graph in a real browser: what it shows, zoom, search, keys, hostile names.

The browser prints the document after its script has run (--dump-dom). The address selects the view;
clicks and keys come from a script that the test inserts into a copy of the file.
"""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Dict, List, Optional

import pytest

from support import PATIENCE_S, gsprof

SVG = "{http://www.w3.org/2000/svg}"
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]

# Widths follow from the counts, 1000 in total.
FOLDED = """\
main (app.py:1);train (app.py:20);forward (model.py:5) 500
main (app.py:1);train (app.py:20);backward (model.py:50) 300
main (app.py:1);train (app.py:20);backward (model.py:50);forward (model.py:6) 50
main (app.py:1);load (data.py:3) 100
main (app.py:1);<script>alert(1)</script> (evil.py:1);]]> (evil.py:2) 50
"""


def find_browser() -> Optional[str]:
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    return None


BROWSER = find_browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="needs chromium: tools/install-deps.sh test installs it"
)


class Page:
    """The document after its script has run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = ET.fromstring(text)

    def by_id(self, name: str) -> ET.Element:
        found = [element for element in self.root.iter() if element.get("id") == name]
        assert len(found) == 1, f"{name}: {len(found)}"
        return found[0]

    def words(self, name: str) -> str:
        return "".join(self.by_id(name).itertext()).strip()

    def frames(self) -> List[ET.Element]:
        return [
            element
            for element in self.by_id("frames").iter(SVG + "svg")
            if "f" in (element.get("class") or "").split()
        ]

    def labels(self, only_shown: bool = True) -> List[str]:
        return [
            label(frame)
            for frame in self.frames()
            if not only_shown or frame.get("display") != "none"
        ]

    def frame(self, name: str) -> ET.Element:
        return next(frame for frame in self.frames() if label(frame).startswith(name))

    def hits(self) -> List[str]:
        return [
            label(frame) for frame in self.frames() if "hit" in (frame.get("class") or "").split()
        ]


def label(frame: ET.Element) -> str:
    title = frame.find(SVG + "title")
    assert title is not None and title.text
    return title.text.split("\n")[0]


def width(frame: ET.Element) -> float:
    return float((frame.get("width") or "").rstrip("%"))


@pytest.fixture(scope="module")
def svg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "in.folded").write_text(FOLDED, encoding="utf-8")
    gsprof("flamegraph", "--input", folder / "in.folded", "--output", folder / "out.svg")
    return folder / "out.svg"


def browse(path: Path, view: str = "", size: str = "1200,800") -> Page:
    """Opens a file with a view. Fails if the script logs an error."""
    command = [
        BROWSER or "",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        f"--user-data-dir={path.parent / 'browser'}",
        f"--window-size={size}",
        "--enable-logging=stderr",
        "--dump-dom",
        path.as_uri() + view,
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=2 * PATIENCE_S, check=True
    )
    log = done.stderr.decode("utf-8", "replace")
    console = [line for line in log.splitlines() if "CONSOLE" in line]
    assert not console, console
    return Page(done.stdout.decode("utf-8"))


def act(path: Path, script: str, name: str, view: str = "") -> Page:
    """Returns the page after a script of the test has run in it."""
    text = path.read_text(encoding="utf-8")
    head, tail = text.rsplit("</svg>", 1)
    helpers = """
      function frame(name) {
        return Array.from(document.querySelectorAll("#frames .f")).find(function (f) {
          return f.querySelector("title").textContent.indexOf(name) === 0;
        });
      }
      function click(el) {
        el.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      }
      function key(el, name, ctrl) {
        el.dispatchEvent(new KeyboardEvent("keydown",
          {key: name, ctrlKey: !!ctrl, bubbles: true, cancelable: true}));
      }
      function note(text) { document.documentElement.setAttribute("data-note", text); }
    """
    copy = path.parent / name
    copy.write_text(
        f"{head}<script><![CDATA[{helpers}{script}]]></script></svg>{tail}", encoding="utf-8"
    )
    return browse(copy, view)


def test_shows_everything(svg: Path) -> None:
    page = browse(svg)
    assert len(page.labels()) == 9
    assert page.labels()[:2] == ["all", "main (app.py:1)"]
    assert width(page.frame("forward (model.py:5)")) == pytest.approx(50, abs=0.01)
    assert width(page.frame("load")) == pytest.approx(10, abs=0.01)
    assert "1,000 samples" in page.words("facts")
    assert page.words("details").startswith("all")
    assert page.words("crumbs") == ""
    assert page.by_id("search") is not None


def test_names_stay_text(svg: Path) -> None:
    page = browse(svg)
    assert "<script>alert(1)</script> (evil.py:1)" in page.labels()
    assert "]]> (evil.py:2)" in page.labels()
    assert len([e for e in page.root.iter() if e.tag.endswith("script")]) == 1


def test_text_is_cut_to_the_box(svg: Path) -> None:
    texts: Dict[str, str] = {}
    for size in ("1200,800", "500,800"):
        box = browse(svg, size=size).frame("load").find(SVG + "text")
        texts[size] = (box.text or "") if box is not None else ""
    assert texts["1200,800"] == "load (data.py:3)"
    assert texts["500,800"].endswith("\u2026")
    assert "load (data.py:3)".startswith(texts["500,800"][:-1])


def test_address_restores_zoom(svg: Path) -> None:
    number = browse(svg).labels().index("train (app.py:20)")
    page = browse(svg, f"#zoom={number}")
    assert width(page.frame("train")) == pytest.approx(100)
    assert width(page.frame("main")) == pytest.approx(100)
    assert "up" in (page.frame("main").get("class") or "").split()
    assert width(page.frame("forward (model.py:5)")) == pytest.approx(500 / 850 * 100, abs=0.01)
    assert not any(name.startswith(("load", "<script>")) for name in page.labels())
    assert page.words("crumbs").split("\u203a")[-1].strip() == "train (app.py:20)"
    assert "85.0 % of all" in page.words("details")


@pytest.mark.parametrize("number", ["-1", "999999", "x"])
def test_invalid_zoom_shows_all(svg: Path, number: str) -> None:
    assert len(browse(svg, f"#zoom={number}").labels()) == 9


def test_address_restores_search(svg: Path) -> None:
    page = browse(svg, "#search=forward")
    assert page.hits() == ["forward (model.py:6)", "forward (model.py:5)"]
    assert page.words("matched") == "matched 55.0 % of all, 2 frames"


def test_search_does_not_count_twice(svg: Path) -> None:
    page = browse(svg, "#search=model")
    assert len(page.hits()) == 3
    assert page.words("matched") == "matched 85.0 % of all, 3 frames"


def test_search_is_a_regular_expression(svg: Path) -> None:
    assert len(browse(svg, "#search=%5E(load%7Ctrain)%20").hits()) == 2
    assert browse(svg, "#search=LOAD").hits() == []  # upper case is significant
    page = browse(svg, "#search=%28model")  # an unclosed bracket
    assert len(page.hits()) == 3
    assert "searched as text" in page.words("matched")


def test_click_zooms_and_escape_goes_back(svg: Path) -> None:
    page = act(svg, 'click(frame("train").querySelector("rect"));', "click.svg")
    assert width(page.frame("train")) == pytest.approx(100)
    page = act(svg, 'click(frame("train")); click(frame("main"));', "up.svg")
    assert len(page.labels()) == 9 and width(page.frame("train")) == pytest.approx(85, abs=0.01)
    page = act(svg, 'click(frame("train")); key(document.documentElement, "Escape");', "esc.svg")
    assert width(page.frame("train")) == pytest.approx(85, abs=0.01)
    page = act(svg, 'click(frame("train")); click(document.getElementById("reset"));', "reset.svg")
    assert page.words("crumbs") == ""
    script = 'click(frame("forward (model.py:5)")); click(document.querySelectorAll(".crumb")[2]);'
    assert width(act(svg, script, "crumb.svg").frame("train")) == pytest.approx(100)


def test_address_follows_the_view(svg: Path) -> None:
    script = 'click(frame("train")); note(location.hash);'
    assert act(svg, script, "hash.svg").root.get("data-note") == "#zoom=5"


def test_keyboard_only(svg: Path) -> None:
    script = """
      frame("all").focus();
      ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"].forEach(function (name) {
        key(document.activeElement, name);
      });
      note(document.activeElement.querySelector("title").textContent.split("\\n")[0]);
      key(document.activeElement, "Enter");
    """
    page = act(svg, script, "keys.svg")
    assert page.root.get("data-note") == "train (app.py:20)"
    assert width(page.frame("train")) == pytest.approx(100)
    assert page.words("details").startswith("train (app.py:20)")
    script = 'key(document.documentElement, "f", true); note(document.activeElement.id);'
    assert act(svg, script, "find.svg").root.get("data-note") == "search"


def test_typing_searches(svg: Path) -> None:
    script = """
      var box = document.getElementById("search");
      box.value = "load";
      box.dispatchEvent(new Event("input", {bubbles: true}));
    """
    assert act(svg, script, "type.svg").hits() == ["load (data.py:3)"]


def test_help_opens_and_closes(svg: Path) -> None:
    how = 'click(document.getElementById("how"));'
    page = act(svg, how, "help.svg")
    assert "over" in (page.by_id("help").get("class") or "").split()
    assert "How to read this" in page.words("help")
    page = act(svg, how + 'key(document.documentElement, "Escape");', "nohelp.svg")
    assert "over" not in (page.by_id("help").get("class") or "").split()
