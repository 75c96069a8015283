// SPDX-License-Identifier: Apache-2.0
// Level of detail for lines: about as many points as pixels, with all peaks.

export interface Line {
    t: ArrayLike<number>;
    v: ArrayLike<number | null>;
}

/** For each x and line a value, null (a gap), or undefined (no point; the line continues). */
export interface Aligned {
    x: number[];
    ys: (number | null | undefined)[][];
    /** Whether values were merged into columns. */
    thinned: boolean;
}

/** Returns the first index whose value is not below t. */
export function lowerBound(list: ArrayLike<number>, t: number, from = 0, to = list.length): number {
    while (from < to) {
        const middle = (from + to) >>> 1;
        if (list[middle] < t) from = middle + 1;
        else to = middle;
    }
    return from;
}

/** Returns the indices of the points between start and end, and one more on each side. */
function visible(line: Line, start: number, end: number): [number, number] {
    const from = lowerBound(line.t, start);
    const to = lowerBound(line.t, end, from);
    return [Math.max(0, from - 1), Math.min(line.t.length, to + 2)];
}

/** Aligns all points on the union of their times. */
function join(lines: Line[], spans: [number, number][]): Aligned {
    const times = new Set<number>();
    lines.forEach((line, k) => {
        for (let i = spans[k][0]; i < spans[k][1]; i++) times.add(line.t[i]);
    });
    const x = Array.from(times).sort((a, b) => a - b);
    const index = new Map(x.map((t, i) => [t, i]));
    const ys = lines.map((line, k) => {
        const y = new Array<number | null | undefined>(x.length);
        for (let i = spans[k][0]; i < spans[k][1]; i++) y[index.get(line.t[i])!] = line.v[i];
        return y;
    });
    return { x, ys, thinned: false };
}

/** Returns the lowest and the highest value of each column of pixels, in their order in time. */
function fold(line: Line, span: [number, number], start: number, step: number, columns: number) {
    const y = new Array<number | null | undefined>(columns * 2);
    let i = span[0];
    while (i < span[1]) {
        const column = Math.min(columns - 1, Math.max(0, Math.floor((line.t[i] - start) / step)));
        const until = column === columns - 1 ? Infinity : start + (column + 1) * step;
        let low = Infinity;
        let high = -Infinity;
        let lowFirst = true;
        let gap = false;
        do {
            const v = line.v[i];
            if (v === null) gap = true;
            else {
                if (v < low) {
                    low = v;
                    lowFirst = false;
                }
                if (v > high) {
                    high = v;
                    lowFirst = true;
                }
            }
            i++;
        } while (i < span[1] && line.t[i] < until);
        if (low > high) y[column * 2] = gap ? null : undefined;
        else {
            y[column * 2] = lowFirst ? low : high;
            y[column * 2 + 1] = lowFirst ? high : low;
        }
    }
    return y;
}

/** Returns the points to draw between start and end on an axis of this many pixels. */
export function decimate(lines: Line[], start: number, end: number, pixels: number): Aligned {
    const spans = lines.map((line) => visible(line, start, end));
    const points = spans.reduce((most, [from, to]) => Math.max(most, to - from), 0);
    const columns = Math.max(16, Math.floor(pixels));
    if (points <= columns * 2) return join(lines, spans);
    const step = (end - start) / columns;
    const x = new Array<number>(columns * 2);
    for (let i = 0; i < columns; i++) {
        x[i * 2] = start + (i + 0.25) * step;
        x[i * 2 + 1] = start + (i + 0.75) * step;
    }
    return {
        x,
        ys: lines.map((line, k) => fold(line, spans[k], start, step, columns)),
        thinned: true,
    };
}
