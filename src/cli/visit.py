# SPDX-License-Identifier: Apache-2.0
"""What gsprof runs in a process that it enters: inject, eject, eval.

The program puts what is asked for in the place of REQUEST's value.  The answer is a file that
appears whole: the outcome, the lengths of three texts, and these (what was printed, a value, a
traceback)."""

from __future__ import annotations

import sys

# Importing typing costs more than all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

REQUEST: Dict[str, Any] = {}

# Short enough that a hundred files are found in some milliseconds of waiting, long enough that the
# lock does not change hands all the time on a machine where each turn has to wait for a CPU.
HASTE_S = 2e-4
# Only one of two ways in may run it, and nobody once it was given up.
CLAIM_FLAGS = ("O_CREAT", "O_EXCL", "O_WRONLY", "O_CLOEXEC")


def visit(request: Dict[str, Any]) -> None:
    import os

    flags = 0
    for name in CLAIM_FLAGS:
        flags |= getattr(os, name)
    try:
        os.close(os.open(request["claim"], flags, 0o600))
    except OSError:
        return

    def boot() -> Any:
        """gsprof._boot, from the package that came with the program if there is none yet."""
        import importlib

        folder = request["package"]
        if "gsprof" in sys.modules or folder in sys.path:
            return importlib.import_module("gsprof._boot")
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("gsprof._boot")
        finally:
            sys.path.remove(folder)

    def attach() -> str:
        if not boot().attach(request["settings"], request["package"]):
            raise RuntimeError("no place for rings: shared memory is full, or read-only")
        return ""

    def detach() -> str:
        if "gsprof._boot" in sys.modules:
            boot().detach()
        return ""

    def evaluate(printed: List[str]) -> str:
        """In the namespace of __main__, as a debugger would."""
        import ast
        import threading

        me = threading.get_ident()
        before = sys.stdout

        class Printed:
            """Takes what this thread prints and leaves the rest to where it went before."""

            def write(self, text: str) -> int:
                if threading.get_ident() == me:
                    printed.append(text)
                    return len(text)
                return int(before.write(text) or 0)

            def __getattr__(self, name: str) -> Any:
                return getattr(before, name)

        space = sys.modules["__main__"].__dict__
        tree = ast.parse(request["code"], "<gsprof eval>", "exec")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        sys.stdout = Printed()  # type: ignore[assignment]
        try:
            exec(compile(tree, "<gsprof eval>", "exec"), space)
            if not isinstance(last, ast.Expr):
                return ""
            value = eval(compile(ast.Expression(last.value), "<gsprof eval>", "eval"), space)
            return "" if value is None else repr(value)
        finally:
            if isinstance(sys.stdout, Printed):
                sys.stdout = before

    def run() -> Tuple[str, str, str, str]:
        printed: List[str] = []
        value = trace = ""
        try:
            if request["what"] == "eval":
                value = evaluate(printed)
            else:
                value = {"inject": attach, "eject": detach}[request["what"]]()
        except BaseException as error:
            import traceback

            # Frames of this file are of no use to anybody.
            at = error.__traceback__
            while at is not None and at.tb_frame.f_code.co_filename != "<gsprof eval>":
                at = at.tb_next
            kept = at or (None if request["what"] == "eval" else error.__traceback__)
            trace = "".join(traceback.format_exception(type(error), error, kept))
        return ("error" if trace else "ok"), "".join(printed), value, trace

    def answer() -> None:
        outcome, *texts = run()
        parts = [text.encode("utf-8", "backslashreplace") for text in texts]
        head = " ".join([outcome, *(str(len(part)) for part in parts)]) + "\n"
        with open(request["answer"] + ".new", "wb") as file:
            file.write(head.encode("ascii") + b"".join(parts))
        os.rename(request["answer"] + ".new", request["answer"])

    # Each file that an import looks for gives the interpreter's lock away, and a thread that
    # computes gives it back after this long.
    before = sys.getswitchinterval()
    sys.setswitchinterval(HASTE_S)
    haste = sys.getswitchinterval()
    try:
        answer()
    finally:
        if sys.getswitchinterval() == haste:
            sys.setswitchinterval(before)


visit(REQUEST)
