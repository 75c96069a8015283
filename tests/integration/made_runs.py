# SPDX-License-Identifier: Apache-2.0
"""Creates runs with made-up rows, so that the result of a comparison is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, Optional

from support import gsprof

START_NS = 1_700_000_000_000_000_000

# A pseudo-random number from 0 to 1 that depends only on i and seed.
_CHANCE = "((hash(i * 7919 + {seed}) % 1000003) / 1000003.0)"
_COMMON = "({start} + i * {apart})::BIGINT AS ts_ns, '{host}' AS host, 4242::BIGINT AS pid, "


def _steps(count: int, step_s: float, seed: int, noise: float) -> str:
    chance = _CHANCE.format(seed=seed)
    return (
        "NULL::BIGINT AS rank, i AS step, (CASE WHEN i < 2 THEN 10 ELSE 1 END * "
        f"{step_s} * (1 + {noise} * ({chance} - 0.5)))::DOUBLE AS duration, true AS sampled, "
        f"NULL::DOUBLE AS samples_per_sec, NULL::BIGINT AS overhead_ns FROM range({count}) AS t(i)"
    )


def _modules(count: int, calls: int, factor: float, seed: int) -> str:
    """The first ten modules take factor times as long as the others."""
    chance = _CHANCE.format(seed=seed)
    return (
        f"NULL::BIGINT AS rank, i // {count} AS step, i % {count} AS seq, "
        f"'layers.' || (i % {count}) AS module, 'forward' AS stage, NULL::DOUBLE AS allocated, "
        "NULL::DOUBLE AS max_allocated, NULL::DOUBLE AS cached, "
        f"(0.001 * (1 + 0.2 * ({chance} - 0.5)) * CASE WHEN i % {count} < 10 THEN {factor} "
        "ELSE 1 END)::DOUBLE AS duration, 4242::BIGINT AS thread_id, 'cpu' AS device, "
        f"'Linear' AS class, NULL::DOUBLE AS flops FROM range({count * calls}) AS t(i)"
    )


def make_run(
    folder: Path,
    seed: int,
    steps: int = 300,
    step_s: float = 0.1,
    noise: float = 0.1,
    modules: int = 0,
    calls: int = 50,
    module_factor: float = 1.0,
    host: str = "here",
    meta: Optional[Dict[str, object]] = None,
) -> Path:
    """Creates a run. Step times vary uniformly by `noise`; the first two are ten times longer."""
    folder.mkdir()
    source = folder.parent / "source.folded"
    if not source.exists():
        source.write_text("main 1\n")
    common = _COMMON.format(start=START_NS, apart=int(step_s * 1e9), host=host)
    queries = {"python.torch_step": common + _steps(steps, step_s, seed, noise)}
    if modules:
        common = _COMMON.format(start=START_NS, apart=1_000_000, host=host)
        queries["python.torch_trace"] = common + _modules(modules, calls, module_factor, seed)
    for table, columns in queries.items():
        path = folder / f"{table}.parquet"
        gsprof("-q", "query", source, "SELECT " + columns, "-o", path)
    about: Dict[str, object] = {
        "name": folder.name,
        "host": host,
        "state": "complete",
        **(meta or {}),
    }
    (folder / "meta.json").write_text(json.dumps(about))
    return folder
