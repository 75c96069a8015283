// SPDX-License-Identifier: Apache-2.0
// Where the time went, by stacks: in the order of time, the heaviest first, or around a function.
import { Choice, afterPause, beforeNextFrame, button, el } from "./dom";
import type { Frame, Stacks } from "./document";
import { count, percent, value } from "./format";
import { LanesView } from "./lanes";
import type { Lanes } from "./lanes";
import type { TimeRange } from "./range";
import { fileCell, functionCell, nameOf, place, placeBeside, section } from "./section";
import type { Section } from "./section";
import { Table } from "./table";
import { cssColor, shade, shadeOf } from "./theme";
import {
    Functions,
    calleesOf,
    callersOf,
    functionRows,
    leftHeavy,
    matchedWeight,
    newTree,
    processName,
    threadWeights,
    timeOrder,
    towers,
    weigh,
} from "./tree";
import type { CallTree, FunctionRow, Layout, NamedFrame, Shape } from "./tree";

type Mode = "left" | "time" | "sandwich";

const EXPLANATION = [
    "Each bar is a function; the bars below it are what it called. Width is time (or whatever the recording counted): a wide bar at the bottom edge, with nothing below it, is where the program was. Where there are several processes or threads, each stands on its own below a bar with its name.",
    "Point at a bar to see its file and line: of the lines that ran, the one that took the most time, by itself or in what it called.",
    "Heaviest first puts all calls with the same callers together, the widest to the left: best to see where the time goes. Time order shows one thread as it ran, on the same axis as the charts: best to see what happened when. Sandwich takes one function, its callers above and its callees below, wherever it was called: pick it in the table.",
    "Colours tell files apart and mean nothing else. A stretch of time that is chosen in any chart limits this view too; of a sample that reaches beyond it, the part inside counts. Search marks the functions whose name or file has the text, and says how much of the time has one of them on its stack.",
];

/** Whether a bar stands for a process or a thread. */
function isTower(frame: NamedFrame | undefined): boolean {
    return frame?.type === "process" || frame?.type === "thread";
}

/** The lanes of a tree: what bars are called, how they look and what is told of them. */
export class TreeLanes {
    private readonly shades: Int16Array;
    wanted: Uint8Array | null = null;

    constructor(
        private readonly frames: NamedFrame[],
        private readonly unit: string | undefined,
    ) {
        this.shades = Int16Array.from(frames, (frame) =>
            shadeOf(frame.file ? frame.file : (frame.type ?? frame.func)),
        );
    }

    /** Bars that stand for a part of a node's weight (time order) say that too. */
    of(tree: CallTree, layout: Layout, all: number, parts = false): Lanes {
        const { frames, unit, wanted } = this;
        return {
            layout,
            name: (item) => nameOf(frames[tree.frame[item]]),
            color: (item) =>
                isTower(frames[tree.frame[item]])
                    ? cssColor("--bar")
                    : shade(this.shades[tree.frame[item]] ?? 0),
            isHit: wanted ? (item) => wanted[tree.frame[item]] === 1 : undefined,
            tell: (item, length) => {
                const frame = frames[tree.frame[item]];
                const share = (v: number): string =>
                    all > 0 ? `${value(v, unit)}, ${percent(v / all)}` : value(v, unit);
                return {
                    title: nameOf(frame),
                    lines: [
                        placeBeside(frame, tree.line[item]),
                        parts ? `this call: ${value(length, unit)}` : "",
                        `total: ${share(tree.total[item])}`,
                        `self: ${share(tree.own[item])}`,
                        frame?.type && frame.type !== "Python" && !isTower(frame) ? frame.type : "",
                    ].filter(Boolean),
                };
            },
        };
    }
}

/** Which frames have a text in their name or file; null for no text. */
export function framesWith(frames: NamedFrame[], text: string): Uint8Array | null {
    const needle = text.trim().toLowerCase();
    if (!needle) return null;
    return Uint8Array.from(frames, (frame) =>
        `${frame.func}\n${frame.file ?? ""}`.toLowerCase().includes(needle) ? 1 : 0,
    );
}

