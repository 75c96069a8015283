# SPDX-License-Identifier: Apache-2.0
"""Arrow streams, read by other implementations: apache-arrow from npm, and pyarrow.

Versions and checksums are pinned in tests/arrow; npm and pip install them into a cache folder
outside the tree, once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Mapping, Optional

import pytest

from peers import install, install_wheels
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


def read(argv: List[str], env: Optional[Mapping[str, str]] = None) -> Json:
    """Runs a reader and returns the JSON that it prints."""
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
    """Reads a stream with apache-arrow. 64-bit numbers and decimals are returned as strings."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("needs npm: tools/install-deps.sh test installs it")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    folder = install("apache-arrow", READER / "package-lock.json", command)
    return read(["node", str(READER / "read.mjs"), str(folder), str(path)])


def read_pyarrow(path: Path) -> Json:
    """Reads a stream with pyarrow, which validates every value. Same form as read_npm()."""
    # -S: the system's NumPy may be too old for pyarrow, which does not need it.
    env = {"PYTHONPATH": str(install_wheels("pyarrow", READER / "requirements.txt"))}
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
