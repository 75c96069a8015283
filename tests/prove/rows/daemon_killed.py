# SPDX-License-Identifier: Apache-2.0
"""`gsprof serve` is killed under load: sessions, streams, queries and recordings. All that it
acknowledged survives, and every file is complete. All requests use its Unix socket."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from serving import Daemon, UnixConnection
from support import EXIT_EMPTY
from targets import Busy, Fault, run_gsprof, until
from trials import Context, Result, all_pythons

NAME = "daemon_killed"
ORDER = 50
TITLE = "daemon killed under load (sessions, streams, queries, recordings)"
REQUIRED = 1_000
REQUIREMENT = "0 acknowledged frames or sessions lost, 0 broken files"
SHORT = 12

# Longest delay before a kill; one kill in five hits the start of the daemon.
LOAD_S = 0.12
EACH = 20  # kills of one daemon, at least; several daemons run at a time
WHOLE = "whole"  # the session that lasts for all kills


class ConnectionLost(Exception):
    """The connection ended because the daemon was killed."""


class Client:
    """A persistent connection for all requests of a worker."""

    def __init__(self, path: Path) -> None:
        self.connection = UnixConnection(path)

    def request(self, method: str, path: str, body: Any = None, *allowed: int) -> Any:
        try:
            given = None if body is None else json.dumps(body).encode()
            self.connection.request(method, path, body=given)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost() from error
        if answer.status not in (200, *allowed):
            raise Fault(f"{method} {path}: status {answer.status}, {text!r}")
        return json.loads(text)

    def close(self) -> None:
        self.connection.close()


@dataclass
class Known:
    """The state that the daemon has acknowledged. Workers add to it; each uses its own session
    names."""

    active: Set[str] = field(default_factory=set)
    frames: Dict[str, int] = field(default_factory=dict)  # of stopped sessions
    deleted: Set[str] = field(default_factory=set)
    unsure: Set[str] = field(default_factory=set)  # requested, not acknowledged
    times: List[str] = field(default_factory=list)  # of metric frames that were returned
    frame_id: int = 0
    queries: int = 0
    recordings: int = 0
    streamed: int = 0
    faults: List[str] = field(default_factory=list)


def use_sessions(client: Client, known: Known, prefix: str, keeps: bool, target: int) -> None:
    """Starts sessions, stops most of them (or all, if keeps is false) and deletes some of those."""
    for number in range(100000):
        name = f"{prefix}-{number}"
        body: Dict[str, Any] = {"name": name}
        if number % 5 == 2:
            body.update(pids=[target], stacks=True)
        known.unsure.add(name)
        # 413: 64 recordings are running.
        if "error" in client.request("POST", "/profiling/start", body, 413):
            known.unsure.discard(name)
            continue
        known.active.add(name)
        known.unsure.discard(name)
        if keeps and number % 4 == 0:
            continue
        known.active.discard(name)
        known.unsure.add(name)
        stopped = client.request("POST", "/profiling/stop", {"name": name})["stopped"][0]
        known.unsure.discard(name)
        known.frames[name] = stopped["frame_count"]
        if number % 4 == 1:
            del known.frames[name]
            known.unsure.add(name)
            client.request("DELETE", f"/profiling/sessions/{name}")
            known.unsure.discard(name)
            known.deleted.add(name)


def note_frame(known: Known, frame: Dict[str, Any]) -> None:
    known.times.append(frame["time"])
    known.frame_id = max(known.frame_id, frame["frame_id"])


def read_frames(client: Client, known: Known) -> None:
    """Notes every metric frame that the daemon returns."""
    while True:
        # 503: the daemon has just started.
        frame = client.request("GET", "/metrics/latest", None, 503).get("frame")
        if frame:
            note_frame(known, frame)


def read_stream(client: Client, known: Known) -> None:
    """Notes every metric frame of a stream."""
    try:
        client.connection.request("GET", "/stream")
        answer = client.connection.getresponse()
        is_frame = False
        for raw in answer:
            line = raw.decode().strip()
            if line.startswith("event:"):
                is_frame = line == "event: frame"
            elif line.startswith("data:") and is_frame and raw.endswith(b"\n"):
                note_frame(known, json.loads(line[5:]))
                known.streamed += 1
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionLost() from error


def query(client: Client, known: Known) -> None:
    """Counts the frames in the log: at least those that were acknowledged before."""
    while True:
        least = known.frame_id
        body = {"sql": "SELECT max(frame_id) AS newest FROM session.frame"}
        rows = client.request("POST", "/query", body, 503, 504)
        if isinstance(rows, list):
            known.queries += 1
            if (rows[0]["newest"] or 0) < least:
                raise Fault(f"a query sees frames up to {rows[0]['newest']}, not {least}")


def record(client: Client, known: Known, prefix: str, target: int) -> None:
    for number in range(100000):
        body = {"duration": 0.05, "name": f"{prefix}-r{number}", "rate": 500}
        # 409: the last recording has not ended yet; 413: 64 are running.
        answer = client.request("POST", f"/targets/{target}/record", body, 409, 413, 503)
        known.recordings += "file" in answer


def get(daemon: Daemon, path: str) -> Any:
    client = Client(daemon.folder / "s")
    try:
        return client.request("GET", path)
    finally:
        client.close()


def check_sessions(daemon: Daemon, known: Known) -> None:
    """Checks that the state is the acknowledged one."""
    listed = {row["name"]: row for row in get(daemon, "/profiling/sessions")["sessions"]}
    for name in known.active:
        if name not in listed or not listed[name]["is_active"]:
            raise Fault(f"session {name} is not active any more: {listed.get(name)}")
    for name, count in known.frames.items():
        row = listed.get(name)
        if not row or row["is_active"] or row["frame_count"] != count:
            raise Fault(f"session {name} had {count} frames and is now {row}")
        whole = json.loads((daemon.output / row["output_file"]).read_text())
        if len(whole["frames"]) != count:
            raise Fault(f"the file of session {name} has {len(whole['frames'])} of {count} frames")
    for name in known.deleted:
        if name in listed or (daemon.output / f"{name}.json").exists():
            raise Fault(f"session {name} was deleted and is there again")
    # The other sessions may exist or not, but an existing file is complete.
    for name in known.unsure & set(listed):
        file = daemon.output / listed[name]["output_file"]
        if file.exists():
            json.loads(file.read_text())
    newest = get(daemon, "/status")["frame_id_counter"]
    if newest < known.frame_id:
        raise Fault(f"frame {known.frame_id} was returned, and the newest is {newest}")


def check_recordings(daemon: Daemon, checked: Set[str]) -> int:
    """Reads the stack files that are new. Returns their number."""
    count = 0
    for file in sorted(daemon.output.glob("*.gsp")):
        if file.name not in checked:
            checked.add(file.name)
            count += 1
            out = daemon.folder / "converted.json"
            status, said = run_gsprof(["convert", "-i", file, "-o", out, "--force"])
            if status not in (0, EXIT_EMPTY):
                raise Fault(f"{file.name} ({file.stat().st_size} bytes) is broken: {said}")
    return count


class Load:
    """Clients of a daemon, each in its thread, until the daemon is killed."""

    def __init__(self, daemon: Daemon, known: Known, prefix: str, keeps: bool, target: int) -> None:
        self.known = known
        self.path = daemon.folder / "s"
        works: List[Callable[[Client], None]] = [
            lambda client: use_sessions(client, known, f"{prefix}-a", keeps, target),
            lambda client: use_sessions(client, known, f"{prefix}-b", False, target),
            lambda client: read_frames(client, known),
            lambda client: read_stream(client, known),
            lambda client: query(client, known),
            lambda client: record(client, known, prefix, target),
        ]
        self.threads = [threading.Thread(target=self.run, args=(work,)) for work in works]
        for thread in self.threads:
            thread.start()

    def run(self, work: Callable[[Client], None]) -> None:
        client = Client(self.path)
        try:
            work(client)
        except ConnectionLost:
            pass
        except Exception as error:  # reported by the main thread
            self.known.faults.append(repr(error))
        finally:
            client.close()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()
        if self.known.faults:
            raise Fault("; ".join(self.known.faults))


def has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def kill(daemon: Daemon, is_whole_group: bool) -> None:
    """Kills the daemon, with or without the processes that run its queries."""
    assert daemon.process is not None
    pid = daemon.pid
    if daemon.process.poll() is not None:
        raise Fault(f"the daemon ended by itself with status {daemon.process.returncode}")
    (os.killpg if is_whole_group else os.kill)(pid, signal.SIGKILL)
    daemon.stop(signal.SIGKILL)
    until(lambda: has_ended(pid), f"processes of the killed daemon {pid} do not end")


def kill_once(
    daemon: Daemon, known: Known, rng: random.Random, name: str, target: int, result: Result
) -> None:
    """Puts load on the daemon, kills it at a random time, restarts it and checks its state."""
    load = Load(daemon, known, name, rng.random() < 0.25, target)
    try:
        if rng.random() < 0.8:
            stops, times = rng.randint(1, 4), len(known.times) + 2
            queries = int(rng.random() < 0.3)  # a query takes longer than the rest
            until(
                lambda: known.faults
                or len(known.frames) >= stops
                and len(known.times) >= times
                and known.queries >= queries,
                "the daemon does not answer",
            )
        else:
            result.add("killed while it starts")
        assert daemon.process is not None
        try:
            daemon.process.wait(rng.uniform(0, LOAD_S))
        except subprocess.TimeoutExpired:
            pass
        is_whole_group = rng.random() < 0.5
        kill(daemon, is_whole_group)
    finally:
        daemon.end()
        load.join()
    result.count += 1
    daemon.start()
    check_sessions(daemon, known)


def finish(daemon: Daemon, known: Known, stopped: Dict[str, int], unsure: Set[str]) -> int:
    """Stops all sessions and checks the longest. Returns its number of frames."""
    client = Client(daemon.folder / "s")
    try:
        client.request("POST", "/profiling/stop", {})
    finally:
        client.close()
    # Stops that were not acknowledged are also completed.
    every = get(daemon, "/profiling/sessions")["sessions"]
    late = [daemon.output / row["output_file"] for row in every if row["name"] in unsure]
    until(lambda: all(file.exists() for file in late), f"not written: {late}")
    check_sessions(daemon, Known(frames=stopped, frame_id=known.frame_id))
    whole = json.loads((daemon.output / f"{WHOLE}.json").read_text())
    recorded = {frame["time"] for frame in whole["frames"]}
    # A metric frame that started before the session is not part of it.
    lost = {time for time in known.times if time >= min(recorded)} - recorded
    if lost:
        raise Fault(f"{len(lost)} frames were returned and are not recorded, such as {min(lost)}")
    return len(recorded)


def kill_many(
    daemon: Daemon, target: Busy, context: Context, limits: Tuple[int, float], result: Result
) -> None:
    count, seconds = limits
    client = Client(daemon.folder / "s")
    client.request("POST", "/profiling/start", {"name": WHOLE})
    client.close()
    stopped: Dict[str, int] = {}
    unsure: Set[str] = set()
    checked: Set[str] = set()
    known = Known()
    while result.count < count and not (result.count and context.is_over(seconds)):
        name = f"s{result.count}"
        kill_once(daemon, known, context.random, name, target.pid, result)
        result.add("recordings checked", check_recordings(daemon, checked))
        for key in ("queries", "recordings", "streamed"):
            result.add({"streamed": "frames streamed"}.get(key, key), getattr(known, key))
        stopped.update(known.frames)
        unsure |= known.unsure
        known = Known(active=known.active, times=known.times, frame_id=known.frame_id)
    result.add("sessions stopped", len(stopped))
    result.add("frames returned", len(set(known.times)))
    result.add("frames recorded", finish(daemon, known, stopped, unsure))


def run_one(context: Context, count: int, seconds: float, number: int) -> Result:
    """Kills one daemon again and again."""
    result = Result()
    folder = context.folder / str(number)
    folder.mkdir(mode=0o700)
    one = replace(context, folder=folder)
    one.random = random.Random(f"{context.row} {context.seed} {number}")
    target: Optional[Busy] = None
    daemon: Optional[Daemon] = None
    try:
        target = Busy(one.random.choice(all_pythons()), "sleep", folder, one.random)
        daemon = Daemon(
            folder,
            "--freq",
            "10ms",
            "--socket",
            folder / "s",
            "--allow-control",
            env={"GSPROF_KEEP_SESSIONS": "100000"},
        )
        kill_many(daemon, target, one, (count, seconds), result)
        target.check()
    except Fault as fault:
        what = f"daemon {number}: {fault}"
        result.failures.append(context.failure(what, max(0, result.count - 1)))
    finally:
        if daemon:
            daemon.end()
        if target:
            target.kill()
    return result


def run(context: Context, count: int, seconds: float) -> Result:
    jobs = max(1, min(context.jobs, count // EACH))
    shares = [count // jobs + (number < count % jobs) for number in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(run_one, context, share, seconds, number)
            for number, share in enumerate(shares)
        ]
    total = Result()
    for future in futures:
        total.merge(future.result())
    return total
