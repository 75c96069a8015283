# SPDX-License-Identifier: Apache-2.0
"""Switches the agent on at interpreter start if the environment requests it."""

import os
import sys

from . import _boot, _gsprof, _imports
from ._quiet import quietly, report
from ._spec import OFF, Mode, torch_settings

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List


def _words() -> "List[str]":
    """Returns the kernel's command line: while site runs, sys.argv has -m but not the module."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(sys.argv)


def script_names() -> "List[str]":
    """Returns the names that users may give this program: its path and its base name."""
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
            report(error)
    return settings


def _with_files(settings: "Dict[str, str]") -> bool:
    """Sets the memory settings of PROFILING=1; returns whether this process writes the files."""
    if os.environ.get("PROFILING") != "1":
        return False
    from . import _memory_files

    if settings.get("memory", "off").lower() in OFF:
        settings["memory"] = "sampled"
    settings.setdefault("memory.interval", str(_memory_files.INTERVAL))
    return _memory_files.is_writer()


def _start(settings: "Dict[str, str]", names: "List[str]", follow: bool) -> None:
    files = _with_files(settings)
    if _boot.start(settings, follow=follow) and files:
        from . import _memory_files

        _memory_files.install(names[0] if names else None)


def _memory_alone() -> None:
    """GSPROF_MEMORY or PROFILING=1 without GSPROF: only allocations are counted."""
    settings = _environment_settings()
    wanted = settings.get("memory", "off").lower() not in OFF
    if wanted or os.environ.get("PROFILING") == "1":
        _start(settings, script_names(), follow=False)


def _from_environment() -> None:
    mode_text = os.environ.get("GSPROF")
    spec = os.environ.get("GSPROF_TORCH_PROFILING", "")
    if mode_text is None and ("GSPROF_MEMORY" in os.environ or os.environ.get("PROFILING") == "1"):
        quietly(_memory_alone)
    if mode_text is None:
        # Only torch is to be traced: a process that never imports it is left alone.
        if spec.lower() not in OFF:
            _imports.when_imported("torch", lambda: _boot.start(_environment_settings()))
        return
    names = script_names()
    if names and os.path.basename(names[0]) == "gsprof":
        return  # the program itself is about to be started
    mode = Mode(mode_text, names)
    _boot.state.nested = mode.nested
    if not mode.here:
        return
    if not mode.nested:
        # Children must not see the variables.
        for name in ("GSPROF", "GSPROF_TORCH_PROFILING"):
            os.environ.pop(name, None)
    settings = _environment_settings()
    if spec:
        settings.update(quietly(torch_settings, spec) or {})
    _start(settings, names, follow=os.environ.get("GSPROF_FOLLOWED") != str(os.getppid()))


def from_environment() -> None:
    """Entry point of gsprof.pth and sitecustomize.py; never raises."""
    try:
        # In a sub-interpreter, the main interpreter has already set up the agent.
        if _gsprof.is_main():
            _from_environment()
    except Exception as error:
        _boot.report_to_run("load", f"{type(error).__name__}: {error}")
        report(error)
