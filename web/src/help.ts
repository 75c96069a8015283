// SPDX-License-Identifier: Apache-2.0
// The dialog that says which keys there are.
import { button, el } from "./dom";
import type { Section } from "./section";

const KEYS: [string, string][] = [
    ["?", "this help"],
    ["t", "light or dark; a list with the focus takes letters itself"],
    ["1 \u2013 9", "to a part of the report"],
    ["0", "all of the time again"],
    ["+  \u2212", "nearer and farther in time"],
    [",  .", "earlier and later"],
    ["/", "search in the flame graph; Escape ends it"],
    ["Tab", "from one control or graph to the next"],
];

const GRAPH_KEYS: [string, string][] = [
    ["\u2190 \u2192", "the bar before and after"],
    ["\u2191 \u2193", "the caller and the callee"],
    ["Enter", "zoom to the bar"],
    ["Escape", "zoom out"],
    ["n  N", "next and previous match of the search"],
];

const MOUSE: [string, string][] = [
    ["drag", "on a time axis: zoom to the stretch; in a flame graph: move"],
    ["double-click", "on a time axis: all of the time again"],
    ["click", "on a step, or in a flame graph: zoom to it; in time order: choose it"],
    ["wheel", "moves the page; in a graph that has the focus: its rows"],
    ["Ctrl + wheel", "nearer and farther"],
    ["Shift + wheel", "to the side"],
];

function list(rows: [string, string][]): HTMLElement {
    const made = el("dl", { class: "keys" });
    for (const [key, text] of rows)
        made.append(el("dt", {}, el("kbd", {}, key)), el("dd", {}, text));
    return made;
}

export function helpDialog(sections: Section[]): HTMLDialogElement {
    const dialog = el("dialog", { "aria-labelledby": "help-title" });
    const parts = sections.map((one, i) => `${i + 1} ${one.title}`).join(", ");
    dialog.append(
        el("h2", { id: "help-title" }, "Keys and gestures"),
        el(
            "div",
            { class: "columns" },
            el("div", {}, el("h3", {}, "Everywhere"), list(KEYS)),
            el(
                "div",
                {},
                el("h3", {}, "In a graph that has the focus"),
                list(GRAPH_KEYS),
                el("h3", {}, "Mouse and touch"),
                list(MOUSE),
            ),
        ),
        el("p", { class: "note" }, `Parts: ${parts}.`),
        el("p", { class: "note" }, "Each part explains itself under \u201cHow to read this\u201d."),
        button("Close", () => dialog.close()),
    );
    dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
    });
    return dialog;
}
