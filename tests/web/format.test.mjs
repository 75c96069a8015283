// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../web/src/format";

/** Calls a function for each input and compares with the expected text. */
function each(call, pairs) {
    for (const [input, text] of pairs) assert.equal(call(input), text, String(input));
}

test("seconds have three figures and a suitable unit", () => {
    each(format.seconds, [
        [null, "\u2013"],
        [NaN, "\u2013"],
        [0, "0 s"],
        [1.2345e-8, "12.3 ns"],
        [4.5e-5, "45 \u00b5s"],
        [0.0123456, "12.3 ms"],
        [-1.5, "\u22121.5 s"],
        [119, "119 s"],
        [125, "2 min 05 s"],
        [3725, "1 h 02 min"],
    ]);
});

test("bytes have binary units", () => {
    each(format.bytes, [
        [undefined, "\u2013"],
        [1023, "1,023 B"],
        [1536, "1.5 KiB"],
        [-(2 ** 31), "\u22122 GiB"],
    ]);
});

test("shares are percent, changes have a sign", () => {
    each(format.percent, [
        [0.00123, "0.12 %"],
        [0.1234, "12.3 %"],
        [1, "100 %"],
        [null, "\u2013"],
    ]);
    each(format.change, [
        [0.041, "+4.10 %"],
        [-0.5, "\u221250.0 %"],
        [0, "\u00b10.00 %"],
        [1e6, "from ~0"],
        [null, "\u2013"],
    ]);
});

test("values have the unit of the document", () => {
    assert.equal(format.value(2, "s"), "2 s");
    assert.equal(format.value(2048, "bytes/s"), "2 KiB/s");
    assert.equal(format.value(1.23456, ""), "1.23");
    assert.equal(format.value(1.23456, "W"), "1.23 W");
    assert.equal(format.value(1e20, "W"), "1.00e+20 W");
    assert.equal(format.value(null, "W"), "\u2013");
});

test("times are as precise as the marks of their axis", () => {
    assert.equal(format.moment(1.25, 0.01), "1.25 s");
    assert.equal(format.moment(59, 1), "59 s");
    assert.equal(format.moment(75, 1), "1:15");
    assert.equal(format.moment(75.5, 0.5), "1:15.5");
    assert.equal(format.moment(3661, 1), "1:01:01");
});

test("quantiles are interpolated", () => {
    assert.equal(format.quantile([], 0.5), null);
    assert.equal(format.quantile([7], 0.9), 7);
    assert.equal(format.quantile([0, 10], 0.25), 2.5);
    assert.equal(format.quantile([1, 2, 3], 0.5), 2);
});

test("steps of axes ascend", () => {
    for (const steps of [format.TIME_STEPS, format.BYTE_STEPS]) {
        assert.ok(steps.every((step, i) => i === 0 || step > steps[i - 1]));
    }
});
