// SPDX-License-Identifier: Apache-2.0
// Reads and checks the document that the page contains.
import { SHAPES } from "./document";
import type { Kind, Report } from "./document";

/** Supported kinds of documents, and how the header names them. */
export const KINDS: Record<Kind, string> = {
    run: "Run",
    session: "Session",
    profile: "Profile",
    memory: "Memory recording",
    compare: "Comparison",
};

const FORMAT = "gsprof-report";
const VERSION = 1;

const TYPES: Record<string, string> = { s: "string", n: "number", b: "boolean" };

/** Name, "?" if optional, type, and "=" if it is a column. */
const MEMBER = /(\w+)(\??):(\w+\**)(=?)/g;
const members = new Map(
    Object.entries(SHAPES).map(([type, shape]) => [type, Array.from(shape.matchAll(MEMBER))]),
);

function objectFault(value: unknown, list: string[][]): string {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
        return " is not an object";
    }
    let length = -1;
    for (const [, name, optional, code, column] of list) {
        const member = (value as Record<string, unknown>)[name];
        if (member === undefined && optional) continue;
        const found = member === undefined ? " is missing" : fault(member, code);
        if (found) return `.${name}${found}`;
        if (!column) continue;
        const n = (member as unknown[]).length;
        if (length >= 0 && n !== length) return `.${name} has ${n} entries instead of ${length}`;
        length = n;
    }
    return "";
}

/** Returns where and how a value differs from a type of SHAPES, or "" if it does not differ. */
export function fault(value: unknown, code: string): string {
    const list = members.get(code);
    if (list) return objectFault(value, list);
    if (code.endsWith("*")) {
        if (!Array.isArray(value)) return " is not an array";
        const type = code.slice(0, -1);
        for (let i = 0; i < value.length; i++) {
            const found = fault(value[i], type);
            if (found) return `[${i}]${found}`;
        }
        return "";
    }
    if (value === null && code.endsWith("0")) return "";
    const type = TYPES[code[0]];
    return typeof value === type ? "" : ` is not a ${type}`;
}

/** Throws an error with a message for the user if the page cannot show the document. */
export function parseDocument(text: string): Report {
    let found: unknown;
    try {
        found = JSON.parse(text);
    } catch {
        throw new Error("its document is not valid JSON");
    }
    const { format, version, kind } = (found ?? {}) as Record<string, unknown>;
    if (format !== FORMAT) throw new Error("its document is not a gsprof report");
    if (version !== VERSION) {
        throw new Error(
            `its document has version ${version}, but this page supports version ${VERSION}`,
        );
    }
    if (!Object.keys(KINDS).includes(kind as string)) {
        throw new Error(`its document has the unknown kind ${JSON.stringify(kind)}`);
    }
    const wrong = fault(found, "Report");
    if (wrong) throw new Error(`its document is malformed: ${wrong.slice(1)}`);
    const report = found as Report;
    if (report.kind === "compare" && !report.compare) {
        throw new Error("its document is malformed: compare is missing");
    }
    return report;
}

export function readDocument(): Report {
    return parseDocument(document.getElementById("document")?.textContent ?? "");
}

/** Returns the time of the last event in the report, in seconds. */
export function endOfTime(report: Report): number {
    let end = report.duration_s ?? 0;
    const add = (t: number[] | undefined, durations?: number[]): void => {
        if (!t) return;
        for (let i = 0; i < t.length; i++) end = Math.max(end, t[i] + (durations?.[i] ?? 0));
    };
    for (const chart of [...(report.charts ?? []), ...(report.compare?.charts ?? [])]) {
        for (const line of chart.series) end = Math.max(end, line.t[line.t.length - 1] ?? 0);
    }
    add(report.stacks?.samples.t);
    add(report.steps?.t, report.steps?.duration_s);
    add(report.spans?.t, report.spans?.duration_s);
    return end > 0 && Number.isFinite(end) ? end : 1;
}
