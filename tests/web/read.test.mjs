// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { endOfTime, fault, parseDocument } from "../../web/src/read";
import { stacksOf } from "./stacks.mjs";

const report = (members = {}) => ({
    format: "gsprof-report",
    version: 1,
    kind: "run",
    title: "train.py",
    gsprof: "0.1.0",
    start_ns: null,
    duration_s: null,
    facts: [],
    cards: [],
    verdict: [],
    charts: [],
    ...members,
});
const parse = (members) => parseDocument(JSON.stringify(report(members)));
const series = (t, v) => [
    { id: "cpu", title: "CPU", unit: "%", help: null, series: [{ name: "x", t, v }] },
];

test("a document of this version is read", () => {
    assert.equal(parse({}).title, "train.py");
    const stacks = stacksOf([[0, "main", 1]]);
    assert.deepEqual(parse({ stacks }).stacks, stacks);
    assert.equal(parse({ later: 1 }).kind, "run");
});

test("other documents are refused with a reason", () => {
    for (const [text, message] of [
        ["", /not valid JSON/],
        ["{", /not valid JSON/],
        ["null", /not a gsprof report/],
        ["[]", /not a gsprof report/],
        [JSON.stringify({ format: "other" }), /not a gsprof report/],
        [JSON.stringify(report({ version: 2 })), /has version 2, .* supports version 1$/],
        [JSON.stringify(report({ kind: "toString" })), /unknown kind "toString"$/],
        [JSON.stringify(report({ kind: "compare" })), /malformed: compare is missing$/],
    ]) {
        assert.throws(() => parseDocument(text), message);
    }
});

test("a malformed member is named", () => {
    const stacks = stacksOf([[0, "main", 1]]);
    const broken = (members) => ({
        stacks: { ...stacks, samples: { ...stacks.samples, ...members } },
    });
    for (const [members, message] of [
        [{ title: 3 }, /malformed: title is not a string$/],
        [{ facts: undefined }, /malformed: facts is missing$/],
        [{ facts: {} }, /malformed: facts is not an array$/],
        [{ facts: [null] }, /malformed: facts\[0\] is not an object$/],
        [{ duration_s: "1" }, /malformed: duration_s is not a number$/],
        [broken({ node: ["0"] }), /malformed: stacks\.samples\.node\[0\] is not a number$/],
        [broken({ node: [0, 0] }), /stacks\.samples\.node has 2 entries instead of 1$/],
        [{ charts: series([0], []) }, /charts\[0\]\.series\[0\]\.v has 0 entries instead of 1$/],
    ]) {
        assert.throws(() => parse(members), message);
    }
});

test("null is allowed only where the schema allows it", () => {
    assert.equal(fault({ pid: null, name: "x" }, "Process"), "");
    assert.equal(fault({ pid: 1, name: null }, "Process"), ".name is not a string");
    assert.equal(fault([1, null], "n0*"), "");
    assert.equal(fault([1, null], "n*"), "[1] is not a number");
});

test("the time axis ends with the last event", () => {
    assert.equal(endOfTime(report()), 1);
    assert.equal(endOfTime(report({ duration_s: 5 })), 5);
    assert.equal(endOfTime(report({ duration_s: 5, charts: series([0, 7], [1, 2]) })), 7);
    const steps = { step: [0], t: [6], duration_s: [3], rank: [null], seen: 1 };
    assert.equal(endOfTime(report({ duration_s: 5, steps })), 9);
});
