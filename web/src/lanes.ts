// SPDX-License-Identifier: Apache-2.0
// Rows of bars on a canvas: flame graphs and timelines.  What is narrower than a pixel is drawn
// once a pixel, so a picture costs rows times pixels, however many bars there are.
import { GUTTER, RIGHT } from "./charts";
import { lowerBound } from "./decimate";
import { beforeNextFrame, button, el, foreign } from "./dom";
import { TIME_STEPS, moment } from "./format";
import type { TimeRange } from "./range";
import { cssColor, isPrinting, onTheme } from "./theme";
import type { Layout, Level } from "./tree";

export interface Told {
    title: string;
    lines: string[];
}

export interface Lanes {
    layout: Layout;
    /** Of a row: a text above it, or none. */
    head?: (row: number) => string | null;
    name: (item: number) => string;
    color: (item: number) => string;
    tell: (item: number, length: number) => Told;
    /** Whether an item is searched for; absent when nothing is. */
    isHit?: (item: number) => boolean;
}

export interface Bar {
    row: number;
    i: number;
}

export interface LanesOptions {
    label: string;
    /** Bars stand on this axis; without it the canvas zooms by itself. */
    time?: TimeRange;
    /** The first row at the bottom. */
    upward?: boolean;
    /** On a time axis: a click on a bar zooms to it, as it does without one. */
    clickZooms?: boolean;
    picked?: (item: number) => void;
}

const ROW = 19;
const HEAD = 22;
const AXIS = 24;
const TEXT_MIN = 26;
/** Pixels from top to bottom; a browser's canvas has a limit. */
const PAPER_MAX = 8000;
const FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
/** Of a character of that font, in pixels. */
const ADVANCE = 7.25;

function clip(text: string, width: number): string {
    const room = Math.floor(width / ADVANCE);
    if (text.length <= room) return text;
    if (room < 2) return "";
    let end = room - 1;
    const last = text.charCodeAt(end - 1);
    // Not through the middle of a pair.
    if (last >= 0xd800 && last < 0xdc00) end--;
    return `${text.slice(0, end)}\u2026`;
}

export class LanesView {
    readonly root: HTMLElement;
    readonly canvas: HTMLCanvasElement;
    private readonly stage: HTMLElement;
    private readonly spacer = el("div", { class: "spacer" });
    private readonly below: HTMLElement;
    private readonly tip = el("div", { class: "tip", hidden: true });
    private readonly status = el("p", { class: "told", role: "status" });
    private lanes: Lanes | null = null;
    private tops: number[] = [];
    private height = 0;
    private start = 0;
    private end = 1;
    private picked: Bar | null = null;
    private hover: Bar | null = null;
    private drag: { x: number; from: number; moved: boolean; to: number } | null = null;
    private readonly redraw: () => void;

    constructor(private readonly options: LanesOptions) {
        this.canvas = el("canvas", {
            tabindex: "0",
            role: "application",
            "aria-roledescription": "interactive graph",
            "aria-label": `${options.label}. Arrow keys move, Enter zooms, Escape goes back.`,
        });
        this.spacer.append(this.canvas);
        this.stage = el("div", { class: "stage" }, this.spacer);
        // Rows that do not fit are scrolled to once the graph has the focus: until then the wheel
        // moves the page.
        const unfold = button("Show all rows", () => {
            this.stage.classList.add("unfolded");
            this.redraw();
        });
        this.below = el(
            "p",
            { class: "below", hidden: true },
            el("span", {}, "There are more rows: click the graph to scroll in it."),
            unfold,
        );
        this.root = el("div", { class: "lanes" }, this.stage, this.below, this.tip, this.status);
        this.redraw = beforeNextFrame(() => this.draw());
        options.time?.listen(() => {
            this.hideTip();
            this.redraw();
        });
        options.time?.listenCursor(this.redraw);
        // At once: a page that is about to be printed has no next frame.
        onTheme(() => this.draw());
        new ResizeObserver(this.redraw).observe(this.stage);
        this.stage.addEventListener("scroll", () => {
            this.hideTip();
            this.redraw();
        });
        this.listen();
    }

