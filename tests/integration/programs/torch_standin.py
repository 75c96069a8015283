# SPDX-License-Identifier: Apache-2.0
"""The wrapper of Module.__call__ on a fake Module: interpreters differ in their calling
conventions, and few have PyTorch."""

import copy
import gc
import inspect
import json
import os
import pickle
import sys
import threading
import traceback
import types

from gsprof import _gsprof, _quiet
from gsprof.torch import _names

CALLS = 1000


class Module:
    def __init__(self, **parts):
        self._modules = parts
        self._parameters = {}

    def __call__(self, *args, **kwargs):
        """Calls forward."""
        return self.forward(*args, **kwargs)

    def forward(self, x, *, add=0):
        for part in self._modules.values():
            x = part(x)
        return x + add


class Fails(Module):
    def forward(self, x):
        raise KeyError(x)


class Again(Module):
    def forward(self, n):
        return self(n - 1) if n else 0


def must_raise(error, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def check_looks_like(wrapper, original):
    """Code that inspects, copies or pickles the function sees the original."""
    for view in (repr, inspect.getsource, inspect.getsourcefile, inspect.signature):
        assert view(wrapper) == view(original), view
    assert inspect.isfunction(wrapper) and isinstance(wrapper, types.FunctionType)
    assert copy.copy(wrapper) is wrapper and copy.deepcopy([wrapper])[0] is wrapper
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    must_raise(AttributeError, getattr, wrapper, "missing")


def fail(depth):
    if depth:
        fail(depth - 1)
    raise KeyError(depth)


def wrapped(depth):
    try:
        fail(depth)
    except BaseException as error:
        _quiet.hide_wrapper(error)
        raise
    finally:
        gc.collect()


def hidden_frames():
    """A wrapper is not in the traceback of an exception that passes through it."""
    for depth in range(3):
        try:
            wrapped(depth)
        except KeyError as error:
            names = [entry.name for entry in traceback.extract_tb(error.__traceback__)]
            assert names == ["hidden_frames"] + ["fail"] * (depth + 1), names


def main():
    hidden_frames()
    original = Module.__call__
    assert _gsprof.start() == 0
    _gsprof.set("torch.shadow", "off")
    wrapper = _gsprof.torch_install(original)
    assert _gsprof.torch_install(original) is wrapper
    _gsprof.torch_callback("name_module", _names.name_module)
    _gsprof.torch_callback("is_selected", _names.is_selected)
    Module.__call__ = wrapper
    assert wrapper.__wrapped__ is original and wrapper.__doc__ == original.__doc__
    assert Module.__call__ is wrapper and Module().__call__.__self__ is not None
    check_looks_like(wrapper, original)
    model = Module(a=Module(), b=Module(c=Module()))
    for on in ("off", "on"):
        _gsprof.set("torch", on)
        for _ in range(CALLS):
            assert model(1) == 1 and model(x=1, add=2) == 3 and model(1, add=3) == 4
        assert model.__call__(5) == 5 and wrapper(model, 6) == 6
        assert wrapper(*(model, 7), **{"add": 1}) == 8
        must_raise(TypeError, model)
        must_raise(TypeError, model, 1, 2)
        must_raise(TypeError, wrapper)
        must_raise(KeyError, Fails(), 9)
        assert Again()(100) == 0
    assert _gsprof.torch_path(model) == "Module"
    assert _gsprof.torch_path(model._modules["b"]._modules["c"]) == "b.c"
    known = _gsprof.torch_state()["modules"]
    # Addresses are reused: freed modules must be removed from the table first.
    for i in range(3000):
        assert Module(**{f"p{i % 7}": Module()})(i) == i
    gc.collect()
    assert _gsprof.torch_state()["modules"] <= known + 2, _gsprof.torch_state()
    wrong = []

    def work():
        for i in range(CALLS):
            if model(i) != i or Module(z=Module())(i) != i:
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # Errors of our own code do not affect the program.
    _gsprof.torch_callback("name_module", lambda module, parent: 1 // 0)
    assert Module()(1) == 1

    def interrupt(module, parent):
        raise KeyboardInterrupt

    _gsprof.torch_callback("name_module", interrupt)
    must_raise(KeyboardInterrupt, Module(), 1)
    _gsprof.torch_callback("name_module", _names.name_module)
    assert Module()(1) == 1
    _gsprof.stop()
    assert model(1) == 1
    print(json.dumps({"pid": os.getpid(), "version": sys.version}))


if __name__ == "__main__":
    main()