export class FlameSection {
    readonly section: Section;
    readonly search: HTMLInputElement;
    /** The stacks of all threads as one, and each thread's apart; null where there is one thread. */
    private readonly base: Shape;
    private readonly towers: Shape | null;
    /** Those of the document, and behind them processes and threads. */
    private readonly frames: NamedFrame[];
    private readonly functions: Functions;
    private readonly lanes: TreeLanes;
    private readonly main: LanesView;
    private readonly timed: LanesView;
    private readonly callers: LanesView;
    private readonly callees: LanesView;
    private readonly panes = el("div", { class: "panes" });
    private readonly note = el("p", { class: "note", role: "status" });
    private readonly found = el("span", { class: "tally", role: "status" });
    private readonly thread: HTMLSelectElement;
    private readonly table: Table<FunctionRow>;
    private readonly mode: Choice<Mode>;
    private readonly weights: Float64Array;
    private readonly busiest: number;
    private onCpuOnly = false;
    private chosen = -1;
    private all = 0;
    private samples = 0;
    /** Where the bars of the time order stand, as last drawn. */
    private order: Layout | null = null;

    constructor(
        private readonly stacks: Stacks,
        private readonly range: TimeRange,
    ) {
        const { parent, frame, line } = stacks.nodes;
        this.base = { tree: newTree(parent, frame, line), nodeOf: stacks.samples.node };
        this.frames = [...stacks.frames];
        this.towers = towers(stacks, this.base.tree, this.frames);
        this.functions = new Functions(stacks.frames);
        this.lanes = new TreeLanes(this.frames, stacks.unit);
        this.weights = threadWeights(stacks);
        const running = threadWeights(stacks, true);
        this.busiest = running.indexOf(Math.max(...running));
        this.main = new LanesView({ label: "Flame graph, heaviest first" });
        this.timed = new LanesView({ label: "Flame graph in the order of time", time: range });
        this.callers = new LanesView({ label: "Callers of the function", upward: true });
        this.callees = new LanesView({ label: "Callees of the function" });
        const modes: [Mode, string][] = [
            ["left", "Heaviest first"],
            ["time", "Time order"],
            ["sandwich", "Sandwich"],
        ];
        this.mode = new Choice<Mode>(
            "View of the flame graph",
            modes.filter(([mode]) => mode !== "time" || (stacks.samples.t && stacks.unit === "s")),
            "left",
            () => this.update(),
        );
        this.thread = this.threads();
        this.search = this.searchBox();
        this.table = this.functionTable();
        const tools = el(
            "div",
            { class: "tools" },
            this.mode.root,
            el("label", {}, "Thread ", this.thread),
            this.cpuBox(),
            button("Reset zoom", () => this.resetZoom()),
            this.search,
            this.found,
        );
        this.section = section(
            "stacks",
            "Flame graph",
            EXPLANATION,
            tools,
            this.note,
            this.panes,
            el("h3", {}, "Functions"),
            this.table.root,
        );
        // What is weighed waits until the stretch has been found; the axis follows at once.
        range.listen(
            afterPause(this.section.root, () => {
                if (this.mode.value !== "time") this.update();
                else {
                    this.weigh();
                    this.say();
                    this.showTime(true);
                }
            }),
        );
        this.update();
    }

    private threads(): HTMLSelectElement {
        const select = el("select");
        const all = this.weights.reduce((sum, one) => sum + one, 0);
        select.append(el("option", { value: "-1" }, `all (${this.stacks.threads.length})`));
        const order = this.stacks.threads.map((_, i) => i);
        order.sort((a, b) => this.weights[b] - this.weights[a]);
        const groups = new Map<number | null, HTMLElement>();
        const several = new Set(this.stacks.threads.map(({ pid }) => pid)).size > 1;
        for (const i of order) {
            const { pid, tid, name } = this.stacks.threads[i];
            const share = all > 0 ? `, ${percent(this.weights[i] / all)}` : "";
            const option = el("option", { value: i }, `${name || "thread"} (${tid})${share}`);
            if (!several) select.append(option);
            else if (groups.has(pid)) groups.get(pid)!.append(option);
            else {
                const group = el("optgroup", { label: processName(this.stacks, pid) }, option);
                groups.set(pid, group);
                select.append(group);
            }
        }
        select.addEventListener("change", () => this.update());
        return select;
    }

