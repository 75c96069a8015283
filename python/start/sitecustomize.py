# SPDX-License-Identifier: Apache-2.0
# What `gsprof run` puts in front of PYTHONPATH: switches the agent on as the environment says,
# then lets the sitecustomize that this one hides have its turn.
#
# Any interpreter may come by here, so this is written for all of them; the package itself needs
# 3.8.
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]


def _fail(cause, why):
    # type: (str, str) -> None
    """Nobody would miss the package: the program runs on.  So `gsprof run` is told."""
    try:
        fd = os.open(os.environ["GSPROF_RUN_FILE"], os.O_WRONLY | os.O_APPEND)
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
            # Last: a package that is installed, and every module of the program, come first.  Not
            # for longer than this: the package finds its own modules.
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
                sys.stderr.write("gsprof: the package cannot be loaded: %s\n" % (_error,))

# The module of this name that the program would have had.  Without one the import fails, as it
# would have done, and this module is forgotten.  Site reports what it raises, as always.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
