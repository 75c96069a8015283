# SPDX-License-Identifier: Apache-2.0
# In a wheel the package is in the site-packages of its interpreter. A program under another
# interpreter must not see those other packages, so `gsprof run` and `gsprof inject` pass the folder
# of this file, which loads only the enclosing gsprof package.
import os

_real = os.path.abspath(__file__)
for _ in range(6):
    _real = os.path.dirname(_real)
__path__ = [_real]
__file__ = os.path.join(_real, "__init__.py")
with open(__file__, "rb") as _source:
    exec(compile(_source.read(), __file__, "exec"))
