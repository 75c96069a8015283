# SPDX-License-Identifier: Apache-2.0
# `gsprof run` puts this folder first in PYTHONPATH. Switches the agent on if the environment
# requests it, then runs the sitecustomize that this one hides.
#
# Any Python version may import this file, so it works in all of them; the package needs 3.8.
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]


def _fail(cause, why):
    # type: (str, str) -> None
    """Reports to `gsprof run` why the package is not loaded; the program continues without."""
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(os.environ["GSPROF_RUN_FILE"], flags)
        line = "%d %s %s\n" % (os.getpid(), cause, " ".join(why.split()))
        os.write(fd, line.encode("utf-8", "replace"))
        os.close(fd)
    except (KeyError, OSError, ValueError):
        pass


_NAMES = ("GSPROF", "GSPROF_TORCH_PROFILING", "GSPROF_MEMORY")
if os.environ.get("PROFILING") == "1" or any(os.environ.get(_name) for _name in _NAMES):
    if sys.version_info < (3, 8):
        _fail("old", "Python %d.%d is too old: 3.8 and later" % sys.version_info[:2])
    else:
        try:
            # At the end: an installed package and the program's modules come first. Removed
            # afterwards: the package finds its own modules.
            sys.path.append(os.path.dirname(_here))
            try:
                from gsprof import _environment
            finally:
                if sys.path[-1:] == [os.path.dirname(_here)]:
                    sys.path.pop()
            _environment.from_environment()
        except Exception:
            _error = sys.exc_info()[1]
            _fail("load", "%s: %s" % (type(_error).__name__, _error))
            if os.environ.get("GSPROF_DEBUG"):
                sys.stderr.write("gsprof: cannot load the package: %s\n" % (_error,))

# Imports the sitecustomize that the program has without gsprof. If there is none, the import fails
# as it does without gsprof. Python's site module reports other exceptions, as usual.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
