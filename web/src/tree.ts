// SPDX-License-Identifier: Apache-2.0
// Call trees in columns, and the weights that the selected samples give them.
import type { Frame, Samples, Stacks, Thread } from "./document";

/** A function of the document, or the name of a process or thread. */
export interface NamedFrame extends Omit<Frame, "type"> {
    type: Frame["type"] | "process" | "thread";
}

/** The index of a parent is smaller than those of its children; -1 is the parent of a root. */
export interface CallTree {
    parent: Int32Array;
    frame: Int32Array;
    /** The heaviest line of each node; 0 if unknown. */
    line: Int32Array;
    own: Float64Array;
    total: Float64Array;
}

export function newTree(
    parent: ArrayLike<number>,
    frame: ArrayLike<number>,
    line?: ArrayLike<number | null>,
): CallTree {
    const n = Math.min(parent.length, frame.length);
    const tree: CallTree = {
        parent: new Int32Array(n),
        frame: new Int32Array(n),
        line: Int32Array.from({ length: n }, (_, i) => line?.[i] ?? 0),
        own: new Float64Array(n),
        total: new Float64Array(n),
    };
    for (let i = 0; i < n; i++) {
        tree.parent[i] = parent[i] >= 0 && parent[i] < i ? parent[i] : -1;
        tree.frame[i] = frame[i];
    }
    return tree;
}

/** Computes the totals from the self weights; returns the total of all roots. */
export function sumUp(tree: CallTree): number {
    tree.total.set(tree.own);
    let all = 0;
    for (let i = tree.total.length - 1; i >= 0; i--) {
        const up = tree.parent[i];
        if (up >= 0) tree.total[up] += tree.total[i];
        else all += tree.total[i];
    }
    return all;
}

interface Children {
    from: Int32Array;
    list: Int32Array;
}

const childrenByParents = new WeakMap<Int32Array, Children>();

/** Returns the children of each node as slices of one list; the roots are the last slice. The
 * result is cached: a tree does not change its shape. */
export function childrenOf(parent: Int32Array): Children {
    const before = childrenByParents.get(parent);
    if (before) return before;
    const n = parent.length;
    const slot = (i: number): number => (parent[i] < 0 ? n : parent[i]);
    const from = new Int32Array(n + 2);
    for (let i = 0; i < n; i++) from[slot(i) + 1]++;
    for (let i = 0; i <= n; i++) from[i + 1] += from[i];
    const next = from.slice();
    const list = new Int32Array(n);
    for (let i = 0; i < n; i++) list[next[slot(i)]++] = i;
    const children = { from, list };
    childrenByParents.set(parent, children);
    return children;
}

/** Builds a tree node by node; equal children of one parent are merged. */
export class TreeBuilder {
    readonly parent: number[] = [];
    readonly frame: number[] = [];
    readonly own: number[] = [];
    private readonly seen = new Map<string, number>();

    node(parent: number, frame: number): number {
        const key = `${parent} ${frame}`;
        let found = this.seen.get(key);
        if (found === undefined) {
            found = this.parent.length;
            this.seen.set(key, found);
            this.parent.push(parent);
            this.frame.push(frame);
            this.own.push(0);
        }
        return found;
    }

    build(): CallTree {
        const tree = newTree(this.parent, this.frame);
        tree.own.set(this.own);
        sumUp(tree);
        return tree;
    }
}

/** Builds a tree from stacks that are lists of frames, the outermost first. */
export function treeOfStacks(stacks: { frames: Frame[]; weight: number }[]): {
    tree: CallTree;
    frames: Frame[];
} {
    const builder = new TreeBuilder();
    const frames: Frame[] = [];
    const seen = new Map<string, number>();
    for (const { frames: stack, weight } of stacks) {
        let node = -1;
        for (const frame of stack) {
            const key = `${frame.file}\0${frame.func}\0${frame.line ?? ""}`;
            let id = seen.get(key);
            if (id === undefined) {
                id = frames.length;
                seen.set(key, id);
                frames.push(frame);
            }
            node = builder.node(node, id);
        }
        if (node >= 0) builder.own[node] += weight;
    }
    return { tree: builder.build(), frames };
}

// -------------------------------------------------------------------------- processes and threads

export function processName(stacks: Stacks, pid: number | null): string {
    const name = stacks.processes.find((one) => one.pid === pid)?.name;
    return `process ${pid ?? "?"}${name ? `: ${name}` : ""}`;
}

export function threadName({ tid, name }: Thread): string {
    return name ? `thread ${name} (${tid ?? "?"})` : `thread ${tid ?? "?"}`;
}

/** A tree, and the node of each sample; -1 if a sample has none. */
export interface Shape {
    tree: CallTree;
    nodeOf: ArrayLike<number>;
}

