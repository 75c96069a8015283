# SPDX-License-Identifier: Apache-2.0
"""GPU metrics of the daemon, with a stand-in for NVIDIA's driver library. The tests cover how
answers of the driver are processed, not how a GPU behaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict

import pytest
from conftest import Serve
from serving import Daemon
from support import GSPROF, ROOT, Json

TOOLS = GSPROF.parent.parent.parent / "tests" / "tools"
ANSWERS = ROOT / "tests" / "fixtures" / "nvml" / "three_gpus.txt"
NAMES = ["STAND-IN A100", "STAND-IN A100", "STAND-IN H100"]


@pytest.fixture(name="answers")
def _answers(tmp_path: Path) -> Path:
    """Returns the file with the driver's answers; a test may change it while the daemon runs."""
    path = tmp_path / "answers.txt"
    path.write_text(ANSWERS.read_text())
    return path


def set_answers(answers: Path, text: str) -> None:
    """Replaces the driver's answers atomically."""
    fresh = answers.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(answers)


def with_gpus(serve: Serve, answers: Path) -> Daemon:
    daemon = serve(env={"LD_LIBRARY_PATH": str(TOOLS), "GSP_NVML_STANDIN": str(answers)})
    daemon.frames(3)
    return daemon


def record_session(daemon: Daemon, name: str) -> Json:
    daemon.post("/profiling/start", {"name": name})
    daemon.frames(3)
    daemon.post("/profiling/stop", {"name": name})
    found: Json = json.loads((daemon.output / f"{name}.json").read_text())
    return found


def prometheus(daemon: Daemon) -> Dict[str, float]:
    lines = daemon.raw("GET", "/metrics")[2].decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {series: float(value) for series, value in pairs}


def error_of(daemon: Daemon) -> str:
    (row,) = (row for row in daemon.get("/status")["sources"] if row["name"] == "gpu_nvml")
    return str(row["trouble"])


def test_gpus_of_status_and_clients(serve: Serve, answers: Path) -> None:
    daemon = with_gpus(serve, answers)
    status = daemon.get("/status")
    (host,) = status["connected_clients"]
    assert status["total_gpus"] == 3
    assert status["enable_bandwidth_profiling"] and status["enable_nvlink_profiling"]
    assert status["gpu_info"] == {
        host: [
            {"id": f"{host}:{i}:{name}", "name": name, "physical_idx": i, "hostname": host}
            for i, name in enumerate(NAMES)
        ]
    }
    (client,) = daemon.get("/clients")["clients"]
    assert client == {
        "client_id": host,
        "hostname": host,
        "gpu_count": 3,
        "gpus": status["gpu_info"][host],
    }
    # A GPU with MIG instances does not report its utilization; /status has the reason.
    assert "GPU 2" in error_of(daemon) and "MIG" in error_of(daemon)


def test_latest_values_of_gpus(serve: Serve, answers: Path) -> None:
    daemon = with_gpus(serve, answers)
    latest = daemon.get("/metrics/latest")
    (client,) = latest["client_data"].values()
    first, second, third = client["gpus_metrics"]
    assert set(first) == {
        "physical_idx",
        "name",
        "gpu_util",
        "mem_util",
        "dram_bw_gbps_rx",
        "dram_bw_gbps_tx",
        "nvlink_bw_gbps_rx",
        "nvlink_bw_gbps_tx",
    }
    assert [gpu["name"] for gpu in client["gpus_metrics"]] == NAMES
    assert first["gpu_util"] == 75 and first["mem_util"] == 25
    assert first["dram_bw_gbps_rx"] == 0 and first["nvlink_bw_gbps_tx"] == 0
    assert second["gpu_util"] == 10 and second["nvlink_bw_gbps_rx"] is None
    assert third["gpu_util"] is None and third["mem_util"] == 1.25
    assert client["p2p_links"] == []
    seen = prometheus(daemon)
    assert seen['gsprof_gpu_usage_ratio{gpu="0"}'] == 0.75
    assert seen['gsprof_gpu_memory_used_bytes{gpu="2"}'] == 1 << 30
    assert seen['gsprof_gpu_power_watts{gpu="1"}'] == 60
    assert 'gsprof_gpu_usage_ratio{gpu="2"}' not in seen  # unknown is not zero
    assert 'gsprof_gpu_temperature_celsius{gpu="2"}' not in seen


