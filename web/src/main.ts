// SPDX-License-Identifier: Apache-2.0
// The page: one part for each kind of data in the document.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { compareSection } from "./compare";
import { button, el, foreign } from "./dom";
import type { Report } from "./document";
import { FlameSection } from "./flame";
import { moment, seconds } from "./format";
import { helpDialog } from "./help";
import {
    chartsSection,
    lossesSection,
    memorySection,
    modulesSection,
    summarySection,
} from "./parts";
import { AxisRange } from "./range";
import { KINDS, endOfTime, readDocument } from "./read";
import { section } from "./section";
import type { Section } from "./section";
import { startTheme, themeButton, toggleTheme } from "./theme";
import { timelineSection } from "./timeline";

function started(report: Report): string {
    const digits = report.start_ns ?? "";
    if (!/^\d{7,}$/.test(digits)) return "";
    const date = new Date(Number(digits.slice(0, -6)));
    if (Number.isNaN(date.getTime())) return "";
    return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Shows the selected time range in the header, with a button to reset it. */
function rangeChip(range: AxisRange): HTMLElement {
    const text = el("span", { role: "status" });
    const chip = el("div", { class: "chip", id: "range", hidden: true }, text);
    chip.append(button("Reset", () => range.reset(), { title: "Show the whole time (0)" }));
    range.listen(() => {
        chip.hidden = range.isWhole;
        const step = range.length / 100;
        text.textContent = `${moment(range.start, step)} \u2013 ${moment(range.end, step)}`;
        text.title = `${seconds(range.length)} of ${seconds(range.max)}`;
    });
    return chip;
}

interface Built {
    sections: Section[];
    flame: FlameSection | null;
}

function build(report: Report, range: AxisRange): Built {
    const sections: (Section | null)[] = [summarySection(report)];
    if (report.compare) sections.push(compareSection(report.compare, report.verdict, range));
    sections.push(chartsSection(report.charts ?? [], range));
    if (report.steps?.t.length || report.spans?.t.length) {
        sections.push(timelineSection(report, range));
    }
    const flame = report.stacks ? new FlameSection(report.stacks, range) : null;
    if (flame) sections.push(flame.section);
    sections.push(modulesSection(report.modules ?? [], range));
    if (report.memory) sections.push(memorySection(report.memory, range));
    sections.push(lossesSection(report));
    const used = sections.filter((one): one is Section => one !== null);
    // Only the summary and the losses.
    if (used.length <= 2 && !report.compare && !report.cards.length && !report.verdict.length) {
        const text = "The recording has no data to show.";
        const note = el("p", { class: "none" }, text);
        used.splice(1, 0, section("nothing", "No data", [], note));
    }
    return { sections: used, flame };
}

/** Does not change the address: a page embedded in another page has none. */
function goTo(part: Section): void {
    part.root.scrollIntoView({ block: "start" });
    part.root.querySelector("h2")?.focus({ preventScroll: true });
}

function navigation(sections: Section[]): HTMLElement {
    const list = el("ul");
    const links = new Map<string, HTMLAnchorElement>();
    sections.forEach((one, i) => {
        const link = el("a", { href: `#${one.id}`, title: `${one.title} (${i + 1})` }, one.title);
        link.addEventListener("click", (event) => {
            event.preventDefault();
            goTo(one);
        });
        links.set(one.id, link);
        list.append(el("li", {}, link));
    });
    // The topmost visible part is the current one.
    const seen = new Set<string>();
    const observer = new IntersectionObserver(
        (changes) => {
            for (const { target, isIntersecting } of changes) {
                if (isIntersecting) seen.add(target.id);
                else seen.delete(target.id);
            }
            const current = sections.find((one) => seen.has(one.id))?.id;
            for (const [id, link] of links) {
                if (id === current) link.setAttribute("aria-current", "true");
                else link.removeAttribute("aria-current");
            }
        },
        { rootMargin: "-130px 0px -60% 0px" },
    );
    for (const one of sections) observer.observe(one.root);
    return el("nav", { "aria-label": "Parts of the report" }, list);
}

/** Returns whether the focused control uses the key itself. A list uses letters to find an entry; a
 * checkbox uses none. */
function isTyping(event: KeyboardEvent): boolean {
    const { target } = event;
    if (target instanceof HTMLSelectElement) return /^\p{L}$/u.test(event.key);
    if (target instanceof HTMLInputElement) return target.type !== "checkbox";
    return target instanceof HTMLTextAreaElement;
}

function addShortcuts(built: Built, range: AxisRange, help: HTMLDialogElement): void {
    const actions: Record<string, () => void> = {
        "?": () => help.showModal(),
        t: toggleTheme,
        "0": () => range.reset(),
        "+": () => range.zoom(0.5),
        "=": () => range.zoom(0.5),
        "-": () => range.zoom(2),
        ",": () => range.pan(-0.25),
        ".": () => range.pan(0.25),
        "/": () => built.flame?.search.focus(),
    };
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
        if (help.open) return;
        const part = built.sections[Number(event.key) - 1];
        const action = actions[event.key];
        if (action) action();
        else if (part) goTo(part);
        else return;
        event.preventDefault();
    });
}

function start(app: HTMLElement): void {
    startTheme();
    const report = readDocument();
    const title = report.title || "report";
    document.title = `${title} \u2013 gsprof`;
    const range = new AxisRange(endOfTime(report));
    const built = build(report, range);
    const help = helpDialog(built.sections);
    const sub = [KINDS[report.kind], started(report), seconds(report.duration_s)];
    const header = el(
        "header",
        {},
        el(
            "div",
            { class: "bar-top" },
            el(
                "div",
                { class: "titles" },
                el("h1", {}, foreign(title)),
                el("p", {}, sub.filter((text) => text && text !== "\u2013").join(" \u00b7 ")),
            ),
            rangeChip(range),
            themeButton(),
            button("Help", () => help.showModal(), {
                class: "quiet",
                title: "Keyboard and mouse (?)",
            }),
        ),
        navigation(built.sections),
    );
    const main = el("main", { id: "main" }, ...built.sections.map((one) => one.root));
    const footer = el("footer", {}, `gsprof ${report.gsprof}`);
    app.append(
        el("a", { class: "skip", href: "#main" }, "Skip to the report"),
        header,
        main,
        footer,
        help,
    );
    addShortcuts(built, range, help);
    // The tests wait for this.
    document.documentElement.dataset.ready = "true";
}

const app = document.getElementById("app");
if (app) {
    try {
        start(app);
    } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        app.append(el("p", { role: "alert", class: "none" }, `Cannot show this report: ${text}.`));
        throw error;
    }
}
