# SPDX-License-Identifier: Apache-2.0
import sys

import common

print("out", common.use_memory())
print("err", file=sys.stderr)
