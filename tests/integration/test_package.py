# SPDX-License-Identifier: Apache-2.0
"""The Python package: marks, activation by the environment, and failures that must not affect the
program."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import pytest
from conftest import NEEDS_EXTENSION, StartTarget, own_mounts
from support import PACKAGE, PATIENCE_S, Json, Python, Target, gsprof, is_root, main_python


pytestmark = NEEDS_EXTENSION


def rows(pid: int, sql: str, env: Mapping[str, str]) -> List[Json]:
    found: List[Json] = json.loads(gsprof("query", pid, sql, "-f", "json", env=env).out)
    return found


def quiet(env: Mapping[str, str], **more: str) -> Dict[str, str]:
    """Without a follower, which is tested elsewhere."""
    return {**env, "GSPROF_FOLLOW": "off", "GSPROF_DEBUG": "1", **more}


def run(
    code: str,
    env: Mapping[str, str],
    python: Optional[str] = None,
    args: Sequence[str] = (),
    cwd: Optional[Path] = None,
) -> str:
    """Returns the output of a program, which must succeed."""
    whole = {**os.environ, **env}
    done = subprocess.run(
        [python or main_python(), *args, "-c", code] if code else [python or main_python(), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=whole,
        cwd=cwd,
        timeout=PATIENCE_S,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, output
    return output


# ------------------------------------------------------------------------- marks


def check_spans(spans: List[Json]) -> None:
    by_name: Dict[str, List[Json]] = {}
    for span in spans:
        by_name.setdefault(span["name"], []).append(span)
    one: Dict[str, Json] = {name: found[0] for name, found in by_name.items()}

    def parent_of(name: str) -> Optional[str]:
        parent = one[name]["parent"]
        return next((s["name"] for s in spans if s["span_id"] == parent), None)

    assert "off" not in by_name and "in child" not in by_name
    for name in ("plain", "coroutine", "generator", "async generator", "static", "class"):
        assert name in by_name, sorted(by_name)
    assert one["coroutine"]["phase"] == "async"
    assert parent_of("inner") == "outer" and parent_of("event") == "inner"
    assert parent_of("inner a") == "task a" and parent_of("inner b") == "task b"
    assert one["task a"]["parent"] is None and one["task b"]["parent"] is None
    assert one["event"]["duration_ns"] == 0 and one["event"]["attributes"] == {
        "items": [1, "two", None]
    }
    outer = one["outer"]
    assert outer["phase"] == "data" and outer["parent"] is None
    assert outer["attributes"] == {
        "n": 1,
        "share": 0.5,
        "on": True,
        "text": "?é",
        "bad": "Bad",
        "later": {"a": 1},
    }
    assert outer["start_ns"] <= one["inner"]["start_ns"]
    assert outer["duration_ns"] >= one["inner"]["duration_ns"] >= 0
    assert one["error"]["attributes"] == {"error": "ValueError"}
    assert one["interrupt"]["attributes"] == {"error": "KeyboardInterrupt"}
    assert len(by_name["thread"]) == 4
    assert len({span["thread_id"] for span in by_name["thread"] + by_name["main"]}) >= 2
    assert all(span["thread_id"] != one["main"]["thread_id"] for span in by_name["thread"])
    assert len(by_name["deep"]) == 51 and len(by_name["before fork"]) == 1
    assert len(by_name["reused"]) == 3
    assert len({span["span_id"] for span in spans}) == len(spans)


def check_stacks(frames: List[Json]) -> None:
    triggers: Dict[str, List[Json]] = {}
    for frame in frames:
        triggers.setdefault(frame["trigger"], []).append(frame)
    assert set(triggers) == {"span", "exception", "gc"}
    for trigger, found in triggers.items():
        found.sort(key=lambda frame: int(frame["depth"]))
        assert found[0]["func"] == "stacks", (trigger, found[0])
        assert found[-1]["func"] == "<module>"
        assert found[0]["locals"]["marker"] == "17"
        assert found[0]["frame_type"] == "Python" and found[0]["lineno"] > 0


def test_marks(start: StartTarget, python: Python, runtime: Dict[str, str]) -> None:
    """Spans as context managers and decorators; threads, tasks, fork, errors, stacks, shutdown."""
    if "t-" in python.label and not list((PACKAGE / "gsprof").glob("*t-*.so")):
        pytest.skip("needs an extension that is built for free-threaded interpreters")
    ranks = {"RANK": "3", "WORLD_SIZE": "8", "SLURM_LOCALID": "1"}
    env = quiet(runtime, PYTHONPATH=str(PACKAGE), **ranks)
    target = start("package_marks.py", python=python, env=env)
    target.process.stdin.write(b"x")  # type: ignore[union-attr]
    target.process.stdin.flush()  # type: ignore[union-attr]
    assert target.process.wait(PATIENCE_S) == 0
    pid = target.pid
    spans = rows(
        pid,
        "SELECT span_id, name, phase, start_ns, duration_ns, parent, thread_id, rank, "
        "attributes::JSON AS attributes FROM python.span WHERE name <> 'daemon'",
        runtime,
    )
    for span in spans:
        if isinstance(span["attributes"], str):
            span["attributes"] = json.loads(span["attributes"])
        assert span["rank"] == 3
    check_spans(spans)
    assert "last" in {span["name"] for span in spans}
    sql = "SELECT DISTINCT name, value FROM gsprof.setting WHERE name NOT LIKE 'gsprof.%'"
    facts = {row["name"]: row["value"] for row in rows(pid, sql, runtime)}
    assert facts.pop("python_version").startswith("3.")
    assert facts == {"world_size": "8", "local_rank": "1"}
    steps = rows(pid, "SELECT * FROM python.torch_step ORDER BY ts_ns", runtime)
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert steps[0]["duration"] is None and steps[1]["duration"] > 0
    assert steps[1]["samples_per_sec"] == pytest.approx(8 / steps[1]["duration"])
    frames = rows(
        pid,
        "SELECT depth, func, lineno, frame_type, trigger, locals::JSON AS locals "
        "FROM python.backtrace",
        runtime,
    )
    for frame in frames:
        if isinstance(frame["locals"], str):
            frame["locals"] = json.loads(frame["locals"])
    check_stacks(frames)
    children = rows(target.facts["child"], "SELECT name FROM python.span", runtime)
    assert [child["name"] for child in children] == ["in child"]


EVENTS = """
import gc, json, os, sys, time
import gsprof
assert gsprof.enable(stack_span="^captured$", stack_exception=True, stack_gc=0.0001)
def pause():
    # Stacks of events are rate-limited.
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
gc.disable()
pause()
with gsprof.span("captured"):
    with gsprof.span("not captured"):
        pass
