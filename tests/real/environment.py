# SPDX-License-Identifier: Apache-2.0
"""An environment with the libraries of jobs.py, in the versions of constraints.txt."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from exits import install
from support import Python, find_pythons

CONSTRAINTS = Path(__file__).resolve().parent / "constraints.txt"
VERSION = (3, 11)  # the version for which constraints.txt was made
# PyTorch is installed first, so that no other package installs one. The CPU build is small; if pip
# finds none, the one from PyPI also works but includes the CUDA libraries.
TORCH = ("torch==2.13.0+cpu", "torch==2.13.0")
LIST = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"


def home_in(venvs: Path) -> Path:
    return venvs / "real-{}.{}".format(*VERSION)


class Environment:
    """An existing environment (python), or one that is created when needed (in venvs)."""

    def __init__(self, venvs: Optional[Path] = None, python: Optional[str] = None) -> None:
        self.home = None if python or not venvs else home_in(venvs)
        self.python = python or (str(self.home / "bin" / "python") if self.home else "")
        self.failures: Dict[str, str] = {}  # why a package is missing

    def reason_to_skip(self, packages: Sequence[str]) -> str:
        """Returns why a job cannot run, or an empty string."""
        if self.home and not self.ensure_exists():
            return self.failures["torch"]
        for package in packages:
            if not self.has(package):
                if self.home and package not in self.failures:
                    self.add(package)
                if not self.has(package):
                    return self.failures.get(package, f"no {package} in {self.python}")
        return ""

    def has(self, package: str) -> bool:
        done = subprocess.run(
            [self.python, "-c", LIST], stdout=subprocess.PIPE, text=True, check=False
        )
        return package in done.stdout.lower().replace("_", "-").split()

    def ensure_exists(self) -> bool:
        """Creates the environment unless it exists; returns whether it does."""
        assert self.home is not None
        if (self.home / "done").exists():
            return True
        if "torch" not in self.failures:
            base = self.base()
            made = base and any(
                install(base, self.home, ["-c", str(CONSTRAINTS), torch]) for torch in TORCH
            )
            if made:
                (self.home / "done").touch()
                return True
            why = "PyTorch cannot be installed" if base else "no interpreter is available"
            self.failures["torch"] = f"{why} (Python {'.'.join(map(str, VERSION))})"
        return False

    @staticmethod
    def base() -> Optional[Python]:
        pythons, _ = find_pythons()
        return next((one for one in pythons if one.version[:2] == VERSION), None)

    def add(self, package: str) -> None:
        """Installs a package with pip; on failure keeps the last line of pip's output."""
        assert self.home is not None
        pip = next((self.home / "pip").glob("pip-*.whl")) / "pip"
        command: List[str] = [self.python, str(pip), "install", "-q", "--only-binary=:all:"]
        command += ["-c", str(CONSTRAINTS), package]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
            self.failures[package] = f"{package} cannot be installed: {last}"
