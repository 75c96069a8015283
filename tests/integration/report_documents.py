# SPDX-License-Identifier: Apache-2.0
"""Made-up report documents (docs/formats/report.md) for the tests of the page.

All of them match the schema, except newer() and malformed()."""

from __future__ import annotations

import math
import random
from typing import Any, Dict, List, Sequence, Tuple

Json = Dict[str, Any]

# Names that try to break out of the markup around them.
HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\"quotes\" & 'more' <!-- --> ]]>",
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f525" * 4,
    "=cmd|' /C calc'!A0",
    "long" * 200,
    "${x}$&$1 @GSPROF_DOCUMENT@",
    "",
]


def new_document(kind: str, title: str, **members: Any) -> Json:
    """A document with the members that every document has, and the given ones."""
    made: Json = {
        "format": "gsprof-report",
        "version": 1,
        "kind": kind,
        "title": title,
        "gsprof": "0.1.0",
        "facts": [],
        "cards": [],
        "verdict": [],
    }
    if kind != "compare":
        made.update(start_ns=None, duration_s=None, charts=[])
    made.update(members)
    return made


def new_chart(name: str, title: str, unit: str, series: List[Json], about: str = "") -> Json:
    return {"id": name, "title": title, "unit": unit, "help": about or None, "series": series}


def new_stacks(
    unit: str, threads: List[Json], tree: "Tree", samples: Json, processes: Sequence[Json] = ()
) -> Json:
    return {
        "unit": unit,
        "processes": list(processes),
        "threads": threads,
        "frames": tree.frames,
        "nodes": {**tree.nodes(), "line": tree.line},
        "samples": {**samples, "seen": len(samples["node"])},
    }


class Tree:
    """Frames and nodes of a call tree, added stack by stack."""

    def __init__(self) -> None:
        self.frames: List[Json] = []
        self.parent: List[int] = []
        self.frame: List[int] = []
        self.line: List[Any] = []
        self._frames: Dict[Tuple[str, str], int] = {}
        self._nodes: Dict[Tuple[int, int], int] = {}

    def node(self, stack: List[Tuple[str, str]]) -> int:
        at = -1
        for func, file in stack:
            frame = self._frames.get((func, file))
            if frame is None:
                frame = self._frames[func, file] = len(self.frames)
                line = 1 + sum(map(ord, func)) % 400
                kind = "Python" if file.endswith(".py") else "Native"
                self.frames.append({"func": func, "file": file, "line": line, "type": kind})
            key = (at, frame)
            if key not in self._nodes:
                self._nodes[key] = len(self.parent)
                self.parent.append(at)
                self.frame.append(frame)
                self.line.append(None)
            at = self._nodes[key]
        return at

    def nodes(self) -> Json:
        return {"parent": self.parent, "frame": self.frame}


MAIN = [("<module>", "train.py"), ("main", "train.py"), ("train", "train.py")]
FORWARD = MAIN + [("forward", "model.py"), ("__call__", "torch/nn/modules/module.py")]
# Stacks and the number of samples of each in a cycle.
WORK: List[Tuple[List[Tuple[str, str]], int]] = [
    (MAIN + [("next_batch", "data.py"), ("decode", "data.py"), ("imread", "codec.so")], 14),
    (MAIN + [("next_batch", "data.py"), ("augment", "data.py")], 6),
    (FORWARD + [("attention", "model.py"), ("softmax", "libtorch.so")], 18),
    (FORWARD + [("attention", "model.py"), ("matmul", "libtorch.so")], 14),
    (FORWARD + [("mlp", "model.py"), ("linear", "torch/nn/functional.py")], 12),
    (MAIN + [("backward", "torch/_tensor.py"), ("run_backward", "libtorch.so")], 26),
    (MAIN + [("step", "torch/optim/adamw.py"), ("_foreach_add", "libtorch.so")], 10),
]


def stacks(rng: random.Random, seconds: float, rate: float = 100.0) -> Json:
    tree = Tree()
    samples: Json = {"t": [], "thread": [], "node": [], "weight": [], "on_cpu": []}
    cycle = [stack for stack, times in WORK for _ in range(times)]
    idle = [("_bootstrap", "threading.py"), ("run", "loader.py"), ("wait", "threading.py")]
    for i in range(int(seconds * rate)):
        t = (i + 1) / rate
        for thread, stack in ((0, cycle[i % len(cycle)]), (1, idle)):
            samples["t"].append(t + thread * 1e-4)
            samples["thread"].append(thread)
            samples["node"].append(tree.node(stack))
            samples["weight"].append(1 / rate)
            samples["on_cpu"].append(1 if thread == 0 and rng.random() > 0.1 else 0)
    threads = [
        {"pid": 4242, "tid": 4242, "name": "MainThread"},
        {"pid": 4242, "tid": 4251, "name": "loader-0"},
    ]
    return new_stacks("s", threads, tree, samples)