    /** Other bars.  The zoom stays when the axis is the same. */
    show(lanes: Lanes, keep = false): void {
        this.lanes = lanes;
        if (!keep) {
            this.start = lanes.layout.start;
            this.end = lanes.layout.end;
        }
        this.picked = null;
        this.hover = null;
        this.hideTip();
        this.status.textContent = "";
        this.tops = [];
        let y = this.options.time ? AXIS : 0;
        lanes.layout.levels.forEach((_, row) => {
            if (lanes.head?.(row)) y += HEAD;
            this.tops.push(y);
            y += ROW;
        });
        this.height = y + 4;
        this.spacer.style.setProperty("height", `${this.height}px`);
        if (this.options.upward) this.stage.scrollTop = this.height;
        this.redraw();
    }

    reset(): void {
        const { lanes, options } = this;
        if (options.time) options.time.reset();
        else if (lanes) this.window(lanes.layout.start, lanes.layout.end);
    }

    private window(start: number, end: number): void {
        const { layout } = this.lanes!;
        const whole = layout.end - layout.start;
        const length = Math.min(Math.max(end - start, whole * 1e-7), whole);
        this.start = Math.min(Math.max(start, layout.start), layout.end - length);
        this.end = this.start + length;
        this.redraw();
    }

    private get span(): [number, number] {
        const { time } = this.options;
        return time ? [time.start, time.end] : [this.start, this.end];
    }

    private get axis(): { left: number; width: number } {
        if (!this.options.time) return { left: 0, width: Math.max(1, this.stage.clientWidth) };
        return { left: GUTTER, width: Math.max(1, this.stage.offsetWidth - GUTTER - RIGHT) };
    }

    private rowTop(row: number): number {
        if (!this.options.upward) return this.tops[row];
        return this.height - this.tops[row] - ROW;
    }

    // ---------------------------------------------------------------- drawing

    private draw(): void {
        const { canvas, lanes, stage } = this;
        if (!lanes || !stage.clientWidth) return;
        const ratio = window.devicePixelRatio || 1;
        const isTall = stage.scrollHeight > stage.clientHeight + 1;
        this.below.hidden = !isTall;
        stage.classList.toggle("tall", isTall);
        const width = stage.clientWidth;
        // On paper nothing can be scrolled, and the canvas itself says how high its place is.
        const onPaper = isPrinting();
        const high = onPaper ? Math.min(this.height, PAPER_MAX) : Math.max(1, stage.clientHeight);
        if (
            canvas.width !== Math.round(width * ratio) ||
            canvas.height !== Math.round(high * ratio)
        ) {
            canvas.width = Math.round(width * ratio);
            canvas.height = Math.round(high * ratio);
            canvas.style.setProperty("width", `${width}px`);
            canvas.style.setProperty("height", `${high}px`);
        }
        const g = canvas.getContext("2d")!;
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.clearRect(0, 0, width, high);
        g.font = FONT;
        g.textBaseline = "middle";
        g.direction = "ltr";
        const scroll = onPaper ? 0 : stage.scrollTop;
        const axis = this.axis;
        let drawn = 0;
        g.save();
        g.beginPath();
        g.rect(axis.left, 0, axis.width, high);
        g.clip();
        lanes.layout.levels.forEach((level, row) => {
            const y = this.rowTop(row) - scroll;
            if (y > -ROW - HEAD && y < high + HEAD) drawn += this.drawRow(g, level, row, y);
        });
        this.outline(g, this.hover, scroll, cssColor("--soft"), 1);
        this.outline(g, this.picked, scroll, cssColor("--ink"), 2);
        g.restore();
        if (this.options.time) this.drawTime(g, width, high);
        this.drawDrag(g, high);
        // How many bars the picture has: tests hold it against rows times pixels.
        canvas.dataset.drawn = String(drawn);
    }

