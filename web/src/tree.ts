// SPDX-License-Identifier: Apache-2.0
// Call trees as columns, and where each view puts their nodes.
import type { Frame, Samples, Stacks, Thread } from "./document";

/** A function of the document, or the name of a process or thread. */
export interface NamedFrame extends Omit<Frame, "type"> {
    type: Frame["type"] | "process" | "thread";
}

/** The bars of one row, from left to right, never overlapping. */
export interface Level {
    start: Float64Array;
    end: Float64Array;
    item: Int32Array;
}

export interface Layout {
    levels: Level[];
    start: number;
    end: number;
}

/** A parent always has a smaller number than its children; -1 has none. */
export interface CallTree {
    parent: Int32Array;
    frame: Int32Array;
    /** The heaviest line of each node; 0 where that is not known. */
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

/** Fills the totals from what each node has of its own; gives the sum of all. */
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

class LevelMaker {
    private start: number[] = [];
    private end: number[] = [];
    private item: number[] = [];

    get length(): number {
        return this.item.length;
    }

    add(item: number, start: number, end: number): void {
        this.item.push(item);
        this.start.push(start);
        this.end.push(end);
    }

    itemAt(i: number): number {
        return this.item[i];
    }

    startAt(i: number): number {
        return this.start[i];
    }

    endAt(i: number): number {
        return this.end[i];
    }

    setEnd(i: number, end: number): void {
        this.end[i] = end;
    }

