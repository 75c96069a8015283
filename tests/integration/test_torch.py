# SPDX-License-Identifier: Apache-2.0
"""Tracing of PyTorch: Debian's 1.13 and a current version, in few processes with many checks
each."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Set

import pytest

from support import GSPROF, PACKAGE, Json, Python, gsprof, main_python, program

# Importing PyTorch takes seconds, and longer on a busy machine.
PATIENCE_TORCH_S = 300.0
DEBIAN = "/usr/bin/python3"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gsprof"

PYTHONS = {
    "debian": DEBIAN,
    "current": str(CACHE / "bench-torch" / "bin" / "python"),
}
MISSING = {
    "debian": "python3-torch is not installed: tools/install-deps.sh test",
    "current": "no current PyTorch in the cache folder: make bench installs it",
}


def find_python(which: str) -> str:
    python = PYTHONS[which]
    script = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    try:
        found = subprocess.run([python, "-c", script], check=False).returncode == 0
    except OSError:
        found = False
    if not found:
        pytest.skip(MISSING[which])
    if not list((PACKAGE / "gsprof").glob("_gsprof.*.so")):
        pytest.skip("needs a build with the headers of Python (python3-dev)")
    return python


def run_program(
    python: str, folder: Path, name: str, *args: str, env: Optional[Mapping[str, str]] = None
) -> List[Json]:
    """Returns the lines of JSON that a program prints."""
    whole = {
        **os.environ,
        **(env or {}),
        "PYTHONPATH": str(PACKAGE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GSPROF_FOLLOW": "off",
        "GSPROF_PROGRAM": str(GSPROF),
    }
    done = subprocess.run(
        [python, "-W", "ignore", program(name), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=whole,
        cwd=folder,
        timeout=PATIENCE_TORCH_S,
        check=False,
    )
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text
    return [json.loads(line) for line in done.stdout.decode().splitlines() if line[:1] == "{"]


def rows(pid: int, sql: str) -> List[Json]:
    found: List[Json] = json.loads(gsprof("query", pid, sql, "--format", "json").out)
    return found


def check_transformer(trace: List[Json]) -> None:
    """Checks the rows of steps 0 to 3, traced forward only."""
    for step in range(4):
        mine = [row for row in trace if row["step"] == step]
        stages = Counter(row["stage"] for row in mine)
        assert stages["backward"] == 1 and stages["step"] == 1, (step, stages)
        paths = {row["module"] for row in mine if row["stage"] == "forward"}
        assert {
            "Translator",
            "embed",
            "encoder.layers.1.self_attn",
            "head",
            "CrossEntropyLoss",
        } <= paths
        assert sorted(row["seq"] for row in mine) == list(range(len(mine)))
        inner = sum(
            row["duration"] for row in mine if row["module"] in ("embed", "encoder", "head")
        )
        whole = next(row for row in mine if row["module"] == "Translator")
        assert 0 < inner <= whole["duration"]
        assert whole["device"] == "cpu" and whole["allocated"] is None
    assert any(row["class"] == "Adam" and row["stage"] == "step" for row in trace)


def check_backward(trace: List[Json]) -> None:
    """Checks steps 4 to 7, which also trace the backward pass of modules."""
    mine = [row for row in trace if row["step"] in range(4, 8) and row["stage"] == "backward"]
    paths = {row["module"] for row in mine}
    assert {"head", "encoder.layers.0.linear1"} <= paths, paths
    assert all(row["duration"] >= 0 for row in mine)


def check_filters(trace: List[Json], events: List[Json]) -> None:
    """Checks which modules were traced between the program's events."""
    times = sorted(row["ts_ns"] for row in events)
    seen: Dict[int, Set[str]] = defaultdict(set)
    for row in trace:
        for i, (begin, end) in enumerate(zip(times, times[1:])):
            if begin <= row["ts_ns"] < end:
                seen[i].add(row["module"].split("Filtered.")[-1])
    assert seen == {0: {"a.0", "b"}, 1: {"Filtered"}, 2: {"a.0"}}, seen


@pytest.mark.parametrize("which", sorted(PYTHONS))
def test_models_are_traced_and_unchanged(which: str, tmp_path: Path) -> None:
    python = find_python(which)
    output = run_program(python, tmp_path, "torch_checks.py")[-1]
    for name, why in output["failed"].items():
        raise AssertionError(f"{name} with PyTorch {output['torch']}:\n{why}")
    pid = output["pid"]
    trace = rows(pid, "SELECT * FROM python.torch_trace")
    check_transformer(trace)
    check_backward(trace)
    check_filters(trace, rows(pid, "SELECT ts_ns FROM python.span WHERE name LIKE 'filter%'"))
    classes = Counter(row["class"] for row in trace)
    assert classes["Fails"] == 3, "a call that raises has a row"
    assert classes["Deep"] == 151 and classes["Many"] == 1
    assert any("层é😀" in row["module"] for row in trace)
    shared = [row for row in trace if row["class"] == "Shared"]
    assert len(shared) == 800 and len({row["thread_id"] for row in shared}) == 4
    gpu = [row for row in trace if row["class"] == "OnGpu"]
    assert [(row["duration"], row["cached"]) for row in gpu] == [(1.0, 3.0)] * 2
    steps = rows(pid, "SELECT * FROM python.torch_step ORDER BY ts_ns")
    assert [row["step"] for row in steps[:8]] == list(range(8))
    assert all(row["sampled"] and row["duration"] > 0 for row in steps[:8])
    costs = rows(pid, "SELECT * FROM gsprof.overhead WHERE percent IS NOT NULL")
    assert any(row["low_percent"] is None for row in costs), "an overhead from the hooks' own times"
    compared = [row for row in costs if row["low_percent"] is not None]
    assert compared, "steps with and without hooks were compared"
    for row in compared:
        assert row["low_percent"] <= row["percent"] <= row["high_percent"], row
        assert row["source"] == "torch" and row["samples"] >= 21, row
    losses = rows(pid, "SELECT * FROM python.variables WHERE name = 'loss'")
    assert {row["step"] for row in losses} >= set(range(8))
    assert all(float(row["value"]) > 0 and row["func"] == "train" for row in losses)
    if which == "current":
        assert classes["Tanh"] == 3, "eager modules are traced beside a compiled one"


