// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOf, place, placeBeside, shortFile } from "../../web/src/section";
import { csvCell } from "../../web/src/table";

const frame = (members = {}) => ({ func: "f", file: "/a/b/c/m.py", line: 3, ...members });

test("a location has the given line, else the heaviest, else the first", () => {
    assert.equal(place(frame({ hot_line: 5 }), 7), "/a/b/c/m.py:7");
    assert.equal(place(frame({ hot_line: 5 }), 0), "/a/b/c/m.py:5");
    assert.equal(place(frame()), "/a/b/c/m.py:3");
    assert.equal(place(frame({ line: null })), "/a/b/c/m.py");
    assert.equal(place(frame({ file: "" })), "");
    assert.equal(place(undefined), "");
});

test("a library without symbols is not named twice", () => {
    const library = { func: "libc.so", file: "libc.so", line: null };
    assert.equal(placeBeside(library), "");
    assert.equal(placeBeside({ ...library, file: "/lib/libc.so" }), "/lib/libc.so");
    assert.equal(nameOf({ ...library, func: "" }), "(no name)");
});

test("long paths are shortened", () => {
    assert.equal(shortFile("a/b.py"), "a/b.py");
    assert.equal(shortFile("/opt/x/y/z/m.py:3"), "\u2026/y/z/m.py:3");
});

test("CSV cells are quoted, and formulas are marked as text", () => {
    assert.deepEqual(["a", 'a"b', "a,b", "a\nb", "=1+1", "-x", -1, null, undefined].map(csvCell), [
        "a",
        '"a""b"',
        '"a,b"',
        '"a\nb"',
        "'=1+1",
        "'-x",
        "-1",
        "",
        "",
    ]);
});