    private drawRow(g: CanvasRenderingContext2D, level: Level, row: number, y: number): number {
        const lanes = this.lanes!;
        const { left, width } = this.axis;
        const [from, to] = this.span;
        const scale = width / (to - from);
        const head = lanes.head?.(row);
        if (head) {
            g.fillStyle = cssColor("--soft");
            g.fillText(clip(head, width - 8), left + 4, y - HEAD / 2 + 1);
        }
        const ink = cssColor("--bar-ink");
        const hit = cssColor("--hit");
        let drawn = 0;
        let i = lowerBound(level.end, from);
        // What ends where the picture begins is beside it.
        while (i < level.item.length && level.end[i] === from && level.start[i] < from) i++;
        while (i < level.item.length && level.start[i] < to) {
            const item = level.item[i];
            const x = (level.start[i] - from) * scale;
            const wide = (level.end[i] - level.start[i]) * scale;
            const isHit = lanes.isHit?.(item);
            g.globalAlpha = isHit === false ? 0.35 : 1;
            g.fillStyle = isHit ? hit : lanes.color(item);
            drawn++;
            if (wide < 1) {
                const column = Math.floor(x);
                g.fillRect(left + column, y, 1, ROW - 1);
                // The rest of the column is taken; a bar that reaches past it is not.
                i = lowerBound(level.end, from + (column + 1) / scale, i + 1);
                continue;
            }
            const x0 = Math.max(x, 0);
            const shown = Math.min(x + wide, width) - x0;
            g.fillRect(left + x0, y, Math.max(1, shown - (wide > 3 ? 1 : 0)), ROW - 1);
            if (shown > TEXT_MIN) {
                g.fillStyle = isHit ? cssColor("--hit-ink") : ink;
                const text = clip(lanes.name(item), shown - 8);
                if (text) g.fillText(text, left + x0 + 4, y + ROW / 2, shown - 6);
            }
            i++;
        }
        g.globalAlpha = 1;
        return drawn;
    }

    private outline(
        g: CanvasRenderingContext2D,
        bar: Bar | null,
        scroll: number,
        color: string,
        wide: number,
    ): void {
        const level = bar && this.lanes!.layout.levels[bar.row];
        if (!bar || !level) return;
        const { left, width } = this.axis;
        const [from, to] = this.span;
        const scale = width / (to - from);
        const x = Math.max((level.start[bar.i] - from) * scale, -4);
        const end = Math.min((level.end[bar.i] - from) * scale, width + 4);
        if (end < 0 || x > width) return;
        g.strokeStyle = color;
        g.lineWidth = wide;
        const y = this.rowTop(bar.row) - scroll;
        g.strokeRect(
            left + x + wide / 2,
            y + wide / 2,
            Math.max(1, end - x - wide),
            ROW - 1 - wide,
        );
    }

    private drawTime(g: CanvasRenderingContext2D, width: number, high: number): void {
        const { left, width: wide } = this.axis;
        const [from, to] = this.span;
        g.fillStyle = cssColor("--panel");
        g.fillRect(0, 0, width, AXIS - 3);
        g.fillStyle = cssColor("--soft");
        const rough = (to - from) / Math.max(2, wide / 90);
        const step = TIME_STEPS.find((one) => one >= rough) ?? rough;
        g.font = "12px system-ui, sans-serif";
        g.textAlign = "center";
        for (let k = Math.ceil(from / step); k * step <= to; k++) {
            const text = moment(k * step, step);
            const x = left + ((k * step - from) / (to - from)) * wide;
            g.fillText(text, Math.min(x, width - g.measureText(text).width / 2), 10);
        }
        g.textAlign = "start";
        const at = this.options.time!.cursor;
        if (at !== null && at >= from && at <= to) {
            g.fillStyle = cssColor("--soft");
            g.fillRect(left + ((at - from) / (to - from)) * wide, AXIS - 3, 1, high);
        }
    }

    private drawDrag(g: CanvasRenderingContext2D, high: number): void {
        if (!this.drag?.moved || !this.options.time) return;
        g.fillStyle = cssColor("--select");
        const x = Math.min(this.drag.x, this.drag.to);
        g.fillRect(x, 0, Math.abs(this.drag.to - this.drag.x), high);
    }

    // ---------------------------------------------------------------- pointing

    private valueAt(x: number): number {
        const { left, width } = this.axis;
        const [from, to] = this.span;
        return from + ((x - left) / width) * (to - from);
    }

    private barAt(x: number, y: number): Bar | null {
        const { lanes } = this;
        const { left, width } = this.axis;
        if (!lanes || x < left || x > left + width) return null;
        const deep = y + this.stage.scrollTop;
        for (let row = 0; row < this.tops.length; row++) {
            const top = this.rowTop(row);
            if (deep < top || deep >= top + ROW) continue;
            const level = lanes.layout.levels[row];
            const [from, to] = this.span;
            const slack = ((to - from) / width) * 1.5;
            const at = this.valueAt(x);
            let i = lowerBound(level.end, at);
            // What is drawn a pixel wide can be hit beside its end.
            if (i > 0 && (i >= level.item.length || level.start[i] > at)) {
                if (at - level.end[i - 1] < slack) i--;
            }
            return i < level.item.length && level.start[i] <= at + slack ? { row, i } : null;
        }
        return null;
    }

