// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { FlameModel } from "../../web/src/flame_model";
import { AxisRange } from "../../web/src/range";
import { rowsOf, stacksOf } from "./stacks.mjs";

const SAMPLES = [
    [0, "main/load", 1],
    [0, "main/train", 3],
    [1, "wait", 8],
];

function newModel(options = { pids: [1, 1], onCpu: [1, 1, 0] }, samples = SAMPLES) {
    const stacks = stacksOf(samples, options);
    const range = new AxisRange(10);
    const model = new FlameModel(stacks, range);
    model.weigh();
    return { model, range };
}

test("all threads are shown in towers, one thread without", () => {
    const { model } = newModel();
    assert.equal(model.total, 12);
    assert.equal(model.frames[model.tree.frame[0]].func, "thread main (10)");
    model.thread = 0;
    model.weigh();
    assert.equal(model.total, 4);
    assert.equal(model.frames[model.tree.frame[0]].func, "main");
});

test("the time order shows the thread that used the CPU the most", () => {
    const { model } = newModel();
    model.mode = "time";
    model.weigh();
    assert.equal(model.summary(), "4 s in 2 samples \u00b7 busiest thread: main");
    const [, functions] = rowsOf(model.timeOrder(), model.tree, model.frames);
    assert.deepEqual(functions, [
        ["load", 0, 1],
        ["train", 1, 4],
    ]);
    model.thread = 1;
    model.weigh();
    assert.equal(model.summary(), "8 s in 1 sample");
});

test("the time order needs times in seconds", () => {
    assert.ok(newModel().model.hasTimes);
    assert.ok(!newModel({ pids: [1, 1], unit: "samples" }).model.hasTimes);
    const stacks = stacksOf(SAMPLES, { pids: [1, 1] });
    delete stacks.samples.t;
    assert.ok(!new FlameModel(stacks, new AxisRange(1)).hasTimes);
});

test("range and CPU state limit the weights", () => {
    const { model, range } = newModel();
    range.set(0, 2);
    model.weigh();
    assert.equal(model.summary(), "4 s in 3 samples \u00b7 selected time range only");
    model.onCpuOnly = true;
    model.weigh();
    assert.equal(model.total, 2);
});

test("a search counts functions and their share, without names of threads", () => {
    const { model } = newModel();
    assert.equal(model.matchSummary(), "");
    model.search("main");
    assert.equal(model.matchSummary(), "1 function, 33.3 %");
    model.search("ai");
    assert.equal(model.matchSummary(), "3 functions, 100 %");
});

test("the sandwich starts with the function that has the most self weight", () => {
    const { model } = newModel();
    model.mode = "sandwich";
    model.choose();
    assert.equal(model.frameOf(model.chosen).func, "wait");
    model.thread = 0;
    model.weigh();
    assert.equal(model.callers().parent.length, 0);
    model.chosen = -1;
    model.choose();
    assert.equal(model.frameOf(model.chosen).func, "train");
    assert.equal(model.callers().parent.length, 2);
    assert.equal(model.callees().parent.length, 1);
});

test("threads are grouped by process, the heaviest first", () => {
    assert.deepEqual(newModel().model.threadGroups(), [
        {
            process: "",
            threads: [
                { index: 1, label: "worker-1 (11), 66.7 %" },
                { index: 0, label: "main (10), 33.3 %" },
            ],
        },
    ]);
    const { model } = newModel({ pids: [1, 2] });
    assert.deepEqual(
        model.threadGroups().map(({ process }) => process),
        ["process 2", "process 1: python3 train.py"],
    );
});

test("a graph without bars has a reason", () => {
    const { model, range } = newModel();
    range.set(9, 10);
    model.weigh();
    assert.equal(model.total, 0);
    assert.match(model.emptyReason(), /^The selection has no samples/);
    assert.match(newModel({ pids: [] }, []).model.emptyReason(), /^There are no samples/);
});
