# SPDX-License-Identifier: Apache-2.0
"""Runs the agent without its Python half and applies its settings: at each byte on stdin, or in a
loop with a second argument. Prints the value of gsprof.torch.rate."""

import ctypes
import json
import os
import select
import sys

library = ctypes.CDLL(sys.argv[1])
library.gsp_agent_serial.restype = ctypes.POINTER(ctypes.c_uint64)
library.gsp_agent_applied.argtypes = [ctypes.c_uint64]
library.gsp_agent_set.argtypes = [ctypes.c_int, ctypes.c_char_p]
assert library.gsp_agent_start() == 0
serial = library.gsp_agent_serial()
value = ctypes.create_string_buffer(256)
RATE = 2


def apply():
    library.gsp_agent_applied(serial[0])
    library.gsp_agent_setting(RATE, value)
    return {"pid": os.getpid(), "rate": value.value.decode()}


print(json.dumps(apply()), flush=True)
while True:
    if select.select([0], [], [], 0.001 if len(sys.argv) > 2 else None)[0]:
        if not os.read(0, 1):
            break
        print(json.dumps(apply()), flush=True)
    else:
        apply()
library.gsp_agent_stop()
