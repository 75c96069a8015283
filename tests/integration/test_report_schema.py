# SPDX-License-Identifier: Apache-2.0
"""Every report document matches its JSON Schema, and the schema describes every member."""

from __future__ import annotations

import copy
import importlib
import json
import re
import runpy
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

import pytest

import made_runs
import report_documents
from conftest import StartWriter
from support import ROOT, Json, gsprof
from test_report import made_session, make_run

# Debian has no type stubs for jsonschema.
jsonschema: Any = importlib.import_module("jsonschema")
GENERATOR = runpy.run_path(str(ROOT / "tools" / "gen_report_schema.py"))
SCHEMA: Json = json.loads(GENERATOR["SCHEMA"].read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DOCUMENTS: Dict[str, Callable[[], Json]] = {
    "ordinary": report_documents.ordinary,
    "comparison": report_documents.comparison,
    "hostile": report_documents.hostile,
    "late": report_documents.late,
    "large": report_documents.large,
    "empty": report_documents.empty,
    "bare": report_documents.bare,
    "timeless": report_documents.timeless,
    "memory": report_documents.memory,
    "bars": lambda: report_documents.bars(1),
}

__all__ = ["make_run"]  # the fixture "run"


def resolve(node: Json) -> Json:
    name = str(node.get("$ref", "")).rpartition("/")[2]
    return {**SCHEMA["$defs"][name], **node} if name else node


def walk(value: Any, node: Json, where: str = "report") -> Iterator[Tuple[str, Json, Json]]:
    """Yields every object of a document with its path and schema."""
    node = resolve(node)
    if isinstance(value, dict):
        yield where, value, node
        for name, member in value.items():
            yield from walk(member, node["properties"][name], f"{where}.{name}")
    elif isinstance(value, list) and isinstance(node["items"].get("$ref"), str):
        for i, item in enumerate(value):
            yield from walk(item, node["items"], f"{where}[{i}]")


def check(document: Json) -> None:
    faults = [
        f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(document)
    ]
    assert faults == []
    for where, value, node in walk(document, SCHEMA):
        lengths = {name: len(value[name]) for name in node.get("x-columns", []) if name in value}
        assert len(set(lengths.values())) <= 1, f"{where}: {lengths}"


def printed_document(*args: object, **options: Any) -> Json:
    found: Json = json.loads(gsprof(*args, "-f", "json", **options).out)
    check(found)
    return found


def test_schema_describes_every_member() -> None:
    VALIDATOR.check_schema(SCHEMA)
    for name, node in GENERATOR["definitions"](SCHEMA):
        assert node["description"].endswith("."), name
        for member, sub in node.get("properties", {}).items():
            assert sub["description"].endswith("."), f"{name}.{member}"
        assert "properties" not in node or node["additionalProperties"] is False, name


@pytest.mark.parametrize("name", DOCUMENTS)
def test_example_documents(name: str) -> None:
    check(DOCUMENTS[name]())


def test_example_in_the_documentation() -> None:
    text = GENERATOR["REFERENCE"].read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert example
    check(json.loads(example[1]))


@pytest.mark.parametrize(
    "path, value",
    [
        (["undocumented"], 1),
        (["stacks", "samples", "undocumented"], []),
        (["cards", 0, "tone"], "loud"),
        (["duration_s"], "30"),
        (["version"], 2),
    ],
)
def test_other_documents_are_rejected(path: Any, value: object) -> None:
    document = copy.deepcopy(report_documents.ordinary(1.0))
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not VALIDATOR.is_valid(document)


def test_missing_members_are_rejected() -> None:
    document = report_documents.ordinary(1.0)
    for name in SCHEMA["required"]:
        assert not VALIDATOR.is_valid({k: v for k, v in document.items() if k != name}), name
    assert not VALIDATOR.is_valid({**document, "kind": "compare"})


def test_a_run(run: Path) -> None:
    found = printed_document("report", run)
    assert found["kind"] == "run" and {"stacks", "modules", "steps", "spans", "memory"} <= set(
        found
    )


def test_a_session(tmp_path: Path) -> None:
    session = made_session()
    path = tmp_path / "epoch.json"
    path.write_text(json.dumps(session))
    assert printed_document("report", path)["losses"]
    session["losses"] = {"frames_lost": 0}
    path.write_text(json.dumps(session))
    assert printed_document("report", path)["losses"] == []
    del session["losses"]
    path.write_text(json.dumps(session))
    assert "losses" not in printed_document("report", path)


def test_a_profile(run: Path, tmp_path: Path) -> None:
    assert printed_document("report", run / "profile.gsp")["kind"] == "profile"
    printed_document("report", run / "profile.gsp", "--lines")
    folded = tmp_path / "a.folded"
    folded.write_text("main;work 3\nmain 1\n")
    found = printed_document("report", folded)
    assert "t" not in found["stacks"]["samples"] and "losses" not in found
    assert "losses not recorded" in json.dumps(found["cards"])


def test_a_recording(tmp_path: Path) -> None:
    program = tmp_path / "busy.py"
    program.write_text("import time\nend = time.time() + 0.3\nwhile time.time() < end: pass\n")
    gsprof("run", "-q", "-o", tmp_path / "run", "--", "python3", program, cwd=tmp_path)
    assert isinstance(printed_document("report", tmp_path / "run")["losses"], list)


def test_a_process(writer: StartWriter, runtime: Dict[str, str]) -> None:
    target = writer("--rank", 3)
    assert printed_document("report", target.pid, env=runtime)["kind"] == "run"


def test_a_comparison(run: Path, tmp_path: Path) -> None:
    before = made_runs.make_run(tmp_path / "before", 1, modules=3)
    after = made_runs.make_run(tmp_path / "after", 2, modules=3)
    rules = ["--fail-if", "step_time > 90%", "--fail-if", "step_time > -90%"]
    found = printed_document("compare", before, after, *rules, status=None)["compare"]
    assert found["failed"] or found["passed"]
    assert printed_document("compare", run / "profile.gsp", run / "profile.gsp")["compare"][
        "stacks"
    ]
    folded = [tmp_path / "a.folded", tmp_path / "b.folded"]
    folded[0].write_text("main;work 3\n")
    folded[1].write_text("main;work 4\nmain;rest 1\n")
    assert printed_document("compare", *folded)["kind"] == "compare"
