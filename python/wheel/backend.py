# SPDX-License-Identifier: Apache-2.0
"""Build backend (PEP 517) that makes wheels and source archives; meson does the building.

It needs only what `make` needs, so `pip install .` downloads nothing, with or without build
isolation. It builds in the same folder as `make`.

Settings (pip install . --config-settings=NAME=VALUE):
    build-dir     folder to build in (default: build)
    compression   0 to 9 (default: 6)
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

ROOT = Path(__file__).resolve().parent.parent.parent
Settings = Optional[Mapping[str, Any]]

NAME = "gsprof"
HEADERS = """\
Metadata-Version: 2.1
Name: gsprof
Version: {version}
Summary: A profiler for machine-learning jobs: stacks from outside, metrics, PyTorch, SQL
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Development Status :: 4 - Beta
Classifier: Framework :: IPython
Classifier: Framework :: Pytest
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Programming Language :: Python :: Implementation :: CPython
Classifier: Topic :: Software Development :: Debuggers
Classifier: Topic :: System :: Monitoring
Classifier: Typing :: Typed
License-File: LICENSE
Description-Content-Type: text/markdown
"""
# Added to entry_points.txt, which is also used with the build folder on PYTHONPATH.
SCRIPTS = """\
[console_scripts]
gsprof = gsprof.__main__:main

