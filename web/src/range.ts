// SPDX-License-Identifier: Apache-2.0
// The visible part of an axis. All views on the time axis share one.

export type Listener = () => void;

export class AxisRange {
    readonly min = 0;
    start: number;
    end: number;
    /** Where the pointer is, in any view; null if it is in none. */
    cursor: number | null = null;
    private readonly listeners: Listener[] = [];
    private readonly cursorListeners: Listener[] = [];

    /** The default of `shortest` is a nanosecond for each of 1000 pixels. */
    constructor(
        readonly max: number,
        private readonly shortest = 1e-6,
    ) {
        this.start = this.min;
        this.end = max;
    }

    get isWhole(): boolean {
        return this.start <= this.min && this.end >= this.max;
    }

    get length(): number {
        return this.end - this.start;
    }

    listen(listener: Listener): void {
        this.listeners.push(listener);
    }

    listenCursor(listener: Listener): void {
        this.cursorListeners.push(listener);
    }

    point(at: number | null): void {
        if (at === this.cursor) return;
        this.cursor = at;
        for (const listener of this.cursorListeners) listener();
    }

    set(start: number, end: number): void {
        if (!(end > start)) return;
        const length = Math.min(Math.max(end - start, this.shortest), this.max - this.min);
        start = Math.min(Math.max(start, this.min), this.max - length);
        if (start === this.start && start + length === this.end) return;
        this.start = start;
        this.end = start + length;
        for (const listener of this.listeners) listener();
    }

    reset(): void {
        this.set(this.min, this.max);
    }

    /** Zooms in (factor below 1) or out; `around` keeps its position. */
    zoom(factor: number, around = (this.start + this.end) / 2): void {
        const start = around - (around - this.start) * factor;
        const end = around + (this.end - around) * factor;
        // Zooming in and out again shows the whole, whatever the rounding.
        if (end - start >= (this.max - this.min) * (1 - 1e-9)) this.reset();
        else this.set(start, end);
    }

    /** Moves by a share of the visible part. */
    pan(share: number): void {
        const by = this.length * share;
        this.set(this.start + by, this.end + by);
    }
}
