# SPDX-License-Identifier: Apache-2.0
"""gsprof run with programs that start other programs: the same output and status as alone, and all
processes are recorded."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

from conftest import NEEDS_EXTENSION
from support import PATIENCE_S, gsprof, main_python

# Prints its name and ends with a status; with "spawn" or "forkserver", in two more processes.
WORKER = """
import multiprocessing, os, sys, time

def work(name):
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        sum(range(1000))
    os.write(1, (name + "\\n").encode())  # at once: others write too

if __name__ == "__main__":
    name, method, status = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if method != "none":
        context = multiprocessing.get_context(method)
        children = [context.Process(target=work, args=(f"{name}{i}",)) for i in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    work(name)
    sys.exit(status)
"""

# Each line is a launcher. The names that the workers print, and the status of each line.
LAUNCHERS = """
printf 'x1\\nx2\\n' | xargs -P 2 -I{} PY worker.py {} none 3; echo $?
timeout 50 PY worker.py timeout none 5; echo $?
nohup PY worker.py nohup none 6 2>/dev/null; echo $?
env -u NOTHING LANG=C PY worker.py env none 7; echo $?
sh -c 'exec PY worker.py exec none 8'; echo $?
setsid --wait PY worker.py setsid none 9; echo $?
nice -n 1 PY worker.py spawn spawn 0; echo $?
PY worker.py forkserver forkserver 0; echo $?
exit 11
"""
WORKERS = 8 + 1 + 2 + 2  # the lines, xargs starts two, and the children of the last two


@NEEDS_EXTENSION
def test_launchers(runtime: Dict[str, str], tmp_path: Path) -> None:
    for tool in ("xargs", "timeout", "nohup", "setsid"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "launchers.sh").write_text(LAUNCHERS.replace("PY", main_python()))
    argv = ["sh", "launchers.sh"]
    alone = subprocess.run(
        argv, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    assert alone.returncode == 11
    made = gsprof("run", "-q", "--name", "r", "--", *argv, env=runtime, cwd=tmp_path, status=11)
    assert sorted(made.out.splitlines()) == sorted(alone.stdout.decode().splitlines())
    # The agent of each process writes its settings.
    sql = "SELECT count(DISTINCT pid) AS n FROM gsprof.setting"
    run = tmp_path / "gsprof-runs" / "r"
    assert json.loads(gsprof("query", run, sql, "-f", "json").out)[0]["n"] >= WORKERS


RANK = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
dist.destroy_process_group()
"""

# PyTorch 1.13 on Python 3.11 finds no value for its default, "--redirects 0", and fails with an
# AttributeError, with or without gsprof. With these it can start workers.
OPTIONS = ["--redirects", "1", "--tee", "1", "--nproc_per_node", "2"]


@NEEDS_EXTENSION
@pytest.mark.slow
def test_torch_distributed_run(runtime: Dict[str, str], tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    found = subprocess.run(
        [python, "-c", "import importlib.util as u; assert u.find_spec('torch')"],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if found.returncode:
        pytest.skip("needs python3-torch")
    (tmp_path / "rank.py").write_text(RANK)
    where = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0"]
    argv: List[str] = [python, "-m", "torch.distributed.run", *OPTIONS, *where, "rank.py"]
    made = gsprof(
        *["run", "-q", "--name", "r", "--", *argv],
        env=runtime,
        cwd=tmp_path,
        timeout_s=3 * PATIENCE_S,
    )
    ranks = [line.rpartition(":")[2] for line in made.out.splitlines()]
    assert sorted(ranks) == ["rank 0 of 2", "rank 1 of 2"], str(made)
    sql = "SELECT rank, count(*) AS n FROM python.torch_step GROUP BY rank ORDER BY rank"
    rows = json.loads(gsprof("query", tmp_path / "gsprof-runs" / "r", sql, "-f", "json").out)
    assert rows == [{"rank": 0, "n": 3}, {"rank": 1, "n": 3}]
