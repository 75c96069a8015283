# SPDX-License-Identifier: Apache-2.0
"""The script that gsprof runs in a target for inject, eject and eval.

run_python.c replaces the value of REQUEST. The answer is a file, created by a rename: the outcome,
the lengths of three texts, and the texts (printed output, value, traceback)."""

import sys

# Importing typing takes longer than the rest of this script.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

REQUEST: "Dict[str, Any]" = {}

# Switch interval while the script runs. Short, so that it gets the GIL back quickly after reading a
# file; not so short that threads which wait for a CPU pass the GIL around all the time.
SWITCH_INTERVAL_S = 5e-4
# For the agent, which writes the answer itself after it has released the GIL: the name and the
# contents of the file.
ANSWER: "List[bytes]" = []
# File name of the user's code. The names of gsprof's own files contain "gsprof".
EVAL = "<eval>"
# In sys: the process whose agent is being loaded or removed.
MARK = "_gsprof_request"
# The extension module, after pause().
PAUSED: "List[Any]" = []


def pause() -> None:
    """Stops counting the allocations of this thread: they are not the program's. If the agent runs
    the script, the agent does this."""
    module = sys.modules.get("gsprof._gsprof")
    if module is not None and not PAUSED and __name__ != "__gsprof__":
        PAUSED.append(module)
        module.memory_pause(True)


