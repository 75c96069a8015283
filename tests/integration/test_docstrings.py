# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings run, and the stub matches the extension."""

from __future__ import annotations

import os
import subprocess
from typing import Mapping

import pytest
from conftest import NEEDS_EXTENSION
from support import GSPROF, PACKAGE, PATIENCE_S, ROOT, main_python


pytestmark = NEEDS_EXTENSION

EXAMPLES = """
import doctest, importlib, pkgutil
import gsprof
tried = 0
for found in pkgutil.walk_packages(gsprof.__path__, "gsprof."):
    if found.name.rpartition(".")[2].startswith(("__main__", "_gsprof", "lib")):
        continue
    try:
        module = importlib.import_module(found.name)
    except ImportError as error:
        # Modules for pytest and IPython need them.
        assert not (error.name or "gsprof").startswith("gsprof"), error
        continue
    result = doctest.testmod(module)
    assert result.failed == 0, found.name
    tried += result.attempted
print(tried)
"""


def run(*argv: str, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        [main_python(), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), **env},
        cwd=PACKAGE.parent,  # stubtest writes a cache into the current directory
        timeout=PATIENCE_S,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, output
    return output


def test_examples() -> None:
    output = run("-c", EXAMPLES, env={"GSPROF_PROGRAM": str(GSPROF)})
    assert int(output.splitlines()[-1]) >= 50


def test_stub() -> None:
    pytest.importorskip("mypy.stubtest", reason="needs mypy")
    env = {"MYPYPATH": str(PACKAGE)}
    config = ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    run("-m", "mypy.stubtest", *config, "--concise", "gsprof._gsprof", env=env)
