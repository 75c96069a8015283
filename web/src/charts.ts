// SPDX-License-Identifier: Apache-2.0
// Charts on the shared time axis: they zoom together and show the same cursor.
import uPlot from "uplot";
import { decimate, lowerBound } from "./decimate";
import { beforeNextFrame, button, el, foreign } from "./dom";
import type { Chart, Series } from "./document";
import { BYTE_STEPS, TIME_STEPS, known, moment, value } from "./format";
import type { AxisRange } from "./range";
import { cssColor, lineColor, onTheme } from "./theme";

/** Space left and right of the time axis in all views on it, in CSS pixels. */
export const GUTTER = 74;
export const RIGHT = 14;
const HEIGHT = 150;
/** How far beyond its ends a line still has a value, in pixels. */
const SLACK = 3;
/** Lines after these are hidden until the user shows them. */
const LINES_AT_FIRST = 8;

interface Key {
    button: HTMLButtonElement;
    value: HTMLElement;
    swatch: HTMLElement;
}

interface Extent {
    low: number;
    high: number;
    mean: number;
}

function extent(series: Series, start: number, end: number): Extent | null {
    let low = Infinity;
    let high = -Infinity;
    let sum = 0;
    let n = 0;
    for (let i = lowerBound(series.t, start); i < series.t.length && series.t[i] <= end; i++) {
        const v = series.v[i];
        if (!known(v)) continue;
        low = Math.min(low, v);
        high = Math.max(high, v);
        sum += v;
        n++;
    }
    return n ? { low, high, mean: sum / n } : null;
}

function extremes(lists: (number | null | undefined)[][]): [number, number] {
    let [low, high] = [Infinity, -Infinity];
    for (const list of lists) {
        for (const v of list) {
            if (!known(v)) continue;
            low = Math.min(low, v);
            high = Math.max(high, v);
        }
    }
    return [low, high];
}

export class ChartView {
    readonly root: HTMLElement;
    private readonly holder = el("div", { class: "plot" });
    private readonly keys: Key[] = [];
    private readonly shown: boolean[];
    private readonly series: Series[];
    private plot: uPlot | null = null;
    /** The lowest and the highest value of all points, and of the loaded points. */
    private readonly wholeExtent: [number, number];
    private loaded: [number, number] = [0, 1];
    private readonly refresh: () => void;

    constructor(
        private readonly chart: Chart,
        private readonly range: AxisRange,
        private readonly points = false,
    ) {
        this.series = chart.series.filter((one) => one.t.length > 0);
        this.wholeExtent = extremes(this.series.map((one) => one.v));
        this.shown = this.series.map((_, i) => i < LINES_AT_FIRST);
        const title = el(
            "h3",
            {},
            foreign(chart.title),
            chart.unit ? el("span", { class: "unit" }, ` ${chart.unit}`) : null,
        );
        const help = chart.help
            ? el(
                  "details",
                  { class: "explain small" },
                  el("summary", {}, "What this shows"),
                  el("p", {}, foreign(chart.help)),
              )
            : null;
        const head = el("figcaption", {}, title, this.legend(), help);
        this.root = el("figure", { class: "chart", "data-chart": chart.id }, head, this.holder);
        this.refresh = beforeNextFrame(() => this.load());
        range.listen(this.refresh);
        range.listenCursor(() => this.showCursor());
        onTheme(() => this.build());
        const observer = new ResizeObserver(() => this.resize());
        observer.observe(this.holder);
    }

    private legend(): HTMLElement {
        const list = el("div", { class: "legend", role: "group", "aria-label": "Lines" });
        this.series.forEach((one, i) => {
            const swatch = el("span", { class: "swatch" });
            const number = el("span", { class: "at" });
            const key = button("", () => this.toggle(i), {
                "aria-pressed": String(this.shown[i]),
                title: "Show or hide this line",
            });
            key.append(swatch, foreign(one.name, { class: "name" }), number);
            this.keys.push({ button: key, value: number, swatch });
            list.append(key);
        });
        if (this.series.length > LINES_AT_FIRST) {
            const all = button(
                "",
                () => {
                    const to = this.shown.includes(false);
                    this.shown.forEach((shown, i) => shown !== to && this.toggle(i));
                    label();
                },
                { class: "all" },
            );
            const label = (): void => {
                const some = this.shown.includes(false);
                all.textContent = some ? `Show all ${this.series.length}` : "Hide all";
            };
            label();
            list.prepend(all);
        }
        return list;
    }

    private toggle(i: number): void {
        this.shown[i] = !this.shown[i];
        this.keys[i].button.setAttribute("aria-pressed", String(this.shown[i]));
        this.plot?.setSeries(i + 1, { show: this.shown[i] });
        this.load();
    }

    private get width(): number {
        return Math.max(160, Math.floor(this.holder.clientWidth));
    }

    private resize(): void {
        if (!this.plot) this.build();
        else if (this.plot.width !== this.width) {
            this.plot.setSize({ width: this.width, height: HEIGHT });
            this.load();
        }
    }

    private build(): void {
        if (!this.holder.isConnected || !this.holder.clientWidth) return;
        this.plot?.destroy();
        this.keys.forEach((key, i) => key.swatch.style.setProperty("background", lineColor(i)));
        this.plot = new uPlot(this.settings(), [[]], this.holder);
        this.load();
    }