pause()
try:
    with gsprof.span("outer"):
        with gsprof.span("inner"):
            raise ValueError
except ValueError:
    pass
pause()
gc.collect()
gsprof.config(stack_gc=0)
pause()
for _ in range(20):
    gsprof.step()
    sum(range(1000))
# The median is known by now; this step is slower than the twenty before it.
gsprof.config(stack_slow_step=3)
time.sleep(0.5)
gsprof.step()
print(json.dumps({"pid": os.getpid()}), flush=True)
sys.stdin.read()
"""


def test_stacks_of_events_beside_live_ones(runtime: Dict[str, str], tmp_path: Path) -> None:
    """Each event's stack appears once, with the current stack; after kill -9 without it."""
    script = tmp_path / "events.py"
    script.write_text(EVENTS)
    env = {**os.environ, **quiet(runtime, PYTHONPATH=str(PACKAGE))}
    target = Target([main_python(), str(script)], env)
    sql = (
        "SELECT trigger, count(*) AS frames, count(DISTINCT ts_ns) AS times, min(depth) AS least "
        "FROM python.backtrace WHERE frame_type = 'Python' GROUP BY ALL"
    )
    try:
        live = {row["trigger"]: row for row in rows(target.pid, sql, runtime)}
    finally:
        target.end()
    dead = {row["trigger"]: row for row in rows(target.pid, sql, runtime)}
    events = {"span", "exception", "gc", "slow step"}
    assert set(live) == events | {"query"} and set(dead) == events, (live, dead)
    for trigger in events:
        assert live[trigger] == dead[trigger]
        assert live[trigger]["times"] == 1 and live[trigger]["least"] == 0, live[trigger]
        assert live[trigger]["frames"] == 1, "the script has one frame"


