# SPDX-License-Identifier: Apache-2.0
"""Trains and calls models of every kind with tracing off and on, and prints which checks failed;
the test reads the rows. One process, since importing PyTorch takes seconds."""

import copy
import gc
import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import warnings

import gsprof
import torch
from gsprof import _gsprof
from gsprof.torch import _hooks, _overhead
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

MANY = 5000
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def digest(values):
    text = json.dumps([value.detach().double().tolist() for value in values])
    return hashlib.sha256(text.encode()).hexdigest()


class Translator(nn.Module):
    """A small transformer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 32)

    def forward(self, words):
        return self.head(self.encoder(self.embed(words)))


class Perceptron(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x):
        return self.body(x)


def train(steps=4):
    """A seeded run: losses and weights, as one number."""
    torch.manual_seed(7)
    model, lost = Translator(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    losses = []
    for _ in range(steps):
        words = torch.randint(0, 32, (4, 6))
        optimizer.zero_grad()
        loss = lost(model(words).transpose(1, 2), words)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss)
    return digest([*losses, *model.state_dict().values()])


@check
def results_stay_the_same(plain):
    assert train() == plain, "with forward tracing"
    gsprof.enable_torch_profiling(backward=True)
    try:
        assert train() == plain, "with backward tracing"
    finally:
        gsprof.enable_torch_profiling(backward=False)


@check
def exceptions_pass(_plain):
    class Fails(nn.Module):
        def __init__(self, error):
            super().__init__()
            self.inner = nn.Identity()
            self.error = error

        def forward(self, x):
            self.inner(x)
            raise self.error

    for error in (ValueError("mine"), KeyboardInterrupt(), SystemExit(3)):
        try:
            Fails(error)(torch.zeros(1))
        except BaseException as caught:
            assert caught is error
            assert caught.__context__ is None
        else:
            raise AssertionError("nothing was raised")


@check
def modes_and_scripts(_plain):
    model = Perceptron().eval()
    x = torch.ones(3, 4)
    with torch.no_grad():
        want = model(x)
        assert torch.equal(model(x=x), want)
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, x)
        assert torch.equal(scripted(x), want) and torch.equal(traced(x), want)
        assert torch.equal(model.__call__(x), want)
        assert torch.equal(nn.Module.__call__(model, x), want)
    try:
        model(1, 2, 3)
    except TypeError:
        pass
    else:
        raise AssertionError("too many arguments were taken")


@check
def models_are_copied_and_stored(_plain):
    model = Perceptron()
    before = sorted(vars(model))
    x = torch.ones(3, 4)
    want = model(x)
    assert sorted(vars(model)) == before, "an attribute was stored on the module"
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), want)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x), want)
    assert _gsprof.torch_path(model) != _gsprof.torch_path(twin)
    assert nn.Module.__call__.__name__ in ("_call_impl", "_wrapped_call_impl")


@check
def names_are_paths(_plain):
    class Grows(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"层é😀": nn.Linear(4, 4), "\ud800": nn.Identity()})
            self.loose = [nn.Identity()]

        def forward(self, x):
            for part in self.parts.values():
                x = part(x)
            if hasattr(self, "later"):
                x = self.later(x)
            return self.loose[0](x)

    model = Grows()
    model(torch.ones(1, 4))
    model.later = Perceptron()
    model(torch.ones(1, 4))
    base = _gsprof.torch_path(model.parts)[: -len("parts")]
    assert _gsprof.torch_path(model) == "Grows"
    assert _gsprof.torch_path(model.parts["层é😀"]) == base + "parts.层é😀"
    assert _gsprof.torch_path(model.later.body[0]) == base + "later.body.0"
    assert _gsprof.torch_path(model.loose[0]) == base + "Identity"

    class Holds(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    outer = Holds(model)
    outer(torch.ones(1, 4))
    assert _gsprof.torch_path(model.later).endswith("inner.later"), "the larger model names it"


@check
def wrappers_are_stripped(_plain):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x)

    model = Wrapped()
    nn.DataParallel(model)(torch.ones(2, 4))
    path = _gsprof.torch_path(model.fc)
    assert path in ("fc", "Wrapped.fc"), path
    assert _gsprof.torch_path(model) == "Wrapped"

    def wrap(name, attribute, inner):
        """A class that holds the model as PyTorch's own of that name does."""

        def forward(self, x):
            return getattr(self, attribute)(x)

        wrapper = type(name, (nn.Module,), {"forward": forward})()
        setattr(wrapper, attribute, inner)
        return wrapper

    sharded = Wrapped()
    sharded.fc = wrap("CheckpointWrapper", "_checkpoint_wrapped_module", sharded.fc)
    outer = wrap("FullyShardedDataParallel", "_fsdp_wrapped_module", sharded)
    outer = wrap("OptimizedModule", "_orig_mod", outer)
    outer = wrap("DistributedDataParallel", "module", outer)
    outer(torch.ones(2, 4))
    core = _gsprof.torch_path(sharded)
    assert core.startswith("Wrapped#"), core
    assert _gsprof.torch_path(sharded.fc) == core + ".fc"
    assert _gsprof.torch_path(sharded.fc._checkpoint_wrapped_module) == core + ".fc"
    assert _gsprof.torch_path(outer) == "DistributedDataParallel"


