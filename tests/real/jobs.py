# SPDX-License-Identifier: Apache-2.0
"""The list of jobs: programs that use well-known libraries, and the facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

PROGRAMS = Path(__file__).resolve().parent / "programs"

MAIN, WORKER = "main", "worker"  # roles: programs/truth.py


@dataclass(frozen=True)
class Job:
    """A program and its facts. In argv, {port} is a free port, {here} the folder of the programs,
    and {facts} the folder of truth.py."""

    name: str
    packages: Tuple[str, ...]
    argv: Tuple[str, ...]
    hot: str  # the function that works, or that waits for native threads
    held: str  # the file whose line "# held" allocates a MiB in each round
    role: str = MAIN  # the processes that work
    processes: int = 1  # of that role
    status: int = 0
    steps: Optional[int] = None  # of PyTorch, in each process that trains
    trains: str = MAIN  # the role that trains
    modules: Tuple[str, ...] = ()
    collectives: Tuple[str, ...] = ()  # at least these
    straggler: Optional[int] = None  # the rank that makes the others wait
    waits_are_hooked: bool = False  # the others wait in hooked collectives
    is_native: bool = False  # the time is spent in threads without Python
    is_server: bool = False  # works on HTTP requests
    shm_mb: int = 0  # size of a private /dev/shm, as in containers
    more: str = ""  # further checks: a function of real.py
    is_short: bool = False  # also in `make test`

    @property
    def held_line(self) -> int:
        lines = (PROGRAMS / self.held).read_text(encoding="utf-8").splitlines()
        return 1 + next(i for i, line in enumerate(lines) if line.endswith("# held"))


TORCH = ("torch", "numpy")
TORCHRUN: Tuple[str, ...] = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0")
TORCHRUN += ("--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0")

JOBS = [
    Job(
        "transformers",
        (*TORCH, "transformers", "accelerate"),
        ("{here}/hf_trainer.py",),
        hot="pad",
        held="hf_trainer.py",
        steps=12,
        modules=("GPT2LMHeadModel", "transformer.h.1.mlp.c_fc", "lm_head"),
    ),
    Job(
        "lightning",
        (*TORCH, "lightning"),
        ("{here}/lightning_fit.py",),
        hot="augment",
        held="lightning_fit.py",
        steps=20,
        modules=("net.0", "net.2"),
    ),
    Job(
        "loader-fork",
        TORCH,
        ("{here}/loader.py", "fork"),
        hot="decode",
        held="loader.py",
        role=WORKER,
        processes=2,
        steps=24,
        modules=("0", "2"),
    ),
    Job(
        "loader-small-shm",
        TORCH,
        ("{here}/loader.py", "fork"),
        hot="decode",
        held="loader.py",
        role=WORKER,
        processes=2,
        steps=24,
        modules=("0", "2"),
        shm_mb=64,
    ),
    Job(
        "loader-spawn",
        TORCH,
        ("{here}/loader.py", "spawn"),
        hot="decode",
        held="loader.py",
        role=WORKER,
        processes=2,
        steps=24,
        modules=("0", "2"),
    ),
    Job(
        "torch-compile",
        TORCH,
        ("{here}/compiled.py",),
        hot="sample_tokens",
        held="compiled.py",
        steps=20,
        modules=("OptimizedModule",),
    ),
    Job(
        "torchrun-ddp",
        TORCH,
        (*TORCHRUN, "{here}/ranks.py", "ddp"),
        hot="load_shard",
        held="ranks.py",
        role=WORKER,
        processes=2,
        steps=30,
        trains=WORKER,
        modules=("0", "2"),
        collectives=("broadcast", "barrier"),
        straggler=1,
    ),
    Job(
        "torchrun-fsdp2",
        TORCH,
        (*TORCHRUN, "{here}/ranks.py", "fsdp"),
        hot="load_shard",
        held="ranks.py",
        role=WORKER,
        processes=2,
        steps=30,
        trains=WORKER,
        modules=("0", "2"),
        collectives=("all_gather", "reduce_scatter", "broadcast", "barrier"),
        straggler=1,
        waits_are_hooked=True,
    ),
    Job(
        "scikit-learn",
        ("scikit-learn",),
        ("{here}/grid_search.py",),
        hot="grow",
        held="grid_model.py",
        role=WORKER,
        processes=2,
    ),
    Job(
        "spawn",
        (),
        ("{here}/spawned.py",),
        hot="factor",
        held="spawned.py",
        role=WORKER,
        processes=2,
        status=3,
    ),
    Job(
        "jax",
        ("jax",),
        ("{here}/jax_train.py",),
        hot="train",
        held="jax_train.py",
        is_native=True,
    ),
    Job(
        "xgboost",
        ("xgboost-cpu", "numpy"),
        ("{here}/xgb_train.py",),
        hot="boost",
        held="xgb_train.py",
        is_native=True,
    ),
    Job(
        "polars",
        ("polars",),
        ("{here}/polars_query.py",),
        hot="summarize",
        held="polars_query.py",
        is_native=True,
    ),
    Job(
        "uvicorn",
        ("fastapi", "uvicorn"),
        ("-m", "uvicorn", "--app-dir", "{here}", "--workers", "2", "--port", "{port}")
        + ("--log-level", "error", "fastapi_app:app"),
        hot="rank_results",
        held="web_work.py",
        role=WORKER,
        processes=2,
        is_server=True,
    ),
    Job(
        "gunicorn",
        ("gunicorn",),
        ("-m", "gunicorn", "--chdir", "{here}", "--preload", "--workers", "2")
        + ("--bind", "127.0.0.1:{port}", "--log-level", "error", "wsgi_app:app"),
        hot="rank_results",
        held="web_work.py",
        role=WORKER,
        processes=2,
        is_server=True,
        is_short=True,
    ),
    Job(
        "celery",
        ("celery",),
        ("-m", "celery", "--workdir", "{here}", "-A", "celery_app", "--quiet", "worker")
        + ("--pool", "prefork", "--concurrency", "2", "--loglevel", "ERROR")
        + ("--without-gossip", "--without-mingle", "--without-heartbeat"),
        hot="index_page",
        held="celery_app.py",
        role=WORKER,
        processes=2,
    ),
    Job(
        "ray",
        ("ray",),
        ("{here}/ray_actors.py",),
        hot="simulate",
        held="ray_actors.py",
        role=WORKER,
        processes=2,
    ),
    Job(
        "jupyter",
        ("ipykernel", "nbclient", "nbformat"),
        ("{here}/notebook.py",),
        hot="clean_rows",
        held="notebook_work.py",
        role=WORKER,
        processes=1,
        more="check_magic",
    ),
    Job(
        "pytest",
        ("pytest",),
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "{here}/suite_test.py"),
        hot="solve",
        held="suite_test.py",
        status=1,
        more="check_plugin",
    ),
]
