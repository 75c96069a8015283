# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the documentation site: `make docs` builds it into build/docs.

The source folder is the repository, so that links between docs/ and CONTRIBUTING.md work on the
site as they do in a checkout."""

import re
from pathlib import Path
from typing import Any, List

ROOT = Path(__file__).resolve().parent.parent


def project_version() -> str:
    match = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))
    return match[1] if match else ""


project = "gsprof"
copyright = "the gsprof authors, Apache-2.0"
version = release = project_version()

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
exclude_patterns: List[str] = [
    name.name + "/**" for name in ROOT.iterdir() if name.is_dir() and name.name != "docs"
]

# Anchors as on the usual code hosts: "How it works" is #how-it-works.
myst_heading_anchors = 4
myst_enable_extensions: List[str] = []
# Generated pages begin some sections one level deeper.
suppress_warnings = ["myst.header"]

html_theme = "sphinx_rtd_theme"
html_title = "gsprof"
html_static_path: List[str] = ["site"]
html_css_files = ["gsprof.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = ""
# Browsers do not let a page from file:// read its neighbours, which excerpts would need.
html_show_search_summary = False
html_extra_path = ["site/root"]
html_theme_options = {"collapse_navigation": True, "navigation_depth": 3}
highlight_language = "none"

# Pages that list other pages. Their links are also the navigation of the site.
INDEXES = {"docs/index", "docs/formats", "docs/cli/gsprof"}
LISTED = re.compile(r"^(?:- |\| )\[[^\]]*\]\(([^)#]+)\.md\)", re.MULTILINE)


def add_navigation(app: Any, name: str, source: List[str]) -> None:
    """Appends a hidden table of contents for the pages that each section of an index lists."""
    if name not in INDEXES:
        return
    parts = []
    for section in re.split(r"^(?=## )", source[0], flags=re.MULTILINE):
        pages = LISTED.findall(section)
        if pages:
            title = re.match(r"## (.*)", section)
            caption = f":caption: {title[1]}\n" if title else ""
            parts.append("```{toctree}\n:hidden:\n" + caption + "\n".join([""] + pages) + "\n```\n")
    source[0] += "\n" + "\n".join(parts)


def setup(app: Any) -> None:
    app.connect("source-read", add_navigation)
