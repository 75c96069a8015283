# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook in its own kernel, as Jupyter does: notebook.py [CELL]...

Prints the output of the cells as JSON: a list of [kind, text] for each."""

import json
import os
import sys

import nbclient
import nbformat

HERE = os.path.dirname(os.path.abspath(__file__))
CELLS = ["import notebook_work", "notebook_work.run(20)"]


def main():
    v4 = nbformat.v4
    sources = [f"import sys; sys.path.insert(0, {HERE!r})", *(sys.argv[1:] or CELLS)]
    book = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    nbclient.NotebookClient(book, timeout=600, allow_errors=True).execute()
    outputs = []
    for cell in book.cells[1:]:
        shown = []
        for output in cell.outputs:
            shown += [[kind, "".join(text)] for kind, text in output.get("data", {}).items()]
            shown += [[output["name"], output["text"]]] if "name" in output else []
            shown += [["error", output["ename"]]] if "ename" in output else []
        outputs.append(shown)
    print(json.dumps(outputs))


if __name__ == "__main__":
    main()
