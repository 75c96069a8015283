// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { heaviestFirst, levelOf, packRows, timeOrder } from "../../web/src/layout";
import { newTree, weigh } from "../../web/src/tree";
import { rowsOf, selection, stacksOf } from "./stacks.mjs";

function weighed(stacks) {
    const tree = newTree(stacks.nodes.parent, stacks.nodes.frame);
    weigh({ tree, nodeOf: stacks.samples.node }, stacks.samples, selection());
    return tree;
}

test("the heaviest sibling is first, and children are below their parents", () => {
    const stacks = stacksOf([
        [0, "main/light", 1],
        [0, "main/heavy/leaf", 3],
        [0, "main/heavy", 1],
        [0, "other", 2],
    ]);
    const tree = weighed(stacks);
    const layout = heaviestFirst(tree);
    assert.equal(layout.end, 7);
    assert.deepEqual(rowsOf(layout, tree, stacks.frames), [
        [
            ["main", 0, 5],
            ["other", 5, 7],
        ],
        [
            ["heavy", 0, 4],
            ["light", 4, 5],
        ],
        [["leaf", 0, 3]],
    ]);
});

test("nodes without weight have no bar, and other widths can be given", () => {
    const tree = weighed(
        stacksOf([
            [0, "a", 1],
            [0, "b", 2],
        ]),
    );
    const layout = heaviestFirst(tree, Float64Array.of(5, 0));
    assert.deepEqual(
        layout.levels.map(({ item }) => Array.from(item)),
        [[0]],
    );
    assert.deepEqual(heaviestFirst(newTree([], [])), { levels: [], start: 0, end: 0 });
});

test("equal calls of successive samples are one bar", () => {
    const stacks = stacksOf([
        [0, "main/work", 1],
        [0, "main/work", 1],
        [0, "main/rest", 1],
        [0, "main/work", 1],
    ]);
    const tree = weighed(stacks);
    const layout = timeOrder(tree, stacks.samples, selection({ thread: 0 }), 10);
    assert.equal(layout.end, 10);
    assert.deepEqual(rowsOf(layout, tree, stacks.frames), [
        [["main", 0, 4]],
        [
            ["work", 0, 2],
            ["rest", 2, 3],
            ["work", 3, 4],
        ],
    ]);
});

test("gaps of more than half a sample remain, and late samples do not overlap", () => {
    const stacks = stacksOf([
        [0, "main", 1],
        [0, "main", 1],
        [0, "main", 1],
    ]);
    stacks.samples.t = [1, 2.3, 5];
    const tree = weighed(stacks);
    const rows = () => {
        const layout = timeOrder(tree, stacks.samples, selection({ thread: 0 }), 5);
        return rowsOf(layout, tree, stacks.frames)[0].map(([, start, end]) => [start, end]);
    };
    assert.deepEqual(rows(), [
        [0, 2.3],
        [4, 5],
    ]);
    stacks.samples.weight = [1, 1, 100];
    assert.deepEqual(rows(), [[0, 5]]);
});

test("the time order has only the selected thread", () => {
    const stacks = stacksOf(
        [
            [0, "main", 1],
            [1, "wait", 1],
        ],
        { pids: [1, 1] },
    );
    const tree = weighed(stacks);
    const layout = timeOrder(tree, stacks.samples, selection({ thread: 1 }), 1);
    assert.deepEqual(rowsOf(layout, tree, stacks.frames), [[["wait", 0, 1]]]);
});

test("bars are packed into rows without overlaps", () => {
    const bars = [
        { item: 2, start: 4, end: 6 },
        { item: 0, start: 0, end: 5 },
        { item: 1, start: 4.9, end: 8.9 },
    ];
    const rows = packRows(bars);
    assert.deepEqual(
        rows.map((row) => row.map(({ item }) => item)),
        [[0, 1], [2]],
    );
    // A small overlap is cut off.
    assert.equal(rows[0][1].start, 5);
    assert.deepEqual(Array.from(levelOf(rows[0]).start), [0, 5]);
});
