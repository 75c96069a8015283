// SPDX-License-Identifier: Apache-2.0
// Summary, charts, modules, memory and losses.
import { ChartView } from "./charts";
import { el, foreign } from "./dom";
import type { Card, Chart, Memory, Module, Report, Site } from "./document";
import { bytes, count, known, percent, seconds } from "./format";
import { LanesView } from "./lanes";
import { heaviestFirst } from "./layout";
import type { AxisRange } from "./range";
import { functionCell, section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import type { Column } from "./table";
import { treeOfStacks } from "./tree";
import { TreeLanes } from "./tree_lanes";

function card(one: Card): HTMLElement {
    return el(
        "li",
        { class: `card ${one.tone}`, "data-card": one.id },
        el("span", { class: "card-title" }, foreign(one.title)),
        el("span", { class: "card-value" }, foreign(one.value)),
        one.detail ? el("span", { class: "card-detail" }, foreign(one.detail)) : null,
    );
}

function plainCard(id: string, title: string, value: string): Card {
    return { id, title, value, detail: "", tone: "plain" };
}

/** Returns the cards of the report, or the duration if it has none. */
function cardsOf(report: Report): Card[] {
    if (report.cards.length) return report.cards;
    if (!known(report.duration_s)) return [];
    return [plainCard("wall", "Wall time", seconds(report.duration_s))];
}

export function summarySection(report: Report): Section {
    const cards = cardsOf(report);
    const { verdict } = report;
    const content: Node[] = [];
    if (cards.length) content.push(el("ul", { class: "cards" }, ...cards.map(card)));
    const columns = el("div", { class: "columns" });
    if (verdict.length) {
        const lines = verdict.map((line) => el("li", {}, foreign(line)));
        columns.append(
            el("div", { class: "verdict" }, el("h3", {}, "Verdict"), el("ul", {}, ...lines)),
        );
    }
    if (report.facts.length) {
        const list = el("dl");
        for (const fact of report.facts) {
            list.append(el("dt", {}, foreign(fact.name)), el("dd", {}, foreign(fact.value)));
        }
        columns.append(el("div", { class: "facts" }, el("h3", {}, "Facts"), list));
    }
    if (columns.childNodes.length) content.push(columns);
    return section("summary", "Summary", [], ...content);
}

const CHARTS_EXPLANATION = [
    "All charts share one time axis. Point at a chart to see the values at that time next to each name; otherwise the mean and the maximum of the visible range are shown. Click a name to hide or show its line.",
    "Drag to select a time range: all views on the time axis zoom to it, and the flame graph counts only that range. Double-click, press 0, or click Reset in the header to show everything.",
    "If there are more values than pixels, the lowest and the highest value of each pixel are drawn, so peaks stay visible. A gap in a line is a time for which the value is unknown.",
];

export function chartsSection(charts: Chart[], range: AxisRange): Section | null {
    const used = charts.filter((chart) => chart.series.some((one) => one.t.length > 0));
    if (!used.length) return null;
    const views = used.map((chart) => new ChartView(chart, range).root);
    return section("charts", "Over time", CHARTS_EXPLANATION, ...views);
}

const MODULES_EXPLANATION = [
    "Each row is a module of the model in one stage. Share is its part of the time of all modules in that stage. The time of a module includes the modules inside it.",
    "The mean hides outliers: compare p50 (a typical call) with p99 and the maximum. If they are far apart, some calls wait for something.",
];

/** A note for tables without times, which do not follow the selected range. */
function wholeRunNote(range: AxisRange, what: string): HTMLElement {
    const text = `${what} of the whole run: the selected time range does not apply here.`;
    const note = el("p", { class: "note whole", role: "status", hidden: true }, text);
    range.listen(() => (note.hidden = range.isWhole));
    return note;
}

export function modulesSection(modules: Module[], range: AxisRange): Section | null {
    if (!modules.length) return null;
    const time = (
        title: string,
        of: (row: Module) => number | null | undefined,
    ): Column<Module> => ({
        title,
        number: true,
        value: of,
        show: (row) => seconds(of(row)),
    });
    const table = new Table<Module>({
        caption: "Modules by total time",
        rows: modules,
        sort: 4,
        columns: [
            {
                title: "Module",
                value: (row) => row.module,
                show: (row) => foreign(row.module, { class: "func" }),
            },
            { title: "Class", value: (row) => row.class },
            { title: "Stage", value: (row) => row.stage },
            { title: "Calls", number: true, value: (row) => row.calls },
            { ...time("Total", (row) => row.total_s), bar: (row) => row.share },
            {
                title: "Share",
                number: true,
                value: (row) => row.share,
                show: (row) => percent(row.share),
            },
            time("Mean", (row) => row.mean_s),
            time("p50", (row) => row.p50_s),
            time("p90", (row) => row.p90_s),
            time("p99", (row) => row.p99_s),
            time("Max", (row) => row.max_s),
        ],
    });
    const note = wholeRunNote(range, "Modules");
    return section("modules", "Modules", MODULES_EXPLANATION, note, table.root);
}

const MEMORY_EXPLANATION = [
    "Peak is the highest resident memory. Growth is the trend over the whole run: a program that grows steadily may leak; one that grows only at the start fills caches.",
    "Sites are the call stacks that allocated the memory held at the peak or, in a memory recording, the memory of the view named in the summary. In the graph, the width is bytes, and the bars below a function are its callees.",
];

function siteName(site: Site): string {
    return site.stack[site.stack.length - 1]?.func ?? "?";
}

export function memorySection(memory: Memory, range: AxisRange): Section | null {
    const { sites } = memory;
    const facts: Card[] = [];
    if (known(memory.peak_rss_bytes)) {
        facts.push(plainCard("peak", "Peak resident", bytes(memory.peak_rss_bytes)));
    }
    if (known(memory.growth_bytes_per_s)) {
        facts.push(plainCard("growth", "Growth", `${bytes(memory.growth_bytes_per_s)}/s`));
    }
    if (!facts.length && !sites.length) return null;
    const content: Node[] = [wholeRunNote(range, "Memory")];
    if (facts.length) content.push(el("ul", { class: "cards" }, ...facts.map(card)));
    if (sites.length) content.push(...siteViews(sites));
    else content.push(el("p", { class: "note" }, "Allocation sites were not recorded."));
    return section("memory", "Memory", MEMORY_EXPLANATION, ...content);
}

function siteViews(sites: Site[]): Node[] {
    const { tree, frames } = treeOfStacks(
        sites.map((site) => ({ frames: site.stack, weight: site.bytes ?? 0 })),
    );
    const all = sites.reduce((sum, site) => sum + (site.bytes ?? 0), 0);
    const view = new LanesView({ label: "Memory by call stack" });
    view.show(new TreeLanes(frames, "bytes").of(tree, heaviestFirst(tree), all));
    const table = new Table<Site>({
        caption: "Allocation sites",
        rows: sites,
        sort: 2,
        columns: [
            {
                title: "Site",
                value: siteName,
                show: (site) => functionCell(site.stack[site.stack.length - 1]),
            },
            {
                title: "Called by",
                value: (site) =>
                    site.stack
                        .slice(0, -1)
                        .map((frame) => frame.func)
                        .reverse()
                        .join(" < "),
                show: (site) => callers(site),
            },
            {
                title: "Bytes",
                number: true,
                value: (site) => site.bytes,
                show: (site) => bytes(site.bytes),
                bar: (site) => (all > 0 ? (site.bytes ?? 0) / all : 0),
            },
            { title: "Blocks", number: true, value: (site) => site.count },
        ],
    });
    return [el("h3", {}, "Allocation sites"), view.root, table.root];
}

function callers(site: Site): string | Node {
    const [caller, ...others] = site.stack.slice(0, -1).reverse();
    if (!caller) return "\u2013";
    if (!others.length) return functionCell(caller);
    const list = others.map((frame) => el("div", {}, functionCell(frame)));
    return el("details", { class: "stack" }, el("summary", {}, functionCell(caller)), ...list);
}

const LOSSES_EXPLANATION = [
    "Data that the recording is known to miss. Counts that are small relative to the number of samples do not matter; large ones make the shares above less reliable.",
];

export function lossesSection(report: Report): Section | null {
    if (report.kind === "compare") return null;
    const { losses } = report;
    if (!losses?.length) {
        const text = losses ? "Nothing was lost." : "Losses were not recorded.";
        return section("losses", "Losses", [], el("p", { class: "none" }, text));
    }
    const table = new Table({
        caption: "Losses by cause",
        rows: losses,
        sort: 1,
        columns: [
            { title: "What", value: (row) => row.what },
            {
                title: "Count",
                number: true,
                value: (row) => row.count,
                show: (row) => count(row.count),
            },
            { title: "Why", value: (row) => row.why },
        ],
    });
    return section("losses", "Losses", LOSSES_EXPLANATION, table.root);
}
