// SPDX-License-Identifier: Apache-2.0
// Positions of bars: each row of a graph is a level of intervals on one axis.
import type { Samples } from "./document";
import { childrenOf, isSelected } from "./tree";
import type { CallTree, Selection } from "./tree";

/** The bars of one row, from left to right, without overlaps. */
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

export interface Interval {
    item: number;
    start: number;
    end: number;
}

class LevelBuilder {
    readonly start: number[] = [];
    readonly end: number[] = [];
    readonly item: number[] = [];

    add(item: number, start: number, end: number): void {
        this.item.push(item);
        this.start.push(start);
        this.end.push(end);
    }

    build(): Level {
        return {
            start: Float64Array.from(this.start),
            end: Float64Array.from(this.end),
            item: Int32Array.from(this.item),
        };
    }
}

export function levelOf(bars: Interval[]): Level {
    const level = new LevelBuilder();
    for (const bar of bars) level.add(bar.item, bar.start, bar.end);
    return level.build();
}

/** Distributes bars over as few rows as keep them from overlapping. */
export function packRows(bars: Interval[]): Interval[][] {
    const rows: Interval[][] = [];
    bars.sort((a, b) => a.start - b.start || b.end - a.end);
    for (const bar of bars) {
        // The clocks of two sources may differ slightly: that is not an overlap.
        const slack = (bar.end - bar.start) / 20;
        let row = rows.find((one) => one[one.length - 1].end <= bar.start + slack);
        if (!row) rows.push((row = []));
        const before = row[row.length - 1]?.end ?? bar.start;
        row.push({ ...bar, start: Math.max(bar.start, before) });
    }
    return rows;
}

/** Places the heaviest of siblings first. `width` is the width of each node. */
export function heaviestFirst(tree: CallTree, width: Float64Array = tree.total): Layout {
    const n = tree.parent.length;
    const { from, list } = childrenOf(tree.parent);
    const sorted = (node: number): number[] =>
        Array.from(list.subarray(from[node], from[node + 1]))
            .filter((child) => width[child] > 0)
            .sort((a, b) => width[b] - width[a] || a - b);
    const levels: Level[] = [];
    const place = (level: LevelBuilder, nodes: number[], at: number): number => {
        for (const node of nodes) {
            level.add(node, at, at + width[node]);
            at += width[node];
        }
        return at;
    };
    let row = new LevelBuilder();
    const end = place(row, sorted(n), 0);
    while (row.item.length) {
        levels.push(row.build());
        const below = new LevelBuilder();
        row.item.forEach((node, i) => place(below, sorted(node), row.start[i]));
        row = below;
    }
    return { levels, start: 0, end };
}

/**
 * Places the samples of one thread on the time axis. A sample covers the time before it: its bar
 * ends at the time of the sample and does not begin before the end of the previous sample. Calls
 * that continue from one sample to the next are one bar; a gap of more than half a sample remains.
 */
export function timeOrder(
    tree: CallTree,
    samples: Samples,
    selection: Selection,
    end: number,
): Layout {
    const levels: LevelBuilder[] = [];
    const t = samples.t ?? [];
    let before: number[] = [];
    let until = -Infinity;
    for (let i = 0; i < samples.node.length; i++) {
        if (!isSelected(samples, i, selection)) continue;
        const weight = samples.weight[i];
        const joins = t[i] - weight - until <= weight / 2;
        const start = joins ? until : Math.max(t[i] - weight, 0);
        if (!(start < t[i])) continue;
        const path: number[] = [];
        for (let node = samples.node[i]; node >= 0; node = tree.parent[node]) path.push(node);
        path.reverse();
        let isSame = joins;
        path.forEach((node, depth) => {
            const level = (levels[depth] ??= new LevelBuilder());
            isSame = isSame && before[depth] === node;
            if (isSame) level.end[level.end.length - 1] = t[i];
            else level.add(node, start, t[i]);
        });
        before = path;
        until = t[i];
    }
    return { levels: levels.map((level) => level.build()), start: 0, end: Math.max(end, until) };
}
