// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { AxisRange } from "../../web/src/range";

const ends = ({ start, end }) => [start, end];

test("a range stays inside its axis", () => {
    const range = new AxisRange(10);
    assert.ok(range.isWhole);
    range.set(8, 14);
    assert.deepEqual(ends(range), [4, 10]);
    range.set(-3, 2);
    assert.deepEqual(ends(range), [0, 5]);
    range.set(-100, 100);
    assert.ok(range.isWhole);
});

test("an empty or reversed range is ignored", () => {
    const range = new AxisRange(10);
    for (const [start, end] of [
        [3, 3],
        [5, 4],
        [NaN, 4],
    ]) {
        range.set(start, end);
        assert.ok(range.isWhole);
    }
});

test("a range has a shortest length", () => {
    const range = new AxisRange(10, 0.5);
    range.set(2, 2.1);
    assert.deepEqual(ends(range), [2, 2.5]);
});

test("zoom keeps the position of a value, and pan moves by a share", () => {
    const range = new AxisRange(100);
    range.zoom(0.5, 20);
    assert.deepEqual(ends(range), [10, 60]);
    range.pan(0.5);
    assert.deepEqual(ends(range), [35, 85]);
    range.zoom(0.3);
    range.zoom(1 / 0.3);
    range.zoom(2);
    assert.ok(range.isWhole);
});

test("listeners are called only for a change", () => {
    const range = new AxisRange(10);
    let changes = 0;
    let points = 0;
    range.listen(() => changes++);
    range.listenCursor(() => points++);
    range.reset();
    range.set(1, 2);
    range.set(1, 2);
    range.point(3);
    range.point(3);
    range.point(null);
    assert.deepEqual([changes, points], [1, 2]);
});