def run_request(request: "Dict[str, Any]") -> None:
    import os

    def claim() -> bool:
        """Returns True once: the interpreter and the agent may both start the script, and gsprof
        claims it when it gives up."""
        try:
            os.mkdir(request["claim"], 0o700)
        except OSError:
            return False
        return True

    def reserve() -> bool:
        """Returns False if another script loads or removes the agent: in another thread, or in this
        one, where the interpreter may start a script at any line of Python. A forked child
        inherits the mark."""
        if request["what"] == "eval":
            return True
        mark, marks = [os.getpid()], sys.__dict__
        found = marks.setdefault(MARK, mark)
        if found[0] != mark[0]:
            found = marks[MARK] = mark
        return found is mark

    def release() -> None:
        if request["what"] != "eval":
            sys.__dict__.pop(MARK, None)

    def make_finder() -> "Any":
        """Returns an import finder for the modules in the request. Reading them from files would
        release the GIL each time, and a thread that computes returns it late."""
        external: Any = sys.modules["_frozen_importlib_external"]
        modules, folder = request["modules"], request["package"] + "/gsprof/"

        class RequestLoader(external.SourceFileLoader):  # type: ignore[misc]
            def get_code(self, fullname: str) -> "Any":
                compiled, source = modules.get(fullname, ("", ""))
                data = bytes.fromhex(compiled)
                if data[:4] == external.MAGIC_NUMBER:
                    return external.marshal.loads(data[16:])
                if source:
                    return compile(source, self.path, "exec", dont_inherit=True)
                return super().get_code(fullname)

        def find_library(name: str) -> "Any":
            for suffix in external.EXTENSION_SUFFIXES:
                path = folder + name + suffix
                if name + suffix in request["libraries"]:
                    return external.ExtensionFileLoader("gsprof." + name, path), path
            return None, ""

        class Finder:
            def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
                within = None
                if name == "gsprof._gsprof":
                    loader, path = find_library("_gsprof")
                elif name in modules:
                    is_package = name == "gsprof"
                    path = folder + ("__init__" if is_package else name[len("gsprof.") :]) + ".py"
                    loader, within = (
                        RequestLoader(name, path),
                        [folder[:-1]] if is_package else None,
                    )
                else:
                    return None
                if loader is None:
                    return None
                return external.spec_from_file_location(
                    name, path, loader=loader, submodule_search_locations=within
                )

        return Finder()

    def attach() -> str:
        """Imports the package of this gsprof, unless the target has one."""
        finder = None if "gsprof" in sys.modules else make_finder()
        if finder is not None:
            sys.meta_path.insert(0, finder)
        try:
            from gsprof import _boot

            pause()
            may_trace = bool(request["may_trace"])
            may_follow = bool(request["may_follow"])
            needs_follower = _boot.attach(
                request["settings"], request["package"], may_trace, may_follow
            )
        finally:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
            # The loaders live as long as their modules, and read files from now on.
            request["modules"].clear()
        return "follow" if needs_follower else ""

    def detach() -> str:
        if "gsprof._boot" in sys.modules:
            from gsprof import _boot

            _boot.detach()
        return ""

    def repair_threading(me: int) -> None:
        """Before Python 3.13, threading takes the thread that imports it first for the main thread.
        If the user's code has done so in this thread of the agent, names the interpreter's."""
        import _thread
        import os

        threading: Any = sys.modules.get("threading")
        main: Any = getattr(threading, "_main_thread", None)
        # Lists the threads of the main interpreter last, and its first thread after the others.
        oldest = list(sys._current_frames())[-1]
        if sys.version_info >= (3, 13) or getattr(main, "_ident", None) != me or oldest == me:
            return
        names = ("_active", "_active_limbo_lock", "_shutdown_locks", "_shutdown_locks_lock")
        if not hasattr(main, "_tstate_lock") or not all(hasattr(threading, name) for name in names):
            return
        # Python releases the old lock when this thread ends. Only _shutdown() may release that of
        # the main thread.
        lock = _thread.allocate_lock()
        lock.acquire()
        with threading._shutdown_locks_lock:
            threading._shutdown_locks.discard(main._tstate_lock)
            threading._shutdown_locks.add(lock)
            main._tstate_lock = lock
        with threading._active_limbo_lock:
            threading._active.pop(me, None)
            threading._active[oldest] = main
            main._ident = oldest
            main._native_id = os.getpid()

    def evaluate(printed: "List[str]") -> str:
        """Runs the code in the namespace of __main__, like a debugger."""
        import ast
        from _thread import get_ident

        me = get_ident()
        before = sys.stdout

        class Printed:
            """Collects the output of this thread and passes on that of other threads."""

            def write(self, text: str) -> int:
                if get_ident() == me:
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
            module.memory_pause(False)  # allocations of the user's code are counted
        try:
            values = [eval(code, space) for code in codes]
            return "" if values[-1] is None else repr(values[-1])
        finally:
            if module is not None:
                module.memory_pause(True)
            if isinstance(sys.stdout, Printed):
                sys.stdout = before
            repair_threading(me)

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

            # Leave out the frames of this script.
            at = error.__traceback__
            while at is not None and at.tb_frame.f_code.co_filename != EVAL:
                at = at.tb_next
            kept = at or (None if request["what"] == "eval" else error.__traceback__)
            trace = "".join(traceback.format_exception(type(error), error, kept))
        return ("error" if trace else "ok"), "".join(printed), value, trace

    def answer() -> None:
        if reserve():
            try:
                outcome, *texts = run()
            finally:
                release()
        else:
            outcome, *texts = "busy", "", "", ""
        parts = [text.encode("utf-8", "backslashreplace") for text in texts]
        head = " ".join([outcome, *(str(len(part)) for part in parts)]) + "\n"
        text = head.encode("ascii") + b"".join(parts)
        if __name__ == "__gsprof__":
            ANSWER[:] = os.fsencode(request["answer"]), text
            return
        with open(request["answer"] + ".new", "wb") as file:
            file.write(text)
        os.rename(request["answer"] + ".new", request["answer"])

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    shortened = sys.getswitchinterval()
    try:
        if claim():
            answer()
    finally:
        if sys.getswitchinterval() == shortened:
            sys.setswitchinterval(before)


pause()
try:
    run_request(REQUEST)
finally:
    # Last: allocations after this are counted.
    while PAUSED:
        PAUSED.pop().memory_pause(False)
