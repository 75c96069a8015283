# SPDX-License-Identifier: Apache-2.0
"""What a request of fastapi_app.py and wsgi_app.py does."""

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
    truth.tell("worker", count)
    return {"pid": os.getpid(), "score": score}