    private cpuBox(): HTMLElement | null {
        if (!this.stacks.samples.on_cpu) return null;
        const box = el("input", { type: "checkbox" });
        box.addEventListener("change", () => {
            this.onCpuOnly = box.checked;
            this.update();
        });
        return el("label", {}, box, " only on a CPU");
    }

    private searchBox(): HTMLInputElement {
        const box = el("input", {
            type: "search",
            placeholder: "Search functions ( / )",
            "aria-label": "Search functions in the flame graph",
            spellcheck: "false",
        });
        const look = beforeNextFrame(() => {
            this.lanes.wanted = framesWith(this.frames, box.value);
            this.draw(true);
        });
        box.addEventListener("input", look);
        box.addEventListener("keydown", (event) => {
            if (event.key === "Escape") {
                box.value = "";
                look();
            }
        });
        return box;
    }

    private functionTable(): Table<FunctionRow> {
        const frame = (row: FunctionRow): Frame => this.stacks.frames[this.functions.frame[row.id]];
        const { unit } = this.stacks;
        const share = (v: number): number => (this.all > 0 ? v / this.all : 0);
        return new Table<FunctionRow>({
            caption: "Functions by what they took",
            rows: [],
            sort: 2,
            columns: [
                {
                    title: "Function",
                    value: (row) => frame(row).func,
                    show: (row) => functionCell(frame(row), () => this.sandwich(row.id)),
                },
                {
                    title: "Place",
                    help: "File and line; of the lines of a function the one that took the most",
                    value: (row) => place(frame(row)),
                    show: (row) => fileCell(place(frame(row))),
                },
                {
                    title: "Self",
                    help: "In the function itself, not in what it called",
                    number: true,
                    value: (row) => row.own,
                    show: (row) => value(row.own, unit),
                    bar: (row) => share(row.own),
                },
                {
                    title: "Self share",
                    number: true,
                    value: (row) => share(row.own),
                    show: (row) => percent(share(row.own)),
                },
                {
                    title: "Total",
                    help: "In the function and in what it called; recursion counts once",
                    number: true,
                    value: (row) => row.total,
                    show: (row) => value(row.total, unit),
                    bar: (row) => share(row.total),
                },
                {
                    title: "Total share",
                    number: true,
                    value: (row) => share(row.total),
                    show: (row) => percent(share(row.total)),
                },
            ],
        });
    }

    private sandwich(id: number): void {
        this.chosen = id;
        this.mode.set("sandwich");
        this.section.root.scrollIntoView({ block: "start" });
    }

    private resetZoom(): void {
        this.main.reset();
        this.callers.reset();
        this.callees.reset();
        this.range.reset();
    }

    /** In the order of time there is one thread at a time: the busiest, unless one is chosen. */
    private get threadShown(): number {
        const wanted = Number(this.thread.value);
        if (wanted >= 0 || this.mode.value !== "time") return wanted;
        return this.busiest;
    }

    /** All threads stand beside each other, each on its own; one thread needs no tower. */
    private get shape(): Shape {
        return this.threadShown < 0 && this.towers ? this.towers : this.base;
    }

    private get tree(): CallTree {
        return this.shape.tree;
    }

    private get choice() {
        return {
            thread: this.threadShown,
            onCpuOnly: this.onCpuOnly,
            start: this.range.start,
            end: this.range.end,
            part: !this.range.isWhole,
            timed: this.stacks.unit === "s",
        };
    }