    private settings(): uPlot.Options {
        const soft = cssColor("--soft");
        const bytewise = /^(bytes|B)(\/s)?$/.test(this.chart.unit);
        const grid = { stroke: cssColor("--grid"), width: 1 };
        const font = "12px system-ui, sans-serif";
        return {
            width: this.width,
            height: HEIGHT,
            padding: [8, RIGHT, 0, 0],
            legend: { show: false },
            scales: {
                x: { time: false, auto: false },
                y: { range: () => this.yRange() },
            },
            cursor: {
                drag: { x: true, y: false, setScale: false },
                points: { size: 6 },
                bind: {
                    dblclick: () => () => {
                        this.range.reset();
                        return null;
                    },
                },
            },
            axes: [
                {
                    stroke: soft,
                    grid,
                    ticks: { show: false },
                    font,
                    size: 30,
                    gap: 8,
                    space: 70,
                    incrs: TIME_STEPS,
                    values: (_u, marks) => {
                        const step = marks.length > 1 ? marks[1] - marks[0] : 1;
                        return marks.map((t) => moment(t, step));
                    },
                },
                {
                    stroke: soft,
                    grid,
                    ticks: { show: false },
                    font,
                    size: GUTTER,
                    space: 32,
                    ...(bytewise ? { incrs: BYTE_STEPS } : {}),
                    values: (_u, marks) => marks.map((v) => value(v, this.chart.unit)),
                },
            ],
            series: [
                {},
                ...this.series.map((one, i) => ({
                    label: one.name,
                    show: this.shown[i],
                    stroke: lineColor(i),
                    width: 1.5,
                    points: { show: () => this.fewPoints, size: 4, fill: lineColor(i) },
                    spanGaps: false,
                })),
            ],
            hooks: {
                setSelect: [
                    (u) => {
                        const { left, width } = u.select;
                        if (width < 3) return;
                        this.range.set(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
                        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                    },
                ],
                setCursor: [
                    (u) => {
                        const left = u.cursor.left ?? -1;
                        this.range.point(left >= 0 ? u.posToVal(left, "x") : null);
                    },
                ],
            },
        };
    }

    /** Returns the ends of the y axis. That of percentages does not depend on the range: it ends at
     * 100, or at the next multiple of 100 if several cores were busy. Others begin at zero unless
     * that hides detail, and include the points next to the range, so that lines stay inside. */
    private yRange(): [number, number] {
        const [low, high] = this.chart.unit === "%" ? this.wholeExtent : this.loaded;
        if (!(low <= high)) return [0, 1];
        if (this.chart.unit === "%" && low >= 0) {
            // Allow for a small error of the clock.
            return [0, Math.max(Math.ceil((high - 1) / 100) * 100, high, 100)];
        }
        const bottom = low >= 0 && low < high * 0.7 ? 0 : low;
        const margin = (high - bottom || Math.abs(high) || 1) * 0.08;
        return [bottom === 0 && low >= 0 ? 0 : bottom - margin, high + margin];
    }

    /** A line of few points could be invisible without markers. */
    private get fewPoints(): boolean {
        return this.points || (this.plot?.data[0].length ?? 0) < this.width / 30;
    }

    private load(): void {
        const plot = this.plot;
        if (!plot) return;
        const { start, end } = this.range;
        const pixels = this.width - GUTTER - RIGHT;
        const lines = this.series.map((one, i) => (this.shown[i] ? one : { t: [], v: [] }));
        const data = decimate(lines, start, end, pixels);
        this.loaded = extremes(data.ys);
        this.root.dataset.height = this.yRange().join(" ");
        plot.batch(() => {
            plot.setData([data.x, ...data.ys] as uPlot.AlignedData, false);
            plot.setScale("x", { min: start, max: end });
        });
        // The tests compare it with the width.
        this.root.dataset.points = String(data.x.length);
        this.root.dataset.thinned = String(data.thinned);
        this.showCursor();
    }

    /** Shows the cursor of the view under the pointer here as well. */
    private showCursor(): void {
        const plot = this.plot;
        if (!plot) return;
        const at = this.range.cursor;
        const left = at === null ? -10 : plot.valToPos(at, "x");
        if (Math.abs((plot.cursor.left ?? -10) - left) > 0.5) {
            plot.setCursor({ left, top: plot.cursor.top ?? -10 }, false);
        }
        this.updateLegend();
    }

    /** Shows the value at the cursor next to each name; without a cursor, mean and maximum. */
    private updateLegend(): void {
        const at = this.range.cursor;
        this.keys.forEach((key, i) => {
            key.value.textContent = !this.shown[i]
                ? ""
                : at === null
                  ? this.summary(this.series[i])
                  : this.valueAt(this.series[i], at);
        });
    }

    private readonly summaries = new Map<Series, { from: number; to: number; text: string }>();

    private summary(one: Series): string {
        const { start, end } = this.range;
        const kept = this.summaries.get(one);
        if (kept && kept.from === start && kept.to === end) return kept.text;
        const found = extent(one, start, end);
        const { unit } = this.chart;
        const text = found
            ? `mean ${value(found.mean, unit)}, max ${value(found.high, unit)}`
            : "no values";
        this.summaries.set(one, { from: start, to: end, text });
        return text;
    }

    /** Returns the value nearest to a time. Before the first and after the last point there is none:
     * the process did not exist. */
    private valueAt(one: Series, at: number): string {
        const last = one.t.length - 1;
        const slack = (SLACK * this.range.length) / (this.width - GUTTER - RIGHT);
        if (at < one.t[0] - slack || at > one.t[last] + slack) return value(null, this.chart.unit);
        const after = Math.min(lowerBound(one.t, at), last);
        const before = Math.max(0, after - 1);
        const nearest = at - one.t[before] < one.t[after] - at ? before : after;
        return value(one.v[nearest], this.chart.unit);
    }
}
