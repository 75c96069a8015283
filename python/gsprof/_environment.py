# SPDX-License-Identifier: Apache-2.0
"""Switches the agent on as the environment says, at the start of the interpreter."""

import os
import sys

from . import _boot, _gsprof, _imports
from ._quiet import quietly, tell
from ._spec import OFF, Mode, torch_settings

# As in _boot: nothing that a bare interpreter has not loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List


def _words() -> "List[str]":
    """The command line as the kernel has it: while site runs, sys.argv says -m and not what."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(sys.argv)


def script_names() -> "List[str]":
    """The names by which users call this process's program: its path and its last part."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    if script == "-m":
        words = _words()
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        return [module, module + ".py", module.rpartition(".")[2] + ".py"] if module else []
    if script in ("", "-c"):
        return []
    return [script, os.path.basename(script)]


def _environment_settings() -> "Dict[str, str]":
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


def _with_files(settings: "Dict[str, str]") -> bool:
    """PROFILING=1: memory is counted, and told in files; whether it is this process that tells."""
    if os.environ.get("PROFILING") != "1":
        return False
    from . import _memory_files

    if settings.get("memory", "off").lower() in OFF:
        settings["memory"] = "sampled"
    settings.setdefault("memory.interval", str(_memory_files.INTERVAL))
    return _memory_files.is_asked_for()


def _start(settings: "Dict[str, str]", names: "List[str]", follow: bool) -> None:
    files = _with_files(settings)
    if _boot.start(settings, follow=follow) and files:
        from . import _memory_files

        _memory_files.install(names[0] if names else None)


def _memory_alone() -> None:
    """GSPROF_MEMORY or PROFILING=1: what is allocated is counted, and nothing else is done."""
    settings = _environment_settings()
    wanted = settings.get("memory", "off").lower() not in OFF
    if wanted or os.environ.get("PROFILING") == "1":
        _start(settings, script_names(), follow=False)


def _from_environment() -> None:
    said = os.environ.get("GSPROF")
    spec = os.environ.get("GSPROF_TORCH_PROFILING", "")
    if said is None and ("GSPROF_MEMORY" in os.environ or os.environ.get("PROFILING") == "1"):
        quietly(_memory_alone)
    if said is None:
        # Only torch is asked for: a process that never imports it stays as it is.
        if spec.lower() not in OFF:
            _imports.when_imported("torch", lambda: _boot.start(_environment_settings()))
        return
    names = script_names()
    if names and os.path.basename(names[0]) == "gsprof":
        return  # the program itself is about to be started
    mode = Mode(said, names)
    _boot.state.nested = mode.nested
    if not mode.here:
        return
    if not mode.nested:
        # This process alone: what it starts is not told.
        for name in ("GSPROF", "GSPROF_TORCH_PROFILING"):
            os.environ.pop(name, None)
    settings = _environment_settings()
    if spec:
        settings.update(quietly(torch_settings, spec) or {})
    _start(settings, names, follow=os.environ.get("GSPROF_FOLLOWED") != str(os.getppid()))


def from_environment() -> None:
    """What gsprof.pth and sitecustomize.py call; never raises."""
    try:
        # A sub-interpreter finds the agent as the main interpreter has set it up.
        if _gsprof.is_main():
            _from_environment()
    except Exception as error:
        _boot.tell_run("load", f"{type(error).__name__}: {error}")
        tell(error)
