#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests injection on a kernel for aarch64, which qemu emulates. The last line has the numbers of
passed and failed checks.

Builds the programs in build-aarch64/, packs them with their libraries and driver.c into an
initramfs, and boots Debian's kernel once per model of processor. `max` has scalable vectors (SVE)
and pointer authentication, `cortex-a72` has neither."""

from __future__ import annotations

import argparse
import os
import re
import selectors
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, Set

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import run_tests  # noqa: E402

MODELS = {"max": "max,pauth-impdef=on", "cortex-a72": "cortex-a72"}
PROGRAMS = ("inject_call", "libinject_probe.so", "regcheck")
LOADER = "ld-linux-aarch64.so.1"
COMPILER = "aarch64-linux-gnu-gcc"


def get_root(*args: str) -> Path:
    """The folder with unpacked packages."""
    command = [str(ROOT / "tools" / "get-arm64.sh"), *args]
    got = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return Path(got.stdout.strip())


def build(root: Path, to: Path) -> List[Path]:
    """Returns the programs, the driver last."""
    if not run_tests.set_up_arm(root):
        sys.exit("aarch64: the build cannot be configured")
    tools = run_tests.ARM_BUILD / "tests" / "tools"
    programs = [tools / name for name in PROGRAMS]
    names = [str(path.relative_to(run_tests.ARM_BUILD)) for path in programs]
    subprocess.run(["ninja", "--quiet", "-C", str(run_tests.ARM_BUILD), *names], check=True)
    driver = to / "driver"
    source = Path(__file__).resolve().parent / "driver.c"
    flags = ["-O1", "-static", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"--sysroot={root}"]
    subprocess.run([COMPILER, *flags, "-o", str(driver), str(source)], check=True)
    return [*programs, driver]


def libraries(root: Path, programs: List[Path]) -> Set[Path]:
    """The shared libraries of the programs, and theirs."""
    folders = [root / "lib" / "aarch64-linux-gnu", root / "usr" / "lib" / "aarch64-linux-gnu"]
    found: Dict[str, Path] = {}
    waiting = list(programs)
    while waiting:
        command = ["aarch64-linux-gnu-readelf", "-d", str(waiting.pop())]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            if name not in found:
                found[name] = next(f / name for f in folders if (f / name).exists())
                waiting.append(found[name])
    return set(found.values())


def entry(name: str, mode: int, data: bytes = b"", device: int = 0) -> bytes:
    """One entry of a cpio archive in the format that the kernel reads."""
    words = [0, mode, 0, 0, 1, 0, len(data), 0, 0, device >> 8, device & 255, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % word for word in words) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def archive(root: Path, programs: List[Path]) -> bytes:
    parts = [entry(name, stat.S_IFDIR | 0o755) for name in ("dev", "lib", "tests")]
    # The first process prints to the console before /dev is mounted.
    parts.append(entry("dev/console", stat.S_IFCHR | 0o600, device=5 << 8 | 1))
    parts.append(entry("init", stat.S_IFREG | 0o755, programs[-1].read_bytes()))
    for path in programs[:-1]:
        parts.append(entry(f"tests/{path.name}", stat.S_IFREG | 0o755, path.read_bytes()))
    for path in sorted(libraries(root, programs[:-1]) | {root / "lib" / LOADER}):
        parts.append(entry(f"lib/{path.name}", stat.S_IFREG | 0o755, path.read_bytes()))
    return b"".join(parts) + entry("TRAILER!!!", 0)


def lines_of(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[str]:
    """The lines that the machine prints until it is off or the time has passed."""
    assert process.stdout is not None
    deadline = time.monotonic() + limit_s
    rest = b""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while ready.select(max(0.0, deadline - time.monotonic())):
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace").rstrip()
    yield f"not ok - the machine was not off after {limit_s:g} s"


def boot(
    kernel: Path, initramfs: Path, model: str, options: argparse.Namespace
) -> run_tests.Counts:
    settings = f"calls={options.calls} waits={options.waits} kills={options.kills}"
    command = ["qemu-system-aarch64", "-M", "virt", "-cpu", MODELS[model], "-smp", "2"]
    command += ["-accel", "tcg,thread=multi", "-m", "1G", "-nographic", "-nodefaults"]
    command += ["-serial", "stdio", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs)]
    command += ["-append", f"console=ttyAMA0 quiet panic=-1 seed={options.seed} {settings}"]
    counts = run_tests.Counts()
    is_ended = False
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        for line in lines_of(process, options.limit):
            print(f"{model}: {line}", flush=True)
            counts.passed += line.startswith("ok - ")
            counts.failed += line.startswith("not ok - ")
            is_ended = is_ended or line == "# end"
    finally:
        process.kill()
        process.wait()
    if not is_ended:
        counts.failed += 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20, help="ordinary calls in each state")
    parser.add_argument("--waits", type=int, default=5, help="injectors killed in their call")
    parser.add_argument("--kills", type=int, default=40, help="injectors killed at random moments")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    parser.add_argument("--cpu", action="append", choices=sorted(MODELS), help="only this model")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one model")
    options = parser.parse_args()
    root = get_root()
    kernel = next((get_root("--kernel") / "boot").glob("vmlinuz-*"))
    counts = run_tests.Counts()
    with tempfile.TemporaryDirectory() as folder:
        programs = build(root, Path(folder))
        initramfs = Path(folder) / "initramfs"
        initramfs.write_bytes(archive(root, programs))
        for model in options.cpu or MODELS:
            counts.add(boot(kernel, initramfs, model, options))
    print(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
