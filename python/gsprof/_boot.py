# SPDX-License-Identifier: Apache-2.0
"""Switches the agent on and off: for the program, the environment and `gsprof inject`.

An injector waits for this import while the program's threads run, and each file lookup releases the
GIL. So this module, and the modules it imports, import at their top only modules that a bare
interpreter has loaded, not even __future__. Nothing here may stop the user's program or write to
its streams."""

import gc
import os
import posix
import sys

from . import _gsprof, _imports, _stacks
from ._quiet import quietly, report

# Importing typing costs more than all other imports here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Optional, Tuple, Union

# Variables in which launchers put the rank, the world size and the local rank.
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
    """Returns rank, world size and local rank from the launcher's variables."""
    return _number(_RANKS), _number(_WORLDS), _number(_LOCALS)


def put_fact(name: str, value: "Union[int, str, None]", meaning: str) -> None:
    """Records a fact about this process as a row of gsprof.setting."""
    if value is not None:
        kind = "number" if isinstance(value, int) else "text"
        row = {"name": name, "value": str(value), "type": kind, "description": meaning}
        quietly(_gsprof.put, "gsprof.setting", {"pid": os.getpid(), **row})


def _may_follow() -> bool:
    return os.environ.get("GSPROF_FOLLOW", "").lower() not in ("0", "off")


def _find_program() -> str:
    """Returns the path of the gsprof program that follows this process, or ""."""
    if state.program is None:
        from . import _follower

        state.program = _follower.find_program() or ""
    return state.program


def _prepare(follow: bool) -> None:
    """Stores what the C code in children of fork needs: they run no Python."""
    run_file = os.environ.get("GSPROF_RUN_FILE", "")
    wanted = _may_follow() and (follow or state.nested)
    # `gsprof run` starts the followers itself.
    program = _find_program() if wanted and not run_file else ""
    _gsprof.fork_setup(state.nested, wanted, os.fsencode(run_file), os.fsencode(program))
    _gsprof.watch_forks()


def _append(path: str, line: str) -> None:
    # Not os: gevent and eventlet replace functions there.
    # Does not wait if something else is in the place of the file.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = posix.open(path, flags)
    try:
        posix.write(fd, line.encode("utf-8", "replace"))
    finally:
        posix.close(fd)


def report_to_run(cause: str = "", why: object = "") -> None:
    """Reports to the `gsprof run` that started this process that it has rings, or what failed."""
    path = os.environ.get("GSPROF_RUN_FILE")
    if path:
        words = " ".join([str(os.getpid()), cause, *str(why).split()])
        quietly(_append, path, words.strip() + "\n")


def _install_torch() -> None:
    try:
        from .torch import _hooks

        _hooks.install()
        put_fact("torch_version", str(sys.modules["torch"].__version__), "version of PyTorch")
    except Exception as error:
        report_to_run("torch", error)
        raise


def _apply(settings: "Mapping[str, str]") -> None:
    for name, value in settings.items():
        try:
            _gsprof.set(name, value)
        except (KeyError, ValueError) as error:
            report(error)


def start(settings: "Mapping[str, str]", follow: bool = True) -> bool:
    """Starts the agent with these settings and installs the hooks; a further call changes the
    settings. Returns False if the rings cannot be created."""
    if _gsprof.start() != 0:
        report_to_run("rings", "no space left in shared memory, or an agent of another version")
        return False
    _apply(settings)
    _gsprof.mark(_gsprof.PYTHON, 0)
    rank, world_size, local_rank = ranks()
    if rank is not None:
        _gsprof.rank(rank)
    put_fact("python_version", "%d.%d.%d" % sys.version_info[:3], "version of the interpreter")
    put_fact("world_size", world_size, "processes of the job")
    put_fact("local_rank", local_rank, "rank among the job's processes on this machine")
    if _gsprof.gc_callback not in gc.callbacks:
        gc.callbacks.append(_gsprof.gc_callback)
    _stacks.install()
    if _gsprof.is_main():
        quietly(_prepare, follow)
    _gsprof.refresh()
    if follow and _may_follow() and _gsprof.is_main() and _gsprof.claim_follower():
        quietly(_gsprof.start_follower)
    _imports.when_imported("torch", _install_torch)
    report_to_run()
    return True


def attach(
    settings: "Mapping[str, str]",
    package_dir: str = "",
    may_trace: bool = True,
    may_follow: bool = True,
) -> bool:
    """Starts the agent in a running program; called by the injector. package_dir is the folder of
    this package; it is appended to sys.path, behind the program's own. may_trace: whether a process
    that is not an ancestor may trace this one. Returns True if the injector has to start a
    follower."""
    if package_dir and package_dir not in sys.path:
        sys.path.append(package_dir)
    if not start(settings, follow=False):
        raise RuntimeError("the rings cannot be created: shared memory is full or read-only")
    wanted = may_follow and _may_follow() and _gsprof.claim_follower()
    if wanted and not may_trace:
        _gsprof.allow_tracing(-1)
    return wanted


def detach() -> None:
    """Removes the hooks, stops recording and unmaps the rings."""
    _imports.cancel_all()
    if "gsprof.torch._hooks" in sys.modules:
        quietly(getattr(sys.modules["gsprof.torch._hooks"], "uninstall", lambda: None))
    if _gsprof.gc_callback in gc.callbacks:
        gc.callbacks.remove(_gsprof.gc_callback)
    _stacks.uninstall()
    if "gsprof._memory" in sys.modules:
        quietly(sys.modules["gsprof._memory"].stop)
    _gsprof.stop()
