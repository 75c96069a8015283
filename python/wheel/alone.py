# SPDX-License-Identifier: Apache-2.0
# In a wheel the package lies among all the others of its interpreter.  A program that runs under
# another interpreter must not get those, so `gsprof run` and `gsprof inject` hand over the folder
# of this file, which stands for the package that it is within.
import os

_real = os.path.abspath(__file__)
for _ in range(6):
    _real = os.path.dirname(_real)
__path__ = [_real]
__file__ = os.path.join(_real, "__init__.py")
with open(__file__, "rb") as _source:
    exec(compile(_source.read(), __file__, "exec"))