    private listen(): void {
        const { canvas } = this;
        canvas.addEventListener("pointermove", (event) => this.move(event));
        canvas.addEventListener("pointerleave", () => {
            this.hover = null;
            this.hideTip();
            this.options.time?.point(null);
            this.redraw();
        });
        canvas.addEventListener("pointerdown", (event) => {
            if (event.button !== 0) return;
            const x = event.offsetX;
            this.drag = { x, to: x, from: this.span[0], moved: false };
            canvas.setPointerCapture(event.pointerId);
        });
        canvas.addEventListener("pointerup", (event) => this.release(event));
        canvas.addEventListener("pointercancel", () => {
            this.drag = null;
            this.redraw();
        });
        canvas.addEventListener("dblclick", () => {
            if (this.options.time) this.reset();
        });
        canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        canvas.addEventListener("keydown", (event) => {
            if (event.ctrlKey || event.metaKey || event.altKey) return;
            if (!this.key(event.key)) return;
            event.preventDefault();
            event.stopPropagation();
        });
        canvas.addEventListener("focus", () => {
            if (!this.picked && canvas.matches(":focus-visible")) this.pick(this.firstSeen());
        });
    }

    private move(event: PointerEvent): void {
        const x = event.offsetX;
        if (this.drag) {
            this.drag.to = x;
            if (Math.abs(x - this.drag.x) > 4) this.drag.moved = true;
            if (this.drag.moved && !this.options.time) {
                const [from, to] = this.span;
                const by = ((this.drag.x - x) / this.axis.width) * (to - from);
                this.window(this.drag.from + by, this.drag.from + by + (to - from));
            }
            this.hideTip();
            this.redraw();
            return;
        }
        if (this.options.time) this.options.time.point(this.valueAt(x));
        const bar = this.barAt(x, event.offsetY);
        if (bar?.row !== this.hover?.row || bar?.i !== this.hover?.i) this.redraw();
        this.hover = bar;
        if (bar) this.showTip(bar, x, event.offsetY);
        else this.hideTip();
        this.canvas.classList.toggle("over", bar !== null);
    }

    private release(event: PointerEvent): void {
        const { drag } = this;
        this.drag = null;
        if (!drag) return;
        if (drag.moved && this.options.time) {
            const [a, b] = [drag.x, drag.to].sort((p, q) => p - q);
            this.options.time.set(this.valueAt(a), this.valueAt(b));
        } else if (!drag.moved) {
            const bar = this.barAt(event.offsetX, event.offsetY);
            this.pick(bar);
            if (bar && (!this.options.time || this.options.clickZooms)) this.zoomTo(bar);
        }
        this.redraw();
    }

