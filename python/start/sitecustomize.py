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

if sys.version_info >= (3, 8) and (
    os.environ.get("GSPROF") or os.environ.get("GSPROF_TORCH_PROFILING")
):
    try:
        # Last: a package that is installed, and every module of the program, come first.
        sys.path.append(os.path.dirname(_here))
        from gsprof import _boot

        _boot.from_environment()
    except Exception:
        if os.environ.get("GSPROF_DEBUG"):
            sys.stderr.write("gsprof: the package cannot be loaded: %s\n" % (sys.exc_info()[1],))

# The module of this name that the program would have had; without one, this stands for it.  What
# it raises is told by site, as always.
_own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
except ImportError:
    if getattr(sys.exc_info()[1], "name", "sitecustomize") != "sitecustomize":
        raise
    if _own is not None:
        sys.modules["sitecustomize"] = _own
