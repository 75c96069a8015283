# SPDX-License-Identifier: Apache-2.0
"""Installs greenlet from the package index, for interpreters without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, Optional

from support import PATIENCE_S, Python

SYSTEM = "/usr/bin/python3"


def has_module(python: str, name: str, folder: Optional[Path] = None) -> bool:
    env = {**os.environ, **({"PYTHONPATH": str(folder)} if folder else {})}
    done = subprocess.run(
        [python, "-c", f"import {name}"],
        stderr=subprocess.DEVNULL,
        env=env,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode == 0


def install(minor: str, folder: Path) -> None:
    pip = shutil.which("pip3") or shutil.which("pip")
    if os.environ.get("GSPROF_TEST_NO_DOWNLOAD") or pip is None:
        raise LookupError(f"no greenlet for {minor}: no pip, or downloads are switched off")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        done = subprocess.run(
            [
                *(pip, "install", "-q", "--no-deps", "--only-binary", ":all:"),
                *("--python-version", minor, "--target", f"{work}/new", "greenlet"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
            raise LookupError(f"no greenlet for {minor}: {last}")
        try:
            os.rename(f"{work}/new", folder)
        except OSError:
            assert folder.is_dir()  # another test run was faster


def environment(python: Python) -> Dict[str, str]:
    """Returns the environment variables with which an interpreter can import greenlet. Raises
    LookupError with the reason if it cannot."""
    if has_module(python.path, "greenlet"):
        return {}
    assert python.path != SYSTEM, "the tests need the package python3-greenlet"
    minor = f"3.{python.version[1]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gsprof" / "greenlet" / minor
    if not folder.is_dir():
        install(minor, folder)
    if not has_module(python.path, "greenlet", folder):
        raise LookupError(f"greenlet does not load into {python}")
    return {"PYTHONPATH": str(folder)}
