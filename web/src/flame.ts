// SPDX-License-Identifier: Apache-2.0
// The flame graph: heaviest first, in time order, or around one function.
import { Choice, afterPause, button, el } from "./dom";
import type { Stacks } from "./document";
import { cpuBox, functionTable, searchBox, threadSelect } from "./flame_controls";
import { FlameModel } from "./flame_model";
import type { Mode } from "./flame_model";
import type { FunctionRow } from "./functions";
import { LanesView } from "./lanes";
import { heaviestFirst } from "./layout";
import type { Layout } from "./layout";
import type { AxisRange } from "./range";
import { nameOf, section } from "./section";
import type { Section } from "./section";
import type { Table } from "./table";
import { TreeLanes } from "./tree_lanes";

const EXPLANATION = [
    "Each bar is a function; the bars below it are its callees. The width is time, or whatever the recording counted. A wide bar with nothing below it is where the program spent its time. If there are several processes or threads, each has its own tower below a bar with its name.",
    "Point at a bar to see its file and line: the line with the most time, including the calls it made.",
    "Heaviest first merges all calls with the same callers, the widest on the left: best to see where the time goes. Time order shows one thread as it ran, on the same axis as the charts: best to see what happened when. Sandwich shows one function, its callers above and its callees below, merged over all calls: click a function in the table.",
    "Colours distinguish files and have no other meaning. A time range selected in any chart also limits this view; a sample that is partly inside counts in part. Search highlights the functions whose name or file contains the text, and shows the share of the time that has one of them on the stack.",
];

const MODES: [Mode, string][] = [
    ["left", "Heaviest first"],
    ["time", "Time order"],
    ["sandwich", "Sandwich"],
];

export class FlameSection {
    readonly section: Section;
    readonly search: HTMLInputElement;
    private readonly model: FlameModel;
    private readonly lanes: TreeLanes;
    private readonly main = new LanesView({ label: "Flame graph, heaviest first" });
    private readonly timed: LanesView;
    private readonly callers = new LanesView({ label: "Callers of the function", upward: true });
    private readonly callees = new LanesView({ label: "Callees of the function" });
    private readonly panes = el("div", { class: "panes" });
    private readonly note = el("p", { class: "note", role: "status" });
    private readonly found = el("span", { class: "tally", role: "status" });
    private readonly table: Table<FunctionRow>;
    private readonly mode: Choice<Mode>;
    /** The time order as last drawn. */
    private order: Layout | null = null;

    constructor(stacks: Stacks, range: AxisRange) {
        const model = new FlameModel(stacks, range);
        const update = (): void => this.update();
        this.model = model;
        this.lanes = new TreeLanes(model.frames, stacks.unit);
        this.timed = new LanesView({ label: "Flame graph in time order", time: range });
        this.mode = new Choice<Mode>(
            "View of the flame graph",
            MODES.filter(([mode]) => mode !== "time" || model.hasTimes),
            "left",
            (mode) => {
                model.mode = mode;
                this.update();
            },
        );
        this.search = searchBox(model, () => {
            this.lanes.matches = model.matches;
            this.draw(true);
        });
        this.table = functionTable(model, (row) => this.sandwich(row.id));
        const tools = el(
            "div",
            { class: "tools" },
            this.mode.root,
            el("label", {}, "Thread ", threadSelect(model, update)),
            cpuBox(model, update),
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
        // The axis follows the range at once; the weights wait for the end of the gesture.
        range.listen(afterPause(this.section.root, () => this.follow()));
        this.update();
    }

    private follow(): void {
        if (this.model.mode !== "time") {
            this.update();
            return;
        }
        this.weigh();
        this.label();
        this.showTime(true);
    }

    private sandwich(id: number): void {
        this.model.chosen = id;
        this.mode.set("sandwich");
        this.section.root.scrollIntoView({ block: "start" });
    }

    private resetZoom(): void {
        for (const view of [this.main, this.callers, this.callees, this.timed]) view.range.reset();
    }

    private weigh(): void {
        this.model.weigh();
        this.table.setRows(this.model.rows());
    }

    private update(): void {
        this.weigh();
        this.draw(false);
    }

    private draw(keepZoom: boolean): void {
        const { model } = this;
        if (model.mode === "sandwich") model.choose();
        this.label();
        if (!model.total) {
            this.panes.replaceChildren(el("p", { class: "none" }, model.emptyReason()));
        } else if (model.mode === "left") {
            this.put(this.main.root);
            const layout = heaviestFirst(model.tree);
            this.main.show(this.lanes.of(model.tree, layout, model.total), keepZoom);
        } else if (model.mode === "time") {
            this.put(this.timed.root);
            this.order = model.timeOrder();
            this.showTime(keepZoom);
        } else this.drawSandwich(keepZoom);
    }

    private put(...panes: Node[]): void {
        if (panes.length === this.panes.childNodes.length && panes[0] === this.panes.firstChild)
            return;
        this.panes.replaceChildren(...panes);
    }

    /** The bars keep their places; their descriptions follow the selected range. */
    private showTime(keepZoom: boolean): void {
        const { lanes, model, order } = this;
        if (order) this.timed.show(lanes.of(model.tree, order, model.total, true), keepZoom);
    }

    private drawSandwich(keepZoom: boolean): void {
        const { lanes, model } = this;
        const up = model.callers();
        const down = model.callees();
        this.put(
            el("h3", {}, "Callers"),
            this.callers.root,
            el("h3", {}, "Callees"),
            this.callees.root,
        );
        if (!up.parent.length) {
            const name = nameOf(model.frameOf(model.chosen));
            this.note.textContent = `The selection has no samples of ${name}. Click another function in the table.`;
        }
        this.callers.show(lanes.of(up, heaviestFirst(up), model.total), keepZoom);
        this.callees.show(lanes.of(down, heaviestFirst(down), model.total), keepZoom);
    }

    private label(): void {
        const { model } = this;
        const isSandwich = model.mode === "sandwich" && model.chosen >= 0;
        const name = isSandwich ? ` \u00b7 ${nameOf(model.frameOf(model.chosen))}` : "";
        this.note.textContent = model.summary() + name;
        this.found.textContent = model.matchSummary();
    }
}