    make(): Level {
        return {
            start: Float64Array.from(this.start),
            end: Float64Array.from(this.end),
            item: Int32Array.from(this.item),
        };
    }
}

export function levelOf(bars: { item: number; start: number; end: number }[]): Level {
    const maker = new LevelMaker();
    for (const bar of bars) maker.add(bar.item, bar.start, bar.end);
    return maker.make();
}

interface Children {
    from: Int32Array;
    list: Int32Array;
}

const knownChildren = new WeakMap<Int32Array, Children>();

/** Children of each node, as slices of one list; those of no parent come last.  Trees keep their
 * shape, so it is found once. */
function childrenOf(parent: Int32Array): Children {
    const before = knownChildren.get(parent);
    if (before) return before;
    const n = parent.length;
    const slot = (i: number): number => (parent[i] < 0 ? n : parent[i]);
    const from = new Int32Array(n + 2);
    for (let i = 0; i < n; i++) from[slot(i) + 1]++;
    for (let i = 0; i <= n; i++) from[i + 1] += from[i];
    const next = from.slice();
    const list = new Int32Array(n);
    for (let i = 0; i < n; i++) list[next[slot(i)]++] = i;
    const made = { from, list };
    knownChildren.set(parent, made);
    return made;
}

/** The heaviest first among siblings; a node is as wide as its width says. */
export function leftHeavy(tree: CallTree, width: Float64Array = tree.total): Layout {
    const n = tree.parent.length;
    const { from, list } = childrenOf(tree.parent);
    const heaviest = (node: number): number[] =>
        Array.from(list.subarray(from[node], from[node + 1]))
            .filter((child) => width[child] > 0)
            .sort((a, b) => width[b] - width[a] || a - b);
    const levels: Level[] = [];
    const lay = (maker: LevelMaker, nodes: number[], at: number): number => {
        for (const node of nodes) {
            maker.add(node, at, at + width[node]);
            at += width[node];
        }
        return at;
    };
    let row = new LevelMaker();
    const end = lay(row, heaviest(n), 0);
    while (row.length) {
        levels.push(row.make());
        const below = new LevelMaker();
        for (let i = 0; i < row.length; i++) lay(below, heaviest(row.itemAt(i)), row.startAt(i));
        row = below;
    }
    return { levels, start: 0, end };
}

export interface Choice {
    /** -1: all */
    thread: number;
    onCpuOnly: boolean;
    start: number;
    end: number;
    /** Whether start and end choose anything. */
    part: boolean;
    /** Whether weights are seconds. */
    timed: boolean;
}

function isWanted(samples: Samples, i: number, choice: Choice): boolean {
    if (choice.thread >= 0 && samples.thread[i] !== choice.thread) return false;
    return !choice.onCpuOnly || !samples.on_cpu || Boolean(samples.on_cpu[i]);
}

/** How much of a sample's weight lies in the chosen stretch.  A weight that is no time belongs to the
 * moment of its sample. */
function weightInside(samples: Samples, i: number, choice: Choice): number {
    const weight = samples.weight[i];
    if (!choice.part || !samples.t) return weight;
    const t = samples.t[i];
    const { start, end } = choice;
    if (!choice.timed) return t >= start && t < end ? weight : 0;
    return Math.max(0, Math.min(t, end) - Math.max(t - weight, start));
}

/** A tree, and which of its nodes each sample has; -1 for none. */
export interface Shape {
    tree: CallTree;
    nodeOf: ArrayLike<number>;
}

/** What a process or a thread is called in a tree; the word goes before it. */
export function processName(stacks: Stacks, pid: number | null): string {
    const name = stacks.processes.find((one) => one.pid === pid)?.name;
    return `process ${pid ?? "?"}${name ? `: ${name}` : ""}`;
}

export function threadName({ tid, name }: Thread): string {
    return name ? `thread ${name} (${tid ?? "?"})` : `thread ${tid ?? "?"}`;
}

/** The numbers of a document's threads, those of each process together. */
function threadsByProcess(stacks: Stacks): Map<number | null, number[]> {
    const made = new Map<number | null, number[]>();
    stacks.threads.forEach(({ pid }, i) => {
        const list = made.get(pid);
        if (list) list.push(i);
        else made.set(pid, [i]);
    });
    return made;
}

/** The nodes that the samples of each thread have on their stacks, in the order of the document. */
function nodesByThread(stacks: Stacks, parent: Int32Array): Set<number>[] {
    const made = stacks.threads.map(() => new Set<number>());
    const { thread, node } = stacks.samples;
    for (let i = 0; i < node.length; i++) {
        const seen = made[thread[i]];
        if (!seen) continue;
        for (let at = node[i]; at >= 0 && at < parent.length && !seen.has(at); at = parent[at]) {
            seen.add(at);
        }
    }
    return made;
}

/**
 * One tower for each process and thread: stacks that look alike are not put together when different
 * threads had them.  Adds the frames of processes and threads to `frames`; null where there is but
 * one thread.
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
            const alone = processes.size === stacks.threads.length;
            const top = alone ? above : addNamed(above, threadName(stacks.threads[i]), "thread");
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

/** Weighs the tree by what the stretch has of the samples that are wanted; gives the sum, and how many
 * samples it is of. */
export function weigh(
    { tree, nodeOf }: Shape,
    samples: Samples,
    choice: Choice,
): { weight: number; samples: number } {
    tree.own.fill(0);
    let n = 0;
    for (let i = 0; i < nodeOf.length; i++) {
        const node = nodeOf[i];
        if (node < 0 || node >= tree.own.length || !isWanted(samples, i, choice)) continue;
        const weight = weightInside(samples, i, choice);
        if (choice.part && weight === 0) continue;
        tree.own[node] += weight;
        n++;
    }
    return { weight: sumUp(tree), samples: n };
}

/** The samples of one thread as they came.  A sample stands for the time before it: its bar ends when
 * it was taken, and begins where the one before it ends at the earliest.  Calls that go on from one
 * sample to the next are one bar; a gap of more than half a sample stays a gap. */
export function timeOrder(tree: CallTree, samples: Samples, choice: Choice, end: number): Layout {
    const makers: LevelMaker[] = [];
    const t = samples.t ?? [];
    let before: number[] = [];
    let until = -Infinity;
    for (let i = 0; i < samples.node.length; i++) {
        if (!isWanted(samples, i, choice)) continue;
        const weight = samples.weight[i];
        const joins = t[i] - weight - until <= weight / 2;
        const start = joins ? until : Math.max(t[i] - weight, 0);
        if (!(start < t[i])) continue;
        const path: number[] = [];
        for (let node = samples.node[i]; node >= 0; node = tree.parent[node]) path.push(node);
        path.reverse();
        let same = joins;
        for (let depth = 0; depth < path.length; depth++) {
            while (makers.length <= depth) makers.push(new LevelMaker());
            const maker = makers[depth];
            same = same && before[depth] === path[depth];
            if (same) maker.setEnd(maker.length - 1, t[i]);
            else maker.add(path[depth], start, t[i]);
        }
        before = path;
        until = t[i];
    }
    return { levels: makers.map((maker) => maker.make()), start: 0, end: Math.max(end, until) };
}

/** Functions: frames of one name and file, whatever their lines. */
export class Functions {
    /** Of each frame. */
    readonly of: Int32Array;
    readonly frame: number[] = [];

