# SPDX-License-Identifier: Apache-2.0
"""The wheel: its content, and its use in fresh virtual environments.

It is built once, from the build under test. The oldest interpreter, the system's and the newest use
it; with GSPROF_TEST_FULL=1 all do."""

from __future__ import annotations

import ast
import base64
import csv
import email
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import pytest
from conftest import NEEDS_EXTENSION, PYTHONS
from support import BUILD, GSPROF, PATIENCE_S, ROOT, Python, Target, main_python, probe

# Building the wheel may compile, if sources are newer than the build.
BUILD_S = 600.0
# Newest glibc version that any part may need: Debian 12 and Ubuntu 22.10 have it.
GLIBC_MAX = (2, 36)

pytestmark = NEEDS_EXTENSION

HOOK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import backend
print(getattr(backend, sys.argv[2])(sys.argv[3], json.loads(sys.argv[4])))
"""


def run(
    *argv: object,
    env: Optional[Mapping[str, str]] = None,
    timeout_s: float = PATIENCE_S,
    cwd: Optional[Path] = None,
) -> str:
    """Returns stdout of a program, which must succeed and print nothing on stderr."""
    done = subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        timeout=timeout_s,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, (argv, output, done.stderr.decode("utf-8", "replace"))
    return output


def call_hook(name: str, folder: Path, root: Path = ROOT) -> Path:
    """Calls a hook as a frontend does: in a new process, in the source folder."""
    settings = json.dumps({"build-dir": str(BUILD), "compression": "0"})
    backend = root / "python" / "wheel"
    argv = [main_python(), "-c", HOOK, backend, name, folder, settings]
    return folder / run(*argv, timeout_s=BUILD_S, cwd=root).split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return call_hook("build_wheel", tmp_path_factory.mktemp("wheel"))


def chosen() -> List[Python]:
    # Only releases: pip does not support beta versions.
    pythons = [one for one in PYTHONS if "t-" not in one.label and one.version < (3, 15)]
    if os.environ.get("GSPROF_TEST_FULL"):
        return pythons
    system = [python for python in pythons if python.path == main_python()]
    return list(dict.fromkeys([*pythons[:1], *system, *pythons[-1:]]))


# ------------------------------------------------------------------------- content


def test_record_lists_every_file_with_its_hash(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(names)
        for name, digest, size in rows:
            if name == record:
                assert (digest, size) == ("", "")
                continue
            data = archive.read(name)
            kind, _, text = digest.partition("=")
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            assert (kind, text, int(size)) == ("sha256", found.decode(), len(data)), name


def test_metadata_and_tags(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(n for n in archive.namelist() if n.endswith("/METADATA")).rpartition("/")[0]
        about = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        tags = email.message_from_bytes(archive.read(f"{info}/WHEEL")).get_all("Tag") or []
        entries = archive.read(f"{info}/entry_points.txt").decode()
        names = archive.namelist()
        program = archive.getinfo("gsprof/_program/bin/gsprof")
    assert about["Name"] == "gsprof" and about["Requires-Python"] == ">=3.8"
    version = run(GSPROF, "--version").split()[-1]
    assert about["Version"] == version and info == f"gsprof-{version}.dist-info"
    assert "cp38-abi3-linux_" in tags[0], tags
    assert "-".join(wheel.stem.split("-")[2:]).startswith("cp38")
    assert "gsprof = gsprof.__main__:main" in entries
    assert program.external_attr >> 16 & 0o111, "the program is executable"
    assert {f"{info}/LICENSE", "gsprof.pth", "gsprof/py.typed"} <= set(names)
    if "gsprof/_program/lib/gsprof/libduckdb.so" in names:
        assert f"{info}/LICENSE.duckdb" in names
    sources = {p.name for p in (ROOT / "python" / "gsprof").rglob("*.py*") if p.suffix != ".pyc"}
    assert sources <= {
        name.rpartition("/")[2] for name in names
    }, "a source file is missing from a meson.build"


def glibc_of(path: Path) -> Tuple[int, ...]:
    """Returns the newest version of the C library that a file needs."""
    output = run("objdump", "-T", path)
    found = {tuple(map(int, text.split("."))) for text in re.findall(r"GLIBC_([0-9.]+)", output)}
    return max(found)


def test_needed_versions_of_the_c_library(wheel: Path, tmp_path: Path) -> None:
    """The wheel works on the systems that the documentation lists."""
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(".so") or n.endswith("bin/gsprof")]
        for name in names:
            path = Path(archive.extract(name, tmp_path))
            assert glibc_of(path) <= GLIBC_MAX, (name, glibc_of(path))
            needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", path))
            # A library loaded into other programs must not load more libraries.
            if "bin/gsprof" not in name and "duckdb" not in name:
                assert {one.partition(".so")[0] for one in needed} <= {
                    "libc",
                    "libm",
                    "ld-linux-x86-64",
                    "ld-linux-aarch64",
                    "libgsprof_agent",
                }, (name, needed)


def test_source_archive(tmp_path: Path) -> None:
    """The archive is complete and reproducible, and can itself be archived."""
    first = call_hook("build_sdist", tmp_path)
    with tarfile.open(first) as archive:
        names = archive.getnames()
        base = names[0].partition("/")[0]
        archive.extractall(tmp_path)
    assert f"{base}/PKG-INFO" in names and f"{base}/src/cli/main.c" in names
    made = (f"{base}/build/", f"{base}/subprojects/duckdb/", f"{base}/.git/")
    assert not [name for name in names if name.startswith(made)]
    (tmp_path / "again").mkdir()
    second = call_hook("build_sdist", tmp_path / "again", tmp_path / base)
    assert second.read_bytes() == first.read_bytes()


# --------------------------------------------------------------------- installed


def pip_for(python: Python) -> str:
    """Returns an interpreter whose pip also runs under that one: older pips fail under 3.12."""
    hosts = [main_python()]
    if python.version >= (3, 12):
        hosts = [one.path for one in reversed(PYTHONS) if (3, 12) <= one.version < (3, 15)]
    for host in hosts:
        if subprocess.run([host, "-c", "import pip"], stderr=subprocess.DEVNULL).returncode == 0:
            return host
    pytest.skip(f"needs a pip that runs under {python}")


class Env:
    """A virtual environment without pip; the pip of another interpreter installs into it."""

    def __init__(self, python: Python, folder: Path) -> None:
        self.folder = folder
        run(python.path, "-m", "venv", "--without-pip", folder)
        self.python = folder / "bin" / "python3"
        if probe(str(self.python)) is None:
            pytest.skip(f"needs virtual environments of {python}")
        self.host = pip_for(python)
        hidden = ("PYTHON", "GSPROF", "PIP_")
        self.env = {key: text for key, text in os.environ.items() if not key.startswith(hidden)}
        self.env["XDG_RUNTIME_DIR"] = str(folder / "rt")
        (folder / "rt").mkdir(mode=0o700)

    def pip(self, *args: object) -> None:
        quiet = ["--no-input", "--disable-pip-version-check", "-q"]
        run(self.host, "-m", "pip", "--python", self.python, *quiet, *args, env=self.env)

    def run_code(self, code: str, *args: object, **env: str) -> str:
        return run(self.python, *args, "-c", code, env={**self.env, **env}, cwd=self.folder)

    def program(self, *args: object, **env: str) -> str:
        argv = [self.folder / "bin" / "gsprof", *args]
        return run(*argv, env={**self.env, **env}, cwd=self.folder)

    def files(self) -> Dict[str, int]:
        return {
            str(path.relative_to(self.folder)): path.stat().st_size
            for path in self.folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and "rt" not in path.parts
        }


PRINT_STATE = (
    "import sys; m = sys.modules.get('gsprof._gsprof'); "
    "print('on' if m and m.is_on() else 'loaded' if m else 'off')"
)

SMOKE = """
from gsprof.measure import PerformanceProfiler
from gsprof.profiler import CUDATimer, MetricsCollector
profiler = PerformanceProfiler(track_gpu=False)
with profiler.profile("sum"):
    sum(range(1000))