def test_the_wrapper_in_every_interpreter(python: Python, tmp_path: Path) -> None:
    output = run_program(python.path, tmp_path, "torch_standin.py")[-1]
    found = rows(output["pid"], "SELECT module, count(*) AS n FROM python.torch_trace GROUP BY ALL")
    counts = {row["module"]: row["n"] for row in found}
    assert counts["Fails"] == 1 and counts["Again"] == 101, counts
    assert counts["b.c"] > 3000, counts


@pytest.mark.parametrize("which", PYTHONS)
def test_every_step_is_traced_if_that_is_cheap(which: str, tmp_path: Path) -> None:
    """The first calls, with cold code and new pages, do not count for all."""
    output = run_program(find_python(which), tmp_path, "torch_every_step.py")
    assert output == [{"thin": 1, "steps": 60}]


def test_the_environment_enables_tracing(tmp_path: Path) -> None:
    """The hooks are installed when the import of torch ends, before the program's next line."""
    env = {"GSPROF_TORCH_PROFILING": "rate=0.25,modules=leaf"}
    output = run_program(find_python("debian"), tmp_path, "torch_env.py", env=env)[-1]
    assert output == {"call": "ModuleCall", "rate": "0.25", "modules": "leaf", "threads": 1}


@pytest.mark.parametrize("which", sorted(PYTHONS))
def test_ranks_and_their_collectives(which: str, tmp_path: Path) -> None:
    python = find_python(which)
    output = run_program(python, tmp_path, "torch_ranks.py", str(tmp_path / "store"))
    if "missing" in output[0]:
        pytest.skip(output[0]["missing"])
    assert sorted(rank["rank"] for rank in output) == [0, 1]
    sampled = []
    for rank in output:
        assert not rank["why"], rank["why"]
        found = rows(rank["pid"], "SELECT * FROM python.collective ORDER BY ts_ns")
        assert all(row["rank"] == rank["rank"] and row["group_size"] == 2 for row in found), found
        calls = [(row["op"], row["bytes"], row["async"]) for row in found]
        assert calls[:3] == [
            ("all_reduce", 32, False),
            ("all_gather", 32, False),
            ("broadcast", 32, False),
        ]
        assert ("all_reduce", 32, True) in calls and ("barrier", None, False) in calls
        assert all(row["duration"] > 0 for row in found)
        groups = {row["group_name"] for row in found}
        assert "default" in groups and len(groups) == 2
        steps = rows(rank["pid"], "SELECT step, sampled FROM python.torch_step ORDER BY step")
        assert [row["step"] for row in steps] == list(range(6))
        sampled.append([row["sampled"] for row in steps])
        sizes = rows(rank["pid"], "SELECT value FROM gsprof.setting WHERE name = 'world_size'")
        assert {row["value"] for row in sizes} == {"2"}
        traced = rows(rank["pid"], "SELECT DISTINCT step FROM python.torch_trace ORDER BY step")
        assert [row["step"] for row in traced] == [0, 2, 4]
    assert sampled == [[True, False] * 3] * 2, "the same steps on all ranks"


def test_collectives_of_sharded_models(tmp_path: Path) -> None:
    """FSDP2 of PyTorch 2.13 calls collectives by other names."""
    python = find_python("current")
    output = run_program(python, tmp_path, "torch_fsdp.py", str(tmp_path / "store"))
    if "missing" in output[0]:
        pytest.skip(output[0]["missing"])
    for rank in output:
        assert not rank["why"], rank["why"]
        found = rows(rank["pid"], "SELECT * FROM python.collective ORDER BY ts_ns")
        gathered = [row for row in found if row["op"].startswith("all_gather")]
        scattered = [row for row in found if row["op"].startswith("reduce_scatter")]
        # Two steps of two layers: gathers before the forward pass and possibly before the backward
        # pass; gradients after it.
        assert len(gathered) >= 4 and len(scattered) == 4, found
        assert {row["bytes"] for row in gathered} == {4 * 4 * 8, 4 * 1 * 8}, found
        assert {row["bytes"] for row in scattered} == {4 * 8 * 8, 4 * 2 * 8}, found
        assert (found[-1]["op"], found[-1]["bytes"], found[-1]["async"]) == ("all_reduce", 16, True)
        assert all(row["group_size"] == 2 and row["duration"] > 0 for row in found), found


def test_collectives_by_all_names(tmp_path: Path) -> None:
    output = run_program(main_python(), tmp_path, "torch_collectives.py")[-1]
    found = rows(output["pid"], "SELECT op, bytes, async FROM python.collective ORDER BY ts_ns")
    assert [(row["op"], row["bytes"], row["async"]) for row in found] == [
        ("all_gather_single", 24, False),
        ("reduce_scatter_single", 24, True),
        ("all_reduce_coalesced", 48, False),
        ("batch_isend_irecv", 72, True),
        ("all_gather_single", 24, True),
    ]
