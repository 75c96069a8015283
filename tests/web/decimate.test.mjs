// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { decimate, lowerBound } from "../../web/src/decimate";

test("lowerBound returns the first index that is not below", () => {
    const list = [1, 2, 2, 5];
    assert.deepEqual(
        [0, 1, 2, 3, 5, 6].map((t) => lowerBound(list, t)),
        [0, 0, 1, 3, 3, 4],
    );
    assert.equal(lowerBound(list, 0, 2), 2);
    assert.equal(lowerBound([], 1), 0);
});

test("few points are joined on the union of their times", () => {
    const lines = [
        { t: [0, 1, 2], v: [10, null, 12] },
        { t: [1, 3], v: [1, 3] },
    ];
    const { x, ys, thinned } = decimate(lines, 0, 4, 100);
    assert.equal(thinned, false);
    assert.deepEqual(x, [0, 1, 2, 3]);
    assert.deepEqual(Array.from(ys[0]), [10, null, 12, undefined]);
    assert.deepEqual(Array.from(ys[1]), [undefined, 1, undefined, 3]);
});

test("points next to the range are included, those farther away are not", () => {
    const line = { t: [0, 1, 2, 3, 4, 5, 6], v: [0, 1, 2, 3, 4, 5, 6] };
    assert.deepEqual(decimate([line], 2.5, 3.5, 100).x, [2, 3, 4, 5]);
});

test("many points keep the peaks of each column in their order", () => {
    const n = 10000;
    const t = Array.from({ length: n }, (_, i) => i);
    const v = t.map(() => 1);
    v[1234] = 99;
    v[1235] = -99;
    const { x, ys, thinned } = decimate([{ t, v }], 0, n, 100);
    assert.equal(thinned, true);
    assert.equal(x.length, 200);
    const at = ys[0].indexOf(99);
    assert.equal(ys[0][at + 1], -99);
    assert.equal(Math.floor(x[at] / 100), 12);
});

test("a column without values is a gap", () => {
    const n = 10000;
    const t = Array.from({ length: n }, (_, i) => i);
    const v = t.map((i) => (i >= 5000 && i < 5100 ? null : 1));
    const { ys } = decimate([{ t, v }], 0, n, 100);
    assert.equal(ys[0][100], null);
    assert.equal(ys[0].filter((one) => one === null).length, 1);
});
