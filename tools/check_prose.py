#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rejects phrases that are not plain technical English, in comments, messages and docs.

usage: check_prose.py [FILE]...   (default: all tracked files)"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Recorded output, texts of others, and this list.
SKIPPED = re.compile(
    r"^(?:LICENSE|tools/check_prose\.py|web/package-lock\.json"
    r"|tests/(?:fuzz/corpus|golden|unit/data)/)|\.(?:png|ico|gz|ring|gsp)$"
)
# "look" as a noun.
LOOK = (
    r"(?:a|the|each|every|one|per|first|last|next|two|three) looks?"
    r"(?= (?:at|of|in|a|per|running|takes?)\b)"
)
# "worth" for "returns".
WORTH = (
    r"(?<!\w )worth (?:0|1|NULL|true|false|GSP_\w+|code|an exit status|how many|"
    r"the (?:number|size))"
)
# What not to write, and what to write instead.
PHRASES = {
    r"(?:is|are|was|were|be|been|being) told": "prints, reports, returns",
    r"tells? (?:of|nothing)": "reports, lists",
    r"who looks": "the reader, the sampler",
    r"whoever": "the caller, any process that",
    r"(?<!\")nobody": "no process, no thread, no user",
    r"somebody": "another process, a user",
    r"(?:be|is|are|was|were|been) had(?! (?:to|a|an|the|been|no))": "is available, can be read",
    r"anew": "again",
    r"so many": "N, this many",
    r"so much(?! (?:as|faster|slower|more|less))": "this much",
    r"what is there": "the existing rows, files",
    LOOK: "sample, pass",
    r"looks? at which": "samples in which",
    WORTH: "returns",
    r"as it (?:was|is) (?:before|now|then)\b": "unchanged, current",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more|less|later|such|worse|better)\w+": (
        "is not a ..., does not exist"
    ),
}
PATTERN = re.compile(
    "|".join(f"(?P<p{i}>\\b{phrase}\\b)" for i, phrase in enumerate(PHRASES)), re.IGNORECASE
)
ADVICE = list(PHRASES.values())
# A line without any of these cannot match; most lines are skipped this way.
HINTS = (
    "told",
    "tell",
    "who",
    "body",
    " had",
    "anew",
    "so m",
    "what is",
    "look",
    "worth",
    "as it ",
    " no ",
)


# The end of a line and the beginning of the next one in a comment, a string or a paragraph.
LINE_END = re.compile(r"[\s\"\\]*$")
LINE_START = re.compile(r"^\s*(?:\*|//+|#|>)?\s*f?\"?")
# Longer than any phrase.
PHRASE_MAX = 40


def phrases_in(text: str) -> list[re.Match[str]]:
    lower = text.lower()
    return list(PATTERN.finditer(text)) if any(hint in lower for hint in HINTS) else []


def matches_of(line: str, following: str) -> list[re.Match[str]]:
    """The phrases that begin in a line; they may end in the following one."""
    found = phrases_in(line)
    tail = LINE_END.sub("", line[-PHRASE_MAX:])
    if tail and following:
        both = f"{tail} {LINE_START.sub('', following[: 2 * PHRASE_MAX])[:PHRASE_MAX]}"
        found += [match for match in phrases_in(both) if match.start() < len(tail) < match.end()]
    return found


def check_text(name: str, text: str) -> list[str]:
    faults = []
    lines = text.splitlines()
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        for match in matches_of(line, following):
            assert match.lastgroup
            advice = ADVICE[int(match.lastgroup[1:])]
            faults.append(f"{name}:{number}: '{match[0]}': write {advice}")
    return faults


def main() -> int:
    names = sys.argv[1:]
    if not names:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        names = sorted(name for name in set(listed.split("\0")) if name)
    faults = []
    for name in names:
        path = ROOT / name
        if SKIPPED.search(name) or not path.is_file():
            continue
        try:
            faults += check_text(name, path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