    private weigh(): void {
        const found = weigh(this.shape, this.stacks.samples, this.choice);
        this.all = found.weight;
        this.samples = found.samples;
        this.table.setRows(functionRows(this.tree, this.functions));
        this.sayFound();
    }

    private update(): void {
        this.weigh();
        this.draw(false);
    }

    private draw(keep: boolean): void {
        const mode = this.mode.value;
        if (mode === "sandwich" && this.chosen < 0 && this.all > 0) this.chooseBusiest();
        this.say();
        this.sayFound();
        if (!this.all) {
            this.panes.replaceChildren(el("p", { class: "none" }, this.whyNothing()));
        } else if (mode === "left") this.drawLeft(keep);
        else if (mode === "time") this.drawTime(keep);
        else this.drawSandwich(keep);
    }

    private put(...panes: Node[]): void {
        if (panes.length === this.panes.childNodes.length && panes[0] === this.panes.firstChild)
            return;
        this.panes.replaceChildren(...panes);
    }

    private drawLeft(keep: boolean): void {
        this.put(this.main.root);
        this.main.show(this.lanes.of(this.tree, leftHeavy(this.tree), this.all), keep);
    }

    private drawTime(keep: boolean): void {
        this.put(this.timed.root);
        this.order = timeOrder(this.tree, this.stacks.samples, this.choice, this.range.max);
        this.showTime(keep);
    }

    /** The bars stay where they are; what is told of them is of the chosen stretch. */
    private showTime(keep: boolean): void {
        if (this.order) this.timed.show(this.lanes.of(this.tree, this.order, this.all, true), keep);
    }

    private chooseBusiest(): void {
        const rows = functionRows(this.tree, this.functions);
        this.chosen = rows.reduce((best, row) => (row.own > best.own ? row : best)).id;
    }

    private drawSandwich(keep: boolean): void {
        const { tree, functions, lanes, all } = this;
        const up = callersOf(tree, functions, this.chosen);
        const down = calleesOf(tree, functions, this.chosen);
        const name = nameOf(this.stacks.frames[functions.frame[this.chosen]]);
        this.put(
            el("h3", {}, "Callers"),
            this.callers.root,
            el("h3", {}, "Callees"),
            this.callees.root,
        );
        if (!up.parent.length) {
            this.note.textContent = `${name} is not in what is chosen. Pick another in the table.`;
        }
        this.callers.show(lanes.of(up, leftHeavy(up), all), keep);
        this.callees.show(lanes.of(down, leftHeavy(down), all), keep);
    }

    private whyNothing(): string {
        if (!this.stacks.samples.node.length) {
            return "No sample was taken: the program was too short, or could not be read.";
        }
        return "No sample in what is chosen: another thread or a longer stretch of time has some.";
    }

    private say(): void {
        const { threads, unit } = this.stacks;
        const parts = [`${value(this.all, unit)} in ${count(this.samples)} samples`];
        if (!this.range.isWhole) parts.push("of the chosen stretch only");
        if (this.mode.value === "time" && Number(this.thread.value) < 0 && threads.length > 1) {
            const { name, tid } = threads[this.threadShown];
            parts.push(`the busiest thread: ${name || tid}`);
        }
        if (this.mode.value === "sandwich" && this.chosen >= 0) {
            parts.push(nameOf(this.stacks.frames[this.functions.frame[this.chosen]]));
        }
        this.note.textContent = parts.join(" \u00b7 ");
    }

    private sayFound(): void {
        const { wanted } = this.lanes;
        if (!wanted) {
            this.found.textContent = "";
            return;
        }
        const ids = new Set<number>();
        const { of } = this.functions;
        wanted.forEach((hit, frame) => hit && frame < of.length && ids.add(of[frame]));
        const share = this.all > 0 ? matchedWeight(this.tree, wanted) / this.all : 0;
        this.found.textContent = `${count(ids.size)} functions, ${percent(share)}`;
    }
}