LIMITED = """
import json, os, sys, time
import gsprof
assert gsprof.enable(stack_span="^s$", stack_exception=True)
def burst(count):
    for _ in range(count):
        try:
            with gsprof.span("s"):
                raise ValueError
        except ValueError:
            pass
burst(200)
if os.fork() == 0:
    burst(1)
    os._exit(0)
os.wait()
print(json.dumps({"pid": os.getpid()}), flush=True)
sys.stdin.read()
burst(50)
"""


def test_skipped_stacks_are_counted(runtime: Dict[str, str], tmp_path: Path) -> None:
    """Each trigger has its own limit, even for simultaneous events; captured and skipped stacks add
    up to all events."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    env = {**os.environ, **quiet(runtime, PYTHONPATH=str(PACKAGE))}
    target = Target([main_python(), str(script)], env)
    sql = (
        "SELECT trigger, count(DISTINCT ts_ns) AS taken, (SELECT coalesce(sum(count), 0)::BIGINT"
        " FROM gsprof.loss WHERE source = 'python.backtrace' AND cause = trigger || ' limit')"
        " AS left_out FROM python.backtrace WHERE trigger <> 'query' GROUP BY trigger"
    )
    try:
        live = {row["trigger"]: row for row in rows(target.pid, sql, runtime)}
        assert set(live) == {"span", "exception"}
        assert all(row["taken"] >= 1 and row["left_out"] >= 1 for row in live.values()), live
        assert target.process.stdin is not None
        target.process.stdin.close()
        assert target.process.wait(PATIENCE_S) == 0
    finally:
        target.end()
    for row in rows(target.pid, sql, runtime):
        assert row["taken"] + row["left_out"] == 250, row


SUBINTERPRETER = """
import sys
try:
    import _interpreters as low
    make = lambda: low.create("legacy")
    own = lambda: low.create("isolated")
except (ImportError, TypeError):
    try:
        import _xxsubinterpreters as low
    except ImportError:
        import _testcapi
        sys.exit(_testcapi.run_in_subinterp("import gsprof\\nwith gsprof.span('sub'): pass"))
    make = lambda: low.create(isolated=False) if sys.version_info >= (3, 9) else low.create()
    own = lambda: low.create(isolated=True) if sys.version_info >= (3, 12) else None
import gsprof
assert gsprof.enable()
code = "import gsprof\\nwith gsprof.span('sub'): pass\\n"
for _ in range(3):
    one = make()
    failed = low.run_string(one, code)
    assert not failed, failed
    low.destroy(one)
one = own()
if one is not None:
    # With its own GIL: the interpreter rejects the module and continues.
    try:
        low.run_string(one, "try:\\n  import gsprof\\nexcept ImportError:\\n  pass\\n")
    except Exception as error:
        print("refused", type(error).__name__)
    low.destroy(one)
with gsprof.span("main"):
    pass
