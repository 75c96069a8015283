# SPDX-License-Identifier: Apache-2.0
"""Programs of others that tests compare with: pinned, installed once into a cache folder."""

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
    """The folder into which a package manager put what the lock file names; skips, with its
    reason, where it cannot.  A wrong checksum is no reason to skip."""
    content = lock.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsprof"
    folder = cache / f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if os.environ.get("GSPROF_TEST_NO_DOWNLOAD"):
        pytest.skip(f"no {kind}: GSPROF_TEST_NO_DOWNLOAD is set")
    # Another run may do the same: each in its own folder, the first to end gives it its name.
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
    """The folder to import from what pip installed by a file of pinned versions."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", "site", "--no-deps"]
    pip += ["--only-binary", ":all:", "--require-hashes", "-r", lock.name]
    return install(kind, lock, pip) / "site"
