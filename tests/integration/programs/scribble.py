# SPDX-License-Identifier: Apache-2.0
"""Overwrites the frames and the thread state of a sleeping thread, until it is killed. Arguments:
what to write (random, cycle, ones, pointers) and a seed. The program may crash; its readers must
not."""

import ctypes
import random
import struct
import sys
import threading
import time

import target

WORD = ctypes.sizeof(ctypes.c_void_p)
FRAME_WORDS = 24
TSTATE_WORDS = 40
# The numbers of select, pselect6 and clock_nanosleep on x86-64 and aarch64.
SLEEPS = ("23", "270", "230", "72", "115")


def victim(box, depth):
    if depth:
        victim(box, depth - 1)
        return
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    box.append(get())
    box.append(threading.get_native_id())
    box.append(sys._getframe())
    time.sleep(3600)


def is_asleep(tid):
    """Returns whether the thread is in the system call of its sleep, not in one for a lock."""
    with open("/proc/self/task/%d/syscall" % tid) as file:
        return file.read().split()[0] in SLEEPS


def areas(box):
    """Returns where the victim's frames and thread state are: (address, words)."""
    found = [(box[0] + 2 * WORD, TSTATE_WORDS)]
    frame = box[2]
    while frame is not None:
        address = id(frame)
        found.append((address + 2 * WORD, FRAME_WORDS // 3))
        if sys.version_info >= (3, 11):
            inside = ctypes.c_void_p.from_address(address + 3 * WORD).value
            if inside:
                found.append((inside, FRAME_WORDS))
        found.append((id(frame.f_code) + 2 * WORD, FRAME_WORDS))
        frame = frame.f_back
    return found


def word(how, rng, address, all_areas):
    if how == "ones":
        return (1 << 64) - 1
    if how == "cycle":
        return address
    if how == "pointers":
        return rng.choice(all_areas)[0] + 8 * rng.randrange(-4, 12)
    return rng.choice(
        (rng.getrandbits(64), rng.getrandbits(8), rng.getrandbits(31), rng.getrandbits(47) & ~7)
    )


def main():
    how, seed = sys.argv[1], int(sys.argv[2])
    rng = random.Random(seed)
    box = []
    threading.Thread(target=victim, args=(box, 5), daemon=True).start()
    while len(box) < 3 or not is_asleep(box[1]):
        time.sleep(0.001)
    places = areas(box)
    target.ready()
    while True:
        address, words = rng.choice(places)
        at = address + WORD * rng.randrange(words)
        ctypes.memmove(at, struct.pack("<Q", word(how, rng, address, places)), WORD)


main()