print("fine")
"""


def test_subinterpreters(python: Python, runtime: Dict[str, str]) -> None:
    if "t-" in python.label:
        pytest.skip("free-threaded interpreters are tested by test_marks")
    output = run(SUBINTERPRETER, quiet(runtime, PYTHONPATH=str(PACKAGE)), python.path)
    assert output.splitlines()[-1:] == ["fine"] or output == "", output


# --------------------------------------------------------------------- switching


PRINT_STATE = (
    "import sys; m = sys.modules.get('gsprof._gsprof'); "
    "print('on' if m and m.is_on() else 'loaded' if m else 'off')"
)


@pytest.mark.parametrize("value", ["0", "off", "", "regex:nothing", "other.py"])
def test_environment_off(value: str, runtime: Dict[str, str], tmp_path: Path) -> None:
    assert start_script(tmp_path, "train.py", value, runtime)["on"] is False


@pytest.mark.parametrize("value", ["1", "followed", "2", "nested", "train.py", "regex:^tr.*n"])
def test_environment_on(value: str, runtime: Dict[str, str], tmp_path: Path) -> None:
    """Each form, with sitecustomize as under `gsprof run`; and whether children are recorded."""
    facts = start_script(tmp_path, "train.py", value, runtime)
    assert facts["on"] is True
    child = {"1": False, "followed": False, "2": True, "nested": True}
    assert facts["child"] == ("on" if child.get(value) else "off")


def start_script(folder: Path, name: str, value: str, runtime: Mapping[str, str]) -> Json:
    """Runs a program that prints whether the agent is on in it, and in a child started with -c."""
    script = folder / name
    script.write_text(
        "import json, subprocess, sys\n"
        "m = sys.modules.get('gsprof._gsprof')\n"
        f"child = subprocess.check_output([sys.executable, '-c', {PRINT_STATE!r}])\n"
        "print(json.dumps({'on': bool(m and m.is_on()), 'child': child.decode().strip()}))\n"
    )
    env = quiet(runtime, GSPROF=value, PYTHONPATH=str(PACKAGE / "start"))
    facts: Json = json.loads(run("", env, args=[str(script)]))
    return facts


def test_pth_and_module(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The installed .pth; a filter on the module of -m; torch profiling waits for torch."""
    site = f"import site; site.addsitedir({str(PACKAGE)!r}); "
    assert run(site + PRINT_STATE, quiet(runtime)).strip() == "off"
    assert run(site + PRINT_STATE, quiet(runtime, GSPROF="1")).strip() == "on"
    assert run(site + PRINT_STATE, quiet(runtime, GSPROF_TORCH_PROFILING="off")).strip() == "loaded"
    torch = (
        site
        + "import sys; sys.path.insert(0, '.'); "
        + PRINT_STATE
        + "; import torch; "
        + PRINT_STATE
    )
    (tmp_path / "torch.py").write_text("import sys\nassert __spec__.loader and __loader__\n")
    output = run(torch, quiet(runtime, GSPROF_TORCH_PROFILING="rate=0.5"), cwd=tmp_path)
    # The substitute for torch has no modules to trace: that is reported, and nothing else happens.
    assert [line for line in output.splitlines() if not line.startswith("gsprof:")] == [
        "loaded",
        "on",
    ]
    (tmp_path / "tool.py").write_text(PRINT_STATE)
    start_dir = str(PACKAGE / "start")
    env = quiet(runtime, GSPROF="tool.py", PYTHONPATH=start_dir)
    assert run("", env, args=["-m", "tool"], cwd=tmp_path).strip() == "on"


