#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the software bill of materials of a build as SPDX 2.3 JSON.

usage: sbom.py BUILD_FOLDER OUTPUT.json

Components are the dependencies of meson.build, the pinned downloads of tools/get-*.sh, and the
packages of web/package-lock.json that the report page contains. Versions and hashes come from
pkg-config, the pins and the lock file. A library that a built file needs, a dependency or a
download that is not listed here is an error. The output depends only on the commit and the build.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
Json = Dict[str, Any]


@dataclass(frozen=True)
class Library:
    """A dependency of meson.build. An empty licence means a part of the C library."""

    name: str
    licence: str
    sonames: Tuple[str, ...] = ()
    use: str = "DYNAMIC_LINK"  # or STATIC_LINK, RUNTIME_DEPENDENCY_OF (loaded), BUILD_TOOL_OF
    package: str = ""  # of Debian, if pkg-config does not know the version


LIBRARIES = {
    "libelf": Library("elfutils libelf", "LGPL-3.0-or-later OR GPL-2.0-or-later", ("libelf.so.1",)),
    "libdw": Library("elfutils libdw", "LGPL-3.0-or-later OR GPL-2.0-or-later", ("libdw.so.1",)),
    "liblzma": Library("liblzma", "LicenseRef-public-domain", ("liblzma.so.5",)),
    "iberty": Library("libiberty", "LGPL-2.1-or-later", (), "STATIC_LINK", "libiberty-dev"),
    "zlib": Library("zlib", "Zlib", ("libz.so.1",)),
    "libzstd": Library("libzstd", "BSD-3-Clause", ("libzstd.so.1",)),
    "libprotobuf-c": Library("protobuf-c", "BSD-2-Clause", ("libprotobuf-c.so.1",)),
    "ncursesw": Library("ncurses", "X11", ("libncursesw.so.6", "libtinfo.so.6")),
    "libedit": Library("libedit", "BSD-3-Clause", ("libedit.so.2",)),
    "yyjson": Library("yyjson", "MIT", ("libyyjson.so.0",), "STATIC_LINK"),
    "libmicrohttpd": Library("libmicrohttpd", "LGPL-2.1-or-later", (), "RUNTIME_DEPENDENCY_OF"),
    "libcurl": Library("libcurl", "curl", (), "RUNTIME_DEPENDENCY_OF"),
    "python3": Library("CPython headers", "PSF-2.0", (), "BUILD_TOOL_OF"),
    "m": Library("C library", ""),
    "threads": Library("C library", ""),
    "dl": Library("C library", ""),
}
C_LIBRARY = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d|libgcc_s\.so\.1")
OWN = {"libgsprof_agent.so"}
# Scripts that fetch parts of the product, and those that fetch only what tests need.
DOWNLOADS = {"get-duckdb.sh", "get-yyjson.sh", "get-web.sh"}
TEST_DOWNLOADS = {"get-arm64.sh", "get-promtool.sh", "get-pythons.sh"}
# e_machine of an ELF file, and its name in get-duckdb.sh.
MACHINES = {62: "x86_64", 183: "aarch64"}
BUILT = ["src/cli/gsprof", "python/gsprof/libgsprof_agent.so", "python/gsprof/_gsprof.abi3.so"]


class Unlisted(Exception):
    """A part of the product is not in the tables above."""


def output_of(*command: str) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, cwd=ROOT
        )
    except FileNotFoundError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


# ------------------------------------------------------------------------------------- sources


def dependencies() -> List[str]:
    """The names of dependency() and find_library() in meson.build."""
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    names = re.findall(r"(?:dependency|find_library)\('([^']+)'", text)
    return list(dict.fromkeys(names))


def version_of(name: str, library: Library) -> str:
    header = ROOT / "subprojects" / "yyjson" / "yyjson.h"
    if name == "yyjson" and header.exists() and not output_of("pkg-config", "--modversion", name):
        found = re.search(r'YYJSON_VERSION_STRING\s+"([^"]+)"', header.read_text(encoding="utf-8"))
        return found.group(1) if found else "NOASSERTION"
    version = output_of("pkg-config", "--modversion", name)
    if not version and library.package:
        version = output_of("dpkg-query", "-W", "-f", "${Version}", library.package)
    return version or "NOASSERTION"


def machine(build: Path) -> str:
    """The machine that the build is for."""
    head = (build / BUILT[0]).read_bytes()[:20]
    return MACHINES.get(int.from_bytes(head[18:20], "little"), "unknown")


def duckdb_pins(build: Path) -> List[Tuple[str, str, str]]:
    """Name, version and SHA-512 of the packages that get-duckdb.sh unpacks."""
    text = (ROOT / "tools" / "get-duckdb.sh").read_text(encoding="utf-8")
    pins = re.findall(
        rf"^{machine(build)}\s+(\S+)@([0-9][^\s@]*)\s+([0-9a-f]{{128}})", text, re.MULTILINE
    )
    header = re.search(r"header_package=(\S+)@(\S+)\nheader_sum=([0-9a-f]{128})", text)
    if not pins or not header:
        raise Unlisted("tools/get-duckdb.sh has no pins that this script can read")
    return [*pins, (header.group(1), header.group(2), header.group(3))]


def yyjson_pins() -> str:
    """The SHA-256 of the tarballs that get-yyjson.sh accepts; the first suite is preferred."""
    text = (ROOT / "tools" / "get-yyjson.sh").read_text(encoding="utf-8")
    pins = re.findall(r"^(\w+) +([0-9a-f]{64})$", text, re.MULTILINE)
    if not pins:
        raise Unlisted("tools/get-yyjson.sh has no pins that this script can read")
    return ", ".join(f"{digest} ({suite})" for suite, digest in pins)


