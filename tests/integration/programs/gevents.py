# SPDX-License-Identifier: Apache-2.0
"""Greenlets of gevent in sleeps and waits: first while the main greenlet pauses, then while the hub
waits for all of them."""

import socket

import gevent
import gevent.event
import gevent.socket
import target


def sleeper(depth):
    if depth:
        sleeper(depth - 1)
    else:
        gevent.sleep(3600)


def reader(sock):
    gevent.socket.wait_read(sock.fileno())


def waiter(event):
    event.wait()


def spawned(name, *args):
    one = gevent.spawn(*args)
    one.name = name
    return one


def wait_for_all(greenlets):
    gevent.joinall(greenlets)


def main():
    ours, theirs = socket.socketpair()
    event = gevent.event.Event()
    greenlets = [spawned(f"sleeper {i}", sleeper, i) for i in range(5)]
    greenlets.append(spawned("reader", reader, ours))
    greenlets.append(spawned("waiter", waiter, event))
    gevent.sleep(0)
    target.station("main runs")
    target.emit(ready=True, case="hub runs")
    wait_for_all(greenlets)
    theirs.close()


main()
