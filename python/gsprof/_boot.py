# SPDX-License-Identifier: Apache-2.0
"""Switches the agent on and off: for the program, for the environment and for gsprof inject.

An injector waits for this with the program's threads beside it, and each file that is looked for
gives the interpreter's lock away.  So nothing is imported at the top, here and in what this needs,
that a bare interpreter has not loaded, not even __future__.  Nothing here may stop the user's
program or write to its streams."""

import gc
import os
import posix
import sys

from . import _gsprof, _imports, _stacks
from ._quiet import quietly, tell

# Importing typing costs more than all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Tuple, Union

# Where launchers say which of how many processes this is: any, of all, on this machine.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCALS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


class _State:
    def __init__(self) -> None:
        self.nested = False  # record the children of fork too
        self.program: "Optional[str]" = None  # path of the follower; "" if not found


state = _State()


def _number(names: "Tuple[str, ...]") -> "Optional[int]":
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def ranks() -> "Tuple[Optional[int], Optional[int], Optional[int]]":
    """Rank, world size and local rank, as the launcher told them."""
    return _number(_RANKS), _number(_WORLDS), _number(_LOCALS)


def put_fact(name: str, value: "Union[int, str, None]", meaning: str) -> None:
    """What is known of this process: a row beside the settings."""
    if value is not None:
        kind = "number" if isinstance(value, int) else "text"
        row = {"name": name, "value": str(value), "type": kind, "description": meaning}
        quietly(_gsprof.put, "gsprof.setting", {"pid": os.getpid(), **row})


def _may_follow() -> bool:
    return os.environ.get("GSPROF_FOLLOW", "").lower() not in ("0", "off")


def _find_program() -> str:
    """The program that follows, as this process and its children start it."""
    if state.program is None:
        from . import _follower

        state.program = _follower.find_program() or ""
    return state.program


def _prepare(follow: bool) -> None:
    """Children of fork run C code only: it gets its settings now."""
    run_file = os.environ.get("GSPROF_RUN_FILE", "")
    wanted = _may_follow() and (follow or state.nested)
    # `gsprof run` starts the followers of its processes itself.
    program = _find_program() if wanted and not run_file else ""
    _gsprof.fork_setup(state.nested, wanted, os.fsencode(run_file), os.fsencode(program))
    _gsprof.watch_forks()


def _append(path: str, line: str) -> None:
    # Not from os: gevent and eventlet replace functions there.
    fd = posix.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        posix.write(fd, line.encode("utf-8", "replace"))
    finally:
        posix.close(fd)


def tell_run(cause: str = "", why: object = "") -> None:
    """Lets `gsprof run`, somewhere above, know that this process has rings, or what it has not."""
    path = os.environ.get("GSPROF_RUN_FILE")
    if path:
        words = " ".join([str(os.getpid()), cause, *str(why).split()])
        quietly(_append, path, words.strip() + "\n")


def _install_torch() -> None:
    try:
        from .torch import _hooks

        _hooks.install()
        put_fact("torch_version", str(sys.modules["torch"].__version__), "of PyTorch")
    except Exception as error:
        tell_run("torch", error)
        raise


def _hold(settings: "Mapping[str, str]") -> None:
    for name, value in settings.items():
        try:
            _gsprof.set(name, value)
        except (KeyError, ValueError) as error:
            tell(error)


def start(settings: "Mapping[str, str]", follow: bool = True) -> bool:
    """The agent with these settings, hooks in place; False when there is no room for rings.
    Called again it changes the settings."""
    if _gsprof.start() != 0:
        tell_run("rings", "there is no room in shared memory, or an agent of another version")
        return False
    _hold(settings)
    _gsprof.mark(_gsprof.PYTHON, 0)
    rank, world_size, local_rank = ranks()
    if rank is not None:
        _gsprof.rank(rank)
    put_fact("python_version", "%d.%d.%d" % sys.version_info[:3], "of the interpreter")
    put_fact("world_size", world_size, "processes of the job")
    put_fact("local_rank", local_rank, "which of the job's processes on this machine")
    if _gsprof.gc_callback not in gc.callbacks:
        gc.callbacks.append(_gsprof.gc_callback)
    _stacks.install()
    if _gsprof.is_main():
        quietly(_prepare, follow)
    _gsprof.refresh()
    if follow and _may_follow() and _gsprof.is_main() and _gsprof.take_follower():
        quietly(_gsprof.start_follower)
    _imports.when_imported("torch", _install_torch)
    tell_run()
    return True


def attach(
    settings: "Mapping[str, str]",
    package_dir: str = "",
    may_trace: bool = True,
    may_follow: bool = True,
) -> bool:
    """For the injector: the agent in a program that runs.  package_dir is where this package was
    found; modules of the program come before it.  may_trace: whether a process that is not above
    this one may look at it.  True when a follower is wanted, which the injector starts if it
    may."""
    if package_dir and package_dir not in sys.path:
        sys.path.append(package_dir)
    if not start(settings, follow=False):
        raise RuntimeError("no place for rings: shared memory is full, or read-only")
    wanted = may_follow and _may_follow() and _gsprof.take_follower()
    if wanted and not may_trace:
        _gsprof.allow_tracing(-1)
    return wanted


def detach() -> None:
    """Takes everything back: hooks are gone, nothing is recorded, rings are unmapped."""
    _imports.forget()
    if "gsprof.torch._hooks" in sys.modules:
        quietly(getattr(sys.modules["gsprof.torch._hooks"], "uninstall", lambda: None))
    if _gsprof.gc_callback in gc.callbacks:
        gc.callbacks.remove(_gsprof.gc_callback)
    _stacks.uninstall()
    if "gsprof._memory" in sys.modules:
        quietly(sys.modules["gsprof._memory"].stop)
    _gsprof.stop()
