# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the report page's functions that need no browser: tests/web/*.test.mjs.

esbuild, which the build of the page uses, compiles the TypeScript; node's test runner runs the
files. Each test is a case here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Dict

import pytest

from support import PATIENCE_S, ROOT
from test_report_browser import get_web

FILES = sorted((ROOT / "tests" / "web").glob("*.test.mjs"))
NAMES = [
    name
    for path in FILES
    for name in re.findall(r'^test\("([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.fixture(scope="module", name="results")
def fixture_results(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """Returns the result of each test: "ok", or the output of its file."""
    folder = tmp_path_factory.mktemp("units")
    esbuild = Path(get_web("--modules")) / "esbuild" / "bin" / "esbuild"
    options = ["--bundle", "--format=esm", "--platform=node", "--out-extension:.js=.mjs"]
    command = ["node", str(esbuild), *map(str, FILES), *options, f"--outdir={folder}"]
    subprocess.run([*command, "--log-level=warning"], timeout=PATIENCE_S, check=True)
    found: Dict[str, str] = {}
    for path in sorted(folder.glob("*.test.mjs")):
        done = subprocess.run(
            ["node", "--test-reporter=tap", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            text=True,
        )
        for result, name in re.findall(r"^(ok|not ok) \d+ - (.*)$", done.stdout, re.MULTILINE):
            found[name] = result if result == "ok" else done.stdout
    return found


def test_names_are_unique() -> None:
    assert FILES and len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_unit(results: Dict[str, str], name: str) -> None:
    assert results.get(name) == "ok", results.get(name, "the test did not run")
