// SPDX-License-Identifier: Apache-2.0
// The content of the flame graph, independent of the DOM: selection, weighted trees and texts.
import type { Frame, Stacks } from "./document";
import { count, percent, value } from "./format";
import {
    Functions,
    calleesOf,
    callersOf,
    functionRows,
    matchFrames,
    matchedWeight,
} from "./functions";
import type { FunctionRow } from "./functions";
import { timeOrder } from "./layout";
import type { Layout } from "./layout";
import type { AxisRange } from "./range";
import { newTree, processName, threadWeights, towers, weigh } from "./tree";
import type { CallTree, NamedFrame, Selection, Shape } from "./tree";

export type Mode = "left" | "time" | "sandwich";

/** Threads to choose from, those of one process together. `process` is empty for a single one. */
export interface ThreadGroup {
    process: string;
    threads: { index: number; label: string }[];
}

export class FlameModel {
    mode: Mode = "left";
    /** Index of the selected thread; -1 for all. */
    thread = -1;
    onCpuOnly = false;
    /** The function of the sandwich; -1 for none yet. */
    chosen = -1;
    /** The frames of the document, then those of processes and threads. */
    readonly frames: NamedFrame[];
    /** Marks the frames that match the search; null without a search. */
    matches: Uint8Array | null = null;
    /** Weight and number of the selected samples. */
    total = 0;
    samples = 0;
    private readonly functions: Functions;
    /** The stacks of all threads merged, and those of each thread apart. */
    private readonly merged: Shape;
    private readonly towers: Shape | null;
    private readonly busiest: number;

    constructor(
        readonly stacks: Stacks,
        private readonly range: AxisRange,
    ) {
        const { parent, frame, line } = stacks.nodes;
        this.merged = { tree: newTree(parent, frame, line), nodeOf: stacks.samples.node };
        this.frames = [...stacks.frames];
        this.towers = towers(stacks, this.merged.tree, this.frames);
        this.functions = new Functions(stacks.frames);
        const running = threadWeights(stacks, true);
        this.busiest = running.indexOf(Math.max(...running));
    }

    /** Whether the samples can be placed on the time axis. */
    get hasTimes(): boolean {
        return this.stacks.samples.t !== undefined && this.stacks.unit === "s";
    }

    /** The time order shows one thread: the busiest, unless another is selected. */
    private get shownThread(): number {
        return this.thread < 0 && this.mode === "time" ? this.busiest : this.thread;
    }

    private get shape(): Shape {
        return this.shownThread < 0 && this.towers ? this.towers : this.merged;
    }

    get tree(): CallTree {
        return this.shape.tree;
    }

    private get selection(): Selection {
        return {
            thread: this.shownThread,
            onCpuOnly: this.onCpuOnly,
            start: this.range.start,
            end: this.range.end,
            isPart: !this.range.isWhole,
            isTime: this.stacks.unit === "s",
        };
    }

    /** Weighs the tree again after a change of the selection. */
    weigh(): void {
        const found = weigh(this.shape, this.stacks.samples, this.selection);
        this.total = found.weight;
        this.samples = found.samples;
    }

    search(text: string): void {
        this.matches = matchFrames(this.frames, text);
    }

    frameOf(id: number): Frame {
        return this.stacks.frames[this.functions.frame[id]];
    }

    rows(): FunctionRow[] {
        return functionRows(this.tree, this.functions);
    }

    timeOrder(): Layout {
        return timeOrder(this.tree, this.stacks.samples, this.selection, this.range.max);
    }

    callers(): CallTree {
        return callersOf(this.tree, this.functions, this.chosen);
    }

    callees(): CallTree {
        return calleesOf(this.tree, this.functions, this.chosen);
    }

    /** Makes sure that the sandwich has a function: without a choice, that with the most self
     * weight. */
    choose(): void {
        if (this.chosen >= 0 || this.total <= 0) return;
        this.chosen = this.rows().reduce((best, row) => (row.own > best.own ? row : best)).id;
    }

    /** Returns the threads in groups, the heaviest first. */
    threadGroups(): ThreadGroup[] {
        const { threads } = this.stacks;
        const weights = threadWeights(this.stacks);
        const all = weights.reduce((sum, one) => sum + one, 0);
        const isSingle = new Set(threads.map(({ pid }) => pid)).size === 1;
        const groups = new Map<number | null, ThreadGroup>();
        const order = threads.map((_, i) => i).sort((a, b) => weights[b] - weights[a]);
        for (const index of order) {
            const { pid, tid, name } = threads[index];
            let group = groups.get(pid);
            if (!group) {
                group = { process: isSingle ? "" : processName(this.stacks, pid), threads: [] };
                groups.set(pid, group);
            }
            const share = all > 0 ? `, ${percent(weights[index] / all)}` : "";
            group.threads.push({ index, label: `${name || "thread"} (${tid ?? "?"})${share}` });
        }
        return Array.from(groups.values());
    }

    summary(): string {
        const { threads, unit } = this.stacks;
        const samples = this.samples === 1 ? "sample" : "samples";
        const parts = [`${value(this.total, unit)} in ${count(this.samples)} ${samples}`];
        if (!this.range.isWhole) parts.push("selected time range only");
        if (this.mode === "time" && this.thread < 0 && threads.length > 1) {
            const { name, tid } = threads[this.shownThread];
            parts.push(`busiest thread: ${name || tid}`);
        }
        return parts.join(" \u00b7 ");
    }

    /** Says how many functions match the search, and which share of the weight they are in. */
    matchSummary(): string {
        const { matches, functions } = this;
        if (!matches) return "";
        const ids = new Set<number>();
        functions.of.forEach((id, frame) => matches[frame] && ids.add(id));
        const share = this.total > 0 ? matchedWeight(this.tree, matches) / this.total : 0;
        return `${count(ids.size)} ${ids.size === 1 ? "function" : "functions"}, ${percent(share)}`;
    }

    emptyReason(): string {
        return this.stacks.samples.node.length
            ? "The selection has no samples. Select another thread or a longer time range."
            : "There are no samples: the program was too short or could not be read.";
    }
}
