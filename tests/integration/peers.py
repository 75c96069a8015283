# SPDX-License-Identifier: Apache-2.0
"""Third-party packages that tests compare with: pinned, installed once into a cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

import pytest
from support import PATIENCE_S


def install(kind: str, lock: Path, argv: Sequence[str]) -> Path:
    """Installs the packages of a lock file and returns their folder. Skips the test if that is not
    possible, but fails for a wrong checksum."""
    content = lock.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsprof"
    folder = cache / f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if os.environ.get("GSPROF_TEST_NO_DOWNLOAD"):
        pytest.skip(f"needs {kind}: GSPROF_TEST_NO_DOWNLOAD is set")
    # Concurrent test runs install into separate folders. The first to finish renames its folder.
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(lock.parent, making)
    try:
        done = subprocess.run(
            argv,
            cwd=making,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=5 * PATIENCE_S,
            check=False,
            text=True,
        )
        assert "EINTEGRITY" not in done.stdout, done.stdout
        assert "DO NOT MATCH" not in done.stdout, done.stdout
        if done.returncode:
            pytest.skip(f"{argv[0]} could not install {kind}: {done.stdout.strip()[-300:]}")
        try:
            making.rename(folder)
        except OSError:
            assert folder.is_dir()
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def install_wheels(kind: str, lock: Path) -> Path:
    """Installs pinned wheels with pip and returns the folder to import them from."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", "site", "--no-deps"]
    pip += ["--only-binary", ":all:", "--require-hashes", "-r", lock.name]
    return install(kind, lock, pip) / "site"
