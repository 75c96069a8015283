// SPDX-License-Identifier: Apache-2.0
// The report document, as docs/formats/report.md has it.  Members that had nothing to say are absent.

export type Maybe = number | null;
export type Tone = "plain" | "good" | "warn" | "bad";

export interface Fact {
    name: string;
    value: string;
}

export interface Card {
    id: string;
    title: string;
    value: string;
    detail?: string;
    tone?: Tone;
}

export interface Series {
    name: string;
    t: number[];
    v: Maybe[];
}

export interface Chart {
    id: string;
    title: string;
    unit?: string;
    help?: string;
    series: Series[];
}

export interface Process {
    pid: number;
    name: string;
}

export interface Thread {
    pid: number;
    tid: number;
    name: string;
}

export interface Frame {
    func: string;
    file?: string | null;
    /** Of a function its first line; of a place in a memory stack the line that ran. */
    line?: Maybe;
    /** The line of the function that has most of its weight. */
    hot_line?: Maybe;
    type?: string | null;
}

export interface Samples {
    /** When each was taken: it stands for the time before that. */
    t?: number[];
    thread: number[];
    node: number[];
    weight: number[];
    on_cpu?: number[];
    seen?: number;
}

export interface Stacks {
    unit?: string;
    processes?: Process[];
    threads: Thread[];
    frames: Frame[];
    nodes: { parent: number[]; frame: number[]; line?: Maybe[] };
    samples: Samples;
}

export interface Module {
    module: string;
    class?: string | null;
    stage?: string | null;
    calls: Maybe;
    total_s: Maybe;
    share: Maybe;
    mean_s: Maybe;
    p50_s?: Maybe;
    p90_s?: Maybe;
    p99_s?: Maybe;
    max_s?: Maybe;
}

export interface Steps {
    step: Maybe[];
    t: number[];
    duration_s: number[];
    rank?: Maybe[] | null;
    seen?: number;
}

export interface Spans {
    names: string[];
    threads?: Thread[];
    name: number[];
    t: number[];
    duration_s: number[];
    thread: number[];
    depth: number[];
    seen?: number;
}

export interface Site {
    stack: Frame[];
    bytes: Maybe;
    count: Maybe;
}

export interface Memory {
    peak_rss_bytes?: Maybe;
    growth_bytes_per_s?: Maybe;
    sites?: Site[];
}

export interface Loss {
    what: string;
    count: Maybe;
    why?: string;
}

export interface Contrast {
    name: string;
    unit?: string;
    better?: string;
    a: Maybe;
    b: Maybe;
    change: Maybe;
    low?: Maybe;
    high?: Maybe;
    p?: Maybe;
    effect?: Maybe;
    verdict?: string;
    n_a?: Maybe;
    n_b?: Maybe;
}

export interface FunctionContrast {
    func: string;
    file?: string | null;
    line?: Maybe;
    a_s: Maybe;
    b_s: Maybe;
    change_s: Maybe;
    low_s?: Maybe;
    high_s?: Maybe;
    p?: Maybe;
    verdict?: string;
}

export interface Rule {
    rule: string;
    value: Maybe;
    significant?: boolean;
}

export interface Compare {
    a: { name: string; title?: string };
    b: { name: string; title?: string };
    verdict?: string;
    metrics?: Contrast[];
    modules?: Contrast[];
    /** What functions and stacks are measured by: step, run or share. */
    per?: string;
    functions?: FunctionContrast[];
    stacks?: {
        unit?: string;
        frames: Frame[];
        nodes: { parent: number[]; frame: number[]; a: number[]; b: number[] };
    };
    charts?: Chart[];
    failed?: Rule[];
    passed?: Rule[];
}

export interface Report {
    format?: string;
    version?: number;
    kind?: string;
    title?: string;
    gsprof?: string;
    start_ns?: string;
    duration_s?: Maybe;
    facts?: Fact[];
    cards?: Card[];
    verdict?: string[];
    charts?: Chart[];
    stacks?: Stacks;
    modules?: Module[];
    steps?: Steps;
    spans?: Spans;
    memory?: Memory;
    losses?: Loss[];
    compare?: Compare;
}

export function readDocument(): Report {
    const holder = document.getElementById("document");
    const report: unknown = JSON.parse(holder?.textContent ?? "");
    if (typeof report !== "object" || report === null || Array.isArray(report)) {
        throw new Error("the report holds no document");
    }
    return report as Report;
}

/** The last moment that anything in the report speaks of, in seconds. */
export function endOfTime(report: Report): number {
    let end = report.duration_s ?? 0;
    const see = (t: number[] | undefined, d?: number[]): void => {
        if (!t) return;
        for (let i = 0; i < t.length; i++) end = Math.max(end, t[i] + (d?.[i] ?? 0));
    };
    for (const chart of [...(report.charts ?? []), ...(report.compare?.charts ?? [])]) {
        for (const one of chart.series) end = Math.max(end, one.t[one.t.length - 1] ?? 0);
    }
    see(report.stacks?.samples.t);
    see(report.steps?.t, report.steps?.duration_s);
    see(report.spans?.t, report.spans?.duration_s);
    return end > 0 && Number.isFinite(end) ? end : 1;
}
