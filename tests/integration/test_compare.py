# SPDX-License-Identifier: Apache-2.0
"""gsprof compare: two runs, sessions or profiles, and rules that set the exit status."""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Dict

import pytest
from made_runs import make_run
from support import EXIT_FORMAT, EXIT_NOFILE, EXIT_NOWRITE, EXIT_USAGE, Json, gsprof

# Runs have fixed seeds, so every result is deterministic.
RULE_FAILED = 1
BEFORE = "main;work;hot 100\nmain;work;cold 50\nmain;gone 10\n"
AFTER = "main;work;hot 150\nmain;work;cold 45\nmain;<fresh> 5\n"


@pytest.fixture(scope="module", name="runs")
def fixture_runs(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """A run, a similar one, and one whose steps and first modules are slower."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "base": make_run(folder / "base", 1, modules=30),
        "like": make_run(folder / "like", 2, steps=250),
        "slow": make_run(
            folder / "slow", 3, 200, 0.106, modules=30, module_factor=1.3, host="there"
        ),
    }


@pytest.fixture(name="profiles")
def fixture_profiles(tmp_path: Path) -> Dict[str, Path]:
    paths = {"a": tmp_path / "a.folded", "b": tmp_path / "b.folded"}
    paths["a"].write_text(BEFORE)
    paths["b"].write_text(AFTER)
    return paths


def document(*args: object) -> Json:
    found: Json = json.loads(gsprof("compare", *args, "-f", "json").out)
    assert (found["format"], found["kind"]) == ("gsprof-report", "compare")
    return found


def named(rows: object, name: str) -> Json:
    assert isinstance(rows, list)
    found: Json = next(row for row in rows if row["name"] == name)
    return found


def test_slower_run(runs: Dict[str, Path]) -> None:
    found = document(runs["base"], runs["slow"], "--fail-if", "step_time > 50%")
    compare = found["compare"]
    step = named(compare["metrics"], "step_time")
    assert step["verdict"] == "worse" and step["p"] < 0.001 and step["effect"] > 0.5
    assert step["low"] < 0.06 < step["high"] and step["high"] - step["low"] < 0.03
    # The first two are warm-up.
    assert (step["n_a"], step["n_b"]) == (298, 198)
    assert named(compare["metrics"], "throughput")["verdict"] == "worse"
    assert named(compare["metrics"], "wall_time")["verdict"] == "unknown"
    assert re.match(r"slow is [56]\.\d % slower per step than base", compare["verdict"])
    worse = {row["name"] for row in compare["modules"] if row["verdict"] != "same"}
    # One in twenty of the modules reported as different may be chance.
    assert worse >= {f"layers.{i} forward" for i in range(10)} and len(worse) <= 12
    assert [rule["rule"] for rule in compare["passed"]] == ["step_time > 50%"]
    assert not compare["failed"]
    lines = [line["name"] for line in named_chart(compare, "steps")["series"]]
    assert [line.split(":")[0] for line in lines] == ["base", "slow"]
    assert any("different machines (here, there)" in fact["value"] for fact in found["facts"])


def named_chart(compare: Json, name: str) -> Json:
    found: Json = next(chart for chart in compare["charts"] if chart["id"] == name)
    return found


def test_equal_runs(runs: Dict[str, Path]) -> None:
    text = gsprof("compare", runs["base"], runs["like"], "--fail-if", "step_time > 0%").out
    assert "like is as fast per step as base; difference not significant" in text
    both = f"{runs['base']},{runs['like']}"
    assert "2 recordings against 2" in gsprof("compare", both, both).out
    text = gsprof("compare", runs["base"], runs["base"]).out
    assert "no difference: A and B have equal values" in text


def test_same_input_same_output(runs: Dict[str, Path]) -> None:
    first = gsprof("compare", runs["base"], runs["slow"], "-f", "md").out
    assert first == gsprof("compare", runs["base"], runs["slow"], "-f", "md").out
    assert "**slow is " in first and "| step\\_time |" in first


def test_rules_that_fail(runs: Dict[str, Path]) -> None:
    rules = ["step_time > 5%", "throughput < -3%", "step_time > +3ms", "wall_time > 2s"]
    rules += ["module:* > 20%", "step_time > 90%"]
    args = [word for rule in rules for word in ("--fail-if", rule)]
    done = gsprof("compare", runs["base"], runs["slow"], *args, status=RULE_FAILED)
    for rule in rules[:-1]:
        assert f"gsprof: {rule}: failed" in done.err and f"{rule}: failed" in done.out
    assert "step_time > 90%: passed" in done.out and "90%" not in done.err


def test_significance(runs: Dict[str, Path]) -> None:
    rule = ["--fail-if", "wall_time < 0%"]
    done = gsprof("compare", runs["base"], runs["slow"], *rule)
    assert "--no-significance" in done.err and "too few values" in done.out
    gsprof("compare", runs["base"], runs["slow"], *rule, "--no-significance", status=RULE_FAILED)


@pytest.mark.parametrize(
    "rule, status, message",
    [
        ("step_time 5%", EXIT_USAGE, "no comparison operator"),
        ("stp_time > 5%", EXIT_USAGE, "did you mean 'step_time'"),
        ("gpu_util < -5%", EXIT_FORMAT, "not in both recordings: gpu_util"),
    ],
)
def test_invalid_rules(runs: Dict[str, Path], rule: str, status: int, message: str) -> None:
    done = gsprof("compare", runs["base"], runs["slow"], "--fail-if", rule, status=status)
    assert message in done.err and not done.out


def test_profiles(profiles: Dict[str, Path], tmp_path: Path) -> None:
    compare = document(profiles["a"], profiles["b"])["compare"]
    first = compare["functions"][0]
    assert (first["func"], first["a_s"], first["b_s"]) == ("hot", 100, 150)
    nodes = compare["stacks"]["nodes"]
    names = [compare["stacks"]["frames"][frame]["func"] for frame in nodes["frame"]]
    assert dict(zip(names, zip(nodes["a"], nodes["b"]))) == {
        "main": (160, 200),
        "work": (150, 195),
        "hot": (100, 150),
        "cold": (50, 45),
        "gone": (10, 0),
        "<fresh>": (0, 5),
    }
    assert len(nodes["parent"]) == len(names)
    gsprof("compare", profiles["a"], profiles["b"], "-o", tmp_path / "diff.svg")
    root = ElementTree.parse(tmp_path / "diff.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    boxes = {
        (box.findtext(f"{space}title") or "").split("\n")[0]: box.get("class", "")
        for box in root.iter(f"{space}svg")
        if box.get("class")
    }
    assert boxes["hot +"] in ("f d5", "f d6") and boxes["gone \u2212"] == "f d0"
    assert boxes["<fresh> +"] == "f d8"


def test_page(runs: Dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "compare.html"
    done = gsprof("compare", runs["base"], runs["slow"], "-o", page)
    assert "slower per step" in done.err and "Wrote" in done.err
    # The terminal shows the notes as well as the page.
    notes = document(runs["base"], runs["slow"])["facts"]
    expected = [fact["value"] for fact in notes if fact["name"] == "Note"]
    assert expected and all(note in done.err for note in expected), done.err
    text = page.read_text()
    assert text.startswith("<!") and "step_time" in text
    gsprof("compare", runs["base"], runs["slow"], "-o", page, status=EXIT_NOWRITE)


def test_nothing_in_common(
    profiles: Dict[str, Path], runs: Dict[str, Path], tmp_path: Path
) -> None:
    done = gsprof("compare", runs["base"], profiles["a"], status=EXIT_FORMAT)
    assert "nothing in common" in done.err
    other = tmp_path / "other.folded"
    other.write_text("another;program 5\n")
    gsprof("compare", profiles["a"], other, status=EXIT_FORMAT)
    gsprof("compare", profiles["a"], tmp_path / "none.gsp", status=EXIT_NOFILE)
    gsprof("compare", profiles["a"], status=EXIT_USAGE)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "meta.json").write_text('{"name": "empty", "state": "complete"}')
    gsprof("compare", runs["base"], empty, status=EXIT_FORMAT)


def session(path: Path, load: float) -> Path:
    """Creates a session of 60 metric frames; one value is null."""
    chance = random.Random(load)
    frames = [
        {
            "time": f"2026-01-31T12:00:{i:02d}.000+00:00",
            "cpu": {"util_percent": None if i == 7 else load + chance.random()},
        }
        for i in range(60)
    ]
    path.write_text(json.dumps({"metadata": {"name": path.stem}, "frames": frames}))
    return path


def test_sessions(tmp_path: Path) -> None:
    before = session(tmp_path / "before.json", 20)
    after = session(tmp_path / "after.json", 30)
    compare = document(before, after)["compare"]
    row = named(compare["metrics"], "machine_cpu")
    assert abs(row["a"] - 20.5) < 0.2 and abs(row["b"] - 30.5) < 0.2
    assert row["verdict"] == "changed" and "better" not in row
    assert "wall_time" not in {row["name"] for row in compare["metrics"]}
    assert compare["verdict"].startswith("1 of 1 metrics differ: machine_cpu +4")
