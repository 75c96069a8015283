# SPDX-License-Identifier: Apache-2.0
"""gsprof serve against its own description: requests generated from /openapi.json."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

from conftest import Serve
from peers import install_wheels
from serving import check_error
from support import PATIENCE_S, ROOT

# The daemon may reject values that the description allows: names and SQL have further rules.
LOOSE_CHECKS = "positive_data_acceptance"


class Generator:
    """Generates values that match a schema and values that do not."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def invalid_value(self) -> Any:
        return self.rng.choice(
            [
                None,
                True,
                -1,
                0,
                1e308,
                2**63,
                "",
                "x" * 300,
                "\0",
                "\N{SNOWMAN}",
                [],
                [[]],
                {"a": {}},
            ]
        )

    def value(self, schema: Dict[str, Any]) -> Any:
        if self.rng.random() < 0.3:
            return self.invalid_value()
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        if kind == "string":
            return self.rng.choice(["a", "b c", "SELECT 1", "FROM session.list", "é" * 20])
        if kind == "integer":
            return self.rng.randrange(4194305, 4200000)
        if kind == "number":
            return self.rng.choice([schema.get("minimum", 0), 1, 0.5, schema.get("maximum", 10)])
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind == "array":
            return [self.value(schema.get("items", {})) for _ in range(self.rng.randrange(3))]
        if kind == "object":
            some = schema.get("properties", {}).items()
            return {key: self.value(value) for key, value in some if self.rng.random() < 0.6}
        return self.invalid_value()


def test_requests_generated_from_the_description(serve: Serve) -> None:
    daemon = serve(owner=True)
    daemon.frames(1)
    described = daemon.get("/openapi.json")
    assert described["openapi"].startswith("3.")
    generator = Generator(11)
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if path == "/stream":
                continue  # the response has no end
            # Each query starts a process.
            for _ in range(6 if path in ("/query", "/targets/{pid}/dump") else 25):
                target = path.replace("{name}", generator.rng.choice(["a", "b%20c", "%00", "no"]))
                target = target.replace("{pid}", generator.rng.choice(["4194305", "0", "x", "1e3"]))
                body = None
                if "requestBody" in operation:
                    schema = operation["requestBody"]["content"]["application/json"]["schema"]
                    made = generator.value(schema)
                    body = json.dumps(made).encode()
                status, headers, text = daemon.raw(method.upper(), target, body)
                assert str(status) in operation["responses"], (method, target, body, status, text)
                kind = headers["Content-Type"].split(";")[0]
                if path != "/query" or status >= 400:
                    assert kind in operation["responses"][str(status)]["content"], (path, kind)
                if kind == "application/json":
                    answer = json.loads(text)
                    if status >= 400:
                        check_error(answer)
    assert daemon.stop() == 0


def test_schemathesis(serve: Serve, tmp_path: Path) -> None:
    """Without --allow-control, so that no request touches processes of this machine."""
    site = install_wheels("schemathesis", ROOT / "tests" / "schemathesis" / "requirements.txt")
    daemon = serve()
    daemon.frames(1)
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{daemon.url}/openapi.json"]
        # The response of /stream has no end; each query starts a process.
        + [
            "--exclude-path",
            "/stream",
            "--exclude-path",
            "/query",
            "--phases",
            "coverage,fuzzing",
            "--max-examples",
            "8",
        ]
        + ["--exclude-checks", LOOSE_CHECKS, "--seed", "1", "--no-shrink", "--no-color"]
        + ["--continue-on-failure", "--generation-deterministic", "--max-time", "15"]
        + ["--request-timeout", str(PATIENCE_S)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")
    assert daemon.stop() == 0
