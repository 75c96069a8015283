// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    childrenOf,
    newTree,
    processName,
    sumUp,
    threadName,
    threadWeights,
    towers,
    treeOfStacks,
    weigh,
} from "../../web/src/tree";
import { selection, stacksOf } from "./stacks.mjs";

const shapeOf = ({ nodes, samples }) => ({
    tree: newTree(nodes.parent, nodes.frame, nodes.line),
    nodeOf: samples.node,
});

test("a parent that is not an earlier node makes a root", () => {
    const tree = newTree([-1, 0, 5, 3], [0, 1, 2, 3], [7, null, 0, 9]);
    assert.deepEqual(Array.from(tree.parent), [-1, 0, -1, -1]);
    assert.deepEqual(Array.from(tree.line), [7, 0, 0, 9]);
});

test("totals include the children", () => {
    const tree = newTree([-1, 0, 1, -1], [0, 1, 2, 3]);
    tree.own.set([1, 2, 4, 8]);
    assert.equal(sumUp(tree), 15);
    assert.deepEqual(Array.from(tree.total), [7, 6, 4, 8]);
});

test("children are slices of one list, the roots last", () => {
    const { from, list } = childrenOf(Int32Array.from([-1, 0, 0, -1, 1]));
    const children = (node) => Array.from(list.subarray(from[node], from[node + 1]));
    assert.deepEqual([0, 1, 2, 5].map(children), [[1, 2], [4], [], [0, 3]]);
});

test("only the part of a sample inside the range counts", () => {
    const stacks = stacksOf([
        [0, "main", 2],
        [0, "main/work", 4],
    ]);
    const shape = shapeOf(stacks);
    assert.deepEqual(weigh(shape, stacks.samples, selection()), { weight: 6, samples: 2 });
    const part = selection({ start: 1, end: 3, isPart: true });
    assert.deepEqual(weigh(shape, stacks.samples, part), { weight: 2, samples: 2 });
    assert.deepEqual(Array.from(shape.tree.own), [1, 1]);
    const counted = selection({ start: 1, end: 3, isPart: true, isTime: false });
    assert.deepEqual(weigh(shape, stacks.samples, counted), { weight: 2, samples: 1 });
});

test("thread and CPU state select samples", () => {
    const stacks = stacksOf(
        [
            [0, "main", 1],
            [1, "main/wait", 2],
            [1, "main/work", 4],
        ],
        { pids: [1, 1], onCpu: [1, 0, 1] },
    );
    const shape = shapeOf(stacks);
    assert.equal(weigh(shape, stacks.samples, selection({ thread: 1 })).weight, 6);
    assert.equal(weigh(shape, stacks.samples, selection({ onCpuOnly: true })).weight, 5);
    assert.deepEqual(Array.from(threadWeights(stacks)), [1, 6]);
    assert.deepEqual(Array.from(threadWeights(stacks, true)), [1, 4]);
});

test("each process and thread has a tower", () => {
    const stacks = stacksOf(
        [
            [0, "main/work", 1],
            [1, "main/work", 1],
            [2, "main", 1],
        ],
        { pids: [1, 1, 2] },
    );
    const frames = [...stacks.frames];
    const { tree, nodeOf } = towers(stacks, shapeOf(stacks).tree, frames);
    const path = (node) =>
        node < 0 ? [] : [...path(tree.parent[node]), frames[tree.frame[node]].func];
    assert.deepEqual(Array.from(nodeOf, path), [
        ["process 1: python3 train.py", "thread main (10)", "main", "work"],
        ["process 1: python3 train.py", "thread worker-1 (11)", "main", "work"],
        ["process 2", "thread worker-2 (12)", "main"],
    ]);
});

test("a single thread has no tower, and one thread for each process no thread bars", () => {
    const one = stacksOf([[0, "main", 1]]);
    assert.equal(towers(one, shapeOf(one).tree, []), null);
    const two = stacksOf(
        [
            [0, "main", 1],
            [1, "main", 1],
        ],
        { pids: [1, 2] },
    );
    const frames = [...two.frames];
    towers(two, shapeOf(two).tree, frames);
    assert.deepEqual(
        frames.slice(two.frames.length).map(({ type }) => type),
        ["process", "process"],
    );
});

test("unknown ids have names too", () => {
    assert.equal(processName(stacksOf([]), null), "process ?");
    assert.equal(threadName({ pid: null, tid: null, name: "" }), "thread ?");
});

test("stacks of frames become a tree", () => {
    const frame = (func, line = 1) => ({ func, file: "a.py", line, type: "Python" });
    const { tree, frames } = treeOfStacks([
        { frames: [frame("main"), frame("load")], weight: 3 },
        { frames: [frame("main"), frame("load", 2)], weight: 4 },
        { frames: [], weight: 100 },
    ]);
    assert.equal(frames.length, 3);
    assert.deepEqual(Array.from(tree.total), [7, 3, 4]);
});
