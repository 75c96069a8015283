# SPDX-License-Identifier: Apache-2.0
"""The work of a request to fastapi_app.py or wsgi_app.py."""

import collections
import os

import truth

answers = collections.deque(maxlen=32)
count = 0


def rank_results(query):
    global count
    count += 1
    answers.append(bytearray(1 << 20))  # held
    score = 0
    for i in range(300_000):
        score = (score * 31 + i + query) & 0xFFFF
    truth.report("worker", count)
    return {"pid": os.getpid(), "score": score}
