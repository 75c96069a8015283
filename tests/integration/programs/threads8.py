# SPDX-License-Identifier: Apache-2.0
"""Eight threads: one runs, six wait in different ways, and the main thread joins them."""

import queue
import select
import signal
import socket
import threading
import time

import target
import work

lock = threading.Lock()
left, right = socket.socketpair()


def wait_lock():
    lock.acquire()


def wait_event():
    threading.Event().wait()


def wait_queue():
    queue.Queue().get()


def wait_sleep():
    time.sleep(3600)


def wait_select():
    select.select([left], [], [])


def wait_recv():
    right.recv(1)


def runner():
    target.ready(threads=[t.name for t in threading.enumerate()])
    while True:
        work.one_round()


def on_term(*_):
    target.emit(truth=work.shares())
    raise SystemExit(0)


def main():
    lock.acquire()
    for wait in (wait_lock, wait_event, wait_queue, wait_sleep, wait_select, wait_recv):
        threading.Thread(target=wait, name=wait.__name__, daemon=True).start()
    signal.signal(signal.SIGTERM, on_term)
    running = threading.Thread(target=runner, name="runner", daemon=True)
    running.start()
    while True:
        running.join(3600)


main()
