// SPDX-License-Identifier: Apache-2.0
// The parts that are text and tables: summary, modules, memory, losses.
import { ChartView } from "./charts";
import { el, foreign } from "./dom";
import type { Card, Chart, Memory, Module, Report, Site } from "./document";
import { bytes, count, known, percent, seconds } from "./format";
import { TreeLanes } from "./flame";
import { LanesView } from "./lanes";
import type { TimeRange } from "./range";
import { functionCell, section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import type { Column } from "./table";
import { leftHeavy, treeOfStacks } from "./tree";

function card(one: Card): HTMLElement {
    return el(
        "li",
        { class: `card ${one.tone ?? "plain"}`, "data-card": one.id },
        el("span", { class: "card-title" }, foreign(one.title)),
        el("span", { class: "card-value" }, foreign(one.value)),
        one.detail ? el("span", { class: "card-detail" }, foreign(one.detail)) : null,
    );
}

function plainCard(id: string, title: string, value: string): Card {
    return { id, title, value, detail: "", tone: "plain" };
}

/** Cards of the report; a compare report or one without any has what can be said of it. */
function cardsOf(report: Report): Card[] {
    if (report.cards?.length) return report.cards;
    if (!known(report.duration_s)) return [];
    return [plainCard("wall", "Wall time", seconds(report.duration_s))];
}

export function summarySection(report: Report): Section {
    const cards = cardsOf(report);
    const verdict = report.verdict ?? [];
    const content: Node[] = [];
    if (cards.length) content.push(el("ul", { class: "cards" }, ...cards.map(card)));
    const columns = el("div", { class: "columns" });
    if (verdict.length) {
        const lines = verdict.map((line) => el("li", {}, foreign(line)));
        columns.append(
            el("div", { class: "verdict" }, el("h3", {}, "Verdict"), el("ul", {}, ...lines)),
        );
    }
    if (report.facts?.length) {
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
    "All charts share one time axis: the same place from left to right is the same moment in each. Point at a moment to see the values there; without that, the mean and the highest value of what is shown stand beside each name. Click a name to hide or show its line.",
    "Drag across a stretch to look closer: every view on the time axis follows, and the flame graph counts that stretch only. Double-click, press 0, or use the button in the header to see everything again.",
    "Where there are more values than pixels, the lowest and the highest of each pixel are drawn, so no peak is lost. A gap in a line is a time for which the value is not known.",
];

export function chartsSection(charts: Chart[], range: TimeRange): Section | null {
    const used = charts.filter((chart) => chart.series.some((one) => one.t.length > 0));
    if (!used.length) return null;
    const views = used.map((chart) => new ChartView(chart, range).root);
    return section("charts", "Over time", CHARTS_EXPLANATION, ...views);
}

const MODULES_EXPLANATION = [
    "Each row is one module of the model in one stage. Share is its part of the time of all modules in that stage; a module's time includes that of the modules inside it.",
    "The mean hides outliers: compare p50 (a usual call) with p99 and the maximum. Where they are far apart, some calls wait for something.",
];

/** Says of a table that has no times that it does not follow the chosen stretch. */
function ofTheWhole(range: TimeRange, what: string): HTMLElement {
    const text = `${what} of the whole run: the chosen stretch does not limit this part.`;
    const note = el("p", { class: "note whole", role: "status", hidden: true }, text);
    range.listen(() => (note.hidden = range.isWhole));
    return note;
}

export function modulesSection(modules: Module[], range: TimeRange): Section | null {
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
        caption: "Modules by what they took",
        rows: modules,
        sort: 4,
        columns: [
            {
                title: "Module",
                value: (row) => row.module,
                show: (row) => foreign(row.module, { class: "func" }),
            },
            { title: "Class", value: (row) => row.class ?? "" },
            { title: "Stage", value: (row) => row.stage ?? "" },
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
    const note = ofTheWhole(range, "Modules");
    return section("modules", "Modules", MODULES_EXPLANATION, note, table.root);
}

const MEMORY_EXPLANATION = [
    "Peak is the most memory that was resident at once. Growth is the trend over the whole run: a program that keeps growing at a steady pace may be leaking, one that grows at its start is filling caches.",
    "Sites are the places in the program where the memory was asked for that was held at the peak, with the stack that asked. In the graph, width is bytes, and the bars below are what a function called.",
];

function siteName(site: Site): string {
    return site.stack[site.stack.length - 1]?.func ?? "?";
}

export function memorySection(memory: Memory, charts: Chart[], range: TimeRange): Section | null {
    const sites = memory.sites ?? [];
    const facts: Card[] = [];
    if (known(memory.peak_rss_bytes)) {
        facts.push(plainCard("peak", "Peak resident", bytes(memory.peak_rss_bytes)));
    }
    if (known(memory.growth_bytes_per_s)) {
        facts.push(plainCard("growth", "Growth", `${bytes(memory.growth_bytes_per_s)}/s`));
    }
    if (!facts.length && !sites.length && !charts.length) return null;
    const content: Node[] = [ofTheWhole(range, "Memory")];
    if (facts.length) content.push(el("ul", { class: "cards" }, ...facts.map(card)));
    content.push(...charts.map((chart) => new ChartView(chart, range).root));
    if (sites.length) content.push(...siteViews(sites));
    else content.push(el("p", { class: "note" }, "Where memory was allocated was not recorded."));
    return section("memory", "Memory", MEMORY_EXPLANATION, ...content);
}

function siteViews(sites: Site[]): Node[] {
    const { tree, frames } = treeOfStacks(
        sites.map((site) => ({ frames: site.stack, weight: site.bytes ?? 0 })),
    );
    const all = sites.reduce((sum, site) => sum + (site.bytes ?? 0), 0);
    const view = new LanesView({ label: "Memory by call stack" });
    view.show(new TreeLanes(frames, "bytes").of(tree, leftHeavy(tree), all));
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
    return [el("h3", {}, "Where it was allocated"), view.root, table.root];
}

function callers(site: Site): string | Node {
    const above = site.stack.slice(0, -1).reverse();
    if (!above.length) return "\u2013";
    if (above.length === 1) return functionCell(above[0]);
    const list = above.slice(1).map((frame) => el("div", {}, functionCell(frame)));
    return el("details", { class: "stack" }, el("summary", {}, functionCell(above[0])), ...list);
}

const LOSSES_EXPLANATION = [
    "What the measurement itself missed or could not read. Small numbers beside the number of samples change nothing; large ones mean that the shares above have to be read with care.",
];

export function lossesSection(report: Report): Section | null {
    const losses = report.losses;
    if (!losses) return null;
    if (!losses.length) {
        return section("losses", "Losses", [], el("p", { class: "none" }, "Nothing was lost."));
    }
    const table = new Table({
        caption: "What was lost, and why",
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
            { title: "Why", value: (row) => row.why ?? "" },
        ],
    });
    return section("losses", "Losses", LOSSES_EXPLANATION, table.root);
}