def test_a_fresh_virtual_environment(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The setup of the documentation: two links and a variable."""
    run("", runtime, args=["-m", "venv", "--without-pip", str(tmp_path / "env")])
    python = str(tmp_path / "env" / "bin" / "python3")
    found = run("import sysconfig; print(sysconfig.get_path('purelib'))", {}, python)
    for name in ("gsprof", "gsprof.pth"):
        (Path(found.strip()) / name).symlink_to(PACKAGE / name)
    assert run(PRINT_STATE, quiet(runtime), python).strip() == "off"
    assert run(PRINT_STATE, quiet(runtime, GSPROF="1"), python).strip() == "on"
    script = tmp_path / "train.py"
    script.write_text("import gsprof\n" + PRINT_STATE)
    env = quiet(runtime, GSPROF_TORCH_PROFILING="on")
    assert run("", env, python, args=[str(script)]).strip() == "loaded", "torch is not installed"


def test_sitecustomize_is_chained(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The user's own sitecustomize runs as without gsprof, also if it fails."""
    (tmp_path / "sitecustomize.py").write_text("print('mine', __name__)\n")
    path = f"{PACKAGE / 'start'}{os.pathsep}{tmp_path}"
    show = "import sitecustomize, sys; print(sitecustomize.__file__); "
    for env in (quiet(runtime, GSPROF="1"), quiet(runtime)):
        words = run(show + PRINT_STATE, {**env, "PYTHONPATH": path}).split()
        assert words[:3] == ["mine", "sitecustomize", str(tmp_path / "sitecustomize.py")]
        assert words[3] == ("on" if "GSPROF" in env else "off")
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    output = run("print('continues')", {**quiet(runtime, GSPROF="1"), "PYTHONPATH": path})
    assert "ValueError: theirs" in output and output.endswith("continues\n")


def test_pythons_without_their_own_sitecustomize(runtime: Dict[str, str]) -> None:
    """No output and no failure, also with versions that the package does not support."""
    versions = Path.home() / ".pyenv" / "versions"
    found = [*versions.glob("2.7*/bin/python"), *versions.glob("3.[6789].*/bin/python3")]
    if not found:
        pytest.skip("needs an interpreter of pyenv")
    env = quiet(runtime, GSPROF="1", PYTHONPATH=str(PACKAGE / "start"))
    for python in found:
        old = "/2." in str(python) or "/3.6" in str(python) or "/3.7" in str(python)
        assert run(PRINT_STATE, env, str(python)) == ("off\n" if old else "on\n")


SPECS = """
from gsprof._spec import torch_settings as parse
assert parse("on") == {"torch": "on"} and parse("off") == parse("0") == {"torch": "off"}
assert parse("0.25") == parse("random:0.25") == {"torch": "on", "torch.rate": "0.25"}
assert parse("rate=0.5,layers=a{1,2}|b,backward=on,vars=loss@step,x@f") == {
    "torch": "on", "torch.rate": "0.5", "torch.layers": "a{1,2}|b",
    "torch.backward": "on", "torch.vars": "loss@step,x@f"}
assert parse("on,adaptive=on,shadow=off")["torch.adaptive"] == "5"
for wrong in ("fast", "0", "2", "-1", "rate=", "what=1", "on,what=1"):
    try:
        found = parse(wrong)
    except ValueError:
        continue
    assert wrong in ("0", "rate="), (wrong, found)
import inspect
import gsprof
assert gsprof.enable_torch_profiling(rate=0.5, layers="enc", backward=True)
have = gsprof.config()
assert (have["torch"], have["torch.rate"], have["torch.layers"]) == ("on", "0.5", "enc"), have
assert have["torch.backward"] == "on"
for function in (gsprof.enable, gsprof.config, gsprof.enable_torch_profiling):
    try:
        function(what=1)
    except TypeError as error:
        assert "unexpected keyword argument 'what'" in str(error), error
    else:
        raise AssertionError
names = [name.replace(".", "_") for name in have]
for function in (gsprof.enable, gsprof.config):
    assert list(inspect.signature(function).parameters) == names, function
for odd in ("enc(ode", "(?P<1>x)"):
    try:
        gsprof.enable_torch_profiling(layers=odd)
    except ValueError as error:
        assert "torch.layers must be a regular expression" in str(error), error
    else:
        raise AssertionError
gsprof.disable_torch_profiling()
assert gsprof.config()["torch"] == "off"
with gsprof.span("queried"):
    pass
assert gsprof.query("SELECT name FROM python.span") == [{"name": "queried"}]
def query_locals(secret):
    sql = "SELECT locals FROM python.backtrace WHERE func = 'query_locals'"
    assert gsprof.query(sql) == [{"locals": None}]
    found = gsprof.query(sql, locals=True)
    assert "'walnut'" in found[0]["locals"] and found.warnings == [], found
query_locals("walnut")
try:
    gsprof.query("SELECT nothing FROM nowhere")
except RuntimeError as error:
    assert "nowhere" in str(error)
else:
    raise AssertionError
from gsprof import _boot
_boot.detach()
assert not gsprof.is_enabled()
with gsprof.span("not kept"):
    pass
assert not _boot.attach({"spans": "on", "unknown": "1"}) and gsprof.is_enabled()
print("fine")
"""


def test_specifications_and_calls(runtime: Dict[str, str]) -> None:
    output = run(SPECS, quiet(runtime, PYTHONPATH=str(PACKAGE)))
    assert output.splitlines()[-1] == "fine", output


# ---------------------------------------------------------------------- failures


LATE = """
static __thread char block[1400] __attribute__((tls_model("initial-exec")));
char *where(void) { return block; }
"""


def test_static_tls_is_left_for_late_libraries(runtime: Dict[str, str], tmp_path: Path) -> None:
    """The loader reserves little static TLS for libraries loaded late."""
    (tmp_path / "late.c").write_text(LATE)
    library = tmp_path / "late.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "late.c"], check=True)
    load = [main_python(), "-c", f"import ctypes; ctypes.CDLL({str(library)!r})"]
    subprocess.run(load, check=True)
    gsprof("run", "-q", "-o", tmp_path / "run", "--", *load, env=runtime)


QUIET = """
import gsprof, sys
ok = gsprof.enable()
with gsprof.span("x", a=1):
    gsprof.event("y")
gsprof.step(); gsprof.step()
assert gsprof.config()["spans"] == "on"
print(ok)
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("options", ["ro", "size=4k", "size=128k"])
def test_no_space_for_rings(options: str, tmp_path: Path) -> None:
    """With read-only or full shared memory, the program continues."""
    folder = tmp_path / "small"
    folder.mkdir()
    code = tmp_path / "quiet.py"
    code.write_text(QUIET)
    # All folders that can hold rings.
    last = Path(f"/tmp/gsprof-{os.getuid()}")
    last.mkdir(mode=0o700, exist_ok=True)
    places = (folder, "/dev/shm", last, "/var/tmp")
    mount = " && ".join(f"mount -t tmpfs -o {options} none {at}" for at in places)
    done = subprocess.run(
        [*own_mounts(), "sh", "-c", f"{mount} && exec {main_python()} {code}"],
        env={**os.environ, **quiet({"XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(PACKAGE)})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    output = done.stdout.decode()
    assert done.returncode == 0, output
    assert output.strip() == ("True" if options == "size=128k" else "False")
    assert is_root()


def test_own_errors_do_not_reach_the_program(runtime: Dict[str, str], tmp_path: Path) -> None:
    """A package that cannot be loaded, or an invalid setting: one line, and only on request."""
    broken = tmp_path / "python"
    (broken / "gsprof").mkdir(parents=True)
    (broken / "start").mkdir()
    (broken / "gsprof" / "__init__.py").write_text("raise OSError('broken')\n")
    hook = (PACKAGE / "start" / "sitecustomize.py").read_text()
    (broken / "start" / "sitecustomize.py").write_text(hook)
    env: Dict[str, Any] = {**runtime, "GSPROF": "1", "PYTHONPATH": str(broken / "start")}
    assert run("print('fine')", env) == "fine\n"
    output = run("print('fine')", {**env, "GSPROF_DEBUG": "1"})
    assert output.splitlines() == ["gsprof: cannot load the package: broken", "fine"]
    env = quiet(runtime, GSPROF="1", GSPROF_STACK_GC="soon", PYTHONPATH=str(PACKAGE / "start"))
    output = run(PRINT_STATE, env)
    assert output.startswith("gsprof: ValueError") and output.endswith("on\n")
    env = quiet(
        runtime, GSPROF="1", GSPROF_TORCH_PROFILING="layers=(", PYTHONPATH=env["PYTHONPATH"]
    )
    output = run(PRINT_STATE, env)
    assert "regular expression" in output and output.endswith("on\n")
