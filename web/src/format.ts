// SPDX-License-Identifier: Apache-2.0
// Formats numbers with three significant figures and a suitable unit.

const DASH = "\u2013";
const MINUS = "\u2212";

function figures(v: number, digits = 3): string {
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e15 || size < 1e-6) return v.toExponential(digits - 1);
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return v
        .toLocaleString("en-US", { maximumFractionDigits: Math.min(decimals, 9) })
        .replace("-", MINUS);
}

export function known(v: number | null | undefined): v is number {
    return typeof v === "number" && Number.isFinite(v);
}

export function count(v: number | null | undefined): string {
    return known(v) ? v.toLocaleString("en-US", { maximumFractionDigits: 2 }) : DASH;
}

/** Formats with a fixed number of decimals and a minus sign. */
export function fixed(v: number | null | undefined, decimals: number): string {
    return known(v) ? v.toFixed(decimals).replace("-", MINUS) : DASH;
}

export function percent(share: number | null | undefined): string {
    if (!known(share)) return DASH;
    const size = Math.abs(share * 100);
    return `${(share * 100).toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)} %`;
}

/** Above this share the old value was close to zero, and a percentage says nothing. */
const FROM_NOTHING = 100;

/** Formats a change with its sign: +4.10 %. */
export function change(share: number | null | undefined): string {
    if (!known(share)) return DASH;
    if (share > FROM_NOTHING) return "from ~0";
    return (share > 0 ? "+" : share < 0 ? MINUS : "\u00b1") + percent(Math.abs(share));
}

export function seconds(v: number | null | undefined): string {
    if (!known(v)) return DASH;
    const size = Math.abs(v);
    if (size === 0) return "0 s";
    if (size < 1e-6) return `${figures(v * 1e9)} ns`;
    if (size < 1e-3) return `${figures(v * 1e6)} \u00b5s`;
    if (size < 1) return `${figures(v * 1e3)} ms`;
    if (size < 120) return `${figures(v)} s`;
    const whole = Math.round(size);
    const sign = v < 0 ? MINUS : "";
    const two = (n: number): string => String(n).padStart(2, "0");
    if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
    return `${sign}${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

export function bytes(v: number | null | undefined): string {
    if (!known(v)) return DASH;
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let at = 0;
    let size = v;
    while (Math.abs(size) >= 1024 && at < units.length - 1) {
        size /= 1024;
        at++;
    }
    return `${figures(size)} ${units[at]}`;
}

/** Formats a value with a unit of the document: "s", "bytes", "bytes/s", "%", "W", "" ... */
export function value(v: number | null | undefined, unit: string | undefined): string {
    if (!known(v)) return DASH;
    switch (unit ?? "") {
        case "s":
            return seconds(v);
        case "bytes":
        case "B":
            return bytes(v);
        case "bytes/s":
        case "B/s":
            return `${bytes(v)}/s`;
        case "":
            return figures(v);
        default:
            return `${figures(v)} ${unit}`;
    }
}

/** Formats a time on an axis whose marks are `step` apart. */
export function moment(t: number, step: number): string {
    const decimals = step >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(step) - 1e-9));
    if (Math.abs(t) < 60 && step < 60) return `${t.toFixed(decimals)} s`;
    const sign = t < 0 ? MINUS : "";
    const size = Math.abs(t);
    const hours = Math.floor(size / 3600);
    const minutes = Math.floor((size % 3600) / 60);
    const rest = (size % 60).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, "0");
    const head = hours ? `${hours}:${String(minutes).padStart(2, "0")}` : String(minutes);
    return `${sign}${head}:${rest}`;
}

/** Distances between the marks of a time axis. */
export const TIME_STEPS: number[] = [];
for (let power = 1e-9; power < 0.5; power *= 10) {
    TIME_STEPS.push(...[1, 2, 5].map((k) => Number((k * power).toPrecision(3))));
}
TIME_STEPS.push(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200);
for (let days = 86400; days < 1e10; days *= 10) TIME_STEPS.push(days, days * 2, days * 5);

/** Distances between the marks of an axis of bytes. */
export const BYTE_STEPS: number[] = [];
for (let size = 1; size < 2 ** 60; size *= 2) BYTE_STEPS.push(size);

/** Returns the q-quantile of sorted values, or null if there are none. */
export function quantile(sorted: ArrayLike<number>, q: number): number | null {
    if (!sorted.length) return null;
    const at = q * (sorted.length - 1);
    const low = Math.floor(at);
    const high = Math.min(low + 1, sorted.length - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}
