// SPDX-License-Identifier: Apache-2.0
// A table that can be sorted, filtered and copied. The page has only the first rows of a long table,
// but sort, filter and copy apply to all of them.
import { button, copyText, el } from "./dom";
import { count } from "./format";

export type Cell = string | number | null | undefined;

export interface Column<R> {
    title: string;
    /** Tooltip of the heading. */
    help?: string;
    value: (row: R) => Cell;
    /** Formats the value; without it, the value is shown unchanged. */
    show?: (row: R) => string | Node;
    number?: boolean;
    /** Length of a bar below the value, from 0 to 1. */
    bar?: (row: R) => number | null;
    /** Whether the bar starts in the middle; its length is from -1 to 1. */
    signed?: boolean;
}

export interface TableOptions<R> {
    caption: string;
    columns: Column<R>[];
    rows: R[];
    /** Index of the column to sort by at first, and the order. */
    sort?: number;
    descending?: boolean;
}

const FIRST_ROWS = 25;
const FEW_ROWS = 6;
/** Longer texts may be broken anywhere. */
const LONG_TEXT = 40;

function compare(a: Cell, b: Cell): number {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Formats a cell for CSV. A text that a spreadsheet would read as a formula is quoted. */
export function csvCell(cell: Cell): string {
    if (cell === null || cell === undefined) return "";
    let text = String(cell);
    if (typeof cell === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export class Table<R> {
    readonly root: HTMLElement;
    private readonly body = el("tbody");
    private readonly tally = el("span", { class: "tally", role: "status" });
    private readonly more = el("div", { class: "more" });
    private readonly heads: HTMLTableCellElement[] = [];
    private filter: HTMLInputElement | null = null;
    private isHeld = false;
    private readonly frame: HTMLElement;
    private rows: R[];
    private shown: R[] = [];
    private limit = FIRST_ROWS;
    private words: string[] = [];
    private sort: number;
    private descending: boolean;

    constructor(private readonly options: TableOptions<R>) {
        this.rows = options.rows;
        this.sort = options.sort ?? -1;
        this.descending = options.descending ?? true;
        const head = el("tr");
        options.columns.forEach((column, i) => head.append(this.head(column, i)));
        const table = el(
            "table",
            {},
            el("caption", {}, options.caption),
            el("thead", {}, head),
            this.body,
        );
        // Focusable, so that it can be scrolled with the keyboard.
        const scroll = el("div", {
            class: "scroll",
            tabindex: "0",
            role: "region",
            "aria-label": options.caption,
        });
        scroll.append(table);
        this.frame = el("div", { class: "frame" }, scroll, this.more);
        this.root = el("div", { class: "table" }, this.tools(), this.frame);
        this.update();
    }

    setRows(rows: R[]): void {
        this.rows = rows;
        this.update();
    }

    private head(column: Column<R>, i: number): HTMLTableCellElement {
        const sort = (): void => {
            this.descending = this.sort === i ? !this.descending : column.number === true;
            this.sort = i;
            this.update();
        };
        const cell = el(
            "th",
            { scope: "col", class: column.number ? "number" : undefined, title: column.help },
            button(column.title, sort),
        );
        this.heads.push(cell);
        return cell;
    }

    private tools(): HTMLElement {
        const filter = el("input", {
            type: "search",
            placeholder: "Filter",
            "aria-label": `Filter: ${this.options.caption}`,
            spellcheck: "false",
        });
        this.filter = filter;
        filter.addEventListener("input", () => {
            this.hold(filter.value.trim() !== "");
            this.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
            this.limit = FIRST_ROWS;
            this.update();
        });
        const copy = button("Copy as CSV", () => {
            void copyText(this.csv()).then((isDone) => {
                copy.textContent = isDone ? "Copied" : "Not allowed";
                setTimeout(() => (copy.textContent = "Copy as CSV"), 2000);
            });
        });
        return el("div", { class: "tools" }, filter, this.tally, copy);
    }

    /** Keeps the size of the table and its columns while rows are filtered. */
    private hold(isHeld: boolean): void {
        if (isHeld === this.isHeld) return;
        this.isHeld = isHeld;
        const keep = (element: HTMLElement, name: string, size: number): void => {
            if (isHeld) element.style.setProperty(name, `${size}px`);
            else element.style.removeProperty(name);
        };
        const widths = this.heads.map((head) => head.getBoundingClientRect().width);
        this.heads.forEach((head, i) => keep(head, "min-width", widths[i]));
        keep(this.frame, "min-height", this.frame.getBoundingClientRect().height);
    }

    csv(): string {
        const { columns } = this.options;
        const lines = [columns.map((column) => csvCell(column.title)).join(",")];
        for (const row of this.shown) {
            lines.push(columns.map((column) => csvCell(column.value(row))).join(","));
        }
        return lines.join("\r\n") + "\r\n";
    }

    private matches(row: R): boolean {
        if (!this.words.length) return true;
        const text = this.options.columns
            .map((column) => {
                const cell = column.value(row);
                return typeof cell === "string" ? cell : "";
            })
            .join("\n")
            .toLowerCase();
        return this.words.every((word) => text.includes(word));
    }

    private update(): void {
        this.shown = this.rows.filter((row) => this.matches(row));
        const column = this.options.columns[this.sort];
        if (column) {
            const sign = this.descending ? -1 : 1;
            const missing = (cell: Cell): boolean => cell === null || cell === undefined;
            this.shown.sort((a, b) => {
                const x = column.value(a);
                const y = column.value(b);
                // Unknown values come last in both orders.
                if (missing(x) || missing(y)) return Number(missing(x)) - Number(missing(y));
                return sign * compare(x, y);
            });
        }
        this.heads.forEach((head, i) => {
            if (i !== this.sort) head.removeAttribute("aria-sort");
            else head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
        });
        this.draw();
    }

    private draw(): void {
        const some = this.shown.slice(0, this.limit);
        this.body.replaceChildren(...some.map((row) => this.line(row)));
        const all = this.rows.length;
        const seen = this.shown.length;
        const rows = all === 1 ? "row" : "rows";
        const whole = `${count(all)} ${rows}`;
        this.tally.textContent = seen < all ? `${count(seen)} of ${whole}` : whole;
        // Short tables have no filter.
        if (this.filter) this.filter.hidden = all <= FEW_ROWS && !this.words.length;
        this.more.replaceChildren();
        if (some.length < seen) {
            const grow = (to: number): void => {
                this.limit = to;
                this.draw();
            };
            const next = Math.min(seen, this.limit * 4);
            this.more.append(
                button(`Show ${count(next - some.length)} more`, () => grow(next)),
                next < seen ? button(`Show all ${count(seen)}`, () => grow(seen)) : "",
            );
        }
        if (!seen) {
            const text = all ? "No row matches the filter." : "No rows.";
            const cell = el("td", { colspan: this.options.columns.length, class: "none" }, text);
            this.body.append(el("tr", {}, cell));
        }
    }

    private line(row: R): HTMLTableRowElement {
        const line = el("tr");
        this.options.columns.forEach((column, i) => {
            const plain = column.value(row);
            const shown = column.show
                ? column.show(row)
                : typeof plain === "number"
                  ? count(plain)
                  : (plain ?? "\u2013");
            const kind = column.number ? "number" : undefined;
            const cell =
                i === 0
                    ? el("th", { scope: "row", class: kind }, shown)
                    : el("td", { class: kind }, shown);
            if (typeof plain === "string" && plain.length > LONG_TEXT) cell.classList.add("long");
            const bar = column.bar?.(row);
            if (bar) {
                const at = (share: number): string => `${(share * 100).toFixed(2)}%`;
                const size = Math.min(1, Math.max(-1, bar));
                const [from, to] = column.signed
                    ? [Math.min(0.5, 0.5 + size / 2), Math.max(0.5, 0.5 + size / 2)]
                    : [0, size];
                cell.classList.add("bar");
                if (column.signed) cell.classList.add("signed");
                if (bar < 0) cell.classList.add("fewer");
                cell.style.setProperty("--bar-from", at(from));
                cell.style.setProperty("--bar-to", at(to));
            }
            line.append(cell);
        });
        return line;
    }
}