def web_packages() -> List[Json]:
    """The packages of the lock file that are part of the page."""
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))
    return [
        {**facts, "name": path.rpartition("node_modules/")[2]}
        for path, facts in sorted(lock["packages"].items())
        if path and not facts.get("dev")
    ]


def needed(path: Path) -> Set[str]:
    text = output_of("readelf", "-d", str(path))
    return set(re.findall(r"\(NEEDED\).*\[([^]]+)\]", text))


def check_listed(build: Path) -> None:
    """Raises Unlisted if the tables above miss a part."""
    missing = [name for name in dependencies() if name not in LIBRARIES]
    if missing:
        raise Unlisted(f"dependencies of meson.build without an entry: {', '.join(missing)}")
    scripts = {path.name for path in (ROOT / "tools").glob("get-*.sh")}
    if scripts - DOWNLOADS - TEST_DOWNLOADS:
        raise Unlisted(f"downloads without an entry: {scripts - DOWNLOADS - TEST_DOWNLOADS}")
    known = {soname for library in LIBRARIES.values() for soname in library.sonames} | OWN
    for name in BUILT:
        for soname in sorted(needed(build / name) - known):
            if not C_LIBRARY.fullmatch(soname):
                raise Unlisted(f"{name} needs {soname}, which has no entry")


# ------------------------------------------------------------------------------------ document


def spdx_id(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-")


def package(name: str, version: str, licence: str, **more: Any) -> Json:
    made: Json = {
        "name": name,
        "SPDXID": spdx_id("Package", name),
        "versionInfo": version,
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }
    made.update(more)
    return made


def checksum(algorithm: str, value: str) -> List[Json]:
    return [{"algorithm": algorithm, "checksumValue": value}]


def npm_reference(name: str, version: str) -> List[Json]:
    """The package URL, which names the registry by its kind."""
    return [
        {
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:npm/{name.replace('@', '%40')}@{version}",
        }
    ]


def parts(build: Path) -> List[Tuple[str, Json]]:
    """All components, with their relationship to gsprof."""
    found: List[Tuple[str, Json]] = []
    for name in dependencies():
        library = LIBRARIES[name]
        if library.licence:
            made = package(library.name, version_of(name, library), library.licence)
            if name == "yyjson" and (ROOT / "subprojects" / "yyjson" / "yyjson.c").exists():
                made["comment"] = f"the original tarball has one of these SHA-256: {yyjson_pins()}"
            found.append((library.use, made))
    for name, version, digest in duckdb_pins(build):
        made = package(name, version, "MIT", checksums=checksum("SHA512", digest))
        made["externalRefs"] = npm_reference(name, version)
        is_header = name == "duckdb"
        found.append(("BUILD_TOOL_OF" if is_header else "RUNTIME_DEPENDENCY_OF", made))
    for facts in web_packages():
        made = package(facts["name"], facts["version"], facts.get("license", "NOASSERTION"))
        algorithm, _, value = facts["integrity"].partition("-")
        digest = base64.b64decode(value).hex()
        made["checksums"] = checksum(algorithm.upper(), digest)
        made["externalRefs"] = npm_reference(facts["name"], facts["version"])
        found.append(("STATIC_LINK", made))
    return found


def built_files(build: Path) -> List[Json]:
    found = []
    for name in BUILT:
        path = build / name
        if path.exists():
            data = path.read_bytes()
            sums = checksum("SHA1", hashlib.sha1(data).hexdigest())
            sums += checksum("SHA256", hashlib.sha256(data).hexdigest())
            found.append(
                {
                    "fileName": f"./{name}",
                    "SPDXID": spdx_id("File", name),
                    "checksums": sums,
                    "licenseConcluded": "Apache-2.0",
                    "copyrightText": "NOASSERTION",
                }
            )
    return found


def commit_time() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct")
    return int(text or 0)


def own_version() -> str:
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    found = re.search(r"version: '([^']+)'", text)
    return found.group(1) if found else "NOASSERTION"


def document(build: Path) -> Json:
    check_listed(build)
    own = package("gsprof", own_version(), "Apache-2.0")
    packages, relations = [own], []

    def relate(subject: str, kind: str, to: str) -> None:
        relations.append(
            {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": to}
        )

    relate("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])
    for use, made in parts(build):
        packages.append(made)
        if use.endswith("_OF"):
            relate(made["SPDXID"], use, own["SPDXID"])
        else:
            relate(own["SPDXID"], use, made["SPDXID"])
    files = built_files(build)
    for file in files:
        relate(own["SPDXID"], "GENERATES", file["SPDXID"])
    content = json.dumps([packages, files], sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()[:32]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(commit_time()))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"gsprof-{own['versionInfo']}",
        "documentNamespace": f"https://spdx.org/spdxdocs/gsprof-{own['versionInfo']}-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: gsprof-sbom"]},
        "hasExtractedLicensingInfos": [
            {"licenseId": "LicenseRef-public-domain", "extractedText": "public domain"}
        ],
        "packages": packages,
        "files": files,
        "relationships": relations,
    }


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    try:
        made = document(Path(words[0]))
    except Unlisted as error:
        print(f"sbom: {error}; add it to tools/sbom.py", file=sys.stderr)
        return 1
    text = json.dumps(made, indent=2, ensure_ascii=True) + "\n"
    Path(words[1]).write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
