// SPDX-License-Identifier: Apache-2.0
// Parts of the page, and names and locations of functions.
import { el, foreign } from "./dom";
import type { Child } from "./dom";
import type { Frame } from "./document";

export interface Section {
    id: string;
    title: string;
    root: HTMLElement;
}

/** A part with a heading and an explanation that can be opened. */
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

/** Returns the name of a function, or "(no name)". */
export function nameOf(frame: Location | undefined): string {
    return frame?.func || "(no name)";
}

export function shortFile(file: string): string {
    const parts = file.split("/");
    return parts.length > 4 ? `\u2026/${parts.slice(-3).join("/")}` : file;
}

/** Returns file and line: the given line, else the heaviest of the function, else its first. */
export function place(frame: Location | undefined, line?: number): string {
    if (!frame?.file) return "";
    const shown = line || frame.hot_line || frame.line;
    return shown ? `${frame.file}:${shown}` : frame.file;
}

/** Returns whether the function has only the name of its library, which has no symbols. */
function isLibrary(frame: Location): boolean {
    if (!frame.file || frame.line || frame.hot_line) return false;
    return frame.file.slice(frame.file.lastIndexOf("/") + 1) === frame.func;
}

/** Returns the location to show next to the name; empty if the name is the location. */
export function placeBeside(frame: Location | undefined, line?: number): string {
    return frame && isLibrary(frame) && frame.file === frame.func ? "" : place(frame, line);
}

/** Shows the end of a path; the tooltip has all of it. */
export function fileCell(file: string): HTMLElement {
    return foreign(shortFile(file), { class: "file", title: file });
}

/** Shows the name of a function and its file. */
export function functionCell(
    frame: Location | undefined,
    action?: () => void,
    withFile = !action,
): HTMLElement {
    const name = foreign(nameOf(frame), { class: "func" });
    const cell = el("span", { class: "function", title: place(frame) });
    if (action) {
        const link = el("button", { type: "button", class: "link" }, name);
        link.addEventListener("click", action);
        cell.append(link);
    } else cell.append(name);
    if (frame?.file && withFile && !isLibrary(frame)) cell.append(" ", fileCell(place(frame)));
    return cell;
}
