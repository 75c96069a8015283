# SPDX-License-Identifier: Apache-2.0
"""read.py FILE: prints as JSON what pyarrow reads from an Arrow stream: its columns, the rows of
each batch, and the values. 64-bit numbers and decimals are strings, as in read.mjs."""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from typing import Any

import pyarrow.ipc


def plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, Decimal)):
        return str(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def main() -> None:
    with pyarrow.ipc.open_stream(sys.argv[1]) as reader:
        fields = list(reader.schema)
        batches = list(reader)
    for batch in batches:
        batch.validate(full=True)
    rows = [
        [plain(batch.column(i)[row].as_py()) for i in range(len(fields))]
        for batch in batches
        for row in range(batch.num_rows)
    ]
    columns = [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "sql_type": (field.metadata or {}).get(b"sql_type", b"").decode(),
        }
        for field in fields
    ]
    print(json.dumps({"columns": columns, "batches": [b.num_rows for b in batches], "rows": rows}))


main()
