// SPDX-License-Identifier: Apache-2.0
// Where the bars of a graph are, and which bars are next to each other. Independent of the canvas.
import { lowerBound } from "./decimate";
import type { Layout, Level } from "./layout";

/** Heights in CSS pixels: a row, the text above a row, the time axis. */
export const ROW = 19;
export const HEAD = 22;
export const AXIS = 24;

/** Width of a character, in pixels. */
const ADVANCE = 7.25;

/** A bar is the i-th of its row. */
export interface Bar {
    row: number;
    i: number;
}

/** Maps the visible part of the axis, `from` to `to`, to pixels. */
export class Axis {
    readonly scale: number;

    constructor(
        readonly left: number,
        readonly width: number,
        readonly from: number,
        readonly to: number,
    ) {
        this.scale = width / (to - from);
    }

    /** Returns the distance of a value from the left end, in pixels. */
    offset(value: number): number {
        return (value - this.from) * this.scale;
    }

    valueAt(x: number): number {
        return this.from + ((x - this.left) / this.width) * (this.to - this.from);
    }

    has(x: number): boolean {
        return x >= this.left && x <= this.left + this.width;
    }
}

/** Cuts a text to a width in pixels. */
export function clip(text: string, width: number): string {
    const fits = Math.floor(width / ADVANCE);
    if (text.length <= fits) return text;
    if (fits < 2) return "";
    let end = fits - 1;
    const last = text.charCodeAt(end - 1);
    // Do not split a surrogate pair.
    if (last >= 0xd800 && last < 0xdc00) end--;
    return `${text.slice(0, end)}\u2026`;
}

/** The vertical positions of the rows. */
export class Rows {
    readonly height: number;
    private readonly tops: number[] = [];

    constructor(
        count: number,
        top: number,
        private readonly isUpward: boolean,
        hasHead: (row: number) => boolean,
    ) {
        for (let row = 0; row < count; row++) {
            if (hasHead(row)) top += HEAD;
            this.tops.push(top);
            top += ROW;
        }
        this.height = top + 4;
    }

    top(row: number): number {
        return this.isUpward ? this.height - this.tops[row] - ROW : this.tops[row];
    }

    /** Returns the row at a height; -1 if there is none. */
    at(y: number): number {
        return this.tops.findIndex((_, row) => y >= this.top(row) && y < this.top(row) + ROW);
    }
}

/** Returns the index of the bar at a value, or of one at most `slack` away; -1 if there is none. */
export function barNear(level: Level, at: number, slack: number): number {
    let i = lowerBound(level.end, at);
    if (i > 0 && (i >= level.item.length || level.start[i] > at)) {
        if (at - level.end[i - 1] < slack) i--;
    }
    return i < level.item.length && level.start[i] <= at + slack ? i : -1;
}

/** Returns the first bar between two values, in the first row that has one. */
export function firstBar({ levels }: Layout, from: number, to: number): Bar | null {
    for (let row = 0; row < levels.length; row++) {
        const i = lowerBound(levels[row].end, from);
        if (i < levels[row].item.length && levels[row].start[i] < to) return { row, i };
    }
    return null;
}

/** Returns the bar of another row that overlaps a bar the most. */
export function overlappingBar({ levels }: Layout, bar: Bar, row: number): Bar | null {
    const other = levels[row];
    if (!other) return null;
    const start = levels[bar.row].start[bar.i];
    const end = levels[bar.row].end[bar.i];
    let best: Bar | null = null;
    let most = 0;
    for (let i = lowerBound(other.end, start); i < other.item.length; i++) {
        if (other.start[i] >= end) break;
        const shared = Math.min(end, other.end[i]) - Math.max(start, other.start[i]);
        if (shared > most) {
            most = shared;
            best = { row, i };
        }
    }
    return best;
}

/** Returns the next bar of a row in a direction; the bar itself at the end of the row. */
export function siblingBar({ levels }: Layout, { row, i }: Bar, step: 1 | -1): Bar {
    return { row, i: Math.max(0, Math.min(i + step, levels[row].item.length - 1)) };
}

/** Returns the next bar after `bar` that matches, row by row and around; null if none matches. */
export function nextMatch(
    { levels }: Layout,
    bar: Bar | null,
    step: 1 | -1,
    isMatch: (item: number) => boolean,
): Bar | null {
    const first = step > 0 ? 0 : Infinity;
    let row = bar?.row ?? (step > 0 ? 0 : levels.length - 1);
    let i = bar ? bar.i + step : first;
    for (let turns = 0; turns <= levels.length; turns++) {
        const items = levels[row]?.item ?? [];
        if (step < 0) i = Math.min(i, items.length - 1);
        for (; i >= 0 && i < items.length; i += step) {
            if (isMatch(items[i])) return { row, i };
        }
        row = (row + step + levels.length) % levels.length;
        i = first;
    }
    return null;
}
