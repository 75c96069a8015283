# SPDX-License-Identifier: Apache-2.0
"""Errors that pass through hooked functions: tracebacks contain only the program's frames, and the
hooked functions look unchanged."""

import copy
import inspect
import os
import pickle
import sys
import traceback
import weakref

import torch
import torch.distributed as dist

import common


class Fails(torch.nn.Module):
    def forward(self, x):
        common.use_memory(1)
        raise ValueError("in forward")


def collective():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    try:
        dist.init_process_group("no-such-backend")
    finally:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce("not a tensor")


def optimizer():
    torch.optim.SGD([], lr=0.1)


def step():
    weight = torch.zeros(3, requires_grad=True)

    def closure():
        raise KeyError("in the closure")

    torch.optim.SGD([weight], lr=0.1).step(closure)


def warning():
    weight = torch.nn.Parameter(torch.zeros(3))
    torch.optim.SGD([weight, weight], lr=0.1)  # the warning names a line two frames above
    raise KeyError("after the warning")


def backward():
    torch.zeros(3).sum().backward()


def compiled():
    if hasattr(torch, "compile"):
        torch.compile(torch.nn.Linear(4, 4), backend="eager")(torch.zeros(2, 4))
    Fails()(torch.zeros(2))


def failing_import():
    with open("torch_half.py", "w") as file:
        file.write("import torch.missing_module_of_exits\n")
    sys.path.insert(0, os.getcwd())
    import torch_half  # noqa: F401


def inspect_hooked():
    for function in (torch.autograd.backward, torch.nn.Module.__call__):
        print(function, inspect.isfunction(function), inspect.signature(function))
        print(inspect.getsource(function)[:200])
        if sys.version_info >= (3, 9):
            print(inspect.getsourcefile(function), weakref.ref(function)() == function)
        copies = [copy.deepcopy(function), pickle.loads(pickle.dumps(function))]
        print([each.__name__ for each in copies])
        print(function.__eq__(function), function.__ne__(function))
    names = [name for name, value in vars(torch.nn.Module).items() if value == function]
    print(names, function in {getattr(torch.nn.Module, name) for name in names})


inspect_hooked()
FUNCTIONS = (collective, optimizer, step, warning, backward, compiled, failing_import)
for function in (Fails().forward, *FUNCTIONS):
    try:
        function(*([None] if function.__name__ == "forward" else []))
    except Exception:
        print(traceback.format_exc())
print(sys.path)
raise SystemExit(Fails()(torch.zeros(2)))
