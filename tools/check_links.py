#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the relative links, images and #anchors of all Markdown files, that every page of docs/ is
in the navigation of the site, and that the files which pages and comments name exist. Needs no
network.

usage: check_links.py [ROOT]"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set, Tuple
from urllib.parse import unquote

FENCE = re.compile(r"^ *(```|~~~)")
CODE = re.compile(r"(`+).+?\1")
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
REFERENCE = re.compile(r"^\[[^\]]+\]: +(\S+)")
IMAGE = re.compile(r"<(?:img|a)\b[^>]*?\b(?:src|href)=\"?([^\"\s>]+)")
HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: +#+)?$")
REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")
# Names of source files in pages and comments; those of libraries and of generated files are exempt.
SOURCE_NAME = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*([\w-]+\.[ch])\b(?![\w(.])")
FOREIGN = re.compile(
    r"^(?:pycore_\w+|yyjson|duckdb|curl|Python|code|unicodeobject|longintrepr)\.[ch]$"
)
REPOSITORY_PATH = re.compile(r"`((?:bench|docs|python|src|tests|tools|web)/[\w./-]+)`")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
KERNEL_PATH = re.compile(r"^(?:arch|linux|cpython|Objects)/")
# The rows of docs/architecture.md that describe a folder, and the files they name.
FOLDER_ROW = re.compile(r"^\| `(\w+)/` \|")
FILE_STEM = re.compile(r"`([a-z][a-z0-9_]*\*?)`")
NOT_FILES = {"dlopen"}
# Pages that list others: what docs/conf.py makes the site's navigation of.
INDEXES = ("docs/index.md", "docs/formats.md", "docs/cli/gsprof.md")


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def prose(path: Path) -> List[Tuple[int, str]]:
    """The numbered lines of a file outside of code blocks."""
    lines = []
    fence = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if match and (not fence or match[1] == fence):
            fence = "" if fence else match[1]
        elif not fence:
            lines.append((number, line))
    return lines


def anchors_of(path: Path) -> Set[str]:
    found: Set[str] = set()
    for _, line in prose(path):
        match = HEADING.match(line)
        if match:
            name = slug(match[2])
            copy = 0
            while (f"{name}-{copy}" if copy else name) in found:
                copy += 1
            found.add(f"{name}-{copy}" if copy else name)
    return found


def targets_of(line: str) -> List[str]:
    plain = CODE.sub("", line)
    return LINK.findall(plain) + REFERENCE.findall(plain) + IMAGE.findall(plain)


def tracked(root: Path, *patterns: str) -> List[Path]:
    command = [
        "git",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        *patterns,
    ]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
    paths = sorted({root / name for name in listed.split("\0") if name})
    return [path for path in paths if path.is_file()]


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.anchors: Dict[Path, Set[str]] = {}

    def has_anchor(self, path: Path, anchor: str) -> bool:
        if path not in self.anchors:
            self.anchors[path] = anchors_of(path)
        return anchor in self.anchors[path]

    def fault_of(self, page: Path, target: str) -> str:
        """Why a link leads nowhere; empty if it does not."""
        if REMOTE.match(target):
            return ""
        name, _, anchor = unquote(target).partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            return f"no such file: {target}"
        if not path.is_relative_to(self.root):
            return f"outside the repository: {target}"
        if anchor and path.suffix == ".md" and not self.has_anchor(path, anchor):
            return f"no such heading: {target}"
        return ""

    def faults_of(self, page: Path) -> List[str]:
        faults = []
        for number, line in prose(page):
            for target in targets_of(line):
                fault = self.fault_of(page, target)
                if fault:
                    faults.append(f"{page.relative_to(self.root)}:{number}: {fault}")
        return faults

    def unlisted(self, pages: List[Path]) -> List[str]:
        """Pages of docs/ that no index lists: readers of the site would not find them."""
        listed: Set[Path] = set()
        for name in INDEXES:
            index = self.root / name
            for _, line in prose(index):
                listed |= {(index.parent / target).resolve() for target in targets_of(line)}
        names = [page.relative_to(self.root).as_posix() for page in pages if page not in listed]
        return [
            f"{name}: not listed in {', '.join(INDEXES)}"
            for name in names
            if name.startswith("docs/") and name not in INDEXES
        ]

    def missing_names(self, pages: List[Path], sources: List[Path]) -> List[str]:
        """Names of files that pages and comments mention and that do not exist."""
        known = {path.name for path in tracked(self.root, "*.c", "*.h")}
        texts = [(page, number, line) for page in pages for number, line in prose(page)]
        for path in sources:
            text = path.read_text(encoding="utf-8")
            for match in COMMENT.finditer(text):
                texts.append((path, text.count("\n", 0, match.start()) + 1, match[0]))
        faults = []
        for path, number, text in texts:
            names = [
                match[0]
                for match in SOURCE_NAME.finditer(text)
                if match[1] not in known
                and not FOREIGN.match(match[1])
                and not KERNEL_PATH.match(match[0])
            ]
            if path.suffix == ".md":
                names += [
                    name
                    for name in REPOSITORY_PATH.findall(text)
                    if not (self.root / name).exists()
                ]
            where = f"{path.relative_to(self.root)}:{number}"
            faults += [f"{where}: no such file: {name}" for name in names]
        return faults

    def missing_stems(self) -> List[str]:
        """Files that the folder tables of docs/architecture.md name and that do not exist."""
        name = "docs/architecture.md"
        faults = []
        for number, line in prose(self.root / name):
            row = FOLDER_ROW.match(line)
            if not row:
                continue
            folder = self.root / "src" / row[1]
            for stem in FILE_STEM.findall(line.split("|")[2]):
                if stem not in NOT_FILES and not list(folder.glob(f"{stem}.*")):
                    faults.append(f"{name}:{number}: src/{row[1]}/ has no file {stem}")
        return faults


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    pages = tracked(root, "*.md")
    checker = Checker(root)
    faults = [fault for page in pages for fault in checker.faults_of(page)]
    faults += checker.unlisted(pages)
    faults += checker.missing_names(
        [page for page in pages if page.name != "CHANGELOG.md"], tracked(root, "src/*.[ch]")
    )
    faults += checker.missing_stems()
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
