// SPDX-License-Identifier: Apache-2.0
// The controls of the flame graph: thread, state, search, and the table of functions.
import { beforeNextFrame, el } from "./dom";
import type { FlameModel } from "./flame_model";
import { percent, value } from "./format";
import type { FunctionRow } from "./functions";
import { fileCell, functionCell, place } from "./section";
import { Table } from "./table";

export function threadSelect(model: FlameModel, changed: () => void): HTMLSelectElement {
    const select = el("select");
    select.append(el("option", { value: "-1" }, `all (${model.stacks.threads.length})`));
    for (const { process, threads } of model.threadGroups()) {
        const options = threads.map(({ index, label }) => el("option", { value: index }, label));
        if (process) select.append(el("optgroup", { label: process }, ...options));
        else select.append(...options);
    }
    select.addEventListener("change", () => {
        model.thread = Number(select.value);
        changed();
    });
    return select;
}

/** Returns null if it is not known which samples were on a CPU. */
export function cpuBox(model: FlameModel, changed: () => void): HTMLElement | null {
    if (!model.stacks.samples.on_cpu) return null;
    const box = el("input", { type: "checkbox" });
    box.addEventListener("change", () => {
        model.onCpuOnly = box.checked;
        changed();
    });
    return el("label", {}, box, " on CPU only");
}

export function searchBox(model: FlameModel, changed: () => void): HTMLInputElement {
    const box = el("input", {
        type: "search",
        placeholder: "Search functions ( / )",
        "aria-label": "Search functions in the flame graph",
        spellcheck: "false",
    });
    const search = beforeNextFrame(() => {
        model.search(box.value);
        changed();
    });
    box.addEventListener("input", search);
    box.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
            box.value = "";
            search();
        }
    });
    return box;
}

export function functionTable(
    model: FlameModel,
    open: (row: FunctionRow) => void,
): Table<FunctionRow> {
    const { unit } = model.stacks;
    const share = (v: number): number => (model.total > 0 ? v / model.total : 0);
    const weight = (title: string, help: string, of: (row: FunctionRow) => number) => [
        {
            title,
            help,
            number: true,
            value: of,
            show: (row: FunctionRow) => value(of(row), unit),
            bar: (row: FunctionRow) => share(of(row)),
        },
        {
            title: `${title} share`,
            number: true,
            value: (row: FunctionRow) => share(of(row)),
            show: (row: FunctionRow) => percent(share(of(row))),
        },
    ];
    return new Table<FunctionRow>({
        caption: "Functions by weight",
        rows: [],
        sort: 2,
        columns: [
            {
                title: "Function",
                value: (row) => model.frameOf(row.id).func,
                show: (row) => functionCell(model.frameOf(row.id), () => open(row)),
            },
            {
                title: "Location",
                help: "File and the heaviest line of the function",
                value: (row) => place(model.frameOf(row.id)),
                show: (row) => fileCell(place(model.frameOf(row.id))),
            },
            ...weight("Own", "In the function itself, without its callees", (row) => row.own),
            ...weight(
                "Total",
                "In the function and its callees; recursion counts once",
                (row) => row.total,
            ),
        ],
    });
}