assert profiler.get_metrics("sum").timing.wall_time_s > 0
collector = MetricsCollector()
with collector.measure_time("step"):
    pass
collector.record("loss", 0.5)
assert "step" in str(collector.generate_report())
with CUDATimer().measure("x"):
    pass
import gsprof
assert gsprof.enable()
with gsprof.span("queried"):
    pass
assert gsprof.query("SELECT name FROM python.span") == [{"name": "queried"}]
print("fine")
"""

WORK = """
import time
def work():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))
work()
"""


OTHERS = """
import sys
assert not any(folder.endswith("site-packages") and "own-env" in folder for folder in sys.path)
try:
    import gsprof_neighbour
except ImportError:
    pass
else:
    raise AssertionError("packages of another environment")
import gsprof
assert gsprof.is_enabled() and "own-env" in gsprof.__file__, gsprof.__file__
with gsprof.span("inside"):
    pass
from gsprof import measure
"""


def check_handover(env: Env) -> None:
    """gsprof of one environment profiles a program of another, which sees only gsprof."""
    site = Path(env.run_code("import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    neighbour = site / "gsprof_neighbour.py"
    neighbour.write_text("")
    script = env.folder.parent / "other.py"
    script.write_text(OTHERS)
    out = env.folder.parent / "run"
    env.program("run", "-q", "-o", out, "--", main_python(), script)
    found = env.program("query", out, "SELECT name FROM python.span", "-f", "json")
    assert json.loads(found) == [{"name": "inside"}]
    # The same for a running program.
    waits = "import json, os, sys; print(json.dumps({'pid': os.getpid()}), flush=True); input()"
    target = Target([main_python(), "-c", waits], env.env)
    try:
        env.program("inject", target.pid)
        code = "__import__('gsprof').__file__, [f for f in sys.path if f.endswith('site-packages')]"
        file, folders = ast.literal_eval(env.program("eval", "--yes", target.pid, code))
    finally:
        target.end()
    assert "own-env" in file and not [one for one in folders if "own-env" in one]
    neighbour.unlink()


def test_tags_of_interpreters_without_the_gil() -> None:
    """Their extensions are in the same folder, and the wheel's name has a tag for each."""
    call = "import sys; sys.path.insert(0, sys.argv[1]); import backend; print(*backend._expanded("
    call += "backend._tag(['gsprof/_gsprof.cpython-314t-x86_64-linux-gnu.so'])))"
    tags = run(main_python(), "-c", call, ROOT / "python" / "wheel").split()
    assert [tag.rpartition("-")[0] for tag in (tags[0], tags[-1])] == ["cp38-abi3", "cp314-cp314t"]


