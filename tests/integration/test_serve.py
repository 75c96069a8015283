# SPDX-License-Identifier: Apache-2.0
"""gsprof serve: the documented requests and their responses."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import List

import pytest
from conftest import Serve
from serving import names_of
from support import EXIT_NOWRITE, EXIT_USAGE, GSPROF, PACKAGE, PATIENCE_S, ROOT, gsprof


def test_status_has_every_field(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(2)
    status = daemon.get("/status")
    for name, kind in {
        "freq": int,
        "enable_bandwidth_profiling": bool,
        "enable_nvlink_profiling": bool,
        "is_profiling": bool,
        "output_filename": str,
        "frame_id_counter": int,
        "connected_clients": list,
        "total_gpus": int,
        "gpu_info": dict,
        "active_sessions": list,
        "sources": list,
        "losses": dict,
        "overheads": list,
    }.items():
        assert isinstance(status[name], kind), name
    assert status["freq"] == 20 and status["is_profiling"] is False
    assert status["pid"] == daemon.pid
    assert {"cpu", "memory"} <= {source["name"] for source in status["sources"]}
    daemon.post("/profiling/start", {"name": "seen"})
    status = daemon.get("/status")
    assert status["is_profiling"] and status["output_filename"] == "seen.json"
    assert [session["name"] for session in status["active_sessions"]] == ["seen"]


def test_sessions_overlap_and_each_has_its_file(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(1)
    for name in ("whole", "part"):
        answer = daemon.post("/profiling/start", {"name": name, "labels": {"run": name}})
        assert answer["success"] and answer["output_file"] == f"{name}.json"
    daemon.frames(3)
    listed = daemon.get("/profiling/sessions")
    assert listed["total_sessions"] == 2 and listed["active_sessions"] == 2
    assert sorted(names_of(listed)) == ["part", "whole"]
    stopped = daemon.post("/profiling/stop", {"name": "part"})
    assert stopped["output_file"] == "part.json"
    daemon.frames(2)
    unnamed = daemon.post("/profiling/start")["name"]
    assert unnamed.startswith("profiling_")
    every = daemon.post("/profiling/stop")
    assert sorted(session["name"] for session in every["stopped"]) == sorted(["whole", unnamed])
    assert daemon.get("/profiling/sessions")["active_sessions"] == 0
    files = {
        name: json.loads((daemon.output / f"{name}.json").read_text()) for name in ("whole", "part")
    }
    assert len(files["whole"]["frames"]) > len(files["part"]["frames"]) >= 3
    assert daemon.post("/profiling/stop")["stopped"] == []


def test_sessions_end_together(serve: Serve) -> None:
    """Sessions stopped by one request or command have the same end, however many there are."""
    daemon = serve("--freq", "60s")
    labels = {"n": 1}
    for i in range(30):
        daemon.post("/profiling/start", {"name": f"a{i}", "labels": labels})
    stopped = daemon.post("/profiling/stop")["stopped"]
    assert [(s["name"], s["labels"]) for s in stopped] == [
        (f"a{i}", labels) for i in reversed(range(30))
    ]
    finished = [
        json.loads((daemon.output / s["output_file"]).read_text())["metadata"] for s in stopped
    ]
    assert len({s["end_time"] for s in stopped} | {meta["end_time"] for meta in finished}) == 1
    assert len({meta["last_frame"] for meta in finished}) == 1
    for name in ("b", "c"):
        daemon.post("/profiling/start", {"name": name})
    gsprof("http-stop", f"127.0.0.1:{daemon.port}")
    ends = {daemon.get(f"/profiling/sessions/{name}")["end_time"] for name in ("b", "c")}
    assert len(ends) == 1 and None not in ends


def test_a_session_shorter_than_a_tick_has_frames(serve: Serve) -> None:
    """The daemon captures one metric frame at the start of the session and one at its end."""
    daemon = serve("--freq", "60s", owner=True)
    daemon.post("/profiling/start", {"name": "long"})
    for i in range(3):
        daemon.post("/profiling/start", {"name": f"s{i}", "pids": [daemon.pid]})
        session = daemon.post("/profiling/stop", {"name": f"s{i}"})["stopped"][0]
        made = json.loads((daemon.output / f"s{i}.json").read_text())
        times = [frame["time"] for frame in made["frames"]]
        begin, end = session["start_time"], session["end_time"]
        assert len(times) == session["frame_count"] >= 2
        assert begin <= times[0] < times[-1] <= end
        assert made["gaps"] == []
    # A session that continues adds no frames; neither does stopping one that does not exist.
    before = daemon.get("/status")["frame_id_counter"]
    assert daemon.ask("POST", "/profiling/stop", {"name": "none"})[0] == 404
    assert daemon.get("/status")["frame_id_counter"] == before
    session = daemon.post("/profiling/stop", {"name": "long"})["stopped"][0]
    assert session["frame_count"] >= 6


def test_one_session_download_delete(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.post("/profiling/start", {"name": "a b"})
    daemon.frames(2)
    assert daemon.get("/profiling/sessions/a%20b")["is_active"]
    assert daemon.ask("GET", "/profiling/sessions/a%20b/download")[0] == 409
    assert daemon.ask("DELETE", "/profiling/sessions/a%20b")[0] == 409
    daemon.post("/profiling/stop", {"name": "a b"})
    status, headers, text = daemon.raw("GET", "/profiling/sessions/a%20b/download")
    assert status == 200 and "a%20b.json" in headers["Content-Disposition"]
    assert text == (daemon.output / "a b.json").read_bytes()
    assert daemon.ask("DELETE", "/profiling/sessions/a%20b")[0] == 200
    assert not (daemon.output / "a b.json").exists()
    assert daemon.ask("GET", "/profiling/sessions/a%20b")[0] == 404
    assert daemon.ask("GET", "/profiling/sessions/a%20b/download")[0] == 404


def test_latest_clients_health(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(2)
    latest = daemon.get("/metrics/latest")
    (client,) = latest["client_data"]
    assert set(latest["client_data"][client]) == {"gpus_metrics", "p2p_links", "system_metrics"}
    assert latest["frame"]["frame_id"] >= 1 and latest["timestamp"]
    clients = daemon.get("/clients")
    assert clients["total_clients"] == 1 and clients["clients"][0]["client_id"] == client
    assert daemon.get("/health")["status"] == "ok"
    assert daemon.get("/ready")["status"] == "ready"
    status, headers, page = daemon.raw("GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert b"<script>" not in page


def test_names_on_the_page_are_harmless(serve: Serve) -> None:
    daemon = serve()
    daemon.post("/profiling/start", {"name": "<script>alert(1)<script>"})
    assert b"<script>" not in daemon.raw("GET", "/")[2]


METRIC = re.compile(
    r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z_]+=\"(?:[^\"\\\n]|\\[\\\"n])*\"(,[a-z_]+=\"(?:[^\"\\\n]"
    r"|\\[\\\"n])*\")*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)"
)


def test_prometheus_text(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(3)
    status, headers, text = daemon.raw("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    typed = {}
    seen = set()
    for line in text.decode().splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in typed, name
            typed[name] = kind
            assert (kind == "counter") == name.endswith("_total"), line
        elif not line.startswith("# HELP "):
            assert METRIC.fullmatch(line), line
            series = line.rsplit(" ", 1)[0]
            assert series not in seen and series.split("{")[0] in typed, line
            seen.add(series)
    assert 'gsprof_cpu_usage_ratio{cpu="all"}' in seen and "gsprof_ticks_total" in seen


def promtool() -> str:
    """Returns the path of Prometheus' checker, or skips with the reason."""
    tool = shutil.which("promtool")
    if tool:
        return tool
    if os.environ.get("GSPROF_TEST_NO_DOWNLOAD"):
        pytest.skip("needs promtool; GSPROF_TEST_NO_DOWNLOAD is set")
    got = subprocess.run(
        [str(ROOT / "tools" / "get-promtool.sh")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=5 * PATIENCE_S,
        check=False,
        text=True,
    )
    if got.returncode:
        pytest.skip((got.stderr.strip().splitlines() or ["get-promtool: no reason given"])[-1])
    return got.stdout.strip()


def test_promtool_accepts_the_metrics(serve: Serve) -> None:
    tool = promtool()
    daemon = serve()
    daemon.frames(3)
    daemon.post("/profiling/start", {"name": 'a "b" \\ c'})
    checked = subprocess.run(
        [tool, "check", "metrics"],
        input=daemon.raw("GET", "/metrics")[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout.decode()


def test_stream_sends_frames_immediately(serve: Serve) -> None:
    daemon = serve()
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE_S)
    connection.request("GET", "/stream")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    ids: List[int] = []
    while len(ids) < 5:
        line = answer.readline().decode()
        assert line, "the stream ended"
        if line.startswith("id: "):
            ids.append(int(line[4:]))
            data = answer.readline().decode()
            assert json.loads(data[len("data: ") :])["frame_id"] == ids[-1]
    assert ids == sorted(set(ids))
    connection.close()


def test_settings_by_file_environment_flag_request(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config" / "gsprof"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[gsprof]\nsample_rate = 5\nquery_rows = 7\n")
    daemon = serve(env={"GSPROF_QUERY_ROWS": "8"}, owner=True)
    now = daemon.get("/config")["config"]
    assert now["gsprof.sample_rate"] == 0.02  # the flag
    assert now["gsprof.query_rows"] == 8  # the environment
    status, answer = daemon.ask("PUT", "/config", {"gsprof.sample_rate": 0.05})
    assert status == 200 and answer["config"]["gsprof.sample_rate"] == 0.05
    assert daemon.get("/status")["freq"] == 50
    origins = {row["name"]: row["origin"] for row in answer["settings"]}
    assert origins["gsprof.sample_rate"] == "request"
    # A request changes all settings or none.
    status, answer = daemon.ask("PUT", "/config", {"sample_rate": 1, "samplerate": 2})
    assert status == 400 and "sample_rate" in answer["error"]["hint"]
    assert daemon.get("/status")["freq"] == 50
    assert daemon.ask("PUT", "/config", {"sample_rate": 0.001})[0] == 400
    status, answer = daemon.ask("PUT", "/config", {"ring.rows": 5000})
    assert status == 403 and "GSPROF_RING_ROWS" in answer["error"]["hint"], answer
    # SIGHUP reads the file again and drops settings made by requests.
    (config / "config.toml").write_text("query_timeout = 3\n")
    os.kill(daemon.pid, signal.SIGHUP)
    daemon.until("/config", lambda got: bool(got["config"]["gsprof.query_timeout"] == 3))
    assert daemon.get("/status")["freq"] == 20
    # An invalid file changes nothing; a daemon in the background can report it only in /status.
    (config / "config.toml").write_text("query_timeout = 4\nquery_rows = soon\n")
    os.kill(daemon.pid, signal.SIGHUP)
    reported = daemon.until("/status", lambda got: got["settings_error"] is not None)
    assert "config.toml: line 2: query_rows must be" in reported["settings_error"]
    assert daemon.get("/config")["config"]["gsprof.query_timeout"] == 3
    (config / "config.toml").write_text("query_timeout = 4\n")
    os.kill(daemon.pid, signal.SIGHUP)
    daemon.until("/status", lambda got: got["settings_error"] is None)


def test_missing_processes_are_reported(serve: Serve) -> None:
    daemon = serve(owner=True)
    gone = subprocess.Popen(["true"])
    gone.wait()
    answer = daemon.post("/profiling/start", {"name": "x", "pids": [os.getpid(), gone.pid]})
    assert answer["missing_pids"] == [gone.pid]
    assert answer["output_dir"] == str(daemon.output)
    daemon.frames(2)
    assert daemon.post("/profiling/stop", {})["output_dir"] == str(daemon.output)


@pytest.mark.parametrize(
    "method, path, body, word",
    [
        ("POST", "/profiling/start", {"name": "a/b"}, "at most 200 bytes"),
        ("POST", "/profiling/start", {"name": 5}, "at most 200 bytes"),
        ("POST", "/profiling/start", {"stacks": 1}, "/openapi.json"),
        ("PUT", "/config", {"sample_rate": 0}, "GET /config"),
        ("PUT", "/config", {"nix": 0}, "GET /config"),
        ("GET", "/flamegraph", None, "?session=NAME"),
        ("POST", "/targets/4194305/attach", {}, "gsprof list"),
        ("POST", "/targets/4194305/dump", {}, "gsprof list"),
    ],
)
def test_errors_have_a_hint(serve: Serve, method: str, path: str, body: object, word: str) -> None:
    status, answer = serve(owner=True).ask(method, path, body)
    assert status in (400, 404) and word in answer["error"]["hint"], answer


def test_a_new_rate_applies_at_once(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.ask("PUT", "/config", {"sample_rate": 60})
    before = daemon.get("/status")["ticks"]
    daemon.ask("PUT", "/config", {"sample_rate": 0.01})
    daemon.until("/status", lambda status: bool(status["ticks"] > before + 5))


def test_stop_by_signal_is_clean(serve: Serve) -> None:
    daemon = serve()
    daemon.post("/profiling/start", {"name": "goes-on"})
    daemon.frames(2)
    assert daemon.stop() == 0
    daemon.start()
    assert names_of(daemon.get("/profiling/sessions")) == ["goes-on"]
    assert daemon.get("/profiling/sessions")["active_sessions"] == 1
    daemon.frames(2)
    daemon.post("/profiling/stop", {"name": "goes-on"})
    assert json.loads((daemon.output / "goes-on.json").read_text())["frames"]
    assert daemon.stop(signal.SIGINT) == 0


def test_background_prints_pid_and_url(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    env = {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    done = gsprof("serve", "--background", "--port", 0, "--output-dir", tmp_path, env=env)
    pid_text, url = done.out.split()
    pid = int(pid_text)
    try:
        port = int(url.rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/status")
        assert json.loads(connection.getresponse().read())["pid"] == pid
        connection.close()
        # Its state folder is in use, and so is its port.
        again = gsprof("serve", "--background", "--port", 0, env=env, status=EXIT_NOWRITE)
        assert "another daemon" in again.err
        other = {**env, "XDG_STATE_HOME": str(tmp_path / "other")}
        again = gsprof("serve", "--port", port, env=other, status=EXIT_NOWRITE)
        assert "in use" in again.err
    finally:
        os.kill(pid, signal.SIGTERM)


def test_invalid_flags_are_rejected_and_leave_no_files(tmp_path: Path) -> None:
    env = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    for args, status in (
        (["--port", "99999"], EXIT_USAGE),
        (["--freq", "1ms"], EXIT_USAGE),
        (["--bind", "0.0.0.0"], EXIT_USAGE),
        (["--bind", "example.org"], EXIT_USAGE),
        (["--token-file", "/dev/null"], EXIT_USAGE),
        (["--port", str(listener.getsockname()[1])], EXIT_NOWRITE),
    ):
        folder = tmp_path / "sessions"
        assert gsprof("serve", *args, "--output-dir", folder, status=status, env=env).err
        assert not list(tmp_path.iterdir()), args
    listener.close()


def test_query_reads_the_rings(serve: Serve) -> None:
    daemon = serve()
    daemon.frames(3)
    done = subprocess.run(
        [
            str(GSPROF),
            "query",
            str(daemon.pid),
            "-f",
            "json",
            "SELECT count(*) AS n FROM system.memory",
        ],
        stdout=subprocess.PIPE,
        env=daemon.env,
        check=True,
        timeout=PATIENCE_S,
    )
    assert json.loads(done.stdout)[0]["n"] >= 3


REPORTS_OVERHEAD = """
import sys, gsprof
from gsprof import _gsprof
gsprof.enable()
row = {"source": "torch", "percent": 1.5, "low_percent": 0.5, "high_percent": 2.5, "samples": 40}
assert _gsprof.put("gsprof.overhead", row)
print("ready", flush=True)
sys.stdin.read()
"""


def test_overheads_of_traced_processes(serve: Serve) -> None:
    daemon = serve("--freq", "100ms", owner=True)
    env = {**daemon.env, "PYTHONPATH": str(PACKAGE), "GSPROF_FOLLOW": "off"}
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", REPORTS_OVERHEAD],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as traced:
        assert traced.stdout is not None
        assert traced.stdout.readline() == b"ready\n"
        expected = {
            "pid": traced.pid,
            "source": "torch",
            "percent": 1.5,
            "low_percent": 0.5,
            "high_percent": 2.5,
            "samples": 40,
        }
        daemon.until("/status", lambda status: expected in status["overheads"])
        traced.kill()
    daemon.until("/status", lambda status: expected not in status["overheads"])
