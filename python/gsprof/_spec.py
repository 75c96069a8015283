# SPDX-License-Identifier: Apache-2.0
"""Parses GSPROF and GSPROF_TORCH_PROFILING."""

# As in _boot: import only modules that a bare interpreter has loaded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Tuple

OFF = ("", "0", "off", "false", "no", "none")
ON = ("on", "true", "yes")

# Keys of GSPROF_TORCH_PROFILING, and their settings.
TORCH_WORDS = {
    "rate": "torch.rate",
    "layers": "torch.layers",
    "modules": "torch.modules",
    "backward": "torch.backward",
    "sync": "torch.sync",
    "vars": "torch.vars",
    "exprs": "torch.vars",
    "watch": "torch.vars",
    "adaptive": "torch.adaptive",
    "shadow": "torch.shadow",
    "spans": "spans",
    "trace_spans": "spans",
    "collectives": "collectives",
}
# Overhead in per cent for "adaptive=on".
_ADAPTIVE_PERCENT = "5"


def _pieces(text: str) -> "Iterable[Tuple[Optional[str], str]]":
    """Splits at commas; a comma within a value (a regular expression, a list) belongs to it."""
    found: "List[Tuple[Optional[str], str]]" = []
    for piece in text.split(","):
        key, equals, value = piece.partition("=")
        key = key.strip().lower()
        if equals and key in TORCH_WORDS:
            found.append((key, value.strip()))
        elif found and found[-1][0] is not None:
            last, so_far = found[-1]
            found[-1] = (last, f"{so_far},{piece.strip()}")
        elif equals:
            known = ", ".join(sorted(TORCH_WORDS))
            raise ValueError(f"{key}: not an option of torch profiling; known: {known}")
        else:
            found.append((None, piece.strip()))
    return found


def torch_settings(text: str) -> "Dict[str, str]":
    """Returns the settings for "on", "off", "RATE", "random:RATE" and "key=value", separated by
    commas."""
    text = text.strip().strip("\"'")
    if text.lower() in OFF:
        return {"torch": "off"}
    settings = {"torch": "on"}
    for key, value in _pieces(text):
        if key is None:
            if value.lower() in ON:
                continue
            if value.lower().startswith("random:"):
                value = value[len("random:") :]
            rate = float(value)
            if not 0 < rate <= 1:
                raise ValueError(f"{value}: the rate is above 0 and at most 1")
            settings["torch.rate"] = value
        elif key == "adaptive":
            lower = value.lower()
            if lower in ON:
                value = _ADAPTIVE_PERCENT
            elif lower in OFF:
                value = "0"
            settings["torch.adaptive"] = value.rstrip("%")
        else:
            settings[TORCH_WORDS[key]] = value
    return settings


class Mode:
    """The value of GSPROF: whether it selects this process, and its children."""

    def __init__(self, text: str, names: "Iterable[str]") -> None:
        word = text.strip()
        lower = word.lower()
        self.nested = lower in ("2", "nested")
        self.by_name = False
        if lower in OFF:
            self.here = False
        elif self.nested or lower in ("1", "followed", *ON):
            self.here = True
        else:
            self.by_name = True
            if lower.startswith("regex:"):
                import re

                pattern = re.compile(word[len("regex:") :])
                self.here = any(pattern.search(name) for name in names)
            else:
                self.here = word in names
