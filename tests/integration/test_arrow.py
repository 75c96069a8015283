# SPDX-License-Identifier: Apache-2.0
"""Arrow streams as others read them: apache-arrow of npm, and pyarrow where it can be had.

Versions and checksums are pinned in tests/arrow; npm and pip install them into a cache folder
outside the tree, once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Mapping, Optional, Sequence

import pytest

from support import PATIENCE_S, ROOT, Json

READER = ROOT / "tests" / "arrow"
GOLDEN = ROOT / "tests" / "golden" / "arrow" / "kinds.arrows"

COLUMNS = [
    ("i", "Int64", "BIGINT"),
    ("sum", "Decimal[38e0]", "HUGEINT"),
    ("f", "Float64", "DOUBLE"),
    ("b", "Bool", "BOOLEAN"),
    ("t", "Utf8", "VARCHAR"),
    ("j", "Utf8", "INTEGER[]"),
    ("d", "Dictionary<Int32, Utf8>", "ENUM"),
]
ROWS = [
    ["1", "42", 0.5, True, "plain", "[1,2]", "forward"],
    [None] * 7,
    ["-7", "-1", "NaN", False, 'a "b",\nc\x1b[', '{"a": null}', "back,ward"],
    [str(2**63 - 1), str(10**38 - 1), 1e300, True, "日本 \ufffd", "[]", "ü"],
]


def install(kind: str, lock: str, argv: Sequence[str]) -> Path:
    """The folder into which a package manager put what the lock file names; skips, with its
    reason, where it cannot.  A wrong checksum is no reason to skip."""
    content = (READER / lock).read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsprof"
    folder = cache / f"{kind}-{hashlib.sha256(content).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    # Another run may do the same: each in its own folder, the first to end gives it its name.
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    shutil.copytree(READER, making)
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


def read(argv: List[str], env: Optional[Mapping[str, str]] = None) -> Json:
    """Runs a reader and takes the JSON that it prints."""
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    answer: Json = json.loads(done.stdout)
    return answer


def read_npm(path: Path) -> Json:
    """What apache-arrow makes of a stream; 64-bit numbers and decimals as strings."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("no npm: tools/install-deps.sh test installs it")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    folder = install("apache-arrow", "package-lock.json", command)
    return read(["node", str(READER / "read.mjs"), str(folder), str(path)])


def read_pyarrow(path: Path) -> Json:
    """What pyarrow makes of a stream, every value checked by it; the same form."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", "site"]
    pip += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", "requirements.txt"]
    folder = install("pyarrow", "requirements.txt", pip)
    # -S: the system's NumPy may be too old for it, and it can do without.
    env = {"PYTHONPATH": str(folder / "site")}
    return read([sys.executable, "-S", str(READER / "read.py"), str(path)], env)


def test_npm_reads_every_kind() -> None:
    found = read_npm(GOLDEN)
    assert [(c["name"], c["type"], c["sql_type"]) for c in found["columns"]] == COLUMNS
    assert all(column["nullable"] for column in found["columns"])
    assert found["batches"] == [4]
    assert found["rows"] == ROWS


def test_pyarrow_reads_every_kind() -> None:
    found = read_pyarrow(GOLDEN)
    assert [c["name"] for c in found["columns"]] == [name for name, _, _ in COLUMNS]
    assert found["columns"][1]["type"] == "decimal128(38, 0)"
    assert found["columns"][6]["type"] == "dictionary<values=string, indices=int32, ordered=0>"
    assert found["batches"] == [4]
    assert found["rows"] == ROWS
