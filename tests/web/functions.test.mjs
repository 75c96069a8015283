// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Functions,
    calleesOf,
    callersOf,
    functionRows,
    matchFrames,
    matchedWeight,
} from "../../web/src/functions";
import { newTree, weigh } from "../../web/src/tree";
import { selection, stacksOf } from "./stacks.mjs";

function made(samples) {
    const stacks = stacksOf(samples);
    const tree = newTree(stacks.nodes.parent, stacks.nodes.frame);
    weigh({ tree, nodeOf: stacks.samples.node }, stacks.samples, selection());
    const functions = new Functions(stacks.frames);
    const id = (func) => functions.of[stacks.frames.findIndex((one) => one.func === func)];
    return { stacks, tree, functions, id };
}

/** Returns the paths of a tree with their totals. */
function paths(tree, frames) {
    const path = (node) =>
        node < 0 ? "" : `${path(tree.parent[node])}/${frames[tree.frame[node]].func}`;
    return Object.fromEntries(Array.from(tree.total, (total, node) => [path(node), total]));
}

test("frames of one name and file are one function", () => {
    const frame = (func, file, line) => ({ func, file, line, type: "Python" });
    const functions = new Functions([frame("f", "a", 1), frame("f", "a", 2), frame("f", "b", 1)]);
    assert.deepEqual(Array.from(functions.of), [0, 0, 1]);
    assert.deepEqual(functions.frame, [0, 2]);
});

test("recursion counts once in the total", () => {
    const { tree, functions, id } = made([
        [0, "main/fib/fib/fib", 4],
        [0, "main/fib", 1],
    ]);
    const rows = functionRows(tree, functions);
    const row = (func) => rows.find((one) => one.id === id(func));
    assert.deepEqual(row("fib"), { id: id("fib"), own: 5, total: 5 });
    assert.deepEqual(row("main"), { id: id("main"), own: 0, total: 5 });
});

test("callers and callees of a function are merged over all its calls", () => {
    const { stacks, tree, functions, id } = made([
        [0, "main/a/step/leaf", 2],
        [0, "main/b/step/leaf", 3],
        [0, "main/b/step", 1],
        [0, "main/b", 7],
    ]);
    assert.deepEqual(paths(callersOf(tree, functions, id("step")), stacks.frames), {
        "/step": 6,
        "/step/a": 2,
        "/step/a/main": 2,
        "/step/b": 4,
        "/step/b/main": 4,
    });
    assert.deepEqual(paths(calleesOf(tree, functions, id("step")), stacks.frames), {
        "/step": 6,
        "/step/leaf": 5,
    });
});

test("a search ignores case and finds names and files", () => {
    const { stacks } = made([[0, "main/Work", 1]]);
    assert.equal(matchFrames(stacks.frames, "  "), null);
    assert.deepEqual(Array.from(matchFrames(stacks.frames, "wORK")), [0, 1]);
    assert.deepEqual(Array.from(matchFrames(stacks.frames, "main.py")), [1, 0]);
});

test("nested matches count once", () => {
    const { stacks, tree } = made([
        [0, "main/step/work2", 2],
        [0, "main/step", 1],
        [0, "main", 4],
    ]);
    assert.equal(matchedWeight(tree, matchFrames(stacks.frames, "step")), 3);
    assert.equal(matchedWeight(tree, matchFrames(stacks.frames, "nothing")), 0);
});
