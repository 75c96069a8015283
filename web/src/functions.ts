// SPDX-License-Identifier: Apache-2.0
// Functions of a call tree: self and total weight, callers, callees, search.
import { TreeBuilder, childrenOf } from "./tree";
import type { CallTree, NamedFrame } from "./tree";

/** Groups frames by name and file, whatever their lines. */
export class Functions {
    /** The function of each frame. */
    readonly of: Int32Array;
    /** The first frame of each function. */
    readonly frame: number[] = [];

    constructor(frames: NamedFrame[]) {
        const seen = new Map<string, number>();
        this.of = Int32Array.from(frames, (frame, i) => {
            const key = `${frame.file}\0${frame.func}`;
            let found = seen.get(key);
            if (found === undefined) {
                found = this.frame.length;
                seen.set(key, found);
                this.frame.push(i);
            }
            return found;
        });
    }
}

export interface FunctionRow {
    id: number;
    own: number;
    total: number;
}

/** Returns the self and total weight of each function. Recursion counts once. */
export function functionRows(tree: CallTree, functions: Functions): FunctionRow[] {
    const rows = functions.frame.map((_, id) => ({ id, own: 0, total: 0 }));
    const outermost = outermostOf(tree, functions);
    for (let i = 0; i < tree.parent.length; i++) {
        const row = rows[functions.of[tree.frame[i]]];
        if (!row) continue;
        row.own += tree.own[i];
        if (outermost[i]) row.total += tree.total[i];
    }
    return rows.filter((row) => row.total > 0);
}

const outermostByTree = new WeakMap<CallTree, Uint8Array>();

/** Marks the nodes that have no caller of the same function. */
function outermostOf(tree: CallTree, functions: Functions): Uint8Array {
    const before = outermostByTree.get(tree);
    if (before) return before;
    const n = tree.parent.length;
    const result = new Uint8Array(n);
    const { from, list } = childrenOf(tree.parent);
    const open = new Int32Array(functions.frame.length);
    // Depth first without recursion: stacks can be thousands of frames deep.
    const path: number[] = [];
    const next: number[] = [from[n]];
    while (next.length) {
        const node = path.length ? path[path.length - 1] : n;
        const at = next[next.length - 1]++;
        if (at >= from[node + 1]) {
            next.pop();
            if (path.length) open[functions.of[tree.frame[path.pop()!]]]--;
            continue;
        }
        const child = list[at];
        const id = functions.of[tree.frame[child]];
        result[child] = open[id]++ === 0 ? 1 : 0;
        path.push(child);
        next.push(from[child]);
    }
    outermostByTree.set(tree, result);
    return result;
}

/** Returns the callees of a function, merged over all its callers. The function is the root. */
export function calleesOf(tree: CallTree, functions: Functions, id: number): CallTree {
    const builder = new TreeBuilder();
    const outermost = outermostOf(tree, functions);
    const merged = new Int32Array(tree.parent.length).fill(-1);
    for (let i = 0; i < tree.parent.length; i++) {
        const up = tree.parent[i] >= 0 ? merged[tree.parent[i]] : -1;
        if (up >= 0) merged[i] = builder.node(up, tree.frame[i]);
        else if (outermost[i] && functions.of[tree.frame[i]] === id) {
            merged[i] = builder.node(-1, functions.frame[id]);
        }
        if (merged[i] >= 0) builder.own[merged[i]] += tree.own[i];
    }
    return builder.build();
}

/** Returns the callers of a function. The function is the root, and its callers are below it. */
export function callersOf(tree: CallTree, functions: Functions, id: number): CallTree {
    const builder = new TreeBuilder();
    const outermost = outermostOf(tree, functions);
    for (let i = 0; i < tree.parent.length; i++) {
        if (!outermost[i] || functions.of[tree.frame[i]] !== id || !tree.total[i]) continue;
        let node = builder.node(-1, functions.frame[id]);
        for (let up = tree.parent[i]; up >= 0; up = tree.parent[up]) {
            node = builder.node(node, tree.frame[up]);
        }
        builder.own[node] += tree.total[i];
    }
    return builder.build();
}

/** Marks the frames whose name or file contains a text; returns null for an empty text. */
export function matchFrames(frames: NamedFrame[], text: string): Uint8Array | null {
    const needle = text.trim().toLowerCase();
    if (!needle) return null;
    return Uint8Array.from(frames, (frame) =>
        `${frame.func}\n${frame.file}`.toLowerCase().includes(needle) ? 1 : 0,
    );
}

/** Returns the weight of all samples with a marked frame on their stack, each counted once. */
export function matchedWeight(tree: CallTree, marked: Uint8Array): number {
    const below = new Uint8Array(tree.parent.length);
    let sum = 0;
    for (let i = 0; i < tree.parent.length; i++) {
        const up = tree.parent[i];
        const inside = up >= 0 && below[up] === 1;
        if (!inside && marked[tree.frame[i]]) sum += tree.total[i];
        below[i] = inside || marked[tree.frame[i]] ? 1 : 0;
    }
    return sum;
}
