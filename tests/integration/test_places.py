# SPDX-License-Identifier: Apache-2.0
"""Interpreters in unusual locations: embedded, deleted, replaced, in another mount namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Optional

import pytest

from conftest import PYTHONS, StartTarget, own_mounts
from support import PROGRAMS, Python, Target, gsprof, main_python, probe, program, record


def check(target: Target, tmp_path: Path) -> None:
    """record and dump both see the functions of the program."""
    profile = record(target.pid, tmp_path / "p.json", duration_s=0.3)
    assert len(profile.samples) >= 30
    assert {"half", "third", "fifth"} <= set(profile.names())
    # Between two rounds of work only the script itself is on the stack.
    assert "shares.py" in gsprof("dump", "-p", target.pid, "--full-filenames").out


def config_of(python: Python) -> Optional[str]:
    """Returns the path of the interpreter's python3-config."""
    real = os.path.realpath(python.path)
    for path in (real + "-config", python.path + "-config"):
        if os.access(path, os.X_OK):
            return path
    return None


def test_embedded(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """A C program that embeds an interpreter."""
    config = config_of(python)
    if config is None:
        pytest.skip(f"needs python-config of {python}")
    words = []
    for flags in (["--cflags"], ["--ldflags", "--embed"]):
        done = subprocess.run(
            [config, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"{config} failed")
        words += done.stdout.split()
    exe = tmp_path / "embed"
    libs = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(python.path))), "lib")
    built = subprocess.run(
        ["cc", "-o", exe, PROGRAMS / "embed.c", *words, f"-Wl,-rpath,{libs}"],
        stderr=subprocess.PIPE,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"{python} cannot be embedded here: {built.stderr.decode()[-200:]}")
    target = start("shares.py", exe=str(exe), env={"PYTHONPATH": str(PROGRAMS)})
    assert os.readlink(f"/proc/{target.pid}/exe").endswith("/embed")
    check(target, tmp_path)


def own_copy(python: Python, folder: Path) -> Path:
    copy = folder / "python-copy"
    shutil.copy(os.path.realpath(python.path), copy)
    return copy


def home_of(python: Python) -> str:
    done = subprocess.run(
        [python.path, "-c", "import sys; print(sys.base_prefix)"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_executable_gone(fate: str, python: Python, start: StartTarget, tmp_path: Path) -> None:
    copy = own_copy(python, tmp_path)
    target = start("shares.py", exe=str(copy), env={"PYTHONHOME": home_of(python)})
    copy.unlink()
    if fate == "replaced":
        copy.write_bytes(b"\x7fELF but not really")
    check(target, tmp_path)


def test_library_gone(python: Python, start: StartTarget, tmp_path: Path) -> None:
    """A shared libpython that an upgrade deleted."""
    home = Path(home_of(python))
    library = home / "lib" / f"libpython3.{python.version[1]}.so.1.0"
    if not library.exists():
        pytest.skip(f"needs a shared libpython, {python} has none")
    copy = tmp_path / library.name
    shutil.copy(library, copy)
    target = start("shares.py", python=python, env={"LD_LIBRARY_PATH": str(tmp_path)})
    if str(copy) not in Path(f"/proc/{target.pid}/maps").read_text():
        pytest.skip(f"{python} ignores LD_LIBRARY_PATH")
    copy.unlink()
    check(target, tmp_path)


def test_virtualenv(python: Python, start: StartTarget, tmp_path: Path) -> None:
    done = subprocess.run(
        [python.path, "-m", "venv", "--without-pip", tmp_path / "venv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"needs venv (python3-venv): {done.stdout.strip()[-100:]}")
    exe = str(tmp_path / "venv" / "bin" / "python")
    if probe(exe) is None:
        pytest.skip(f"{python} does not start from a virtualenv")
    target = start("shares.py", exe=exe)
    check(target, tmp_path)


@pytest.mark.needs_root
def test_other_mount_namespace(tmp_path: Path) -> None:
    """The interpreter's path exists only in the target's own mount namespace."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    real = os.path.realpath(main_python())
    script = (
        f"mount -t tmpfs none {hidden} && cp {real} {hidden}/python-there && "
        f'exec {hidden}/python-there "$@"'
    )
    target = Target(
        [*own_mounts(), "sh", "-c", script, "sh", program("shares.py")],
        env={"PYTHONHOME": "/usr"},
    )
    try:
        # In a chroot, the kernel's path starts outside it.
        exe = os.readlink(f"/proc/{target.pid}/exe")
        assert exe.endswith(f"{hidden}/python-there") and not os.listdir(hidden)
        check(target, tmp_path)
    finally:
        target.end()


def rooted() -> list[Python]:
    """Returns the interpreters that have their own root folder."""
    return [python for python in PYTHONS if "/root/usr/bin/" in os.path.realpath(python.path)]


@pytest.mark.needs_root
def test_chroot(tmp_path: Path) -> None:
    """gsprof reads files through the target's root."""
    if not rooted():
        pytest.skip("needs an interpreter that tools/get-pythons.sh installs")
    real = os.path.realpath(rooted()[-1].path)
    root = real[: real.index("/usr/bin/")]
    inside = tmp_path / "inside"
    inside.mkdir()
    # The interpreter names its libc by a path outside: that path exists inside too.
    script = f"""set -e
mount -t tmpfs none {inside}
mkdir -p {inside}/usr {inside}/programs {inside}{root}
mount --bind {root}/usr {inside}/usr
mount --bind {root} {inside}{root}
mount --bind {PROGRAMS} {inside}/programs
ln -s usr/lib usr/lib64 usr/bin {inside}
exec chroot {inside} /usr/bin/{os.path.basename(real)} /programs/shares.py"""
    target = Target([*own_mounts(), "sh", "-c", script])
    try:
        assert os.readlink(f"/proc/{target.pid}/root").endswith(str(inside))
        check(target, tmp_path)
    finally:
        target.end()


def test_started_by_the_loader(tmp_path: Path) -> None:
    """/proc/PID/exe is the dynamic loader, not Python."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip(f"needs {loader}")
    target = Target([str(loader), main_python(), program("shares.py")], env={"PYTHONHOME": "/usr"})
    try:
        check(target, tmp_path)
    finally:
        target.end()


def test_unknown_version(start: StartTarget, tmp_path: Path) -> None:
    """For an unsupported version, the message names it and the supported ones."""
    python = next((p for p in PYTHONS if p.path == "/usr/bin/python3"), None)
    if python is None:
        pytest.skip("needs the system's own static python3")
    real = Path(os.path.realpath(python.path))
    body = real.read_bytes()
    number = python.version[0] << 24 | python.version[1] << 16 | python.version[2] << 8 | 0xF0
    old = number.to_bytes(4, "little")
    assert body.count(old) >= 1
    new = (number + (20 << 16)).to_bytes(4, "little")
    text = f"3.{python.version[1]}.{python.version[2]}".encode()
    longer = f"3.{python.version[1] + 20}.{python.version[2]}".encode()
    assert len(text) == len(longer)
    copy = tmp_path / "python-future"
    copy.write_bytes(body.replace(old, new).replace(text, longer))
    copy.chmod(0o755)
    target = start("spin.py", exe=str(copy), env={"PYTHONHOME": "/usr"})
    done = gsprof("dump", "-p", target.pid, status=69)
    assert f"3.{python.version[1] + 20}" in done.err and "3.8" in done.err
