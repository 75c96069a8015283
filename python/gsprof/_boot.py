# SPDX-License-Identifier: Apache-2.0
"""Switches the agent on: from the environment at the start of the interpreter, from the
program, or from outside (gsprof inject).

Nothing here may stop the user's program or write to its streams."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _gsprof, _imports, _stacks
from ._quiet import quietly, tell
from ._spec import OFF, Mode, torch_settings

HERE = os.path.dirname(os.path.abspath(__file__))

# Where launchers say which of how many processes this is: any, of all, on this machine.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCALS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")

# The process whose follower has been started, so that a child of fork gets its own.
_followed = 0
_forks_watched = False
_nested = False


# ------------------------------------------------------------------------- facts


def find_program() -> Optional[str]:
    """The gsprof program that belongs to this package."""
    places = [
        os.environ.get("GSPROF_PROGRAM", ""),
        os.path.join(HERE, "..", "..", "..", "..", "bin", "gsprof"),
        os.path.join(HERE, "..", "..", "src", "cli", "gsprof"),
    ]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        places.append(os.path.join(folder or ".", "gsprof"))
    for place in places:
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.realpath(place)
    return None


def _number(names: Tuple[str, ...]) -> Optional[int]:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def ranks() -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """Rank, world size and local rank, as the launcher told them."""
    return _number(_RANKS), _number(_WORLDS), _number(_LOCALS)


def _words() -> List[str]:
    """The command line as the kernel has it: while site runs, sys.argv says -m and not what."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(sys.argv)


def script_names() -> List[str]:
    """The names by which users call this process's program: its path and its last part."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    if script == "-m":
        words = _words()
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        return [module, module + ".py", module.rpartition(".")[2] + ".py"] if module else []
    if script in ("", "-c"):
        return []
    return [script, os.path.basename(script)]


def put_fact(name: str, value: Optional[int], meaning: str) -> None:
    """What the launcher told of this process: a row beside the settings."""
    if value is not None:
        row = {"name": name, "value": str(value), "type": "number", "description": meaning}
        quietly(_gsprof.put, "gsprof.setting", {"pid": os.getpid(), **row})


# ----------------------------------------------------------------------- follower


def _must_be_allowed() -> bool:
    """Whether the kernel lets only ancestors look at this process (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return file.read().strip() == b"1"
    except OSError:
        return False


def _start_follower() -> None:
    """gsprof follow PID, as nobody's child: a shell starts it and ends at once."""
    global _followed
    if _followed == os.getpid() or os.environ.get("GSPROF_FOLLOW", "").lower() in ("0", "off"):
        return
    _followed = os.getpid()
    program = find_program()
    if program is None or not os.access("/bin/sh", os.X_OK):
        return
    if _must_be_allowed():
        _gsprof.allow_tracing(-1)
    actions: List[Tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
    ]
    # Descriptors that the program lets its children have are not for this one: a pipe that it
    # kept open would never come to its end.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            actions.append((os.POSIX_SPAWN_CLOSE, int(name)))
    env = {key: text for key, text in os.environ.items() if key != "LD_PRELOAD"}
    command = ["sh", "-c", '"$0" "$@" &', program, "follow", str(os.getpid()), "--detach"]
    child = os.posix_spawn("/bin/sh", command, env, file_actions=actions, setpgroup=0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass


def _after_fork() -> None:
    if _gsprof.is_on() and _nested:
        quietly(_start_follower)


# ---------------------------------------------------------------------- switching


def _install_torch() -> None:
    try:
        importlib.import_module("gsprof._torch").install()
    except Exception as error:
        _tell_run("torch", error)
        raise


def _hold(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        try:
            _gsprof.set(name, value)
        except (KeyError, ValueError) as error:
            tell(error)


def start(settings: Mapping[str, str], follow: bool = True) -> bool:
    """The agent with these settings, hooks in place; False when there is no room for rings.
    Called again it changes the settings."""
    global _forks_watched
    if _gsprof.start() != 0:
        _tell_run("rings", "there is no room in shared memory, or an agent of another version")
        return False
    _hold(settings)
    _gsprof.mark(_gsprof.PYTHON, 0)
    rank, world_size, local_rank = ranks()
    if rank is not None:
        _gsprof.rank(rank)
    put_fact("world_size", world_size, "processes of the job")
    put_fact("local_rank", local_rank, "which of the job's processes on this machine")
    if _gsprof.gc_callback not in gc.callbacks:
        gc.callbacks.append(_gsprof.gc_callback)
    _stacks.install()
    if not _forks_watched:
        _forks_watched = True
        os.register_at_fork(after_in_child=_after_fork)
    _gsprof.refresh()
    if follow:
        quietly(_start_follower)
    _imports.when_imported("torch", _install_torch)
    _tell_run()
    return True


def attach(settings: Mapping[str, str], package_dir: str = "") -> bool:
    """For the injector: the agent in a program that runs.  package_dir is where this package was
    found; modules of the program come before it."""
    if package_dir and package_dir not in sys.path:
        sys.path.append(package_dir)
    return start(settings)


def detach() -> None:
    """Takes everything back: hooks are gone, nothing is recorded, rings are unmapped."""
    _imports.forget()
    if "gsprof._torch" in sys.modules:
        quietly(getattr(sys.modules["gsprof._torch"], "uninstall", lambda: None))
    if _gsprof.gc_callback in gc.callbacks:
        gc.callbacks.remove(_gsprof.gc_callback)
    _stacks.uninstall()
    _gsprof.stop()


# -------------------------------------------------------------------- environment


def _environment_settings() -> Dict[str, str]:
    """GSPROF_SAMPLE_RATE, GSPROF_STACK_GC, ...: every setting has its variable."""
    settings = {}
    for name, _, _, _ in _gsprof.settings():
        variable = "GSPROF_" + name.upper().replace(".", "_")
        if variable in os.environ:
            settings[name] = os.environ[variable]
    spec = os.environ.get("GSPROF_TORCH_PROFILING")
    if spec is not None:
        try:
            settings.update(torch_settings(spec))
        except ValueError as error:
            tell(error)
    return settings


def _from_environment() -> None:
    global _nested
    said = os.environ.get("GSPROF")
    spec = os.environ.get("GSPROF_TORCH_PROFILING", "")
    if said is None:
        # Only torch is asked for: a process that never imports it stays as it is.
        if spec.lower() not in OFF:
            _imports.when_imported("torch", lambda: start(_environment_settings()))
        return
    mode = Mode(said, script_names())
    _nested = mode.nested
    if not mode.here:
        return
    if not mode.nested:
        # This process alone: what it starts is not told.
        for name in ("GSPROF", "GSPROF_TORCH_PROFILING"):
            os.environ.pop(name, None)
    settings = _environment_settings()
    if spec:
        settings.update(quietly(torch_settings, spec) or {})
    start(settings, follow=os.environ.get("GSPROF_FOLLOWED") != str(os.getppid()))


def _append(path: str, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(fd, line.encode("utf-8", "replace"))
    finally:
        os.close(fd)


def _tell_run(cause: str = "", why: object = "") -> None:
    """Lets `gsprof run`, somewhere above, know that this process has rings, or what it has not."""
    path = os.environ.get("GSPROF_RUN_FILE")
    if path:
        words = " ".join([str(os.getpid()), cause, *str(why).split()])
        quietly(_append, path, words.strip() + "\n")


def from_environment() -> None:
    """What gsprof.pth and sitecustomize.py call; never raises."""
    try:
        _from_environment()
    except Exception as error:
        _tell_run("load", f"{type(error).__name__}: {error}")
        tell(error)
