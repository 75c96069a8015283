// SPDX-License-Identifier: Apache-2.0
// The stretch of time that is being looked at, which every view on a time axis follows.

export type Listener = () => void;

export class TimeRange {
    readonly min = 0;
    start: number;
    end: number;
    /** The moment that is pointed at, in any view; null when none is. */
    cursor: number | null = null;
    private readonly listeners: Listener[] = [];
    private readonly pointed: Listener[] = [];

    constructor(readonly max: number) {
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
        this.pointed.push(listener);
    }

    point(at: number | null): void {
        if (at === this.cursor) return;
        this.cursor = at;
        for (const listener of this.pointed) listener();
    }

    set(start: number, end: number): void {
        if (!(end > start)) return;
        // A nanosecond a pixel is as close as it gets.
        const length = Math.min(Math.max(end - start, 1e-6), this.max - this.min);
        start = Math.min(Math.max(start, this.min), this.max - length);
        if (start === this.start && start + length === this.end) return;
        this.start = start;
        this.end = start + length;
        for (const listener of this.listeners) listener();
    }

    reset(): void {
        this.set(this.min, this.max);
    }

    /** Nearer (factor below 1) or farther, around a moment that stays where it is. */
    zoom(factor: number, around = (this.start + this.end) / 2): void {
        const start = around - (around - this.start) * factor;
        const end = around + (this.end - around) * factor;
        // Nearer and farther again is all of it, however that is rounded.
        if (end - start >= (this.max - this.min) * (1 - 1e-9)) this.reset();
        else this.set(start, end);
    }

    /** Moves by a share of what is seen. */
    pan(share: number): void {
        const by = this.length * share;
        this.set(this.start + by, this.end + by);
    }
}
