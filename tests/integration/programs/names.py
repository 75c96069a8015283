# SPDX-License-Identifier: Apache-2.0
"""Spins in functions with unusual names. With "stations" it pauses in each instead."""

import sys
import time

import target

ODD = {
    "umlaut": "gr\u00f6\u00dfe",
    "cjk": "\u51fd\u6570",
    "astral": "\U00010400\U0001f40d",
    "script": "<script>alert(1)</script>",
    "quote": 'it\'s "quoted" & <b>',
    "separators": "semi;colon tab\there",
    "newline": "two\nlines",
    "control": "bell\x07esc\x1b[31m",
    "nul": "before\x00after",
    "surrogate": "lone\ud800end",
    "percent": "%s%n%d",
    "slash": "../../etc/passwd",
    "long": "long_" + "x" * 5000,
    "empty": "",
}


class Outer:
    class Inner:
        def method(self, act):
            act()

        class Innermost:
            @classmethod
            def of_class(cls, act):
                act()


def outer(act):
    def nested():
        act()

    nested()


def plain(act):
    act()


def renamed(name):
    code = plain.__code__
    if hasattr(code, "co_qualname"):
        code = code.replace(co_name=name, co_qualname=name)
    else:
        code = code.replace(co_name=name)
    return type(plain)(code, globals())


def spin():
    end = time.monotonic() + 0.004
    while time.monotonic() < end:
        pass


def main():
    functions = {key: renamed(name) for key, name in ODD.items()}
    functions["method"] = Outer.Inner().method
    functions["class method"] = Outer.Inner.Innermost.of_class
    functions["nested"] = outer
    functions["lambda"] = lambda act: act()
    if sys.argv[1:] == ["stations"]:
        for key, function in functions.items():
            function(lambda: target.station(key))
        target.done()
        return
    target.ready()
    while True:
        for function in functions.values():
            function(spin)


main()
