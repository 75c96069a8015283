# SPDX-License-Identifier: Apache-2.0
"""dump: the current line of each thread, compared with what the interpreter reports."""

from __future__ import annotations

import json
from typing import List, Tuple

import pytest

from conftest import StartTarget
from support import EXIT_NOPROC, Json, Python, Target, gsprof, walk


def dump(pid: int, *flags: str) -> List[Json]:
    """Returns the threads of a process."""
    threads: List[Json] = json.loads(gsprof("dump", "-p", pid, "--json", *flags).out)
    return threads


def main_thread(threads: List[Json]) -> Json:
    found = [thread for thread in threads if thread["is_main"]]
    assert len(found) == 1, threads
    return found[0]


def frames_to_station(target: Target) -> List[Json]:
    """Returns the frames below station(), outermost first. The target may still be executing
    station() itself."""
    frames: List[Json] = main_thread(dump(target.pid))["frames"]
    names = [frame["name"] for frame in frames]
    assert "station" in names, frames
    return list(reversed(frames[names.index("station") + 1 :]))


def check_station(target: Target) -> None:
    """Checks that dump shows the stack that the interpreter itself reports."""
    frames = frames_to_station(target)
    seen = [(f["name"], f["filename"], f["line"]) for f in frames]
    truth: List[Tuple[str, str, int]] = [
        (f["name"], f["file"], f["line"]) for f in walk(target.facts)
    ]
    assert seen == truth, target.facts["case"]


@pytest.mark.parametrize("name", ["linenos.py", "generators.py", "warmed.py"])
def test_lines(name: str, python: Python, start: StartTarget) -> None:
    """Names, files and exact lines at every station."""
    target = start(name, python=python)
    stations = 0
    while "case" in target.facts:
        check_station(target)
        stations += 1
        target.go()
    assert stations >= 15


def clean(name: str) -> str:
    """Returns a name as valid UTF-8: lone surrogates become the replacement character."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_names(python: Python, start: StartTarget) -> None:
    """Unusual names are shown unchanged; very long ones may be cut."""
    target = start("names.py", "stations", python=python)
    while "case" in target.facts:
        frames = frames_to_station(target)
        truth = list(walk(target.facts))
        assert len(frames) == len(truth)
        for seen, true in zip(frames, truth):
            if len(true["name"]) > 200:
                assert seen["name"][:200] == true["name"][:200]
            elif target.facts["case"] == "surrogate":
                assert seen["name"].startswith(true["name"][:4])
            else:
                assert seen["name"] == clean(true["name"])
        target.go()


def test_names_on_a_terminal(start: StartTarget) -> None:
    """No name can send a control character to the terminal."""
    target = start("names.py", "stations")
    while "case" in target.facts:
        text = gsprof("dump", "-p", target.pid).out
        assert "\x1b" not in text and "\x07" not in text and "\x00" not in text
        target.go()


def test_threads(python: Python, start: StartTarget) -> None:
    target = start("threads8.py", python=python)
    raw = dump(target.pid)
    threads = {thread["thread_name"]: thread for thread in raw}
    assert set(threads) == set(target.facts["threads"])
    assert [name for name, thread in threads.items() if thread["is_main"]] == ["MainThread"]
    for name, thread in threads.items():
        names = [frame["name"] for frame in thread["frames"]]
        if name.startswith("wait_"):
            assert name in names
            assert not thread["active"] and not thread["owns_gil"], thread
    assert len({thread["thread_id"] for thread in threads.values()}) == 8
    assert len({thread["os_thread_id"] for thread in threads.values()}) == 8
    assert threads["MainThread"]["os_thread_id"] == target.pid
    assert threads["runner"]["active"]
    version = ".".join(map(str, python.version))
    assert raw[0]["process_info"]["python_version"].startswith(version)


def test_gil_holder(start: StartTarget) -> None:
    """The thread that runs Python holds the GIL in nearly every dump."""
    target = start("threads8.py")
    held = 0
    for _ in range(20):
        holders = [t["thread_name"] for t in dump(target.pid) if t["owns_gil"]]
        assert holders in (["runner"], [])
        held += bool(holders)
    assert held >= 15


def test_text(start: StartTarget) -> None:
    """The text form: the command line, every thread, the innermost frame first."""
    target = start("idle.py")
    text = gsprof("dump", "-p", target.pid).out
    assert str(target.pid) in text and "idle" in text
    assert text.index("nap") < text.index("<module>")
    assert "\x1b" not in text


def local_values(thread: Json, function: str) -> Json:
    for frame in thread["frames"]:
        if frame["name"] == function:
            return {row["name"]: row for row in frame["locals"]}
    raise AssertionError(f"no {function} in {thread}")


PLAIN = {
    "an_int": "42",
    "negative": "-7",
    "zero": "0",
    "a_float": "1.5",
    "infinite": "inf",
    "yes": "True",
    "no": "False",
    "nothing": "None",
    "text": "'hello'",
    "some_bytes": "b'ab\\x00\\xff'",
    "a_list": "[1, 2, 3]",
    "a_tuple": "(1, 'two', None)",
    "one_tuple": "(5,)",
    "a_dict": "{'key': 1, 2: [3]}",
    "a_set": "{11}",
    "empty_list": "[]",
    "empty_dict": "{}",
    "unicode_text": "'größe 函数 \U0001f40d'",
}


def test_locals(python: Python, start: StartTarget) -> None:
    """Every kind of value, without executing code in the target."""
    target = start("locals.py", python=python)
    done = gsprof("dump", "-p", target.pid, "--json", "--locals")
    assert len(done.out) < 200000
    found = local_values(main_thread(json.loads(done.out)), "stand")
    for name, text in PLAIN.items():
        assert found[name]["repr"] == text, (name, found[name])
    assert found["frozen"]["repr"] == "frozenset({12})"
    assert "2" in found["a_complex"]["repr"]
    assert found["big"]["repr"] == str(2**100) or "int" in found["big"]["repr"]
    assert "Thing" in found["thing"]["repr"] and "0x" in found["thing"]["repr"]
    assert len(found["long_text"]["repr"]) < 2000
    assert (
        found["huge_list"]["repr"].startswith("[0, 1, 2") and len(found["huge_list"]["repr"]) < 2000
    )
    assert found["cycle"]["repr"].startswith("[1, ") and len(found["cycle"]["repr"]) < 2000
    assert found["nested"]["repr"].startswith("[[[")
    if target.facts["has_numpy"]:
        assert "2.5" in found["np_float"]["repr"]
        assert "-7" in found["np_int"]["repr"]
        assert "3, 4" in found["np_array"]["repr"] and "float32" in found["np_array"]["repr"]
    target.go()
    found = local_values(main_thread(dump(target.pid, "--locals")), "with_arguments")
    assert found["rest"]["repr"] == "(2, 3)"
    assert found["key"]["repr"] == "'k'"
    assert found["more"]["repr"] == "{'other': 4}"


def test_locals_text(start: StartTarget) -> None:
    target = start("locals.py")
    text = gsprof("dump", "-p", target.pid, "--locals").out
    assert "an_int" in text and "42" in text and "'hello'" in text
    assert "\x1b" not in text


def test_no_locals_by_default(start: StartTarget) -> None:
    target = start("locals.py")
    text = gsprof("dump", "-p", target.pid, "--json").out
    assert "an_int" not in text


def test_no_such_process() -> None:
    gsprof("dump", "-p", 2**22 - 3, status=EXIT_NOPROC)