def wave(rng: random.Random, n: int, step: float, low: float, high: float) -> Json:
    t = [i * step for i in range(n)]
    v: List[Any] = [
        low + (high - low) * (0.5 + 0.4 * math.sin(i / 9) + 0.1 * rng.uniform(-1, 1))
        for i in range(n)
    ]
    for i in range(n // 2, n // 2 + n // 40):
        v[i] = None
    return {"t": t, "v": v}


def charts(rng: random.Random, n: int, step: float) -> List[Json]:
    def line(name: str, low: float, high: float) -> Json:
        return {"name": name, **wave(rng, n, step, low, high)}

    gib = 2.0**30
    cpu = [line("train.py (4242)", 40, 98), line("machine", 10, 40)]
    memory = [line("train.py (4242)", 1.5 * gib, 2.4 * gib)]
    gpu = [line("A100 0: utilisation", 5, 95), line("A100 0: memory", 55, 60)]
    return [
        new_chart("cpu", "CPU", "%", cpu, "100 % is one busy core."),
        new_chart("memory", "Memory", "bytes", memory),
        new_chart("gpu", "GPU", "%", gpu),
    ]


def modules(rng: random.Random) -> List[Json]:
    rows = []
    for i in range(12):
        for stage, scale in (("forward", 1.0), ("backward", 1.8)):
            for name, kind, base in (
                (f"layers.{i}.attn", "Attention", 4e-3),
                (f"layers.{i}.mlp", "MLP", 2e-3),
            ):
                mean = base * scale * rng.uniform(0.8, 1.4)
                rows.append(
                    {
                        "module": name,
                        "class": kind,
                        "stage": stage,
                        "calls": 240,
                        "total_s": mean * 240,
                        "share": mean * 240 / 30,
                        "mean_s": mean,
                        "p50_s": mean * 0.9,
                        "p90_s": mean * 1.3,
                        "p99_s": mean * 2.2,
                        "max_s": mean * 6,
                    }
                )
    return rows


def steps_and_spans(rng: random.Random, seconds: float) -> Tuple[Json, Json]:
    steps: Json = {"step": [], "t": [], "duration_s": [], "rank": []}
    spans: Json = {
        "names": ["load", "forward", "backward", "optimizer", "checkpoint"],
        "threads": [{"pid": 4242, "tid": 4242, "name": "MainThread"}],
        "name": [],
        "t": [],
        "duration_s": [],
        "thread": [],
        "depth": [],
    }
    t = 0.4
    while t < seconds - 0.6:
        length = 0.25 * rng.uniform(0.92, 1.08) * (2.2 if len(steps["t"]) % 23 == 22 else 1)
        steps["step"].append(len(steps["t"]))
        steps["t"].append(t)
        steps["duration_s"].append(length)
        steps["rank"].append(None)
        at = t
        for name, part in enumerate((0.2, 0.4, 0.28, 0.1)):
            spans["name"].append(name)
            spans["t"].append(at)
            spans["duration_s"].append(length * part)
            spans["thread"].append(0)
            spans["depth"].append(0)
            at += length * part
        t += length
    spans["name"].append(4)
    spans["t"].append(seconds / 2)
    spans["duration_s"].append(0)
    spans["thread"].append(0)
    spans["depth"].append(1)
    for table in (steps, spans):
        table["seen"] = len(table["t"])
    return steps, spans


# A frame without a symbol is named after its library, whose path may be unknown.
LIBRARY = {
    "func": "libc10.so",
    "file": "/opt/torch/lib/libc10.so",
    "line": None,
    "type": "Native",
}
BARE_LIBRARY = {
    "func": "libstdc++.so.6",
    "file": "libstdc++.so.6",
    "line": None,
    "type": "Native",
}


def ordinary(seconds: float = 30.0) -> Json:
    rng = random.Random(7)
    steps, spans = steps_and_spans(rng, seconds)
    site = [{"func": func, "file": file, "line": 3, "type": "Python"} for func, file in WORK[0][0]]
    return {
        **new_document("run", "train.py", start_ns="1762000000123456789", duration_s=seconds),
        "facts": [
            {"name": "Command", "value": "python3 train.py --epochs 3 --batch-size 64"},
            {"name": "Python", "value": "3.11.2, /usr/bin/python3"},
            {"name": "Machine", "value": "box, 8 cores, 32 GiB, A100"},
            {"name": "Exit status", "value": "0"},
        ],
        "cards": [
            {
                "id": "wall",
                "title": "Wall time",
                "value": "30.0 s",
                "detail": "118 steps",
                "tone": "plain",
            },
            {
                "id": "cpu",
                "title": "CPU",
                "value": "71 %",
                "detail": "of one core",
                "tone": "plain",
            },
            {
                "id": "gpu_idle",
                "title": "GPU idle",
                "value": "38 %",
                "detail": "Python was loading data",
                "tone": "warn",
            },
            {
                "id": "step",
                "title": "Step time",
                "value": "252 ms",
                "detail": "p99 551 ms",
                "tone": "bad",
            },
            {
                "id": "rss",
                "title": "Peak memory",
                "value": "2.31 GiB",
                "detail": "no growth",
                "tone": "good",
            },
            {
                "id": "samples",
                "title": "Samples",
                "value": "6,000",
                "detail": "3 late",
                "tone": "plain",
            },
        ],
        "verdict": [
            "44 % of the time is in forward, most of it in attention (32 %).",
            "The GPU was idle for 38 % of the time; meanwhile Python was in data.py decode.",
            "5 of 118 steps took more than twice the median: see checkpoint.",
        ],
        "charts": charts(rng, int(seconds * 5), 0.2),
        "stacks": stacks(rng, seconds),
        "modules": modules(rng),
        "steps": steps,
        "spans": spans,
        "memory": {
            "peak_rss_bytes": 2480343040,
            "growth_bytes_per_s": 1234.5,
            "sites": [
                {"stack": site, "bytes": 300 << 20, "count": 1200},
                {"stack": site[:4], "bytes": 40 << 20, "count": 12},
                {"stack": site[:2] + [dict(LIBRARY)], "bytes": 5 << 20, "count": 70000},
                {"stack": [dict(BARE_LIBRARY)], "bytes": 1 << 20, "count": 3},
            ],
        },
        "losses": [
            {"what": "samples", "count": 3, "why": "late"},
            {"what": "samples", "count": 1, "why": "torn"},
        ],
    }


def change(name: str, unit: str, a: float, share: float, spread: float, verdict: str) -> Json:
    return {
        "name": name,
        "unit": unit,
        "better": "lower",
        "a": a,
        "b": a * (1 + share),
        "change": share,
        "low": share - spread,
        "high": share + spread,
        "p": 0.0002 if verdict in ("better", "worse") else 0.4,
        "effect": share / spread,
        "verdict": verdict,
        "n_a": 200,
        "n_b": 190,
    }


def comparison() -> Json:
    rng = random.Random(11)
    tree = Tree()
    own: Dict[int, Tuple[float, float]] = {}
    for i, (stack, times) in enumerate(WORK):
        factor = (1.0, 1.6, 0.5, 1.02, 1.0, 1.15, 0.8)[i]
        own[tree.node(stack)] = (times * 0.1, times * 0.1 * factor)
    a = [0.0] * len(tree.parent)
    b = [0.0] * len(tree.parent)
    for node, (one, two) in own.items():
        at = node
        while at >= 0:
            a[at] += one
            b[at] += two
            at = tree.parent[at]
    both = charts(rng, 150, 0.2)
    for chart in both:
        base = chart["series"][0]
        chart["series"] = [
            {**base, "name": "base: " + base["name"]},
            {**base, "name": "new: " + base["name"], "v": [v and v * 0.9 for v in base["v"]]},
        ]
    return {
        **new_document("compare", "base and new"),
        "verdict": ["new is 4.1 % slower per step than base (95 % interval 2.9 to 5.3 %)"],
        "compare": {
            "a": {"name": "base", "title": "train.py, 2026-01-01"},
            "b": {"name": "new", "title": "train.py --fused, 2026-01-02"},
            "verdict": "new is 4.1 % slower per step than base (95 % interval 2.9 to 5.3 %)",
            "metrics": [
                change("step_time", "s", 0.101, 0.041, 0.012, "worse"),
                change("peak_rss", "bytes", 2.2e9, -0.12, 0.03, "better"),
                change("cpu_percent", "%", 71.0, 0.003, 0.02, "same"),
                change("disk", "bytes/s", 0.001, 623285.35, 100.0, "same"),
                {
                    **change("gpu_idle", "%", 38.0, 0.0, 0.1, "unknown"),
                    **dict.fromkeys(("b", "change", "low", "high", "p", "effect")),
                },
            ],
            "modules": [
                change("layers.0.attn forward", "s", 4e-3, -0.5, 0.02, "better"),
                change("layers.0.mlp forward", "s", 2e-3, 0.07, 0.03, "worse"),
            ],
            "functions": [
                {
                    "func": f["func"],
                    "file": f["file"],
                    "line": f["line"],
                    "a_s": 1.0 + i,
                    "b_s": 1.2 + i * 0.9,
                    "change_s": 0.2 - i * 0.1,
                    "a_total_s": 2.0 + i,
                    "b_total_s": 2.0 + i,
                    "low_s": None,
                    "high_s": None,
                    "p": None,
                    "verdict": "unknown",
                }
                for i, f in enumerate(tree.frames)
            ],
            "per": "step",
            "stacks": {
                "unit": "s",
                "frames": tree.frames,
                "nodes": {**tree.nodes(), "a": a, "b": b},
            },
            "charts": both,
            "failed": [
                {"rule": "step_time > 3%", "value": 0.041, "name": "step_time", "significant": True}
            ],
            "passed": [],
        },
    }


def hostile() -> Json:
    """The hostile names in every string member."""
    made = ordinary(4.0)
    made["title"] = HOSTILE[0]
    made["facts"] = [{"name": name, "value": name} for name in HOSTILE]
    made["verdict"] = list(HOSTILE)
    for card, name in zip(made["cards"], HOSTILE):
        card["title"] = card["value"] = card["detail"] = name
    for chart, name in zip(made["charts"], HOSTILE):
        chart["title"] = chart["help"] = chart["unit"] = chart["series"][0]["name"] = name
    for i, frame in enumerate(made["stacks"]["frames"]):
        frame["func"] = frame["file"] = HOSTILE[i % len(HOSTILE)]
    for thread, name in zip(made["stacks"]["threads"], HOSTILE):
        thread["name"] = name
    for i, module in enumerate(made["modules"]):
        module["module"] = module["class"] = module["stage"] = HOSTILE[i % len(HOSTILE)]
    made["spans"]["names"] = HOSTILE[:5]
    made["losses"] = [{"what": name, "count": 1, "why": name} for name in HOSTILE]
    for site in made["memory"]["sites"]:
        for frame, name in zip(site["stack"], HOSTILE):
            frame["func"] = frame["file"] = name
    return made


def bars(seed: int) -> Json:
    """Random trees whose siblings differ by orders of magnitude: bars far narrower than a pixel
    are next to wide ones, in any order if ordered by time."""
    rng = random.Random(seed)
    tree = Tree()
    stacks_seen = []
    for _ in range(400):
        depth = 1 + rng.randrange(14)
        stack = [(f"f{rng.randrange(1 + level)}_{level}", "m.py") for level in range(depth)]
        # Exact sums: multiples of a power of two.
        stacks_seen.append((tree.node(stack), round(2 ** rng.uniform(0, 22)) / 2**20))
    threads = [{"pid": 100, "tid": 100, "name": "MainThread"}]
    if seed > 0:
        threads += [
            {"pid": 200, "tid": 200, "name": "MainThread"},
            {"pid": 100, "tid": 105, "name": "loader"},
        ]
    samples: Json = {"t": [], "thread": [], "node": [], "weight": []}
    t = [0.0] * len(threads)
    for _ in range(1500):
        node, weight = rng.choice(stacks_seen)
        thread = rng.randrange(len(threads))
        t[thread] += weight
        samples["t"].append(t[thread])
        samples["thread"].append(thread)
        samples["node"].append(node)
        samples["weight"].append(weight)
    tree.line = [rng.randrange(1, 400) for _ in tree.parent]
    for frame in tree.frames:
        frame["hot_line"] = frame["line"] + 1
    processes = [
        {"pid": 100, "name": "python3 train.py"},
        {"pid": 200, "name": "python3 worker.py"},
    ]
    cpu = [{"name": "python3 (100)", "t": [0.0, 1.0], "v": [181.0, 190.0]}]
    machine = [{"name": "box", "t": [0.0, 1.0], "v": [99.0, 100.2]}]
    return new_document(
        "profile",
        f"bars {seed}",
        duration_s=max(t),
        charts=[
            new_chart("cpu", "CPU", "%", cpu),
            new_chart("machine_cpu", "CPU of the machine", "%", machine),
        ],
        stacks=new_stacks("s", threads, tree, samples, processes),
    )


def late() -> Json:
    """A busy machine: one sample is three seconds late and covers them, and the next one is late
    too. Then no samples for 2.5 s."""
    tree = Tree()
    main = ("main", "late.py")
    quarters = [(k / 4, "before", 0.25) for k in range(1, 9)]
    # Slightly off schedule: neither a gap nor an overlap.
    after = [(8.0, "after", 0.25), (8.3, "after", 0.25), (8.5, "after", 0.25)]
    taken = [*quarters, (5.0, "busy", 3.0), (5.25, "waited", 1.0), *after]
    samples = {
        "t": [t for t, _, _ in taken],
        "thread": [0] * len(taken),
        "node": [tree.node([main, (func, "late.py")]) for _, func, _ in taken],
        "weight": [weight for _, _, weight in taken],
    }
    memory = [
        {"name": "late.py (1)", "t": [0.0, 5.0, 10.0], "v": [1 << 20] * 3},
        {"name": "worker (2)", "t": [4.0, 5.0, 6.0], "v": [1 << 30] * 3},
    ]
    return new_document(
        "run",
        "late",
        duration_s=10.0,
        charts=[new_chart("memory", "Memory of the processes", "bytes", memory)],
        steps={"step": [0], "t": [1.9], "duration_s": [0.5], "rank": [None], "seen": 1},
        stacks=new_stacks("s", [dict(THREAD)], tree, samples),
    )


THREAD = {"pid": 1, "tid": 1, "name": "MainThread"}
LARGE_SAMPLES = 50_000
LARGE_DEPTH = 60
LARGE_SECONDS = 8 * 3600


def large() -> Json:
    """50,000 samples 60 frames deep, 10,000 names, eight hours of metrics at 5 Hz."""
    rng = random.Random(3)
    tree = Tree()
    node = []
    trunk = [(f"layer_{depth}", f"deep_{depth % 7}.py") for depth in range(LARGE_DEPTH)]
    for i in range(LARGE_SAMPLES):
        cut = LARGE_DEPTH - 1 - rng.randrange(4)
        stack = trunk[:cut] + [(f"leaf_{rng.randrange(10_000)}", "leaves.py")] * (LARGE_DEPTH - cut)
        node.append(tree.node(stack))
    period = LARGE_SECONDS / LARGE_SAMPLES
    n = LARGE_SECONDS * 5
    line = [50 + 30 * math.sin(i / 5000) + 10 * (i % 7) / 7 for i in range(n)]
    # One value in 144,000 that must stay visible.
    line[100_000] = 400.0
    t = [round(i * 0.2, 1) for i in range(n)]
    power = [{"name": "power", "t": t, "v": [round(v, 2) for v in line]}]
    samples = {
        "t": [round((i + 1) * period, 4) for i in range(LARGE_SAMPLES)],
        "thread": [0] * LARGE_SAMPLES,
        "node": node,
        "weight": [period] * LARGE_SAMPLES,
    }
    return new_document(
        "run",
        "large",
        duration_s=LARGE_SECONDS,
        charts=[new_chart(f"metric-{k}", f"Metric {k}", "W", power) for k in range(2)],
        stacks=new_stacks("s", [dict(THREAD)], tree, samples),
    )


def empty() -> Json:
    """A run with all members and no data in any of them."""
    samples: Json = {"t": [], "thread": [], "node": [], "weight": []}
    spans = ("names", "threads", "name", "t", "duration_s", "thread", "depth")
    return new_document(
        "run",
        "nothing",
        duration_s=0.0,
        charts=[new_chart("cpu", "CPU", "%", [])],
        stacks=new_stacks("s", [], Tree(), samples),
        modules=[],
        steps={"step": [], "t": [], "duration_s": [], "rank": [], "seen": 0},
        spans={**{name: [] for name in spans}, "seen": 0},
        memory={"peak_rss_bytes": None, "growth_bytes_per_s": None, "sites": []},
        losses=[],
    )


def bare() -> Json:
    """The smallest document."""
    return new_document("profile", "bare")


def timeless() -> Json:
    """Folded stacks: no times, weights in samples."""
    made = ordinary(2.0)
    del made["stacks"]["samples"]["t"]
    made["stacks"]["unit"] = "samples"
    return new_document("profile", made["title"], stacks=made["stacks"])


def memory() -> Json:
    """A memory recording: charts and allocation sites, but no stacks of samples."""
    made = ordinary(2.0)
    return new_document(
        "memory",
        "leaks.py",
        verdict=["Held at the peak: 12.0 MiB in 3 blocks"],
        charts=[chart for chart in made["charts"] if chart["id"] == "rss"],
        memory=made["memory"],
        losses=[],
    )


def newer() -> Json:
    """A document of a later version."""
    return {**bare(), "version": 2}


def malformed() -> Json:
    """A document that violates the schema."""
    made = late()
    made["stacks"]["samples"]["node"][3] = "main"
    return made
