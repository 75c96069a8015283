# SPDX-License-Identifier: Apache-2.0
"""What gsprof runs in a process that it enters: inject, eject, eval.

The program puts what is asked for in the place of REQUEST's value.  The answer is a file that
appears whole: the outcome, the lengths of three texts, and these (what was printed, a value, a
traceback)."""

import sys

# Importing typing costs more than all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

REQUEST: "Dict[str, Any]" = {}

# Short enough that a file is found in some tenths of a millisecond of waiting, long enough that the
# lock does not change hands all the time on a machine where each turn has to wait for a CPU.
HASTE_S = 5e-4
# Where the agent runs these lines it writes the answer itself, when it has given the lock back: the
# name of the file, and what is to be in it.
ANSWER: "List[bytes]" = []
# The file of the user's code: not one of ours, which have "gsprof" there.
EVAL = "<eval>"
# The extension module, from pause() on.
PAUSED: "List[Any]" = []


def pause() -> None:
    """What this thread allocates from here on is not the program's; nothing counts it.  Where the
    agent runs these lines it sees to that itself."""
    module = sys.modules.get("gsprof._gsprof")
    if module is not None and not PAUSED and __name__ != "__gsprof__":
        PAUSED.append(module)
        module.memory_pause(True)


def visit(request: "Dict[str, Any]") -> None:
    import os

    def claim() -> bool:
        """Only one of two ways in may run this, and nobody once it was given up."""
        try:
            os.mkdir(request["claim"], 0o700)
        except OSError:
            return False
        return True

    def carried() -> "Any":
        """Finds the package's modules in the request: a file gives the interpreter's lock away
        each time it is looked at, and whoever computes gives it back late."""
        external: Any = sys.modules["_frozen_importlib_external"]
        modules, folder = request["modules"], request["package"] + "/gsprof/"

        class Carried(external.SourceFileLoader):  # type: ignore[misc]
            def get_code(self, fullname: str) -> "Any":
                compiled, source = modules.get(fullname, ("", ""))
                data = bytes.fromhex(compiled)
                if data[:4] == external.MAGIC_NUMBER:
                    return external.marshal.loads(data[16:])
                if source:
                    return compile(source, self.path, "exec", dont_inherit=True)
                return super().get_code(fullname)

        def library(name: str) -> "Any":
            for suffix in external.EXTENSION_SUFFIXES:
                path = folder + name + suffix
                if name + suffix in request["libraries"]:
                    return external.ExtensionFileLoader("gsprof." + name, path), path
            return None, ""

        class Finder:
            def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
                within = None
                if name == "gsprof._gsprof":
                    loader, path = library("_gsprof")
                elif name in modules:
                    is_package = name == "gsprof"
                    path = folder + ("__init__" if is_package else name[len("gsprof.") :]) + ".py"
                    loader, within = Carried(name, path), [folder[:-1]] if is_package else None
                else:
                    return None
                if loader is None:
                    return None
                return external.spec_from_file_location(
                    name, path, loader=loader, submodule_search_locations=within
                )

        return Finder()

    def attach() -> str:
        """With the package that came with the program, if there is none yet."""
        finder = None if "gsprof" in sys.modules else carried()
        if finder is not None:
            sys.meta_path.insert(0, finder)
        try:
            from gsprof import _boot

            pause()
            may_trace = bool(request["may_trace"])
            may_follow = bool(request["may_follow"])
            wanted = _boot.attach(request["settings"], request["package"], may_trace, may_follow)
        finally:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
            # Loaders live on with their modules, and read files from now on.
            request["modules"].clear()
        return "follow" if wanted else ""

    def detach() -> str:
        if "gsprof._boot" in sys.modules:
            from gsprof import _boot

            _boot.detach()
        return ""

    def evaluate(printed: "List[str]") -> str:
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

            def __getattr__(self, name: str) -> "Any":
                return getattr(before, name)

        space = sys.modules["__main__"].__dict__
        tree = ast.parse(request["code"], EVAL, "exec")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [compile(tree, EVAL, "exec")]
        if isinstance(last, ast.Expr):
            codes.append(compile(ast.Expression(last.value), EVAL, "eval"))
        module = sys.modules.get("gsprof._gsprof")
        sys.stdout = Printed()  # type: ignore[assignment]
        if module is not None:
            module.memory_pause(False)  # what the user's code allocates counts
        try:
            values = [eval(code, space) for code in codes]
            return "" if values[-1] is None else repr(values[-1])
        finally:
            if module is not None:
                module.memory_pause(True)
            if isinstance(sys.stdout, Printed):
                sys.stdout = before

    def run() -> "Tuple[str, str, str, str]":
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
            while at is not None and at.tb_frame.f_code.co_filename != EVAL:
                at = at.tb_next
            kept = at or (None if request["what"] == "eval" else error.__traceback__)
            trace = "".join(traceback.format_exception(type(error), error, kept))
        return ("error" if trace else "ok"), "".join(printed), value, trace

    def answer() -> None:
        outcome, *texts = run()
        parts = [text.encode("utf-8", "backslashreplace") for text in texts]
        head = " ".join([outcome, *(str(len(part)) for part in parts)]) + "\n"
        text = head.encode("ascii") + b"".join(parts)
        if __name__ == "__gsprof__":
            ANSWER[:] = os.fsencode(request["answer"]), text
            return
        with open(request["answer"] + ".new", "wb") as file:
            file.write(text)
        os.rename(request["answer"] + ".new", request["answer"])

    # A thread that computes gives the interpreter's lock back after this long.
    before = sys.getswitchinterval()
    sys.setswitchinterval(HASTE_S)
    haste = sys.getswitchinterval()
    try:
        if claim():
            answer()
    finally:
        if sys.getswitchinterval() == haste:
            sys.setswitchinterval(before)


pause()
try:
    visit(REQUEST)
finally:
    # Last of all: what comes after this is counted.
    while PAUSED:
        PAUSED.pop().memory_pause(False)