/** Returns the indices of the threads of each process. */
function threadsByProcess(stacks: Stacks): Map<number | null, number[]> {
    const threads = new Map<number | null, number[]>();
    stacks.threads.forEach(({ pid }, i) => {
        const list = threads.get(pid);
        if (list) list.push(i);
        else threads.set(pid, [i]);
    });
    return threads;
}

/** Returns the nodes on the stacks of each thread. */
function nodesByThread(stacks: Stacks, parent: Int32Array): Set<number>[] {
    const nodes = stacks.threads.map(() => new Set<number>());
    const { thread, node } = stacks.samples;
    for (let i = 0; i < node.length; i++) {
        const seen = nodes[thread[i]];
        if (!seen) continue;
        for (let at = node[i]; at >= 0 && at < parent.length && !seen.has(at); at = parent[at]) {
            seen.add(at);
        }
    }
    return nodes;
}

/**
 * Returns a tree with a separate tower for each process and thread: equal stacks of different
 * threads are not merged. Appends the frames of processes and threads to `frames`. Returns null if
 * there is only one thread.
 */
export function towers(stacks: Stacks, base: CallTree, frames: NamedFrame[]): Shape | null {
    if (stacks.threads.length < 2) return null;
    const processes = threadsByProcess(stacks);
    const used = nodesByThread(stacks, base.parent);
    const parent: number[] = [];
    const frame: number[] = [];
    const line: number[] = [];
    const add = (up: number, of: number, at: number): number => {
        parent.push(up);
        frame.push(of);
        line.push(at);
        return parent.length - 1;
    };
    const addNamed = (up: number, func: string, type: NamedFrame["type"]): number => {
        frames.push({ func, file: "", line: null, type });
        return add(up, frames.length - 1, 0);
    };
    const places: Map<number, number>[] = stacks.threads.map(() => new Map());
    for (const [pid, threads] of processes) {
        const above = processes.size > 1 ? addNamed(-1, processName(stacks, pid), "process") : -1;
        for (const i of threads) {
            const isAlone = processes.size === stacks.threads.length;
            const top = isAlone ? above : addNamed(above, threadName(stacks.threads[i]), "thread");
            for (const node of Array.from(used[i]).sort((a, b) => a - b)) {
                const up = places[i].get(base.parent[node]) ?? top;
                places[i].set(node, add(up, base.frame[node], base.line[node]));
            }
        }
    }
    const { thread, node } = stacks.samples;
    const nodeOf = Int32Array.from(node, (at, i) => places[thread[i]]?.get(at) ?? -1);
    return { tree: newTree(parent, frame, line), nodeOf };
}

// --------------------------------------------------------------------------------------- weights

/** Which samples count. */
export interface Selection {
    /** Index of a thread; -1 for all. */
    thread: number;
    onCpuOnly: boolean;
    start: number;
    end: number;
    /** Whether start and end limit the samples. */
    isPart: boolean;
    /** Whether weights are seconds. */
    isTime: boolean;
}

/** Returns whether thread and state of a sample are selected; its time is not checked. */
export function isSelected(samples: Samples, i: number, selection: Selection): boolean {
    if (selection.thread >= 0 && samples.thread[i] !== selection.thread) return false;
    return !selection.onCpuOnly || !samples.on_cpu || Boolean(samples.on_cpu[i]);
}

/** Returns the part of a sample's weight inside the selected time. A weight that is not a time is
 * at the time of its sample. */
function weightInside(samples: Samples, i: number, selection: Selection): number {
    const weight = samples.weight[i];
    if (!selection.isPart || !samples.t) return weight;
    const t = samples.t[i];
    const { start, end } = selection;
    if (!selection.isTime) return t >= start && t < end ? weight : 0;
    return Math.max(0, Math.min(t, end) - Math.max(t - weight, start));
}

/** Sets the weights of the tree to those of the selected samples; returns their sum and number. */
export function weigh(
    { tree, nodeOf }: Shape,
    samples: Samples,
    selection: Selection,
): { weight: number; samples: number } {
    tree.own.fill(0);
    let n = 0;
    for (let i = 0; i < nodeOf.length; i++) {
        const node = nodeOf[i];
        if (node < 0 || node >= tree.own.length || !isSelected(samples, i, selection)) continue;
        const weight = weightInside(samples, i, selection);
        if (selection.isPart && weight === 0) continue;
        tree.own[node] += weight;
        n++;
    }
    return { weight: sumUp(tree), samples: n };
}

/** Returns the weight of each thread; with `isRunning`, only of the time on a CPU, if known. */
export function threadWeights(stacks: Stacks, isRunning = false): Float64Array {
    const sums = new Float64Array(stacks.threads.length);
    const { thread, weight, node, on_cpu } = stacks.samples;
    for (let i = 0; i < thread.length; i++) {
        if (node[i] >= 0 && !(isRunning && on_cpu && !on_cpu[i])) sums[thread[i]] += weight[i];
    }
    return sums;
}
