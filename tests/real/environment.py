# SPDX-License-Identifier: Apache-2.0
"""An environment with the libraries of jobs.py, in the versions of constraints.txt."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from exits import install
from support import Python, find_pythons

CONSTRAINTS = Path(__file__).resolve().parent / "constraints.txt"
VERSION = (3, 11)  # for which constraints.txt was made
# PyTorch comes first, so that no other package brings one.  The build for CPUs alone is small;
# where pip finds none, the one from PyPI has CUDA's libraries with it and does the same here.
TORCH = ("torch==2.13.0+cpu", "torch==2.13.0")
LIST = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"


def home_in(venvs: Path) -> Path:
    return venvs / "real-{}.{}".format(*VERSION)


class Environment:
    """One that is there (python), or one that is made when it is needed (in venvs)."""

    def __init__(self, venvs: Optional[Path] = None, python: Optional[str] = None) -> None:
        self.home = None if python or not venvs else home_in(venvs)
        self.python = python or (str(self.home / "bin" / "python") if self.home else "")
        self.trouble: Dict[str, str] = {}  # why a package is not there

    def lacks(self, packages: Sequence[str]) -> str:
        """Why a job cannot run; empty when it can."""
        if self.home and not self.is_made():
            return self.trouble["torch"]
        for package in packages:
            if not self.has(package):
                if self.home and package not in self.trouble:
                    self.add(package)
                if not self.has(package):
                    return self.trouble.get(package, f"no {package} in {self.python}")
        return ""

    def has(self, package: str) -> bool:
        done = subprocess.run(
            [self.python, "-c", LIST], stdout=subprocess.PIPE, text=True, check=False
        )
        return package in done.stdout.lower().replace("_", "-").split()

    def is_made(self) -> bool:
        """Makes it if it is not there yet."""
        assert self.home is not None
        if (self.home / "done").exists():
            return True
        if "torch" not in self.trouble:
            base = self.base()
            made = base and any(
                install(base, self.home, ["-c", str(CONSTRAINTS), torch]) for torch in TORCH
            )
            if made:
                (self.home / "done").touch()
                return True
            why = "PyTorch cannot be installed" if base else "there is no interpreter"
            self.trouble["torch"] = f"{why} (Python {'.'.join(map(str, VERSION))})"
        return False

    @staticmethod
    def base() -> Optional[Python]:
        pythons, _ = find_pythons()
        return next((one for one in pythons if one.version[:2] == VERSION), None)

    def add(self, package: str) -> None:
        """By pip; a failure is remembered with pip's last word."""
        assert self.home is not None
        pip = next((self.home / "pip").glob("pip-*.whl")) / "pip"
        command: List[str] = [self.python, str(pip), "install", "-q", "--only-binary=:all:"]
        command += ["-c", str(CONSTRAINTS), package]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
            self.trouble[package] = f"{package} cannot be installed: {last}"
