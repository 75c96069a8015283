// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Axis,
    ROW,
    Rows,
    barNear,
    clip,
    firstBar,
    nextMatch,
    overlappingBar,
    siblingBar,
} from "../../web/src/lanes_geometry";
import { levelOf } from "../../web/src/layout";

/** Two rows: 0 to 4 and 6 to 10 above 0 to 1, 1 to 4 and 8 to 9. */
const level = (...bars) => levelOf(bars.map(([item, start, end]) => ({ item, start, end })));
const layout = {
    levels: [level([0, 0, 4], [1, 6, 10]), level([2, 0, 1], [3, 1, 4], [4, 8, 9])],
    start: 0,
    end: 10,
};

test("an axis maps values to pixels and back", () => {
    const axis = new Axis(74, 200, 10, 20);
    assert.equal(axis.offset(15), 100);
    assert.equal(axis.valueAt(74 + 100), 15);
    assert.deepEqual(
        [73, 74, 274, 275].map((x) => axis.has(x)),
        [false, true, true, false],
    );
});

test("rows are found by height, in both directions", () => {
    const rows = new Rows(3, 24, false, (row) => row === 1);
    assert.deepEqual(
        [0, 1, 2].map((row) => rows.top(row)),
        [24, 65, 84],
    );
    assert.equal(rows.at(24), 0);
    assert.equal(rows.at(50), -1);
    assert.equal(rows.at(65 + ROW - 1), 1);
    const upward = new Rows(2, 0, true, () => false);
    assert.ok(upward.top(0) > upward.top(1));
    assert.equal(upward.at(upward.top(1)), 1);
});

test("a bar is hit up to a small distance beside it", () => {
    const [row] = layout.levels;
    assert.equal(barNear(row, 2, 0.1), 0);
    assert.equal(barNear(row, 4.05, 0.1), 0);
    assert.equal(barNear(row, 5, 0.1), -1);
    assert.equal(barNear(row, 5.95, 0.1), 1);
    assert.equal(barNear(row, 10.05, 0.1), 1);
    assert.equal(barNear(row, 10.2, 0.1), -1);
});

test("the first bar is the first of the visible range", () => {
    assert.deepEqual(firstBar(layout, 0, 10), { row: 0, i: 0 });
    assert.deepEqual(firstBar(layout, 5, 10), { row: 0, i: 1 });
    assert.equal(firstBar(layout, 4.5, 5), null);
});

test("up and down go to the bar that overlaps the most", () => {
    assert.deepEqual(overlappingBar(layout, { row: 0, i: 0 }, 1), { row: 1, i: 1 });
    assert.deepEqual(overlappingBar(layout, { row: 1, i: 2 }, 0), { row: 0, i: 1 });
    assert.equal(overlappingBar(layout, { row: 1, i: 2 }, 2), null);
    assert.equal(overlappingBar(layout, { row: 0, i: 0 }, -1), null);
});

test("left and right stop at the ends of a row", () => {
    assert.deepEqual(siblingBar(layout, { row: 1, i: 1 }, 1), { row: 1, i: 2 });
    assert.deepEqual(siblingBar(layout, { row: 1, i: 2 }, 1), { row: 1, i: 2 });
    assert.deepEqual(siblingBar(layout, { row: 1, i: 0 }, -1), { row: 1, i: 0 });
});

test("matches are visited row by row and around", () => {
    const next = (bar, step) => nextMatch(layout, bar, step, (item) => item === 1 || item === 3);
    assert.deepEqual(next(null, 1), { row: 0, i: 1 });
    assert.deepEqual(next({ row: 0, i: 1 }, 1), { row: 1, i: 1 });
    assert.deepEqual(next({ row: 1, i: 1 }, 1), { row: 0, i: 1 });
    assert.deepEqual(next(null, -1), { row: 1, i: 1 });
    assert.deepEqual(next({ row: 0, i: 1 }, -1), { row: 1, i: 1 });
    assert.equal(
        nextMatch(layout, null, 1, () => false),
        null,
    );
});

test("a text is cut to its width, never inside a character", () => {
    assert.equal(clip("forward", 200), "forward");
    assert.equal(clip("forward", 30), "for\u2026");
    assert.equal(clip("forward", 10), "");
    assert.equal(clip("ab\u{1f525}cdef", 30), "ab\u2026");
});
