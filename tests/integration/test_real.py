# SPDX-License-Identifier: Apache-2.0
"""Programs that use well-known libraries: gsprof's reports about them are correct.

The short form of tests/real/real.py (`make test-real`): only jobs that start quickly, and only if
the environment exists already."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from conftest import NEEDS_EXTENSION
from support import ROOT

sys.path.insert(0, str(ROOT / "tests" / "exits"))
sys.path.insert(0, str(ROOT / "tests" / "real"))

from environment import Environment, home_in  # noqa: E402
from jobs import JOBS, Job  # noqa: E402
from real import Tally, run_job  # noqa: E402

pytestmark = NEEDS_EXTENSION

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HOME = home_in(CACHE / "gsprof" / "venvs")


SHORT = [job for job in JOBS if job.is_short]


@pytest.mark.parametrize("job", SHORT, ids=[job.name for job in SHORT])
def test_job(job: Job, tmp_path: Path) -> None:
    if not (HOME / "done").exists():
        pytest.skip("needs the environment of make test-real")
    environment = Environment(python=str(HOME / "bin" / "python"))
    why = environment.reason_to_skip(job.packages)
    if why:
        pytest.skip(why)
    tally = Tally()
    run_job(tally, job, environment.python, tmp_path, ["attach"])
    assert not tally.failures, tally.failures