@pytest.mark.parametrize("interpreter", [pytest.param(one, id=str(one)) for one in chosen()])
def test_in_a_fresh_environment(interpreter: Python, wheel: Path, tmp_path: Path) -> None:
    """Installs the wheel, uses it in every way, and uninstalls it completely."""
    env = Env(interpreter, tmp_path / "own-env")
    before = env.files()
    env.pip("install", "--no-index", "--no-compile", wheel)
    version = env.program("--version")
    assert version == run(GSPROF, "--version")
    assert run(env.python, "-m", "gsprof", "--version", env=env.env) == version
    # Nothing is imported unless requested; gsprof itself is not profiled.
    assert env.run_code(PRINT_STATE) == "off\n"
    assert env.run_code(PRINT_STATE, GSPROF="1", GSPROF_FOLLOW="off") == "on\n"
    assert env.program("--version", GSPROF="1") == version
    assert not [p for p in (env.folder / "rt").rglob("*") if p.name == "control" and "=" in p.name]
    assert env.run_code(SMOKE, GSPROF_FOLLOW="off") == "fine\n"
    script = env.folder / "work.py"
    script.write_text(WORK)
    env.program("record", "-q", "-o", "work.folded", "--", env.python, script)
    assert "work" in (env.folder / "work.folded").read_text()
    (env.folder / "work.folded").unlink()
    script.unlink()
    if interpreter.path == main_python():
        check_handover(env)
    env.pip("uninstall", "-y", "gsprof")
    assert env.files() == before, "uninstall left files behind"


# ------------------------------------------------------------------------ by pip


@pytest.mark.skipif(not os.environ.get("GSPROF_TEST_FULL"), reason="needs make test-full")
@pytest.mark.parametrize("isolation", ["--build-isolation", "--no-build-isolation"])
def test_pip_builds_the_wheel(isolation: str, tmp_path: Path) -> None:
    """pip install . without an index, in the build folder of `make`."""
    run(sys.executable, "-m", "venv", tmp_path / "env", timeout_s=BUILD_S)
    pip: Sequence[object] = [tmp_path / "env" / "bin" / "python3", "-m", "pip", "install"]
    settings = f"--config-settings=build-dir={BUILD}"
    flags = [] if isolation == "--build-isolation" else [isolation]
    run(*pip, "-q", "--no-index", *flags, settings, ROOT, timeout_s=BUILD_S)
    assert run(tmp_path / "env" / "bin" / "gsprof", "--version") == run(GSPROF, "--version")