@check
def checkpoints_recompute(_plain):
    model = Perceptron()
    x = torch.ones(3, 4, requires_grad=True)
    for reentrant in (True, False):
        x.grad = None
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        assert x.grad is not None


@check
def many_modules_and_depth(_plain):
    class Many(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Identity() for _ in range(MANY))

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x

    class Deep(nn.Module):
        def forward(self, n):
            return self(n - 1) if n else 0

    gc.collect()
    before = _gsprof.torch_state()["modules"]
    model = Many()
    model(torch.ones(1))
    assert _gsprof.torch_state()["modules"] >= before + MANY
    del model
    gc.collect()
    assert _gsprof.torch_state()["modules"] <= before + 1, "freed modules are still in the table"
    assert Deep()(150) == 0


@check
def threads_count_for_themselves(_plain):
    class Shared(nn.Module):
        def forward(self, x):
            return x + 1

    model, wrong = Shared(), []

    def work():
        for _ in range(200):
            if not torch.equal(model(torch.zeros(1)), torch.ones(1)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Numbers(Dataset):
    """Calls a module in the worker."""

    def __init__(self):
        self.model = Perceptron()

    def __len__(self):
        return 8

    def __getitem__(self, i):
        with torch.no_grad():
            return self.model(torch.full((4,), float(i)))


@check
def forks_in_the_middle(_plain):
    class Forks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            child = os.fork()
            if child == 0:
                self.inner(x)
            return child, self.inner(x)

    child, _ = Forks()(torch.ones(1))
    if child == 0:
        # In the child too: the call that was running at the fork has ended.
        ours = all(row["module"] for row in gsprof.query("SELECT module FROM python.torch_trace"))
        os._exit(0 if ours else 9)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
    assert len(list(DataLoader(Numbers(), batch_size=2, num_workers=2))) == 4


@check
def filters_choose(_plain):
    class Filtered(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Identity())
            self.b = nn.Identity()

        def forward(self, x):
            return self.b(self.a(x))

    model = Filtered()
    for settings in ({"modules": "leaf"}, {"modules": "depth:0"}, {"layers": r"a\.0$"}):
        gsprof.enable_torch_profiling(**settings)
        gsprof.event("filter", **settings)
        model(torch.ones(1))
        gsprof.enable_torch_profiling(modules="all", layers="")
    gsprof.event("filter end")


@check
def a_gpu_stand_in_is_read_later(_plain):
    class Events:
        """A fake torch.cuda: its clock counts the recorded events."""

        def __init__(self):
            self.now, self.passed, self.waited = 0, -1, 0

        def record(self):
            self.now += 1
            return self.now

        def done(self, event):
            return event <= self.passed

        def seconds(self, begin, end):
            return float(end - begin)

        def wait(self):
            self.waited += 1

        def memory(self):
            return 1.0, 2.0, 3.0

    class OnGpu(nn.Module):
        def forward(self, x):
            return x

    events, model = Events(), OnGpu()
    _hooks.use_gpu(events)
    try:
        model(torch.ones(1))
        for _ in range(4):
            gsprof.step()
        assert len(_hooks._state.gpu._waiting) == 1, "read before the GPU had passed the event"
        events.passed = events.now
        gsprof.step()
        assert not _hooks._state.gpu._waiting and not events.waited
        _hooks._state.gpu.sync = True
        model(torch.ones(1))
        assert events.waited == 2
    finally:
        _hooks._state.gpu = None
        _gsprof.torch_callback("gpu", None)


@check
def overhead_is_estimated(_plain):
    assert _overhead.estimate([1.1] * 7) is None
    ratios = [1.08 + 0.001 * i for i in range(40)]
    found = _overhead.estimate(ratios + [50.0])
    assert 9 < found.percent < 11 and found.low < found.percent < found.high < 12


@check
def fewer_steps_are_traced_by_what_they_cost(_plain):
    """Ratios of steps with hooks to those after them -> one step in how many is traced."""

    def cost(percent, count=64, spread=0.1):
        half = count // 2
        return [1 + (percent + spread * (i - half) / half) / 100 for i in range(count)]

    measure = _overhead.Measure()
    assert measure(cost(20), 20.0, 1.0, 1) == 1, "no limit"
    measure.limit(5.0)
    assert measure([], 1.2, 1.0, 1) == 1, "clearly within the limit"
    assert measure([], 1.3, 1.0, 1) == 4, "not clearly within: steps are compared"
    assert measure(cost(90, 31), 1.3, 0.25, 4) == 4, "too few comparisons"
    assert measure(cost(19), 3.0, 0.25, 4) == 4
    assert measure(cost(21), 3.0, 0.25, 4) == 8, "the cost is above the hooks' own times"
    assert measure(cost(19), 3.0, 0.125, 8) == 8, "less, but not by enough"
    assert measure(cost(12, spread=60), 3.0, 0.125, 8) == 8, "not certain"
    assert measure(cost(12), 3.0, 0.125, 8) == 4
    assert measure(cost(6), 3.0, 0.25, 4) == 2
    assert measure([], 4.9, 0.5, 2) == 2, "twice the hooks' own times, as measured"
    assert measure([], 2.4, 0.5, 2) == 2 and measure([], 1.9, 0.5, 2) == 1
    assert measure([], 2.4, 1.0, 1) == 1
    assert measure([], 2.6, 1.0, 1) == 4, "compared again"
    assert measure(cost(-50), 21.0, 0.25, 4) == 8, "the hooks' own times are a lower bound"
    assert measure(cost(900), 3.0, 0.125, 8) == 8, "the steps differ for other reasons"
    measure.limit(5.0)
    assert measure([], 33.0, 1.0, 1) == 8, "by the hooks' own times"
    measure.limit(5.0)
    assert measure([], 12.0, 0.1, 1) == 1, "a tenth of the steps costs a tenth"
    measure.limit(5.0, has_variables=True)
    assert measure([], 2.4, 1.0, 1) == 1, "variables double the limit"
    assert measure([], 3.0, 1.0, 1) == 4
    assert measure(cost(7), 3.0, 0.25, 4) == 1
    measure.limit(0)
    assert measure(cost(20), 20.0, 1.0, 1) == 1


@check
def overhead_is_measured_and_kept_below_a_limit(_plain):
    """Many cheap modules: the cost of their rows shows in the duration of a step."""

    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Identity()

        def forward(self, x):
            for _ in range(200):
                self.part(x)
            return x

    def compared():
        sql = "SELECT count(*) AS n FROM gsprof.overhead WHERE low_percent IS NOT NULL"
        return gsprof.query(sql)[0]["n"] > 0

    model, x = Dense(), torch.ones(1)
    gsprof.enable_torch_profiling(shadow="1:1", adaptive=0.001, modules="all")
    try:
        end = time.monotonic() + 60
        while not (_gsprof.torch_state()["thin"] > 1 and compared()):
            assert time.monotonic() < end, "the number of traced steps was not reduced"
            # A short burst, since the ring has other rows; then until the next measurement.
            for _ in range(60):
                model(x)
                gsprof.step()
            time.sleep(2.1)
            gsprof.step()
        traced = "SELECT value FROM gsprof.setting WHERE name = 'torch.traced' ORDER BY ts_ns"
        thin = _gsprof.torch_state()["thin"]
        assert gsprof.query(traced)[-1]["value"] == f"1 of {thin} steps"
        listed = json.loads(
            subprocess.run(
                [os.environ["GSPROF_PROGRAM"], "config", str(os.getpid()), "--json"],
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        )
        assert listed["torch_one_step_of"] == thin, listed
    finally:
        gsprof.enable_torch_profiling(shadow="off", adaptive=0)
        model(x)
    assert _gsprof.torch_state()["thin"] == 1, "fewer steps are still traced"


@check
def the_budget_holds_from_the_first_steps(_plain):
    """Rows that cost more than the step itself are reduced at once, in the same way on all
    ranks."""
    model, x = nn.Sequential(*(nn.Identity() for _ in range(50))), torch.ones(1)
    gsprof.enable_torch_profiling(adaptive=0.001)
    try:
        for _ in range(40):
            model(x)
            gsprof.step()
        thin = _gsprof.torch_state()["thin"]
        assert thin >= 16 and thin & (thin - 1) == 0, thin
    finally:
        gsprof.enable_torch_profiling(adaptive=0)


@check
def rows_are_modules_times_steps(_plain):
    """One row per module, step and stage: the model's backward pass is the whole one."""

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Identity())

        def forward(self, x):
            return self.body(torch.tanh(self.first(x)))

    steps, model = 5, Counted()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gsprof.enable_torch_profiling(backward=True)
    gsprof.event("count")
    try:
        for _ in range(steps):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            gsprof.step()
    finally:
        gsprof.enable_torch_profiling(backward=False)
    began = gsprof.query("SELECT ts_ns FROM python.span WHERE name = 'count'")[-1]["ts_ns"]
    sql = (
        "SELECT module, stage, count(*) AS n, max(duration) AS most, min(duration) AS least "
        f"FROM python.torch_trace WHERE ts_ns >= {began} GROUP BY ALL"
    )
    found = {(row["module"].split("Counted.")[-1], row["stage"]): row for row in gsprof.query(sql)}
    names = ("Counted", "first", "body", "body.0", "body.1", "body.2")
    want = {(name, stage) for name in names for stage in ("forward", "backward")}
    assert set(found) == want | {("SGD", "step")}, sorted(found)
    assert {row["n"] for row in found.values()} == {steps}, found
    whole = found["Counted", "backward"]["most"]
    assert all(
        row["most"] <= whole for (_, stage), row in found.items() if stage == "backward"
    ), found
    assert found["body.2", "backward"]["most"] == 0, "it returns its input"
    body = found["body", "backward"]
    assert body["most"] >= found["body.0", "backward"]["least"] > 0


@check
def hooks_of_gradients_are_not_seen(_plain):
    """A tensor with our hook can be saved, copied and hooked like any other."""
    gsprof.enable_torch_profiling(backward=True)
    try:
        model, seen = Perceptron(), []
        out = model(torch.ones(3, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(pickle.loads(pickle.dumps(out)), out)
        handle = out.register_hook(lambda grad: seen.append("gone"))
        out.register_hook(lambda grad: grad * 2)
        handle.remove()
        assert out.detach()._backward_hooks is None
        out.sum().backward(retain_graph=True)
        first = model.body[2].bias.grad.clone()
        assert torch.equal(first, torch.full_like(first, 6.0)) and not seen
        out.sum().backward()
        assert torch.equal(model.body[2].bias.grad, 2 * first)
        torch.autograd.grad(model(torch.ones(3, 4)).sum(), list(model.parameters()))
        del out
    finally:
        gsprof.enable_torch_profiling(backward=False)


@check
def parts_of_a_model_have_its_prefix(_plain):
    """Lightning never calls the model itself: it calls training_step(), which calls self.net()."""

    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Perceptron()
            self.lost = nn.MSELoss()

        # The first argument may have any name.
        def training_step(this, x):  # noqa: B902
            return this.lost(this._shared(x), torch.zeros(2, 2))

        def _shared(self, x):
            return self.net(x)

    model = Trained()
    model.training_step(torch.ones(2, 4)).backward()
    assert _gsprof.torch_path(model) == "Trained"
    base = _gsprof.torch_path(model.net)[: -len("net")]
    assert base in ("", "Trained.")
    assert _gsprof.torch_path(model.net.body[2]) == base + "net.body.2"
    assert _gsprof.torch_path(model.lost) == base + "lost"
    sql = "SELECT module FROM python.torch_trace WHERE stage = 'backward' ORDER BY ts_ns"
    assert gsprof.query(sql)[-1]["module"] == "Trained"


@check
def every_backward_pass_has_a_name(_plain):
    sql = "SELECT module FROM python.torch_trace WHERE stage = 'backward' ORDER BY ts_ns"
    alone, lost = nn.Linear(4, 2), nn.MSELoss()
    gsprof.step()
    lost(alone(torch.ones(2, 4)), torch.zeros(2, 2)).backward()
    assert gsprof.query(sql)[-1]["module"].startswith("Linear"), "not the loss, and not empty"


@check
def exceptions_of_modules_have_stacks(_plain):
    class Breaks(nn.Module):
        def forward(self, x):
            raise ValueError("here")

    model = nn.Sequential(nn.Sequential(Breaks()))

    def call():
        try:
            with gsprof.span("around"):
                model(torch.ones(1))
        except ValueError as error:
            assert error.__context__ is None

    def stacks():
        sql = "SELECT func FROM python.backtrace WHERE trigger = 'exception' AND depth = 0"
        return [row["func"].rpartition(".")[2] for row in gsprof.query(sql)]

    call()
    assert stacks() == []
    gsprof.config(stack_exception=True)
    call()
    gsprof.config(stack_exception=False)
    call()
    assert stacks() == ["forward"], stacks()


@check
def marked_steps_are_kept_without_tracing(_plain):
    sql = "SELECT count(*) AS n FROM python.torch_step"
    gsprof.disable_torch_profiling()
    before = gsprof.query(sql)[0]["n"]
    gsprof.step()
    gsprof.step()
    assert gsprof.query(sql)[0]["n"] == before + 2
    gsprof.config(spans=False)
    gsprof.step()
    assert gsprof.query(sql)[0]["n"] == before + 2
    gsprof.config(spans=True)
    gsprof.enable_torch_profiling()


@check
def compiled_models_keep_one_graph(_plain):
    if not hasattr(torch, "compile"):
        return
    from torch._dynamo.utils import counters

    model, eager = Perceptron(), nn.Tanh()
    x = torch.ones(3, 4)
    want = model(x)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    counters.clear()
    for _ in range(3):
        assert torch.equal(compiled(x), want)
        eager(x)
    assert counters["stats"]["unique_graphs"] == 1, dict(counters["stats"])
    assert not counters["graph_break"], dict(counters["graph_break"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled(x).sum().backward()
    optimizer.step()


def main():
    plain = train()
    # Every step is traced unless the overhead is above the limit.
    assert gsprof.enable_torch_profiling(adaptive=0, vars="loss@train")
    failed = {}
    only = sys.argv[1:]
    for function in CHECKS:
        if only and function.__name__ not in only:
            continue
        try:
            function(plain)
        except BaseException:
            failed[function.__name__] = traceback.format_exc()
    gsprof.disable_torch_profiling()
    if train() != plain:
        failed["off again"] = "other results"
    print(json.dumps({"pid": os.getpid(), "failed": failed, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
