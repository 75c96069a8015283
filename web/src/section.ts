// SPDX-License-Identifier: Apache-2.0
// The parts of the page, and how each says what it shows.
import { el, foreign } from "./dom";
import type { Child } from "./dom";
import type { Frame } from "./document";

export interface Section {
    id: string;
    title: string;
    root: HTMLElement;
}

/** A part with a heading and an explanation that opens. */
export function section(
    id: string,
    title: string,
    explanation: string[],
    ...content: Child[]
): Section {
    const heading = el("h2", { id: `${id}-title`, tabindex: "-1" }, title);
    const root = el("section", { id, "aria-labelledby": `${id}-title` }, heading);
    if (explanation.length) {
        root.append(
            el(
                "details",
                { class: "explain" },
                el("summary", {}, "How to read this"),
                ...explanation.map((text) => el("p", {}, text)),
            ),
        );
    }
    root.append(...content.filter((child): child is Node | string => Boolean(child)));
    return { id, title, root };
}

export type Location = Pick<Frame, "func" | "file" | "line" | "hot_line">;

/** A frame's function; there are programs that give theirs no name. */
export function nameOf(frame: Location | undefined): string {
    return frame?.func || "(no name)";
}

export function shortFile(file: string | null | undefined): string {
    if (!file) return "";
    const parts = file.split("/");
    return parts.length > 4 ? `\u2026/${parts.slice(-3).join("/")}` : file;
}

/** File and line: the line that is given, else the function's heaviest, else its first. */
export function place(frame: Location | undefined, line?: number): string {
    if (!frame?.file) return "";
    const shown = line || frame.hot_line || frame.line;
    return shown ? `${frame.file}:${shown}` : frame.file;
}

/** Whether the function's name is only that of its library, which has no names for its functions. */
function isLibrary(frame: Location): boolean {
    if (!frame.file || frame.line || frame.hot_line) return false;
    return frame.file.slice(frame.file.lastIndexOf("/") + 1) === frame.func;
}

/** The same beside the function's name; empty if it says nothing more. */
export function placeBeside(frame: Location | undefined, line?: number): string {
    return frame && isLibrary(frame) && frame.file === frame.func ? "" : place(frame, line);
}

/** A place for a cell: its end, and all of it for whoever points at it. */
export function fileCell(file: string | null | undefined): HTMLElement {
    return foreign(shortFile(file), { class: "file", title: file ?? "" });
}

/** A function's name with its file behind it, for a cell. */
export function functionCell(
    frame: Location | undefined,
    act?: () => void,
    withFile = !act,
): HTMLElement {
    const name = foreign(nameOf(frame), { class: "func" });
    const made = el("span", { class: "function", title: place(frame) });
    if (act) {
        const link = el("button", { type: "button", class: "link" }, name);
        link.addEventListener("click", act);
        made.append(link);
    } else made.append(name);
    if (frame?.file && withFile && !isLibrary(frame)) made.append(" ", fileCell(place(frame)));
    return made;
}