    constructor(frames: Frame[]) {
        const seen = new Map<string, number>();
        this.of = Int32Array.from(frames, (frame, i) => {
            const key = `${frame.file ?? ""}\0${frame.func}`;
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

/** Per function its own weight and that of everything below it; recursion counts once. */
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

const knownOutermost = new WeakMap<CallTree, Uint8Array>();

/** For each node, whether none above it is of the same function. */
function outermostOf(tree: CallTree, functions: Functions): Uint8Array {
    const before = knownOutermost.get(tree);
    if (before) return before;
    const n = tree.parent.length;
    const result = new Uint8Array(n);
    const { from, list } = childrenOf(tree.parent);
    const open = new Int32Array(functions.frame.length);
    // Down and up again, without recursion: stacks can be thousands deep.
    const path: number[] = [];
    const place: number[] = [from[n]];
    while (place.length) {
        const node = path.length ? path[path.length - 1] : n;
        const at = place[place.length - 1]++;
        if (at >= from[node + 1]) {
            place.pop();
            if (path.length) open[functions.of[tree.frame[path.pop()!]]]--;
            continue;
        }
        const child = list[at];
        const id = functions.of[tree.frame[child]];
        result[child] = open[id]++ === 0 ? 1 : 0;
        path.push(child);
        place.push(from[child]);
    }
    knownOutermost.set(tree, result);
    return result;
}

class TreeMaker {
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

    make(): CallTree {
        const tree = newTree(this.parent, this.frame);
        tree.own.set(this.own);
        sumUp(tree);
        return tree;
    }
}

/** What a function calls, wherever it was called from; its own node is the root. */
export function calleesOf(tree: CallTree, functions: Functions, id: number): CallTree {
    const maker = new TreeMaker();
    const outermost = outermostOf(tree, functions);
    const merged = new Int32Array(tree.parent.length).fill(-1);
    for (let i = 0; i < tree.parent.length; i++) {
        const up = tree.parent[i] >= 0 ? merged[tree.parent[i]] : -1;
        if (up >= 0) merged[i] = maker.node(up, tree.frame[i]);
        else if (outermost[i] && functions.of[tree.frame[i]] === id) {
            merged[i] = maker.node(-1, functions.frame[id]);
        }
        if (merged[i] >= 0) maker.own[merged[i]] += tree.own[i];
    }
    return maker.make();
}

/** Who calls a function, upwards from it. */
export function callersOf(tree: CallTree, functions: Functions, id: number): CallTree {
    const maker = new TreeMaker();
    const outermost = outermostOf(tree, functions);
    for (let i = 0; i < tree.parent.length; i++) {
        if (!outermost[i] || functions.of[tree.frame[i]] !== id || !tree.total[i]) continue;
        let node = maker.node(-1, functions.frame[id]);
        for (let up = tree.parent[i]; up >= 0; up = tree.parent[up]) {
            node = maker.node(node, tree.frame[up]);
        }
        maker.own[node] += tree.total[i];
    }
    return maker.make();
}

/** A tree of stacks that are given as lists, with a weight each. */
export function treeOfStacks(stacks: { frames: Frame[]; weight: number }[]): {
    tree: CallTree;
    frames: Frame[];
} {
    const maker = new TreeMaker();
    const frames: Frame[] = [];
    const seen = new Map<string, number>();
    for (const { frames: stack, weight } of stacks) {
        let node = -1;
        for (const frame of stack) {
            const key = `${frame.file ?? ""}\0${frame.func}\0${frame.line ?? ""}`;
            let id = seen.get(key);
            if (id === undefined) {
                id = frames.length;
                seen.set(key, id);
                frames.push(frame);
            }
            node = maker.node(node, id);
        }
        if (node >= 0) maker.own[node] += weight;
    }
    return { tree: maker.make(), frames };
}

/** The weight of the samples that have a wanted frame, each counted once. */
export function matchedWeight(tree: CallTree, wanted: Uint8Array): number {
    const below = new Uint8Array(tree.parent.length);
    let sum = 0;
    for (let i = 0; i < tree.parent.length; i++) {
        const up = tree.parent[i];
        const inside = up >= 0 && below[up] === 1;
        if (!inside && wanted[tree.frame[i]]) sum += tree.total[i];
        below[i] = inside || wanted[tree.frame[i]] ? 1 : 0;
    }
    return sum;
}

/** The weight of each thread; `running`: while it was on a CPU, where that is known. */
export function threadWeights(stacks: Stacks, running = false): Float64Array {
    const sums = new Float64Array(stacks.threads.length);
    const { thread, weight, node, on_cpu } = stacks.samples;
    for (let i = 0; i < thread.length; i++) {
        if (node[i] >= 0 && !(running && on_cpu && !on_cpu[i])) sums[thread[i]] += weight[i];
    }
    return sums;
}