    private wheel(event: WheelEvent): void {
        const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
        const zooms = event.ctrlKey || event.metaKey;
        if (!zooms && Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
        event.preventDefault();
        const { time } = this.options;
        const [from, to] = this.span;
        if (zooms) {
            const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200)));
            const around = this.valueAt(event.offsetX);
            if (time) time.zoom(factor, around);
            else this.window(around - (around - from) * factor, around + (to - around) * factor);
        } else {
            const share = sideways / this.axis.width;
            if (time) time.pan(share);
            else this.window(from + (to - from) * share, to + (to - from) * share);
        }
    }

    private showTip(bar: Bar, x: number, y: number): void {
        const told = this.told(bar);
        const lines = told.lines.map((line) => el("div", {}, line));
        this.tip.replaceChildren(el("strong", {}, foreign(told.title)), ...lines);
        this.tip.hidden = false;
        const room = this.root.clientWidth - this.tip.offsetWidth - 4;
        this.tip.style.setProperty("left", `${Math.max(0, Math.min(x + 14, room))}px`);
        this.tip.style.setProperty("top", `${y + 18}px`);
    }

    private hideTip(): void {
        this.tip.hidden = true;
    }

    private told(bar: Bar): Told {
        const level = this.lanes!.layout.levels[bar.row];
        return this.lanes!.tell(level.item[bar.i], level.end[bar.i] - level.start[bar.i]);
    }

    // ---------------------------------------------------------------- choosing

    private zoomTo(bar: Bar): void {
        const level = this.lanes!.layout.levels[bar.row];
        const [start, end] = [level.start[bar.i], level.end[bar.i]];
        if (this.options.time)
            this.options.time.set(start, end); // an event has no length
        else this.window(start, end);
    }

    private firstSeen(): Bar | null {
        const levels = this.lanes?.layout.levels ?? [];
        const [from, to] = this.span;
        for (let row = 0; row < levels.length; row++) {
            const i = lowerBound(levels[row].end, from);
            if (i < levels[row].item.length && levels[row].start[i] < to) return { row, i };
        }
        return null;
    }

    private pick(bar: Bar | null): void {
        this.picked = bar;
        if (bar) {
            const told = this.told(bar);
            this.status.replaceChildren(
                el("strong", {}, foreign(told.title)),
                ...told.lines.map((line) => el("span", {}, line)),
            );
            this.options.picked?.(this.lanes!.layout.levels[bar.row].item[bar.i]);
            this.reveal(bar);
        } else this.status.textContent = "";
        this.redraw();
    }

    /** Scrolls and moves the window until the bar can be seen. */
    private reveal(bar: Bar): void {
        const top = this.rowTop(bar.row);
        const { stage } = this;
        const axis = this.options.time ? AXIS : 0;
        if (top - axis < stage.scrollTop) stage.scrollTop = top - axis;
        else if (top + ROW > stage.scrollTop + stage.clientHeight) {
            stage.scrollTop = top + ROW - stage.clientHeight + 4;
        }
        const level = this.lanes!.layout.levels[bar.row];
        const [from, to] = this.span;
        if (level.end[bar.i] > from && level.start[bar.i] < to) return;
        const middle = (level.start[bar.i] + level.end[bar.i]) / 2;
        const half = (to - from) / 2;
        if (this.options.time) this.options.time.set(middle - half, middle + half);
        else this.window(middle - half, middle + half);
    }

    /** The bar of another row that shares most with this one. */
    private beside(bar: Bar, row: number): Bar | null {
        const here = this.lanes!.layout.levels[bar.row];
        const there = this.lanes!.layout.levels[row];
        if (!there) return null;
        const [start, end] = [here.start[bar.i], here.end[bar.i]];
        let best: Bar | null = null;
        let most = 0;
        for (let i = lowerBound(there.end, start); i < there.item.length; i++) {
            if (there.start[i] >= end) break;
            const shared = Math.min(end, there.end[i]) - Math.max(start, there.start[i]);
            if (shared > most) {
                most = shared;
                best = { row, i };
            }
        }
        return best;
    }

    private key(name: string): boolean {
        const { lanes } = this;
        if (!lanes) return false;
        const bar = this.picked ?? this.firstSeen();
        const down = this.options.upward ? -1 : 1;
        const go = (to: Bar | null): boolean => {
            if (to) this.pick(to);
            return true;
        };
        switch (name) {
            case "ArrowDown":
                return bar !== null && go(this.beside(bar, bar.row + down));
            case "ArrowUp":
                return bar !== null && go(this.beside(bar, bar.row - down));
            case "ArrowLeft":
                return bar !== null && go(bar.i > 0 ? { row: bar.row, i: bar.i - 1 } : bar);
            case "ArrowRight": {
                if (!bar) return false;
                const last = lanes.layout.levels[bar.row].item.length - 1;
                return go(bar.i < last ? { row: bar.row, i: bar.i + 1 } : bar);
            }
            case "Enter":
                if (bar) this.zoomTo(bar);
                return bar !== null;
            case "Escape":
            case "Backspace":
                this.reset();
                return true;
            case "n":
                return this.nextHit(1);
            case "N":
                return this.nextHit(-1);
            default:
                return false;
        }
    }

    /** On to the next bar that is searched for, row by row. */
    private nextHit(way: 1 | -1): boolean {
        const { lanes } = this;
        if (!lanes?.isHit) return false;
        const { levels } = lanes.layout;
        let row = this.picked?.row ?? (way > 0 ? 0 : levels.length - 1);
        let i = this.picked ? this.picked.i + way : way > 0 ? 0 : Infinity;
        for (let turns = 0; turns <= levels.length; turns++) {
            const items = levels[row]?.item ?? [];
            for (i = Math.min(i, items.length - 1); i >= 0 && i < items.length; i += way) {
                if (!lanes.isHit(items[i])) continue;
                this.pick({ row, i });
                return true;
            }
            row = (row + way + levels.length) % levels.length;
            i = way > 0 ? 0 : Infinity;
        }
        return true;
    }
}
