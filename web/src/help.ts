// SPDX-License-Identifier: Apache-2.0
// The help dialog.
import { button, el } from "./dom";
import type { Section } from "./section";

const KEYS: [string, string][] = [
    ["?", "show this help"],
    ["t", "switch between light and dark (not while a list has the focus)"],
    ["1 \u2013 9", "go to a part of the report"],
    ["0", "show the whole time"],
    ["+  \u2212", "zoom in and out in time"],
    [",  .", "move to earlier and later times"],
    ["/", "search the flame graph; Escape clears the search"],
    ["Tab", "go to the next control or graph"],
];

const GRAPH_KEYS: [string, string][] = [
    ["\u2190 \u2192", "previous and next bar"],
    ["\u2191 \u2193", "caller and callee"],
    ["Enter", "zoom to the bar"],
    ["Escape", "zoom out"],
    ["n  N", "next and previous match of the search"],
];

const MOUSE: [string, string][] = [
    ["drag", "on a time axis: zoom to the range; in a flame graph: pan"],
    ["double-click", "on a time axis: show the whole time"],
    ["click", "zoom to a step, span or function; in time order: select it"],
    ["wheel", "scroll the page; in a focused graph: scroll its rows"],
    ["Ctrl + wheel", "zoom in and out"],
    ["Shift + wheel", "pan"],
];

function list(rows: [string, string][]): HTMLElement {
    const element = el("dl", { class: "keys" });
    for (const [key, text] of rows) {
        element.append(el("dt", {}, el("kbd", {}, key)), el("dd", {}, text));
    }
    return element;
}

export function helpDialog(sections: Section[]): HTMLDialogElement {
    const dialog = el("dialog", { "aria-labelledby": "help-title" });
    const parts = sections.map((one, i) => `${i + 1} ${one.title}`).join(", ");
    dialog.append(
        el("h2", { id: "help-title" }, "Keyboard and mouse"),
        el(
            "div",
            { class: "columns" },
            el("div", {}, el("h3", {}, "Everywhere"), list(KEYS)),
            el(
                "div",
                {},
                el("h3", {}, "In a focused graph"),
                list(GRAPH_KEYS),
                el("h3", {}, "Mouse and touch"),
                list(MOUSE),
            ),
        ),
        el("p", { class: "note" }, `Parts: ${parts}.`),
        el("p", { class: "note" }, "\u201cHow to read this\u201d explains each part."),
        button("Close", () => dialog.close()),
    );
    dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
    });
    return dialog;
}
