// SPDX-License-Identifier: Apache-2.0
// Steps and spans on the time axis, and statistics of their durations.
import { ChartView } from "./charts";
import { afterPause, el } from "./dom";
import type { Report, Spans, Steps, Thread } from "./document";
import { count, quantile, seconds } from "./format";
import { LanesView } from "./lanes";
import { levelOf, packRows } from "./layout";
import type { Interval, Level } from "./layout";
import type { AxisRange } from "./range";
import { section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import { cssColor, shade, shadeOf } from "./theme";

const EXPLANATION = [
    "Time runs from left to right, on the same axis as the charts. A bar is a step of the training loop or a span that the program marked; inner spans are below the spans that enclose them. A mark of one pixel is an event without a duration.",
    "Steps alternate between two shades. Steps that took more than one and a half times the median have a warning colour.",
    "Click a step or span, or drag, to zoom in; double-click to show everything. The charts, the flame graph and the tables below follow: the tables count everything that is at least partly inside the selected time range.",
];

interface Row {
    head: string | null;
    level: Level;
}

function threadName(thread: Thread | undefined, i: number): string {
    if (!thread) return `thread ${i}`;
    const [pid, tid] = [thread.pid ?? "?", thread.tid ?? "?"];
    const ids = pid === tid ? `${pid}` : `${pid}/${tid}`;
    return thread.name ? `${thread.name} (${ids})` : `thread ${ids}`;
}

interface Statistics {
    name: string;
    n: number;
    total: number;
    mean: number;
    sorted: Float64Array;
}

function statistics(name: string, durations: number[]): Statistics {
    const sorted = Float64Array.from(durations).sort();
    const total = sorted.reduce((sum, one) => sum + one, 0);
    return { name, n: sorted.length, total, mean: total / sorted.length, sorted };
}

/** Steps or spans with common statistics. */
interface Group {
    name: string;
    t: number[];
    duration_s: number[];
}

/** Returns statistics of everything that is at least partly inside the range. */
function statisticsOf(groups: Group[], { start, end, isWhole }: AxisRange): Statistics[] {
    return groups
        .map(({ name, t, duration_s }) =>
            statistics(
                name,
                duration_s.filter((d, i) => isWhole || (t[i] < end && t[i] + d > start)),
            ),
        )
        .filter((row) => row.n > 0);
}

function statisticsTable(
    caption: string,
    what: string,
    groups: Group[],
    range: AxisRange,
): HTMLElement {
    const rows = statisticsOf(groups, range);
    const column = (title: string, of: (row: Statistics) => number | null, help?: string) => ({
        title,
        help,
        number: true,
        value: of,
        show: (row: Statistics) => seconds(of(row)),
    });
    let most = Math.max(...rows.map((row) => row.total));
    const table = new Table<Statistics>({
        caption,
        rows,
        sort: 2,
        columns: [
            { title: what, value: (row) => row.name },
            { title: "Count", number: true, value: (row) => row.n },
            { ...column("Total", (row) => row.total), bar: (row) => row.total / most },
            column("Mean", (row) => row.mean),
            column("p50", (row) => quantile(row.sorted, 0.5), "Half took at most this long"),
            column("p90", (row) => quantile(row.sorted, 0.9), "90 % took at most this long"),
            column("p99", (row) => quantile(row.sorted, 0.99), "99 % took at most this long"),
            column("Max", (row) => row.sorted[row.n - 1] ?? null),
        ],
    });
    range.listen(
        afterPause(table.root, () => {
            const found = statisticsOf(groups, range);
            most = Math.max(...found.map((row) => row.total));
            table.setRows(found);
        }),
    );
    return table.root;
}

/** Groups the indices below n by a key. */
function groupBy<K>(n: number, key: (i: number) => K): Map<K, number[]> {
    const lists = new Map<K, number[]>();
    for (let i = 0; i < n; i++) {
        const list = lists.get(key(i));
        if (list) list.push(i);
        else lists.set(key(i), [i]);
    }
    return lists;
}

class Timeline {
    private readonly rows: Row[] = [];
    private readonly median: number;
    private readonly stepCount: number;

    constructor(
        private readonly steps: Steps | undefined,
        private readonly spans: Spans | undefined,
        private readonly range: AxisRange,
        /** Whether the document has its own chart of the steps. */
        private readonly hasChart: boolean,
    ) {
        this.stepCount = steps?.t.length ?? 0;
        this.median = quantile(Float64Array.from(steps?.duration_s ?? []).sort(), 0.5) ?? 0;
        if (steps) this.addSteps(steps);
        if (spans) this.addSpans(spans);
    }

    private addSteps(steps: Steps): void {
        const ranks = groupBy(steps.t.length, (i) => steps.rank[i]);
        for (const [rank, list] of ranks) {
            const head = rank === null ? "steps" : `steps of rank ${rank}`;
            this.add(
                head,
                list.map((i) => ({
                    item: i,
                    start: steps.t[i],
                    end: steps.t[i] + steps.duration_s[i],
                })),
            );
        }
    }

    private addSpans(spans: Spans): void {
        for (const [thread, list] of groupBy(spans.t.length, (i) => spans.thread[i])) {
            let head: string | null = threadName(spans.threads[thread], thread);
            const depths = Array.from(groupBy(list.length, (k) => spans.depth[list[k]]));
            depths.sort(([a], [b]) => a - b);
            for (const [, indices] of depths) {
                this.add(
                    head,
                    indices.map((k) => ({
                        item: this.stepCount + list[k],
                        start: spans.t[list[k]],
                        end: spans.t[list[k]] + spans.duration_s[list[k]],
                    })),
                );
                head = null;
            }
        }
    }

    private add(head: string | null, bars: Interval[]): void {
        for (const row of packRows(bars)) {
            this.rows.push({ head, level: levelOf(row) });
            head = null;
        }
    }

    private lanes(): LanesView {
        const { steps, spans, stepCount, median } = this;
        const view = new LanesView({
            label: "Timeline of steps and spans",
            time: this.range,
            clickZooms: true,
        });
        const spanName = (item: number): string =>
            spans!.names[spans!.name[item - stepCount]] ?? "?";
        const shades = (spans?.names ?? []).map(shadeOf);
        const stepColor = (i: number): string => {
            if (steps!.duration_s[i] > 1.5 * median) return cssColor("--slow");
            return cssColor((steps!.step[i] ?? i) % 2 ? "--step-odd" : "--step-even");
        };
        view.show({
            layout: {
                levels: this.rows.map((row) => row.level),
                start: 0,
                end: this.range.max,
            },
            head: (row) => this.rows[row].head,
            name: (item) => (item < stepCount ? `${steps!.step[item] ?? item}` : spanName(item)),
            color: (item) =>
                item < stepCount
                    ? stepColor(item)
                    : shade(shades[spans!.name[item - stepCount]] ?? 0),
            describe: (item) => {
                const isStep = item < stepCount;
                const from = isStep ? steps! : spans!;
                const i = isStep ? item : item - stepCount;
                const [start, length] = [from.t[i], from.duration_s[i]];
                return {
                    title: isStep ? `step ${steps!.step[item] ?? item}` : spanName(item),
                    lines: [
                        length > 0 ? `duration: ${seconds(length)}` : "event",
                        `start: ${seconds(start)}`,
                    ],
                };
            },
        });
        return view;
    }

    section(): Section {
        const { steps, spans } = this;
        const content: Node[] = [];
        const shown = (steps?.t.length ?? 0) + (spans?.t.length ?? 0);
        const seen = (steps?.seen ?? 0) + (spans?.seen ?? 0);
        if (seen > shown) {
            content.push(
                el(
                    "p",
                    { class: "note" },
                    `${count(shown)} of ${count(seen)} steps and spans are shown: the shortest and the longest of each interval.`,
                ),
            );
        }
        content.push(this.lanes().root);
        if (steps?.t.length) content.push(...this.stepViews(steps));
        if (spans?.t.length) {
            const byName = Array.from(groupBy(spans.t.length, (i) => spans.name[i]));
            const rows = byName.map(([name, list]) => ({
                name: spans.names[name] ?? "?",
                t: list.map((i) => spans.t[i]),
                duration_s: list.map((i) => spans.duration_s[i]),
            }));
            content.push(
                el("h3", {}, "Spans"),
                statisticsTable("Spans by name", "Span", rows, this.range),
            );
        }
        return section("timeline", "Steps and spans", EXPLANATION, ...content);
    }

    private stepViews(steps: Steps): Node[] {
        const ranks = Array.from(groupBy(steps.t.length, (i) => steps.rank[i]));
        const name = (rank: number | null): string =>
            rank === null ? "all steps" : `rank ${rank}`;
        const rows = ranks.map(([rank, list]) => ({
            name: name(rank),
            t: list.map((i) => steps.t[i]),
            duration_s: list.map((i) => steps.duration_s[i]),
        }));
        const table = statisticsTable("Steps", "Steps", rows, this.range);
        if (this.hasChart) return [table];
        const chart = new ChartView(
            {
                id: "step-time",
                title: "Step time",
                unit: "s",
                help: null,
                series: ranks.map(([rank, list]) => ({
                    name: name(rank),
                    t: list.map((i) => steps.t[i]),
                    v: list.map((i) => steps.duration_s[i]),
                })),
            },
            this.range,
            steps.t.length < 400,
        );
        return [chart.root, table];
    }
}

export function timelineSection(report: Report, range: AxisRange): Section {
    const hasChart = (report.charts ?? []).some((chart) => chart.id === "steps");
    return new Timeline(report.steps, report.spans, range, hasChart).section();
}
