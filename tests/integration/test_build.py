# SPDX-License-Identifier: Apache-2.0
"""The build: its bytes do not depend on the folder, and its bill of materials is complete."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Dict

import pytest

from support import BUILD, GSPROF, PACKAGE, ROOT

REQUIRED = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"}


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sbom"] = module
    spec.loader.exec_module(module)
    return module


def make(path: Path) -> Dict[str, Any]:
    subprocess.run([sys.executable, str(ROOT / "tools" / "sbom.py"), str(BUILD), path], check=True)
    made: Dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return made


def test_no_file_has_the_name_of_the_build_folder() -> None:
    """Debugging information and messages have relative names (see make reproducible)."""
    # Not ROOT alone, which may be as short as "/gsprof".
    for path in (GSPROF, *PACKAGE.glob("gsprof/*.so")):
        data = path.read_bytes()
        for folder in (BUILD, ROOT / "src"):
            at = data.find(str(folder).encode())
            assert at < 0, (path, data[max(0, at - 40) : at + 80])


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf")
def test_sbom_has_the_required_fields(tmp_path: Path) -> None:
    made = make(tmp_path / "a.json")
    assert REQUIRED <= set(made) and made["spdxVersion"] == "SPDX-2.3"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["creationInfo"]["created"])
    assert made["creationInfo"]["creators"]
    ids = [one["SPDXID"] for one in (*made["packages"], *made["files"])]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    for one in made["packages"]:
        assert {"name", "SPDXID", "downloadLocation", "licenseDeclared"} <= set(one)
        assert one["versionInfo"] and one["licenseDeclared"] != "NOASSERTION"
    for one in made["files"]:
        assert {"SHA1", "SHA256"} == {check["algorithm"] for check in one["checksums"]}
    known = {*ids, "SPDXRef-DOCUMENT"}
    ends = [(one["spdxElementId"], one["relatedSpdxElement"]) for one in made["relationships"]]
    assert all(a in known and b in known for a, b in ends)
    related = {one for pair in ends for one in pair}
    assert set(ids) <= related, "each part has a relationship"
    make(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_sbom_lists_every_dependency(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new dependency, library or download without an entry is an error."""
    tool = load_tool()
    names = tool.dependencies()
    assert {"libelf", "iberty", "yyjson", "python3"} <= set(names)
    made = tool.document(BUILD)
    found = {one["name"] for one in made["packages"]}
    assert {"uplot", "duckdb", "libcurl"} <= found
    assert len([name for name in found if "node-bindings" in name]) == 1, "of one machine"
    for name in names:
        assert not tool.LIBRARIES[name].licence or tool.LIBRARIES[name].name in found
    monkeypatch.setattr(tool, "dependencies", lambda: [*names, "libnew"])
    with pytest.raises(tool.Unlisted, match="libnew"):
        tool.document(BUILD)
    monkeypatch.setattr(tool, "dependencies", lambda: names)
    monkeypatch.setattr(tool, "needed", lambda path: {"libnew.so.1"})
    with pytest.raises(tool.Unlisted, match="libnew.so.1"):
        tool.document(BUILD)
    monkeypatch.undo()
    monkeypatch.setattr(tool, "DOWNLOADS", {"get-web.sh"})
    with pytest.raises(tool.Unlisted, match="get-duckdb.sh"):
        tool.document(BUILD)
