# SPDX-License-Identifier: Apache-2.0
"""gsprof.query as rows and as Arrow: query_arrow.py GOLDEN. Also runs without NumPy."""

import json
import os
import random
import sys

import gsprof
from gsprof import _arrow, _recorder, errors

KINDS = """
SELECT * FROM (SELECT 1::TINYINT a, 2::BIGINT b, 3::HUGEINT c, 1.5::FLOAT d, 'x' e, [1, 2] f,
    {'a': 1} g, MAP {'k': 1} h, true i, NULL j, 1.25::DECIMAL(5, 2) k, DATE '2020-01-01' l,
    '{"a": 1}'::JSON m, 'a'::ENUM('a', 'b') n, 18446744073709551615::UBIGINT o, (-5)::HUGEINT p)
UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL
"""
MANY = (
    "SELECT i, 'n' || i AS s, CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS n FROM range(70000) t(i)"
)


def check_rows():
    found = gsprof.query(KINDS)
    printed = _recorder.run("query", "--format", "json", "--", str(os.getpid()), KINDS)
    assert found == json.loads(printed) and found.to_list() == list(found), found
    assert found[-1]["a"] is None and found[:1][0]["e"] == "x"
    empty = gsprof.query("SELECT 1 AS x WHERE false")
    assert not empty and empty.columns == ["x"]
    return found, empty


def check_damage(golden):
    """Any change of the bytes gives a result or MalformedData."""
    chance = random.Random(5)
    for length in range(0, len(golden), 7):
        try:
            _arrow.Stream(golden[:length]).rows()
        except errors.MalformedData:
            pass
    for _ in range(400):
        data = bytearray(golden)
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            _arrow.Stream(bytes(data)).rows()
        except errors.MalformedData:
            pass


def check_arrow(found, empty):
    import pyarrow

    table = pyarrow.table(found)
    table.validate(full=True)
    assert table.column_names == found.columns and table.num_rows == 2
    assert table.column("n").to_pylist() == ["a", None]
    assert table.schema.field("c").metadata == {b"sql_type": b"HUGEINT"}
    assert pyarrow.table(empty).num_rows == 0
    many = gsprof.query(MANY)
    for _ in range(3):
        table = pyarrow.table(many)
        table.validate(full=True)
    assert table.to_pylist() == many
    # Exported columns outlive the result; columns not imported are freed.
    column = table.column("s")
    many.__arrow_c_stream__()
    before = resident()
    for _ in range(200):
        many.__arrow_c_stream__()
        pyarrow.RecordBatchReader.from_stream(many).read_next_batch()
    assert resident() - before < 64 << 20, "exporting leaks"
    del many, table
    assert column[69999].as_py() == "n69999"
    return column


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


results = check_rows()
with open(sys.argv[1], "rb") as golden_file:
    check_damage(golden_file.read())
kept = check_arrow(*results) if "--pyarrow" in sys.argv else None
print("fine")
