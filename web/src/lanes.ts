// SPDX-License-Identifier: Apache-2.0
// A graph of rows of bars: flame graphs and timelines.
import { GUTTER, RIGHT } from "./charts";
import { beforeNextFrame, button, el, foreign } from "./dom";
import { drawLanes } from "./lanes_draw";
import { AXIS, Axis, ROW, Rows, barNear } from "./lanes_geometry";
import type { Bar } from "./lanes_geometry";
import { LanesInput } from "./lanes_input";
import type { LanesTarget } from "./lanes_input";
import type { Layout } from "./layout";
import { AxisRange } from "./range";
import { isPrinting, onTheme } from "./theme";

export interface Description {
    title: string;
    lines: string[];
}

/** Bars, and how to show them. */
export interface Lanes {
    layout: Layout;
    /** Text above a row, or null. */
    head?: (row: number) => string | null;
    name: (item: number) => string;
    color: (item: number) => string;
    describe: (item: number, length: number) => Description;
    /** Whether an item matches the search; absent without a search. */
    isMatch?: (item: number) => boolean;
}

export interface LanesOptions {
    label: string;
    /** The time axis of the bars; without it, the graph zooms by itself. */
    time?: AxisRange;
    /** Whether the first row is at the bottom. */
    upward?: boolean;
    /** Whether a click on a bar zooms to it also on a time axis. */
    clickZooms?: boolean;
}

/** Pixels from top to bottom: browsers limit the size of a canvas. */
const PAPER_MAX = 8000;
/** How far beside a bar the pointer still hits it, in pixels. */
const SLACK = 1.5;

export class LanesView implements LanesTarget {
    readonly root: HTMLElement;
    readonly canvas: HTMLCanvasElement;
    readonly redraw: () => void;
    lanes: Lanes | null = null;
    range: AxisRange;
    picked: Bar | null = null;
    private hover: Bar | null = null;
    private rows = new Rows(0, 0, false, () => false);
    private readonly stage: HTMLElement;
    private readonly spacer = el("div", { class: "spacer" });
    private readonly below: HTMLElement;
    private readonly tip = el("div", { class: "tip", hidden: true });
    private readonly status = el("p", { class: "picked", role: "status" });
    private readonly input: LanesInput;

    constructor(readonly options: LanesOptions) {
        this.canvas = el("canvas", {
            tabindex: "0",
            role: "application",
            "aria-roledescription": "interactive graph",
            "aria-label": `${options.label}. Arrow keys move, Enter zooms in, Escape zooms out.`,
        });
        this.spacer.append(this.canvas);
        this.stage = el("div", { class: "stage" }, this.spacer);
        this.below = this.moreRows();
        this.root = el("div", { class: "lanes" }, this.stage, this.below, this.tip, this.status);
        this.redraw = beforeNextFrame(() => this.draw());
        this.range = options.time ?? new AxisRange(1);
        options.time?.listen(() => this.moved());
        options.time?.listenCursor(this.redraw);
        // At once: a page that is about to be printed has no next frame.
        onTheme(() => this.draw());
        new ResizeObserver(this.redraw).observe(this.stage);
        this.stage.addEventListener("scroll", () => this.moved());
        this.input = new LanesInput(this);
    }

    /** Shows other bars. `keepZoom` needs a layout with the same axis as before. */
    show(lanes: Lanes, keepZoom = false): void {
        const { layout, head } = lanes;
        const { time, upward } = this.options;
        this.lanes = lanes;
        if (!keepZoom && !time) {
            this.range = new AxisRange(layout.end, layout.end * 1e-7);
            this.range.listen(this.redraw);
        }
        this.picked = null;
        this.hover = null;
        this.status.textContent = "";
        const hasHead = (row: number): boolean => Boolean(head?.(row));
        this.rows = new Rows(layout.levels.length, time ? AXIS : 0, Boolean(upward), hasHead);
        this.spacer.style.setProperty("height", `${this.rows.height}px`);
        if (upward) this.stage.scrollTop = this.rows.height;
        this.moved();
    }

    get axis(): Axis {
        const { start, end } = this.range;
        const { clientWidth, offsetWidth } = this.stage;
        if (!this.options.time) return new Axis(0, Math.max(1, clientWidth), start, end);
        return new Axis(GUTTER, Math.max(1, offsetWidth - GUTTER - RIGHT), start, end);
    }