"""
# Licences of the code in the wheel.
LICENCES = {
    "LICENSE": "LICENSE",
    "subprojects/duckdb/LICENSE": "LICENSE.duckdb",
    "subprojects/yyjson/LICENSE": "LICENSE.yyjson",
}

# Folder of the program within the package, with the same layout as after `make install`.
PROGRAM = "gsprof/_program"
AGENT = "libgsprof_agent.so"
EXTENSION = "_gsprof.abi3.so"
# A fixed time, so that builds are reproducible.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def _version() -> str:
    found = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))
    if not found:
        raise RuntimeError("meson.build has no version")
    return found.group(1)


def _metadata() -> bytes:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return f"{HEADERS.format(version=_version())}\n{readme}".encode()


# ------------------------------------------------------------------------ building


def _run(*command: Union[str, Path]) -> str:
    """Runs a program of the system in the source folder, without PYTHON* variables: pip's build
    isolation sets them and hides Debian's modules from every Python, including meson's."""
    env = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise RuntimeError(
            f"{words[0]} is not installed; tools/install-deps.sh lists the packages"
        ) from None
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: status {done.returncode}\n{output}")
    return output


def _configure(build: Path) -> None:
    if (build / "build.ninja").exists():
        return
    for script in ("get-yyjson.sh", "get-duckdb.sh"):
        _run(ROOT / "tools" / script)
    options = []
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        options.append(f"-Dfree_threaded_python={sys.executable}")
    _run("meson", "setup", build, *options)


def _stage(build: Path, stage: Path) -> Path:
    """Installs to the stage like `make install`; returns the prefix in it."""
    _configure(build)
    targets = json.loads(_run("meson", "introspect", build, "--targets"))
    files = [file for one in targets if one["installed"] for file in one["filename"]]
    _run("ninja", "-C", build, *(os.path.relpath(file, build.resolve()) for file in files))
    _run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", stage)
    options = json.loads(_run("meson", "introspect", build, "--buildoptions"))
    prefix = next(str(one["value"]) for one in options if one["name"] == "prefix")
    return stage / prefix.lstrip("/")


def _strip(path: Path) -> None:
    """Removes debugging information, three quarters of the size."""
    if shutil.which("strip"):
        _run("strip", "--strip-unneeded", path)


# Name in the wheel, and source file.
Member = Tuple[str, Path]


def _members(prefix: Path) -> List[Member]:
    library = prefix / "lib" / "gsprof"
    package = library / "python" / "gsprof"
    if not (package / EXTENSION).exists():
        raise RuntimeError(
            "the build has no extension: install python3-dev, then remove the build folder"
        )
    start = f"{PROGRAM}/lib/gsprof/python"
    found: List[Member] = [
        ("gsprof.pth", library / "python" / "gsprof.pth"),
        (f"{PROGRAM}/bin/gsprof", prefix / "bin" / "gsprof"),
        (f"{start}/start/sitecustomize.py", library / "python" / "start" / "sitecustomize.py"),
        # For other interpreters: only gsprof of this interpreter's site-packages.
        (f"{start}/gsprof/__init__.py", ROOT / "python" / "wheel" / "alone.py"),
        (f"{start}/gsprof/{AGENT}", package / AGENT),
    ]
    for path in sorted(package.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            found.append((f"gsprof/{path.relative_to(package)}", path))
    for name, path in found:
        if path.suffix == ".so" or name.endswith("bin/gsprof"):
            _strip(path)
    if (library / "libduckdb.so").exists():
        found.append((f"{PROGRAM}/lib/gsprof/libduckdb.so", library / "libduckdb.so"))
    return found


def _tag(names: Sequence[str]) -> str:
    """Returns the wheel's tag. One extension serves 3.8 and later; free-threaded interpreters are
    listed one by one. The platform is plain linux: the program needs libraries of the system
    (docs/install.md)."""
    pythons, abis = ["cp38"], ["abi3"]
    for name in names:
        found = re.search(r"_gsprof\.cpython-(\d+)t-", name)
        if found:
            pythons.append(f"cp{found.group(1)}")
            abis.append(f"cp{found.group(1)}t")
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{'.'.join(pythons)}-{'.'.join(abis)}-{platform}"


def _expanded(tag: str) -> Iterator[str]:
    pythons, abis, platform = tag.split("-")
    for python in pythons.split("."):
        for abi in abis.split("."):
            yield f"{python}-{abi}-{platform}"


def _entry_points() -> bytes:
    return (
        SCRIPTS.encode() + (ROOT / "python" / "gsprof.dist-info" / "entry_points.txt").read_bytes()
    )


# --------------------------------------------------------------------------- wheel


class _Wheel:
    """A zip archive with its RECORD."""

    def __init__(self, path: Path, compression: int) -> None:
        method = zipfile.ZIP_DEFLATED if compression else zipfile.ZIP_STORED
        self._zip = zipfile.ZipFile(path, "w", method, compresslevel=compression)
        self._record: List[str] = []

    def add(self, name: str, data: bytes, executable: bool = False) -> None:
        info = zipfile.ZipInfo(name, ZIP_TIME)
        info.compress_type = self._zip.compression
        info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self._zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record: str) -> None:
        self._record.append(f"{record},,")
        info = zipfile.ZipInfo(record, ZIP_TIME)
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        self._zip.writestr(info, "\n".join(self._record) + "\n")
        self._zip.close()


def _setting(settings: Settings, name: str, default: str) -> str:
    value = (settings or {}).get(name, default)
    return str(value[-1] if isinstance(value, list) else value)


def get_requires_for_build_wheel(config_settings: Settings = None) -> List[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> List[str]:
    return []


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Writes the metadata without a build."""
    folder = Path(metadata_directory) / f"{NAME}-{_version()}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(_metadata())
    (folder / "entry_points.txt").write_bytes(_entry_points())
    return folder.name


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: Optional[str] = None,
) -> str:
    build = ROOT / _setting(config_settings, "build-dir", "build")
    compression = int(_setting(config_settings, "compression", "6"))
    with tempfile.TemporaryDirectory(prefix="gsprof-wheel-") as stage:
        members = _members(_stage(build, Path(stage)))
        tag = _tag([name for name, _ in members])
        version = _version()
        info = f"{NAME}-{version}.dist-info"
        name = f"{NAME}-{version}-{tag}.whl"
        wheel = _Wheel(Path(wheel_directory) / name, compression)
        for member, path in members:
            wheel.add(member, path.read_bytes(), os.access(path, os.X_OK))
        wheel.add(f"{info}/METADATA", _metadata())
        about = f"Wheel-Version: 1.0\nGenerator: gsprof {version}\nRoot-Is-Purelib: false\n"
        about += "".join(f"Tag: {one}\n" for one in _expanded(tag))
        wheel.add(f"{info}/WHEEL", about.encode())
        wheel.add(f"{info}/entry_points.txt", _entry_points())
        for source, licence in LICENCES.items():
            if (ROOT / source).exists():
                wheel.add(f"{info}/{licence}", (ROOT / source).read_bytes())
        wheel.close(f"{info}/RECORD")
    return name


# --------------------------------------------------------------------------- sdist


def _sources() -> List[str]:
    """Returns the files of the repository; in an unpacked archive, all files except built ones."""
    if (ROOT / ".git").exists():
        listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})
    found = []
    for folder, folders, files in os.walk(ROOT):
        at = os.path.relpath(folder, ROOT)
        made = ("yyjson", "duckdb") if at == "subprojects" else ("build",) if at == "." else ()
        folders[:] = [one for one in folders if one not in (*made, "__pycache__", "node_modules")]
        found += [os.path.normpath(os.path.join(at, file)) for file in files]
    return sorted(name for name in found if name != "PKG-INFO")


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    base = f"{NAME}-{_version()}"
    made: Dict[str, bytes] = {"PKG-INFO": _metadata()}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in [*made, *_sources()]:
            data = made.get(name)
            if data is None:
                data = (ROOT / name).read_bytes()
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(data)
            is_program = name not in made and os.access(ROOT / name, os.X_OK)
            entry.mode = 0o755 if is_program else 0o644
            tar.addfile(entry, io.BytesIO(data))
    path = Path(sdist_directory) / f"{base}.tar.gz"
    path.write_bytes(gzip.compress(archive.getvalue(), 6, mtime=0))
    return path.name
