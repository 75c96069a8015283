// SPDX-License-Identifier: Apache-2.0
// Steps and spans on the time axis, and what they took.
import { ChartView } from "./charts";
import { afterPause, el } from "./dom";
import type { Report, Spans, Steps, Thread } from "./document";
import { count, quantile, seconds } from "./format";
import { LanesView } from "./lanes";
import type { TimeRange } from "./range";
import { section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import { cssColor, shade, shadeOf } from "./theme";
import { levelOf } from "./tree";
import type { Level } from "./tree";

const EXPLANATION = [
    "Time runs from left to right, on the same axis as the charts. A bar is one step of the training loop, or one span that the program marked; spans inside others stand below them. A mark of one pixel is an event without a length.",
    "Steps alternate between two shades so that their borders can be seen. Those that took more than one and a half times the median are in the colour of a warning.",
    "Click a step or a span, or drag, to look closer; double-click to see everything again. The charts, the flame graph and the tables below follow: the tables count what lies in the chosen stretch, also in part.",
];

interface Placed {
    item: number;
    start: number;
    end: number;
}

interface Row {
    head: string | null;
    level: Level;
}

/** Bars in as few rows as keep them from overlapping. */
function rowsOf(bars: Placed[]): Placed[][] {
    const rows: Placed[][] = [];
    bars.sort((a, b) => a.start - b.start || b.end - a.end);
    for (const bar of bars) {
        // Clocks of two sources may differ by a hair, which is no overlap.
        const slack = (bar.end - bar.start) / 20;
        let row = rows.find((one) => one[one.length - 1].end <= bar.start + slack);
        if (!row) rows.push((row = []));
        const before = row[row.length - 1]?.end ?? bar.start;
        row.push({ ...bar, start: Math.max(bar.start, before) });
    }
    return rows;
}

function threadName(thread: Thread | undefined, i: number): string {
    if (!thread) return `thread ${i}`;
    const who = thread.pid === thread.tid ? `${thread.pid}` : `${thread.pid}/${thread.tid}`;
    return thread.name ? `${thread.name} (${who})` : `thread ${who}`;
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

/** Durations that are counted together. */
interface Group {
    name: string;
    t: number[];
    duration_s: number[];
}

/** Statistics of what lies in the chosen stretch, also in part. */
function statisticsOf(groups: Group[], { start, end, isWhole }: TimeRange): Statistics[] {
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
    range: TimeRange,
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
            column("p50", (row) => quantile(row.sorted, 0.5), "Half took no longer than this"),
            column("p90", (row) => quantile(row.sorted, 0.9), "Nine of ten took no longer"),
            column("p99", (row) => quantile(row.sorted, 0.99), "99 of 100 took no longer"),
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

function groups<K>(n: number, key: (i: number) => K): Map<K, number[]> {
    const made = new Map<K, number[]>();
    for (let i = 0; i < n; i++) {
        const list = made.get(key(i));
        if (list) list.push(i);
        else made.set(key(i), [i]);
    }
    return made;
}

class Timeline {
    private readonly rows: Row[] = [];
    private readonly median: number;
    private readonly stepCount: number;

    constructor(
        private readonly steps: Steps | undefined,
        private readonly spans: Spans | undefined,
        private readonly range: TimeRange,
        /** Whether the document has a chart of the steps, which then is not drawn twice. */
        private readonly hasChart: boolean,
    ) {
        this.stepCount = steps?.t.length ?? 0;
        this.median = quantile(Float64Array.from(steps?.duration_s ?? []).sort(), 0.5) ?? 0;
        if (steps) this.addSteps(steps);
        if (spans) this.addSpans(spans);
    }

    private addSteps(steps: Steps): void {
        const ranks = groups(steps.t.length, (i) => steps.rank?.[i] ?? null);
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
        for (const [thread, list] of groups(spans.t.length, (i) => spans.thread[i])) {
            let head: string | null = threadName(spans.threads?.[thread], thread);
            const depths = Array.from(groups(list.length, (k) => spans.depth[list[k]]));
            depths.sort(([a], [b]) => a - b);
            for (const [, places] of depths) {
                this.add(
                    head,
                    places.map((k) => ({
                        item: this.stepCount + list[k],
                        start: spans.t[list[k]],
                        end: spans.t[list[k]] + spans.duration_s[list[k]],
                    })),
                );
                head = null;
            }
        }
    }

    private add(head: string | null, bars: Placed[]): void {
        for (const row of rowsOf(bars)) {
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
            tell: (item) => {
                const isStep = item < stepCount;
                const from = isStep ? steps! : spans!;
                const i = isStep ? item : item - stepCount;
                const [start, length] = [from.t[i], from.duration_s[i]];
                return {
                    title: isStep ? `step ${steps!.step[item] ?? item}` : spanName(item),
                    lines: [
                        length > 0 ? `took ${seconds(length)}` : "an event",
                        `from ${seconds(start)}`,
                    ],
                };
            },
        });
        return view;
    }

    section(): Section {
        const { steps, spans } = this;
        const content: Node[] = [];
        const there = (steps?.t.length ?? 0) + (spans?.t.length ?? 0);
        const seen = (steps?.seen ?? 0) + (spans?.seen ?? 0);
        if (seen > there) {
            content.push(
                el(
                    "p",
                    { class: "note" },
                    `Of ${count(seen)} steps and spans the shortest and the longest of each stretch are shown.`,
                ),
            );
        }
        content.push(this.lanes().root);
        if (steps?.t.length) content.push(...this.stepViews(steps));
        if (spans?.t.length) {
            const byName = Array.from(groups(spans.t.length, (i) => spans.name[i]));
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
        const ranks = Array.from(groups(steps.t.length, (i) => steps.rank?.[i] ?? null));
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
                title: "Time of each step",
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

export function timelineSection(report: Report, range: TimeRange): Section {
    const hasChart = (report.charts ?? []).some((chart) => chart.id === "steps");
    return new Timeline(report.steps, report.spans, range, hasChart).section();
}
