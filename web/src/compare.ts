// SPDX-License-Identifier: Apache-2.0
// The comparison of two recordings.
import { ChartView } from "./charts";
import { Choice, el, foreign } from "./dom";
import type {
    Change,
    Compare,
    DiffStacks,
    Frame,
    FunctionChange,
    RuleResult,
    Verdict,
} from "./document";
import { change, count, fixed, known, value } from "./format";
import { matchFrames } from "./functions";
import { LanesView } from "./lanes";
import { heaviestFirst } from "./layout";
import type { AxisRange } from "./range";
import { fileCell, functionCell, nameOf, place, section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import { divergent } from "./theme";
import { newTree } from "./tree";

const EXPLANATION = [
    "Each row compares one value of both runs. Change is the difference of the second run relative to the first. The interval contains the true change with 95 % confidence; if it contains zero, chance alone may explain the difference.",
    "p is the probability that chance alone shows a difference this large. Effect ranges from \u22121 (every value of the second run is below every value of the first) through 0 (no difference) to 1. A difference below 1 % counts as the same, however certain it is. Too few values give no verdict.",
];

const FLAME_EXPLANATION =
    "Red functions took more time in the second run, blue ones less, grey ones the same; a stronger colour is a larger relative change. The width is the time in the first run, in the second, or the mean of both.";

function verdictMark(verdict: Verdict): HTMLElement {
    const words: Record<Verdict, string> = {
        better: "\u25b2 better",
        worse: "\u25bc worse",
        changed: "\u25c6 changed",
        same: "= same",
        unknown: "? too few values",
    };
    return el("span", { class: `mark ${verdict}` }, words[verdict] ?? verdict);
}

function interval(row: Change): string {
    if (!known(row.low) || !known(row.high) || change(row.change).startsWith("from")) {
        return "\u2013";
    }
    return `${change(row.low)} to ${change(row.high)}`;
}

/** Draws the interval relative to zero. */
function whisker(row: Change, most: number): Node {
    const holder = el("span", { class: "whisker", "aria-hidden": "true" });
    if (!known(row.low) || !known(row.high) || !known(row.change)) return holder;
    const at = (v: number): number => 50 + 50 * Math.max(-1, Math.min(1, v / most));
    const bar = el("span", { class: `reach ${row.verdict}` });
    bar.style.setProperty("left", `${at(row.low)}%`);
    bar.style.setProperty("width", `${Math.max(1, at(row.high) - at(row.low))}%`);
    const dot = el("span", { class: "dot" });
    dot.style.setProperty("left", `${at(row.change)}%`);
    holder.append(bar, dot);
    return holder;
}

function changeTable(caption: string, what: string, rows: Change[], compare: Compare): HTMLElement {
    const most = Math.max(
        0.05,
        ...rows.map((row) =>
            Math.min(1, Math.max(Math.abs(row.low ?? 0), Math.abs(row.high ?? 0))),
        ),
    );
    return new Table<Change>({
        caption,
        rows,
        columns: [
            {
                title: what,
                value: (row) => row.name,
                show: (row) => foreign(row.name, { class: "func" }),
            },
            {
                title: compare.a.name,
                number: true,
                value: (row) => row.a,
                show: (row) => value(row.a, row.unit),
            },
            {
                title: compare.b.name,
                number: true,
                value: (row) => row.b,
                show: (row) => value(row.b, row.unit),
            },
            {
                title: "Change",
                number: true,
                value: (row) => row.change,
                show: (row) => change(row.change),
            },
            {
                title: "95 % interval",
                value: (row) => interval(row),
                show: (row) => el("span", { class: "interval" }, interval(row), whisker(row, most)),
            },
            {
                title: "p",
                help: "Probability that chance alone shows such a difference",
                number: true,
                value: (row) => row.p,
                show: (row) =>
                    known(row.p) ? (row.p < 0.001 ? "< 0.001" : row.p.toFixed(3)) : "\u2013",
            },
            {
                title: "Effect",
                help: "From \u22121 (every value of the second run is lower) to 1 (every one is higher)",
                number: true,
                value: (row) => row.effect,
                show: (row) => fixed(row.effect, 2),
            },
            {
                title: "Values",
                help: "Number of values of each run",
                number: true,
                value: (row) => row.n_a,
                show: (row) => `${count(row.n_a)} / ${count(row.n_b)}`,
            },
            {
                title: "Verdict",
                value: (row) => row.verdict,
                show: (row) => verdictMark(row.verdict),
            },
        ],
    }).root;
}

const PER: Record<NonNullable<Compare["per"]>, string> = {
    step: "Time per step, without warm-up and without time outside steps.",
    run: "Time of the whole run.",
    share: "In percent of the total, because the lengths of the runs differ too much.",
};

function functionTable(rows: FunctionChange[], compare: Compare): HTMLElement {
    const unit = compare.stacks?.unit ?? "s";
    const signed = (v: number | null | undefined): string =>
        `${(v ?? 0) > 0 ? "+" : ""}${value(v, unit)}`;
    const most = Math.max(...rows.map((row) => Math.abs(row.change_s ?? 0)), 1e-12);
    const side = (name: string, of: (row: FunctionChange) => number | null) => ({
        title: name,
        help: "In the function itself, without its callees",
        number: true,
        value: of,
        show: (row: FunctionChange) => value(of(row), unit),
    });
    const interval = (row: FunctionChange): string =>
        known(row.low_s) && known(row.high_s)
            ? `${signed(row.low_s)} to ${signed(row.high_s)}`
            : "\u2013";
    return new Table<FunctionChange>({
        caption: "Functions by change",
        rows: [...rows].sort((x, y) => Math.abs(y.change_s ?? 0) - Math.abs(x.change_s ?? 0)),
        columns: [
            {
                title: "Function",
                value: (row) => row.func,
                show: (row) => functionCell(row, undefined, false),
            },
            { title: "Location", value: (row) => place(row), show: (row) => fileCell(place(row)) },
            side(compare.a.name, (row) => row.a_s),
            side(compare.b.name, (row) => row.b_s),
            {
                title: "Change",
                number: true,
                value: (row) => row.change_s,
                show: (row) => signed(row.change_s),
                bar: (row) => (row.change_s ?? 0) / most,
                signed: true,
            },
            { title: "95 % interval", number: true, value: interval },
            {
                title: "Verdict",
                value: (row) => row.verdict,
                show: (row) => verdictMark(row.verdict),
            },
        ],
    }).root;
}

type Width = "a" | "b" | "both";

function differentialFlameGraph(compare: Compare, stacks: DiffStacks): Node[] {
    const { frames, nodes } = stacks;
    const tree = newTree(nodes.parent, nodes.frame);
    const n = tree.parent.length;
    const a = Float64Array.from({ length: n }, (_, i) => nodes.a[i] || 0);
    const b = Float64Array.from({ length: n }, (_, i) => nodes.b[i] || 0);
    const both = a.map((one, i) => (one + b[i]) / 2);
    const widths: Record<Width, Float64Array> = { a, b, both };
    const view = new LanesView({ label: "Differential flame graph" });
    let matches: Uint8Array | null = null;
    const frame = (item: number): Frame | undefined => frames[tree.frame[item]];
    const show = (keepZoom: boolean): void => {
        const marked = matches;
        view.show(
            {
                layout: heaviestFirst(tree, widths[choice.value]),
                name: (item) => nameOf(frame(item)),
                color: (item) => divergent((b[item] - a[item]) / Math.max(a[item], b[item], 1e-12)),
                isMatch: marked ? (item) => marked[tree.frame[item]] === 1 : undefined,
                describe: (item) => ({
                    title: nameOf(frame(item)),
                    lines: [
                        place(frame(item)),
                        `${compare.a.name}: ${value(a[item], stacks.unit)}`,
                        `${compare.b.name}: ${value(b[item], stacks.unit)}`,
                        `change: ${a[item] > 0 ? change((b[item] - a[item]) / a[item]) : "new"}`,
                    ].filter(Boolean),
                }),
            },
            keepZoom,
        );
    };
    const choice = new Choice<Width>(
        "Width of the bars",
        [
            ["both", "Mean of both"],
            ["a", compare.a.name],
            ["b", compare.b.name],
        ],
        "both",
        () => show(false),
    );
    const search = el("input", {
        type: "search",
        placeholder: "Search functions",
        "aria-label": "Search functions in the differential flame graph",
    });
    search.addEventListener("input", () => {
        matches = matchFrames(frames, search.value);
        show(true);
    });
    show(false);
    const key = el(
        "span",
        { class: "scale" },
        el("span", { class: "less" }, "less"),
        el("span", { class: "even" }, "same"),
        el("span", { class: "more" }, "more"),
    );
    return [
        el("h3", {}, "Differential flame graph"),
        el("p", { class: "note" }, FLAME_EXPLANATION, " ", compare.per ? PER[compare.per] : ""),
        el("div", { class: "tools" }, choice.root, search, key),
        view.root,
    ];
}

/** The results of the --fail-if rules. */
function rules(compare: Compare): Node[] {
    const rows = [...compare.metrics, ...(compare.modules ?? [])];
    const list = (results: RuleResult[]): HTMLElement[] =>
        results.map((one) => {
            const unit = rows.find((row) => row.name === one.name)?.unit;
            const text = one.rule.endsWith("%") ? change(one.value) : value(one.value, unit);
            return el("li", {}, foreign(one.rule), ` (measured: ${text})`);
        });
    const lists: Node[] = [];
    if (compare.failed?.length) {
        const title = el("h3", {}, "Failed rules");
        lists.push(
            el("div", { class: "rules failed" }, title, el("ul", {}, ...list(compare.failed))),
        );
    }
    if (compare.passed?.length) {
        const title = el("h3", {}, "Passed rules");
        lists.push(el("div", { class: "rules" }, title, el("ul", {}, ...list(compare.passed))));
    }
    return lists;
}

/** `shown` has the lines of the summary, which are not repeated. */
export function compareSection(compare: Compare, shown: string[], range: AxisRange): Section {
    const content: Node[] = [];
    if (compare.verdict && !shown.includes(compare.verdict))
        content.push(el("p", { class: "headline" }, foreign(compare.verdict)));
    const sides = [compare.a, compare.b].map((side) =>
        el("li", {}, el("strong", {}, foreign(side.name)), " ", foreign(side.title)),
    );
    content.push(el("ul", { class: "sides" }, ...sides));
    content.push(...rules(compare));
    if (compare.metrics.length) {
        content.push(
            el("h3", {}, "Metrics"),
            changeTable("Metrics of both runs", "Metric", compare.metrics, compare),
        );
    } else content.push(el("p", { class: "none" }, "The runs have no metric in common."));
    if (compare.modules?.length) {
        content.push(
            el("h3", {}, "Modules"),
            changeTable("Modules of both runs", "Module", compare.modules, compare),
        );
    }
    if (compare.stacks?.nodes.parent.length) {
        content.push(...differentialFlameGraph(compare, compare.stacks));
    }
    if (compare.functions?.length) {
        content.push(el("h3", {}, "Functions"), functionTable(compare.functions, compare));
    }
    const charts = compare.charts.filter((chart) => chart.series.length);
    if (charts.length) {
        content.push(el("h3", {}, "Over time, each from its own start"));
        content.push(...charts.map((chart) => new ChartView(chart, range).root));
    }
    return section("compare", "Comparison", EXPLANATION, ...content);
}
