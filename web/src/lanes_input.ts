// SPDX-License-Identifier: Apache-2.0
// Pointer, wheel and keys on a graph.
import { firstBar, nextMatch, overlappingBar, siblingBar } from "./lanes_geometry";
import type { Axis, Bar } from "./lanes_geometry";
import type { Lanes, LanesOptions } from "./lanes";
import type { AxisRange } from "./range";

/** The graph that the input acts on. */
export interface LanesTarget {
    readonly canvas: HTMLCanvasElement;
    readonly options: LanesOptions;
    readonly axis: Axis;
    readonly range: AxisRange;
    readonly lanes: Lanes | null;
    readonly picked: Bar | null;
    barAt(x: number, y: number): Bar | null;
    /** Highlights the bar under the pointer and shows its tooltip. */
    point(bar: Bar | null, x: number, y: number): void;
    pick(bar: Bar | null): void;
    zoomTo(bar: Bar): void;
    /** Hides the tooltip and redraws. */
    moved(): void;
    redraw(): void;
}

/** A drag in pixels, and where the range was when it began. */
interface Drag {
    x: number;
    to: number;
    start: number;
    hasMoved: boolean;
}

const DRAG_MIN = 4;

export class LanesInput {
    private drag: Drag | null = null;

    constructor(private readonly target: LanesTarget) {
        const { canvas, options } = target;
        canvas.addEventListener("pointermove", (event) => this.move(event));
        canvas.addEventListener("pointerleave", () => {
            options.time?.point(null);
            target.point(null, 0, 0);
        });
        canvas.addEventListener("pointerdown", (event) => {
            if (event.button !== 0) return;
            const x = event.offsetX;
            this.drag = { x, to: x, start: target.range.start, hasMoved: false };
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointerup", (event) => this.release(event));
        canvas.addEventListener("pointercancel", () => {
            this.drag = null;
            target.redraw();
        });
        canvas.addEventListener("dblclick", () => options.time?.reset());
        canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        canvas.addEventListener("keydown", (event) => {
            if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event.key)) return;
            event.preventDefault();
            event.stopPropagation();
        });
        canvas.addEventListener("focus", () => {
            if (!target.picked && canvas.matches(":focus-visible")) target.pick(this.first());
        });
    }

    /** The range that is being selected on a time axis, in pixels. */
    get selection(): [number, number] | null {
        const { drag } = this;
        return drag?.hasMoved && this.target.options.time ? [drag.x, drag.to] : null;
    }

    private first(): Bar | null {
        const { lanes, range } = this.target;
        return lanes && firstBar(lanes.layout, range.start, range.end);
    }

    private move({ offsetX: x, offsetY: y }: PointerEvent): void {
        const { drag, target } = this;
        const { axis, range, options } = target;
        if (!drag) {
            options.time?.point(axis.valueAt(x));
            target.point(target.barAt(x, y), x, y);
            return;
        }
        drag.to = x;
        if (Math.abs(x - drag.x) > DRAG_MIN) drag.hasMoved = true;
        if (drag.hasMoved && !options.time) {
            const start = drag.start + ((drag.x - x) / axis.width) * range.length;
            range.set(start, start + range.length);
        }
        target.moved();
    }

    private release(event: PointerEvent): void {
        const { drag, target } = this;
        const { axis, options } = target;
        this.drag = null;
        if (!drag) return;
        if (drag.hasMoved) {
            const [a, b] = [drag.x, drag.to].sort((p, q) => p - q);
            options.time?.set(axis.valueAt(a), axis.valueAt(b));
        } else {
            const bar = target.barAt(event.offsetX, event.offsetY);
            target.pick(bar);
            if (bar && (!options.time || options.clickZooms)) target.zoomTo(bar);
        }
        target.redraw();
    }

    private wheel(event: WheelEvent): void {
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
        const isZoom = event.ctrlKey || event.metaKey;
        if (!isZoom && Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
        event.preventDefault();
        const { axis, range } = this.target;
        if (isZoom) {
            const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200)));
            range.zoom(factor, axis.valueAt(event.offsetX));
        } else range.pan(sideways / axis.width);
    }

    /** Handles a key; returns false for one that the graph does not use. */
    private key(name: string): boolean {
        const { target } = this;
        if (!target.lanes) return false;
        const { layout, isMatch } = target.lanes;
        if (name === "Escape" || name === "Backspace") {
            target.range.reset();
            return true;
        }
        if (name === "n" || name === "N") {
            if (!isMatch) return false;
            return this.go(nextMatch(layout, target.picked, name === "n" ? 1 : -1, isMatch));
        }
        const bar = target.picked ?? this.first();
        if (!bar) return false;
        const down = target.options.upward ? -1 : 1;
        switch (name) {
            case "ArrowDown":
                return this.go(overlappingBar(layout, bar, bar.row + down));
            case "ArrowUp":
                return this.go(overlappingBar(layout, bar, bar.row - down));
            case "ArrowLeft":
                return this.go(siblingBar(layout, bar, -1));
            case "ArrowRight":
                return this.go(siblingBar(layout, bar, 1));
            case "Enter":
                target.zoomTo(bar);
                return true;
            default:
                return false;
        }
    }

    private go(bar: Bar | null): boolean {
        if (bar) this.target.pick(bar);
        return true;
    }
}
