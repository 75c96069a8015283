# SPDX-License-Identifier: Apache-2.0
"""Collectives of a fake torch.distributed: every operation of any PyTorch version is recorded, by
whatever name it is called."""

import json
import os
import sys
import types

from gsprof import _gsprof
from gsprof.torch import _collectives

OTHERS = ("Backend", "new_group", "get_rank")


class Tensor:
    def numel(self):
        return 6

    def element_size(self):
        return 4


class P2POp:
    tensor = Tensor()


def stand_in(names):
    """Returns torch with torch.distributed, whose functions return their arguments."""
    inner = types.ModuleType("torch.distributed.distributed_c10d")
    outer = types.ModuleType("torch.distributed")
    for name in names:
        scope = {}
        exec(f"def {name}(*args, **kwargs): return (args, kwargs)", scope)
        setattr(inner, name, scope[name])
        setattr(outer, name, scope[name])
    outer.distributed_c10d = inner
    outer.is_available = lambda: True
    outer.is_initialized = lambda: False
    outer.get_world_size = lambda group: 2
    return types.SimpleNamespace(distributed=outer)


def main():
    functional = types.ModuleType(_collectives._FUNCTIONAL)
    exec("def all_gather_single(self, gather_dim, group, tag=''): return self", vars(functional))
    sys.modules[_collectives._FUNCTIONAL] = functional
    torch = stand_in((*_collectives._OPERATIONS, *OTHERS, "init_process_group"))
    plain = {name: getattr(torch.distributed, name) for name in OTHERS}
    assert _gsprof.start() == 0
    _collectives.install(torch, lambda: False)
    _collectives.set_on(True)
    outer, inner, tensor = torch.distributed, torch.distributed.distributed_c10d, Tensor()
    for name in OTHERS:
        assert getattr(outer, name) is plain[name]
    assert outer.all_gather_single(tensor, input_tensor=tensor)[0] == (tensor,)
    inner.reduce_scatter_single(tensor, tensor, async_op=True)
    outer.all_reduce_coalesced([tensor, tensor])
    outer.batch_isend_irecv([P2POp(), P2POp(), P2POp()])
    assert functional.all_gather_single(tensor, 0, None) is tensor
    print(json.dumps({"pid": os.getpid(), "wrapped": len(_collectives._OPERATIONS)}))


main()
