# SPDX-License-Identifier: Apache-2.0
"""Tasks of Celery, with a broker in the worker's memory: sends itself sixteen tasks at a time until
both processes of its pool had some, then terminates itself."""

import collections
import os
import signal
import threading
import time

import celery
import celery.signals
import truth

PROCESSES = 2

app = celery.Celery("celery_app", broker="memory://")
app.conf.update(worker_prefetch_multiplier=1, task_ignore_result=True)
done = 0
pages = collections.deque(maxlen=32)


def index_page(number):
    pages.append(bytearray(1 << 20))  # held
    words = 0
    for i in range(500_000):
        words = (words * 31 + i + number) & 0xFFFF
    return words


@app.task
def crawl(number):
    global done
    done += 1
    truth.report("worker", done)
    index_page(number)


def count_done():
    return sum(int(path.read_text()) for path in truth.FACTS.glob("worker-*"))


def send():
    sent = 0
    while sent < 32 or truth.must_continue() or len(list(truth.FACTS.glob("worker-*"))) < PROCESSES:
        for number in range(sent, sent + 16):
            crawl.delay(number)
        sent += 16
        while count_done() < sent:
            time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)


@celery.signals.worker_ready.connect
def begin(**_):
    threading.Thread(target=send, daemon=True).start()