    barAt(x: number, y: number): Bar | null {
        const { axis } = this;
        const row = axis.has(x) ? this.rows.at(y + this.stage.scrollTop) : -1;
        const level = this.lanes?.layout.levels[row];
        const i = level ? barNear(level, axis.valueAt(x), SLACK / axis.scale) : -1;
        return i < 0 ? null : { row, i };
    }

    point(bar: Bar | null, x: number, y: number): void {
        if (bar?.row !== this.hover?.row || bar?.i !== this.hover?.i) this.redraw();
        this.hover = bar;
        this.canvas.classList.toggle("over", bar !== null);
        this.tip.hidden = !bar;
        if (!bar) return;
        const { title, lines } = this.describe(bar);
        this.tip.replaceChildren(
            el("strong", {}, foreign(title)),
            ...lines.map((line) => el("div", {}, line)),
        );
        const right = this.root.clientWidth - this.tip.offsetWidth - 4;
        this.tip.style.setProperty("left", `${Math.max(0, Math.min(x + 14, right))}px`);
        this.tip.style.setProperty("top", `${y + 18}px`);
    }

    moved(): void {
        this.tip.hidden = true;
        this.redraw();
    }

    pick(bar: Bar | null): void {
        this.picked = bar;
        this.status.replaceChildren();
        if (bar) {
            const { title, lines } = this.describe(bar);
            this.status.append(
                el("strong", {}, foreign(title)),
                ...lines.map((line) => el("span", {}, line)),
            );
            this.reveal(bar);
        }
        this.redraw();
    }

    zoomTo(bar: Bar): void {
        const { start, end } = this.lanes!.layout.levels[bar.row];
        this.range.set(start[bar.i], end[bar.i]);
    }

    /** Rows that do not fit can be scrolled once the graph has the focus: until then the wheel
     * scrolls the page. */
    private moreRows(): HTMLElement {
        const unfold = button("Show all rows", () => {
            this.stage.classList.add("unfolded");
            this.redraw();
        });
        const text = el("span", {}, "There are more rows: click the graph to scroll in it.");
        return el("p", { class: "below", hidden: true }, text, unfold);
    }

    private describe({ row, i }: Bar): Description {
        const { item, start, end } = this.lanes!.layout.levels[row];
        return this.lanes!.describe(item[i], end[i] - start[i]);
    }

    /** Scrolls and pans until the bar is visible. */
    private reveal({ row, i }: Bar): void {
        const { stage, range } = this;
        const top = this.rows.top(row);
        const axis = this.options.time ? AXIS : 0;
        if (top - axis < stage.scrollTop) stage.scrollTop = top - axis;
        else if (top + ROW > stage.scrollTop + stage.clientHeight) {
            stage.scrollTop = top + ROW - stage.clientHeight + 4;
        }
        const { start, end } = this.lanes!.layout.levels[row];
        if (end[i] > range.start && start[i] < range.end) return;
        const middle = (start[i] + end[i]) / 2;
        range.set(middle - range.length / 2, middle + range.length / 2);
    }

    private draw(): void {
        const { canvas, lanes, stage, rows } = this;
        if (!lanes || !stage.clientWidth) return;
        const isTall = stage.scrollHeight > stage.clientHeight + 1;
        this.below.hidden = !isTall;
        stage.classList.toggle("tall", isTall);
        const width = stage.clientWidth;
        // Paper cannot be scrolled: there the canvas is as high as its rows.
        const onPaper = isPrinting();
        const height = onPaper ? Math.min(rows.height, PAPER_MAX) : Math.max(1, stage.clientHeight);
        const g = this.context(width, height);
        const drawn = drawLanes(g, {
            lanes,
            rows,
            axis: this.axis,
            width,
            height,
            scroll: onPaper ? 0 : stage.scrollTop,
            hover: this.hover,
            picked: this.picked,
            hasTime: this.options.time !== undefined,
            cursor: this.range.cursor,
            drag: this.input.selection,
        });
        // The tests compare it with rows times pixels.
        canvas.dataset.drawn = String(drawn);
    }

    /** Returns the context of the canvas in this size; its unit is a CSS pixel. */
    private context(width: number, height: number): CanvasRenderingContext2D {
        const { canvas } = this;
        const ratio = window.devicePixelRatio || 1;
        const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
        if (canvas.width !== w || canvas.height !== h) {
            canvas.width = w;
            canvas.height = h;
            canvas.style.setProperty("width", `${width}px`);
            canvas.style.setProperty("height", `${height}px`);
        }
        const g = canvas.getContext("2d")!;
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        return g;
    }
}
