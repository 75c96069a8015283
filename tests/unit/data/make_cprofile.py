#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the standard profilers write: make_cprofile.py OUT.prof [profile|cProfile].

Run under each Python whose file is wanted.  Names and numbers of lines stay the same from
run to run; times do not.
"""
import importlib
import sys
from typing import Any, Dict

SOURCE = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def caller_one():
    fib(12)

def caller_two():
    fib(8)

def main():
    caller_one()
    caller_two()
    sorted([3, 1, 2])
"""

if __name__ == "__main__":
    names: Dict[str, Any] = {}
    exec(compile(SOURCE, "app.py", "exec"), names)
    profiler = importlib.import_module(sys.argv[2] if len(sys.argv) > 2 else "cProfile")
    profiler.runctx("main()", names, {}, sys.argv[1])