def test_gpus_in_a_session_file(serve: Serve, answers: Path) -> None:
    daemon = with_gpus(serve, answers)
    (host,) = daemon.get("/status")["connected_clients"]
    whole = record_session(daemon, "gpus")
    ids = [f"{host}:{i}:{name}" for i, name in enumerate(NAMES)]
    for frame in whole["frames"]:
        assert frame["gpu_id"] == ids
        assert frame["gpu_util"] == [75, 10, None]
        assert [frame["gpu_memory"][0], frame["gpu_memory"][2]] == [25, 1.25]
        for name in ("dram_bandwidth", "dram_bandwidth_rx", "dram_bandwidth_tx"):
            assert len(frame[name]) == 3 and frame[name][0] == 0, name
        assert frame["gpu_bandwidth"] == []
        assert len(frame["dram_util"]) == 1 and len(frame["disk_util"]) == 1
        assert [row["gpu"] for row in frame["gpu"]] == [0, 1, 2]
        assert frame["gpu_processes"][2]["gpu_instance"] == 3
    means = whole["summary_by_device"]
    assert list(means) == ids
    assert means[ids[0]]["avg_gpu_util"] == 75 and means[ids[0]]["avg_gpu_memory"] == 25
    assert "avg_gpu_util" not in means[ids[2]] and means[ids[2]]["avg_gpu_memory"] == 1.25
    assert set(whole["summary_by_client"][host]) >= {"avg_dram_util", "avg_disk_util"}
    watts = [
        row
        for row in whole["summary"]
        if row["metric"] == "gpu.metrics.power_watts" and row["device"] == "gpu 0"
    ]
    assert watts[0]["mean"] == 250.5 and watts[0]["count"] == len(whole["frames"])
    assert watts[0]["integral_unit"] == "J" and watts[0]["integral"] > 0


def test_a_failing_gpu_has_no_values(serve: Serve, answers: Path) -> None:
    daemon = with_gpus(serve, answers)
    (host,) = daemon.get("/status")["connected_clients"]
    daemon.post("/profiling/start", {"name": "lost"})
    daemon.frames(2)
    set_answers(answers, "1.code 15\n" + ANSWERS.read_text())

    def second(latest: Json) -> Json:
        found: Json = latest["client_data"][host]["gpus_metrics"][1]
        return found

    latest = daemon.until("/metrics/latest", lambda now: second(now)["gpu_util"] is None)
    assert second(latest)["mem_util"] is None and second(latest)["name"] == NAMES[1]
    assert latest["client_data"][host]["gpus_metrics"][0]["gpu_util"] == 75
    assert "GPU 1: GPU is lost (15)" in error_of(daemon)
    assert daemon.get("/status")["total_gpus"] == 3
    assert 'gsprof_gpu_power_watts{gpu="1"}' not in prometheus(daemon)
    set_answers(answers, ANSWERS.read_text())
    daemon.until("/metrics/latest", lambda now: bool(second(now)["gpu_util"] == 10))
    daemon.frames(1)
    daemon.post("/profiling/stop", {"name": "lost"})
    whole = json.loads((daemon.output / "lost.json").read_text())
    used = [frame["gpu_util"][1] for frame in whole["frames"]]
    assert None in used and used[0] == used[-1] == 10
    assert all(frame["gpu_util"][0] == 75 for frame in whole["frames"])
    (row,) = (
        row
        for row in whole["summary"]
        if row["metric"] == "gpu.metrics.util_percent" and row["device"] == "gpu 1"
    )
    assert row["mean"] == 10 and row["count"] == len(used) - used.count(None)


def test_a_gpu_that_never_answered_is_listed(serve: Serve, answers: Path) -> None:
    set_answers(answers, "1.code 15\n" + ANSWERS.read_text())
    daemon = with_gpus(serve, answers)
    status = daemon.get("/status")
    (host,) = status["connected_clients"]
    assert status["total_gpus"] == 3
    frame = daemon.get("/metrics/latest")["frame"]
    assert [gpu["id"] for gpu in status["gpu_info"][host]] == frame["gpu_id"]
    assert frame["gpu_util"] == [75, None, None]


def test_a_driver_that_does_not_start(serve: Serve, answers: Path) -> None:
    set_answers(answers, "init 9\n")
    daemon = with_gpus(serve, answers)
    status = daemon.get("/status")
    assert status["total_gpus"] == 0 and not status["enable_bandwidth_profiling"]
    assert list(status["gpu_info"].values()) == [[]]
    assert "Driver Not Loaded (9)" in error_of(daemon)
    whole = record_session(daemon, "none")
    assert whole["summary_by_device"] == {}
    assert all(frame["gpu_id"] == [] and "dram_bandwidth" not in frame for frame in whole["frames"])
    assert not any(series.startswith("gsprof_gpu") for series in prometheus(daemon))
