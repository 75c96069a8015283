// SPDX-License-Identifier: Apache-2.0
// Checks the report page in a browser, which is started once for all checks.
//
// usage: report.mjs MODULES FOLDER BROWSER
//
// FOLDER has a page for each document of report_documents.py. Prints a JSON object with the result
// of each check: null or the error. Called by tests/integration/test_report_browser.py, which reads
// the names of the checks from this file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { compareBars, heaviestFirst, inTime, keepBars } from "./bars.mjs";

const [modules, folder, executablePath] = process.argv.slice(2);
const require = createRequire(`${modules}/x.js`);
const { chromium } = require("playwright-core");

const checks = [];
const check = (name, run) => checks.push({ name, run });

const PATIENCE_MS = 60000;
const WIDE = { width: 1440, height: 900 };
let browser;
const pages = new Map();

/** Opens a page of the folder, once for each name and set of options. */
async function open(name, options = {}) {
    const key = name + JSON.stringify(options);
    if (pages.has(key)) return pages.get(key);
    const context = await browser.newContext({
        viewport: { width: 1200, height: 900 },
        colorScheme: "light",
        ...options,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript(keepBars);
    const page = await context.newPage();
    page.faults = [];
    page.on("console", (line) => page.faults.push(line.text()));
    page.on("pageerror", (error) => page.faults.push(String(error)));
    page.on("request", (request) => {
        if (!request.url().startsWith("file:")) page.faults.push(`requested ${request.url()}`);
    });
    await page.goto(pathToFileURL(`${folder}/${name}.html`).href);
    await page.waitForSelector("html[data-ready]");
    await settle(page);
    pages.set(key, page);
    return page;
}

/** Waits until everything is drawn and no part is busy. */
const settle = (page) =>
    page.evaluate(
        () =>
            new Promise((done) => {
                let left = 4;
                const next = () => {
                    if (document.querySelector("[aria-busy=true]")) left = 4;
                    if (left--) requestAnimationFrame(next);
                    else done();
                };
                next();
            }),
    );

const texts = (page, selector) => page.locator(selector).allInnerTexts();
const drawn = (page, selector) =>
    page.locator(selector).evaluate((canvas) => Number(canvas.dataset.drawn));
/** Returns the description of the selected bar. */
const pickedBar = (page, part) => page.locator(`${part} .picked`).first().innerText();
const range = (page) => page.locator("#range").innerText();
const column = (page, part, n) => texts(page, `${part} tbody tr > :nth-child(${n})`);

/** Returns the number of painted pixels of a canvas. */
const painted = (page, selector) =>
    page.locator(selector).evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 3; i < data.length; i += 4) if (data[i]) n++;
        return n;
    });

/** Shows another view of the flame graph. A key does not depend on where the button is. */
async function showView(page, mode) {
    const button = page.locator(`#stacks [data-value=${mode}]`);
    await button.press("Enter");
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    await settle(page);
}

/** Zooms to the i-th step by a click. */
async function clickStep(page, { steps, duration_s }, i) {
    const canvas = page.locator("#timeline .lanes canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    const { stage } = await paintedBars(page, "#timeline .lanes canvas");
    const middle = (steps.t[i] + steps.duration_s[i] / 2) / duration_s;
    // Below the axis and the head of the row.
    await page.mouse.click(box.x + 74 + (stage.outer - 74 - 14) * middle, box.y + 24 + 22 + 9);
    await settle(page);
}

check("a run has all parts", async () => {
    const page = await open("ordinary");
    assert.equal(await page.title(), "train.py \u2013 gsprof");
    assert.deepEqual(await texts(page, "h2"), [
        "Summary",
        "Over time",
        "Steps and spans",
        "Flame graph",
        "Modules",
        "Memory",
        "Losses",
        "Keyboard and mouse",
    ]);
    assert.equal(await page.locator("#summary .card").count(), 6);
    assert.equal(await page.locator("#summary .card.bad .card-value").innerText(), "252 ms");
    assert.equal((await texts(page, ".verdict li")).length, 3);
    assert.equal(await page.locator("#charts .chart").count(), 3);
    assert.ok((await painted(page, "#charts .chart >> nth=0 >> canvas")) > 1000);
    for (const part of ["#timeline", "#stacks", "#memory"]) {
        assert.ok((await painted(page, `${part} .lanes canvas`)) > 1000, part);
    }
});

check("charts zoom by dragging and reset", async () => {
    const page = await open("ordinary");
    const over = page.locator("#charts .u-over").first();
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const at = (share) => box.x + box.width * share;
    const y = box.y + box.height / 2;
    await page.mouse.move(at(0.5), y);
    await settle(page);
    // Each chart shows its value at that time.
    const values = await texts(page, "#charts .legend .at");
    assert.ok(
        values.every((text) => !text.includes("mean")),
        values.join("|"),
    );
    const whole = await page.locator("#stacks .note").first().innerText();
    await page.mouse.move(at(0.25), y);
    await page.mouse.down();
    await page.mouse.move(at(0.4), y, { steps: 3 });
    await page.mouse.move(at(0.5), y, { steps: 3 });
    await page.mouse.up();
    await settle(page);
    assert.match(await range(page), /^7\.\d+ s \u2013 (14\.9|15\.0)\d* s/);
    const part = await page.locator("#stacks .note").first().innerText();
    assert.notEqual(part, whole);
    assert.match(part, /^15(\.\d+)? s in 1,50\d samples \u00b7 selected time range only/);
    await page.keyboard.press("0");
    await settle(page);
    assert.equal(await page.locator("#range").isHidden(), true);
    assert.equal(await page.locator("#stacks .note").first().innerText(), whole);
});

check("a legend has no value outside its line", async () => {
    const page = await open("late");
    const over = page.locator("#charts .u-over");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    // Time, and the values of the second process and of the only step.
    for (const [t, worker, step] of [
        [1, "\u2013", "\u2013"],
        [1.9, "\u2013", "500 ms"],
        [5, "1 GiB", "\u2013"],
        [8, "\u2013", "\u2013"],
    ]) {
        await page.mouse.move(box.x + (box.width * t) / 10, box.y + box.height / 2);
        await settle(page);
        const values = await texts(page, ".legend .at");
        assert.deepEqual(values, ["1 MiB", worker, step], `${t} s`);
    }
    await page.mouse.move(0, 0);
});

check("the flame graph: views, search, zoom and keys", async () => {
    const page = await open("ordinary");
    const canvas = page.locator("#stacks .panes canvas").first();
    await page.selectOption("#stacks select", "0");
    await page.keyboard.press("Escape");
    await page.fill("#stacks input[type=search] >> nth=0", "ATTENTION");
    await settle(page);
    // 18 + 14 of 100 samples of a cycle.
    assert.equal(
        await page.locator("#stacks .tools .tally").first().innerText(),
        "1 function, 32.0 %",
    );
    await page.fill("#stacks input[type=search] >> nth=0", "");
    await settle(page);
    await canvas.focus();
    assert.match(await pickedBar(page, "#stacks"), /^<module>[^]*total: 30 s, 100 %/);
    for (const [key, name] of [
        ["ArrowDown", "main"],
        ["ArrowDown", "train"],
        ["ArrowDown", "forward"],
        ["ArrowRight", "backward"],
        ["ArrowDown", "run_backward"],
        ["ArrowUp", "backward"],
        ["ArrowLeft", "forward"],
    ]) {
        await page.keyboard.press(key);
        assert.equal((await pickedBar(page, "#stacks")).split("\n")[0], name);
    }
    const before = await drawn(page, "#stacks .panes canvas");
    await page.keyboard.press("Enter");
    await settle(page);
    assert.ok((await drawn(page, "#stacks .panes canvas")) < before);
    await page.keyboard.press("Escape");
    await settle(page);
    assert.equal(await drawn(page, "#stacks .panes canvas"), before);
});

/** Returns the bars and texts on a canvas, and its size. */
const paintedBars = (page, selector) =>
    page.locator(selector).evaluate((canvas) => ({
        painted: canvas.painted,
        stage: {
            width: canvas.closest(".stage").clientWidth,
            outer: canvas.closest(".stage").offsetWidth,
            high: canvas.clientHeight,
            scroll: canvas.closest(".stage").scrollTop,
        },
    }));

const documentOf = (name) => {
    const page = readFileSync(`${folder}/${name}.html`, "utf8");
    return JSON.parse(/id="document">(.*?)<\/script>/s.exec(page)[1]);
};

/** Compares a flame graph with the document; `zoom` is the visible range, by default all. */
async function checkHeaviest(page, rows, about, zoom) {
    await settle(page);
    const { painted, stage } = await paintedBars(page, "#stacks .panes canvas");
    const [from, to] = zoom ?? [0, Math.max(...rows[0].map(({ end }) => end))];
    const axis = { from, to, left: 0, width: stage.width, top: -stage.scroll, high: stage.high };
    return compareBars(rows, painted, axis, about);
}

async function checkInTime(page, rows, about, max) {
    await settle(page);
    const { painted, stage } = await paintedBars(page, "#stacks .panes canvas");
    const [left, right, top] = [74, 14, 24];
    const width = stage.outer - left - right;
    const axis = { from: 0, to: max, left, width, top: top - stage.scroll, high: stage.high };
    return compareBars(rows, painted, axis, about);
}

check("the flame graph has every bar and no other", async () => {
    // Opening pages is slow: not every width at every resolution.
    const views = [
        ["bars-0", 1, [390, 1024, 1440]],
        ["bars-1", 1, [1440]],
        ["real", 1, [390, 1440]],
        ["bars-0", 1.5, [1440]],
        ["bars-2", 2, [1024]],
    ];
    let bars = 0;
    for (const [name, deviceScaleFactor, widths] of views) {
        const page = await open(name, { viewport: WIDE, deviceScaleFactor });
        const { stacks, duration_s } = documentOf(name);
        bars += await checkHeaviest(page, heaviestFirst(stacks), `${name}, all threads`);
        await page.selectOption("#stacks select", "0");
        const rows = heaviestFirst(stacks, 0);
        for (const width of widths) {
            const about = `${name}, ${width} px, ratio ${deviceScaleFactor}`;
            await page.setViewportSize({ width, height: WIDE.height });
            bars += await checkHeaviest(page, rows, about);
        }
        // Zoomed: the neighbours on both sides are outside.
        const zoomed = rows[1]?.[1];
        if (zoomed) {
            await page.locator("#stacks .panes canvas").focus();
            for (const key of ["ArrowDown", "ArrowRight", "Enter"]) await page.keyboard.press(key);
            bars += await checkHeaviest(page, rows, `${name}, zoomed`, [zoomed.start, zoomed.end]);
        }
        if (name.startsWith("bars")) {
            await showView(page, "time");
            bars += await checkInTime(page, inTime(stacks, 0), `${name}, in time`, duration_s);
            await showView(page, "left");
        }
        assert.deepEqual(page.faults, []);
    }
    assert.ok(bars > 3000, `compared only ${bars} bars`);
});

check("each process and thread has a tower with its name", async () => {
    const page = await open("bars-1", { viewport: WIDE, deviceScaleFactor: 1 });
    const { stacks } = documentOf("bars-1");
    await page.selectOption("#stacks select", "-1");
    await settle(page);
    const { painted } = await paintedBars(page, "#stacks .panes canvas");
    const names = (row) =>
        painted.texts.filter(({ y }) => Math.floor(y / 19) === row).map(({ text }) => text);
    assert.equal(names(0)[0].slice(0, 12), "process 100:");
    assert.equal(names(0).length, 2);
    assert.ok(names(1).some((text) => text.startsWith("thread load")));
    const labels = await page
        .locator("#stacks optgroup")
        .evaluateAll((all) => all.map((one) => [one.label, one.children.length]));
    assert.deepEqual(labels.sort(), [
        ["process 100: python3 train.py", 2],
        ["process 200: python3 worker.py", 1],
    ]);
    // The heaviest line of the bar, not the first line of its function.
    await page.selectOption("#stacks select", "0");
    await page.locator("#stacks .panes canvas").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    const first = (await pickedBar(page, "#stacks")).split("\n").join(" ");
    const [row] = heaviestFirst(stacks, 0);
    const node = stacks.nodes.frame.findIndex(
        (frame, i) => stacks.nodes.parent[i] < 0 && stacks.frames[frame].func === row[0].name,
    );
    assert.ok(first.includes(`m.py:${stacks.nodes.line[node]} `), first);
    // The table has the heaviest line of the function.
    const cells = await column(page, "#stacks", 2);
    const lines = stacks.frames.map((frame) => `m.py:${frame.hot_line}`);
    assert.ok(
        cells.every((cell) => lines.includes(cell)),
        cells.join(),
    );
});

check("the time order is aligned with the charts", async () => {
    const page = await open("ordinary");
    await page.click("#stacks [data-value=time]");
    await settle(page);
    const left = (selector) =>
        page
            .locator(selector)
            .first()
            .evaluate((node) => node.getBoundingClientRect().left);
    const plot = (await left("#charts .u-over")) - (await left("#stacks .panes canvas"));
    assert.ok(Math.abs(plot - 74) <= 1, `${plot}`);
    const whole = await drawn(page, "#stacks .panes canvas");
    await page.keyboard.press("Escape");
    await page.locator("#stacks .panes canvas").focus();
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    await settle(page);
    assert.ok((await drawn(page, "#stacks .panes canvas")) < whole / 2);
    await page.keyboard.press("0");
    await settle(page);
    assert.equal(await drawn(page, "#stacks .panes canvas"), whole);
});

check("a late sample covers the time before it", async () => {
    const page = await open("late");
    await page.click("#stacks [data-value=time]");
    const rows = [
        [
            { name: "main", start: 0, end: 5.25 },
            { name: "main", start: 7.75, end: 8.5 },
        ],
        [
            { name: "before", start: 0, end: 2 },
            { name: "busy", start: 2, end: 5 },
            { name: "waited", start: 5, end: 5.25 },
            { name: "after", start: 7.75, end: 8.5 },
        ],
    ];
    assert.equal(await checkInTime(page, rows, "late", 10), 6);
});

check("a sample partly inside the selected range counts in part", async () => {
    const page = await open("late");
    await clickStep(page, documentOf("late"), 0);
    const note = () => page.locator("#stacks .note").first().innerText();
    assert.match(await note(), /^500 ms in 2 samples \u00b7 selected time range only/);
    const cells = async () => [await column(page, "#stacks", 1), await column(page, "#stacks", 3)];
    assert.deepEqual(await cells(), [
        ["busy", "before", "main"],
        ["400 ms", "100 ms", "0 s"],
    ]);
    /** Returns the descriptions of the bar of `busy` and of its caller. */
    const bars = async () => {
        await page.locator("#stacks .panes canvas").focus();
        await page.keyboard.press("ArrowDown");
        const busy = await pickedBar(page, "#stacks");
        await page.keyboard.press("ArrowUp");
        return `${busy}\n${await pickedBar(page, "#stacks")}`;
    };
    for (const mode of ["left", "time"]) {
        await page.click(`#stacks [data-value=${mode}]`);
        await settle(page);
        const found = /^busy[^]*total: 400 ms, 80\.0 %[^]*main[^]*total: 500 ms, 100 %/;
        assert.match(await bars(), found, mode);
    }
    await page.keyboard.press("0");
    await settle(page);
    assert.match(await note(), /^6\.75 s in 13 samples/);
    assert.match(await bars(), /^busy[^]*total: 3 s, 44\.4 %[^]*main[^]*total: 6\.75 s, 100 %/);
});

check("a click in the table opens the sandwich of a function", async () => {
    const page = await open("ordinary");
    await page.getByRole("button", { name: "attention", exact: true }).click();
    await settle(page);
    assert.match(await page.locator("#stacks .note").first().innerText(), /attention$/);
    assert.equal(await page.locator("#stacks .panes canvas").count(), 2);
    const [callers, callees] = [0, 1].map((n) => page.locator("#stacks .panes canvas").nth(n));
    await callees.focus();
    await page.keyboard.press("ArrowDown");
    const below = page.locator("#stacks .panes .picked").nth(1);
    assert.match(await below.innerText(), /^softmax/);
    await callers.focus();
    for (let i = 0; i < 2; i++) await page.keyboard.press("ArrowUp");
    const above = page.locator("#stacks .panes .picked").nth(0);
    assert.match(await above.innerText(), /^forward[^]*9\.6 s/);
    await page.click("#stacks [data-value=left]");
});

check("tables can be sorted, filtered and copied", async () => {
    const page = await open("ordinary");
    const head = page.locator("#modules th").filter({ hasText: "Module" });
    await head.locator("button").click();
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    assert.equal((await column(page, "#modules", 1))[0], "layers.0.attn");
    await head.locator("button").click();
    // Numbers in names are sorted by value.
    assert.equal((await column(page, "#modules", 1))[0], "layers.11.mlp");
    await page.fill("#modules input[type=search]", "mlp BACK");
    assert.equal(await page.locator("#modules .tally").innerText(), "12 of 48 rows");
    await page.evaluate(() => {
        window.copied = [];
        const keep = (text) => (window.copied.push(text), Promise.resolve());
        Object.defineProperty(navigator, "clipboard", { value: { writeText: keep } });
    });
    await page.locator("#modules").getByRole("button", { name: "Copy as CSV" }).click();
    const csv = (await page.evaluate(() => window.copied[0])).split("\r\n");
    assert.equal(csv.length, 14);
    assert.equal(csv[0], "Module,Class,Stage,Calls,Total,Share,Mean,p50,p90,p99,Max");
    assert.match(csv[1], /^layers\.11\.mlp,MLP,backward,240,\d\.\d+,/);
    await page.fill("#modules input[type=search]", "no such module");
    assert.deepEqual(await texts(page, "#modules tbody"), ["No row matches the filter."]);
    await page.fill("#modules input[type=search]", "");
});

check("a library without symbols is named once", async () => {
    const page = await open("ordinary");
    const sites = await column(page, "#memory .table >> nth=0 >> css=", 1);
    assert.equal(sites.length, 4);
    assert.equal(sites[2].trim(), "libc10.so");
    assert.equal(sites[3].trim(), "libstdc++.so.6");
    assert.equal(sites[0].trim(), "imread codec.so:3");
    // Also in the description of its bar, the last of the first row.
    await page.locator("#memory .lanes canvas").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await pickedBar(page, "#memory"), /^libstdc\+\+\.so\.6\s*total: 1 MiB/);
});

check("keys for theme, help and parts", async () => {
    const page = await open("ordinary");
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("t");
    assert.notEqual(await ground(), light);
    await page.keyboard.press("t");
    assert.equal(await ground(), light);
    await page.keyboard.press("?");
    assert.ok(await page.locator("dialog").isVisible());
    await page.keyboard.press("Escape");
    assert.ok(await page.locator("dialog").isHidden());
    await page.keyboard.press("5");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Modules");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");
});

check("keys work with any focus except in text boxes", async () => {
    const page = await open("ordinary");
    const active = () => page.evaluate(() => document.activeElement.textContent);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    const chosen = () => page.locator("#stacks select option:checked").innerText();
    const before = await theme();
    for (const control of ["#stacks input[type=checkbox]", "#stacks select"]) {
        const key = async (name) => {
            await page.locator(control).first().focus();
            await page.keyboard.press(name);
        };
        const isList = control.endsWith("select");
        // A list uses letters to find an entry.
        if (isList) {
            await key("l");
            await key("o");
            assert.match(await chosen(), /^loader-0/);
        }
        await key("?");
        assert.ok(await page.locator("dialog").isVisible(), `${control}: ?`);
        await page.keyboard.press("Escape");
        await key("+");
        assert.ok(await page.locator("#range").isVisible(), `${control}: +`);
        await key("-");
        assert.ok(await page.locator("#range").isHidden(), `${control}: -`);
        await key("t");
        assert.equal((await theme()) === before, isList, `${control}: t`);
        if (!isList) await key("t");
        await key("5");
        assert.equal(await active(), "Modules", `${control}: 5`);
        await key("/");
        assert.equal(await page.evaluate(() => document.activeElement.type), "search", control);
    }
    await page.selectOption("#stacks select", "-1");
    // A text box uses every key.
    const filter = page.locator("#modules input[type=search]");
    await filter.focus();
    await page.keyboard.type("t5/?");
    assert.equal(await filter.inputValue(), "t5/?");
    await filter.fill("");
});

check("the wheel scrolls the page until a graph has the focus", async () => {
    const page = await open("large");
    await page.evaluate(() => document.activeElement.blur());
    const canvas = page.locator("#stacks .panes canvas").first();
    await page.locator("#stacks").evaluate((part) => part.scrollIntoView({ behavior: "instant" }));
    const places = () =>
        canvas.evaluate((node) => [window.scrollY, node.closest(".stage").scrollTop]);
    const box = await canvas.boundingBox();
    // Inside the viewport, below the header.
    await page.mouse.move(box.x + box.width / 2, Math.max(box.y + 40, 300));
    const wheel = async (done) => {
        const before = await places();
        await page.mouse.wheel(0, 120);
        const deadline = Date.now() + PATIENCE_MS;
        while (!done(before, await places()) && Date.now() < deadline) await settle(page);
        return [before, await places()];
    };
    const [before, after] = await wheel(([y], [now]) => now > y);
    assert.ok(after[0] > before[0], "the page scrolls");
    assert.equal(after[1], before[1], "the rows do not scroll");
    assert.match(await page.locator("#stacks .below").first().innerText(), /click the graph/);
    await canvas.focus();
    const [still, moved] = await wheel(([, top], [, now]) => now > top);
    assert.ok(moved[1] > still[1]);
    await page.locator("#stacks .below button").first().click();
    await settle(page);
    const hidden = await canvas.evaluate((node) => {
        const stage = node.closest(".stage");
        return stage.scrollHeight - stage.clientHeight;
    });
    assert.equal(hidden, 0, "all rows are visible");
    assert.ok(await page.locator("#stacks .below").first().isHidden());
});

check("bars in cells start at the left, those of changes in the middle", async () => {
    const bars = (page, selector) =>
        page.locator(selector).evaluateAll((cells) =>
            cells.map((cell) => ({
                from: parseFloat(cell.style.getPropertyValue("--bar-from")),
                to: parseFloat(cell.style.getPropertyValue("--bar-to")),
                fewer: cell.classList.contains("fewer"),
                text: cell.textContent,
            })),
        );
    const plain = await bars(await open("ordinary"), "#modules td.bar");
    assert.ok(plain.length > 10);
    for (const bar of plain) assert.ok(bar.from === 0 && bar.to > 0, JSON.stringify(bar));
    const changes = await bars(await open("comparison"), "#compare td.bar.signed");
    assert.ok(changes.some((bar) => bar.fewer) && changes.some((bar) => !bar.fewer));
    for (const { from, to, fewer, text } of changes) {
        assert.equal(fewer, text.startsWith("\u2212"), text);
        assert.ok(fewer ? to === 50 && from < 50 : from === 50 && to > 50, `${from} to ${to}`);
    }
});

check("a filter does not move other content", async () => {
    const page = await open("ordinary");
    const places = () =>
        page.evaluate(() => ({
            next: Math.round(
                document.getElementById("memory").getBoundingClientRect().top + window.scrollY,
            ),
            heads: Array.from(document.querySelectorAll("#modules th[scope=col]"), (head) =>
                Math.round(head.getBoundingClientRect().left),
            ),
        }));
    const before = await places();
    for (const words of ["mlp", "no such module"]) {
        await page.fill("#modules input[type=search]", words);
        assert.deepEqual(await places(), before, words);
    }
    await page.fill("#modules input[type=search]", "");
    assert.deepEqual(await places(), before);
});

check("a click on a step zooms to it, and tables follow or have a note", async () => {
    const page = await open("ordinary");
    const { steps } = documentOf("ordinary");
    const rows = () => column(page, "#timeline .table >> nth=0 >> css=", 2);
    assert.deepEqual(await rows(), [String(steps.t.length)]);
    assert.equal(await page.locator(".note.whole:visible").count(), 0);
    const i = 40;
    await clickStep(page, documentOf("ordinary"), i);
    const shown = (await range(page))
        .match(/([\d.]+) s \u2013 ([\d.]+) s/)
        .slice(1)
        .map(Number);
    assert.ok(Math.abs(shown[0] - steps.t[i]) < 0.01, shown.join());
    assert.ok(Math.abs(shown[1] - steps.t[i] - steps.duration_s[i]) < 0.01, shown.join());
    assert.deepEqual(await rows(), ["1"]);
    assert.deepEqual(
        (await texts(page, ".note.whole")).map((text) => text.split(" ")[0]),
        ["Modules", "Memory"],
    );
    await page.keyboard.press("0");
    await settle(page);
    assert.deepEqual(await rows(), [String(steps.t.length)]);
});

check("percentage axes are fixed, and no line leaves its chart", async () => {
    const page = await open("ordinary");
    const heights = () =>
        page
            .locator("#charts .chart")
            .evaluateAll((all) => all.map((one) => one.dataset.height.split(" ").map(Number)));
    const { charts } = documentOf("ordinary");
    const whole = await heights();
    assert.deepEqual(
        [whole[0], whole[2]],
        [
            [0, 100],
            [0, 100],
        ],
    );
    for (let i = 0; i < 5; i++) await page.keyboard.press("+");
    await settle(page);
    const near = await heights();
    assert.deepEqual(
        [near[0], near[2]],
        [
            [0, 100],
            [0, 100],
        ],
    );
    // The axis of memory follows, and includes the values next to the range.
    const { t, v } = charts[1].series[0];
    const [start, end] = [15 - 15 / 32, 15 + 15 / 32];
    const first = t.findLastIndex((at) => at < start);
    const last = t.findIndex((at) => at > end);
    const seen = v.slice(first, last + 1).filter((one) => one !== null);
    assert.ok(near[1][0] <= Math.min(...seen) && near[1][1] >= Math.max(...seen), `${near[1]}`);
    await page.keyboard.press("0");
    const many = await open("bars-1", { viewport: WIDE, deviceScaleFactor: 1 });
    await settle(many);
    const cores = await many.locator("#charts .chart").first().getAttribute("data-height");
    assert.equal(cores, "0 200", "181 to 190 % of two cores");
    const machine = await many.locator("#charts .chart").nth(1).getAttribute("data-height");
    assert.equal(machine, "0 100.2", "slightly above 100 %");
});

check("a comparison", async () => {
    const page = await open("comparison");
    assert.deepEqual(
        (await column(page, "#compare .table >> nth=0 >> css=", 9)).map((t) => t.trim()),
        ["\u25bc worse", "\u25b2 better", "= same", "= same", "? too few values"],
    );
    // A percentage of almost zero says nothing.
    const [changes, reaches] = [4, 5].map((n) =>
        column(page, "#compare .table >> nth=0 >> css=", n),
    );
    assert.deepEqual([(await changes)[3], (await reaches)[3]], ["from ~0", "\u2013"]);
    assert.equal(
        (await column(page, "#compare .table >> nth=0 >> css=", 5))[0],
        "+2.90 % to +5.30 %",
    );
    const { functions } = documentOf("comparison").compare;
    const places = await column(page, "#compare .table >> nth=2 >> css=", 2);
    const sorted = [...functions].sort((x, y) => Math.abs(y.change_s) - Math.abs(x.change_s));
    assert.equal(places[0], `${sorted[0].file}:${sorted[0].line}`);
    assert.match(
        await page.locator(".failed").innerText(),
        /step_time > 3% \(measured: \+4\.10 %\)/,
    );
    const canvas = page.locator("#compare .lanes canvas");
    // softmax took half the time: blue. augment took more: red.
    const colors = await canvas.evaluate((node) => {
        const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
        const found = { red: 0, blue: 0 };
        for (let i = 0; i < data.length; i += 4) {
            if (data[i] > data[i + 2] + 40) found.red++;
            if (data[i + 2] > data[i] + 40) found.blue++;
        }
        return found;
    });
    assert.ok(colors.red > 300 && colors.blue > 300, JSON.stringify(colors));
    assert.equal(await page.locator("#compare .chart").count(), 3);
    assert.deepEqual(page.faults, []);
});

check("hostile strings are shown as text", async () => {
    const page = await open("hostile");
    assert.match(await page.title(), /^<\/script><script>/);
    assert.equal(await page.locator("#app script, #app img").count(), 0);
    assert.match(await page.locator("h1").innerText(), /^<\/script><script>document/);
    await page.click("#stacks [data-value=sandwich]");
    await page.click("#stacks [data-value=time]");
    await settle(page);
    // No name makes the page wider than the viewport.
    const [wide, window] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        document.documentElement.clientWidth,
    ]);
    assert.ok(wide <= window, `${wide} > ${window}`);
    await page.evaluate(() => {
        window.copied = [];
        const keep = (text) => (window.copied.push(text), Promise.resolve());
        Object.defineProperty(navigator, "clipboard", { value: { writeText: keep } });
    });
    await page.locator("#losses").getByRole("button", { name: "Copy as CSV" }).click();
    const csv = await page.evaluate(() => window.copied[0]);
    // Formulas are quoted, and quotes are doubled.
    assert.match(csv, /\r\n'=cmd\|/);
    assert.match(csv, /"""quotes"" & 'more'/);
    assert.deepEqual(page.faults, []);
});

check("documents with little or no data", async () => {
    const empty = await open("empty");
    assert.match(await empty.locator("#stacks .none").first().innerText(), /^There are no samples/);
    assert.match(await empty.locator("#losses").innerText(), /Nothing was lost/);
    assert.equal(await empty.locator("#charts, #timeline, #modules, #memory").count(), 0);
    const bare = await open("bare");
    assert.match(await bare.locator("#nothing").innerText(), /no data to show/);
    assert.match(await bare.locator("#losses").innerText(), /Losses were not recorded/);
    const timeless = await open("timeless");
    assert.equal(await timeless.locator("#stacks [data-value=time]").count(), 0);
    assert.match(
        await timeless.locator("#stacks .note").first().innerText(),
        /^4 samples in 400 samples/,
    );
    const memory = await open("memory");
    assert.match(await memory.locator("header").first().innerText(), /Memory recording/);
    assert.match(await memory.locator("#memory").innerText(), /Allocation sites/);
    for (const page of [empty, bare, timeless, memory]) assert.deepEqual(page.faults, []);
});

check("documents that the page cannot show", async () => {
    const context = await browser.newContext();
    for (const [name, message] of [
        ["newer", /document has version 2, but this page supports version 1\.$/],
        ["malformed", /document is malformed: stacks\.samples\.node\[3\] is not a number\.$/],
    ]) {
        const page = await context.newPage();
        await page.goto(pathToFileURL(`${folder}/${name}.html`).href);
        const alert = page.locator("[role=alert]");
        await alert.waitFor();
        assert.match(await alert.innerText(), /^Cannot show this report: /);
        assert.match(await alert.innerText(), message);
    }
});

check("fifty thousand samples and eight hours cost pixels, not points", async () => {
    const page = await open("large");
    const width = 1200;
    const points = () =>
        page
            .locator("#charts .chart")
            .evaluateAll((all) => all.map((one) => Number(one.dataset.points)));
    for (const n of await points()) assert.ok(n > width && n <= 2 * width, `${n} points`);
    // The axis includes the one high value of 144,000.
    assert.match(await page.locator("#charts .at").first().innerText(), /max 400 W/);
    const rows = 760 / 19 + 2;
    for (const mode of ["left", "time"]) {
        await page.click(`#stacks [data-value=${mode}]`);
        await settle(page);
        const bars = await drawn(page, "#stacks .panes canvas");
        assert.ok(bars > 30 && bars <= rows * width, `${mode}: ${bars} bars`);
    }
    // Scroll to the thousands of leaves: one bar is drawn for each pixel.
    await page
        .locator("#stacks .stage")
        .evaluate((stage) => (stage.scrollTop = stage.scrollHeight));
    await settle(page);
    const bars = await drawn(page, "#stacks .panes canvas");
    assert.ok(bars > 2000 && bars <= rows * width, `${bars} bars`);
    // Zoomed in, single values are drawn.
    for (let i = 0; i < 9; i++) await page.keyboard.press("+");
    await settle(page);
    for (const n of await points()) assert.ok(n < 400, `${n} points`);
    assert.match(await page.locator("#stacks .table .tally").innerText(), / rows$/);
    assert.equal(await page.locator("#stacks tbody tr").count(), 25);
    assert.deepEqual(page.faults, []);
});

check("a narrow screen in dark", async () => {
    const page = await open("ordinary", {
        viewport: { width: 360, height: 740 },
        colorScheme: "dark",
    });
    const [wide, dark] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        document.documentElement.dataset.theme,
    ]);
    assert.ok(wide <= 360, `${wide}`);
    assert.equal(dark, "dark");
    assert.deepEqual(page.faults, []);
});

check("the page is accessible in both themes", async () => {
    const source = readFileSync(`${modules}/axe-core/axe.min.js`, "utf8");
    const all = ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"];
    const narrow = { viewport: { width: 360, height: 740 }, colorScheme: "dark" };
    // Themes differ in contrast only; the comparison has its own part.
    for (const [page, part, runOnly, least] of [
        [await open("ordinary"), "html", all, 20],
        [await open("ordinary", narrow), "html", ["color-contrast"], 1],
        [await open("comparison"), "#compare", all, 10],
    ]) {
        const found = await page.evaluate(
            async ([text, where, only]) => {
                // The policy of the page forbids this to scripts, but not to a debugger.
                if (!window.axe) (0, eval)(text);
                const options = { resultTypes: ["violations"], runOnly: only };
                const { violations, passes } = await window.axe.run(where, options);
                return {
                    passed: passes.length,
                    faults: violations.map(
                        ({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`,
                    ),
                };
            },
            [source, part, runOnly],
        );
        assert.deepEqual(found.faults, []);
        assert.ok(found.passed >= least, `checked only ${found.passed} rules`);
    }
});

check("there were no errors and no network requests", async () => {
    const page = await open("ordinary");
    assert.deepEqual(page.faults, []);
});

browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const results = {};
for (const { name, run } of checks) {
    const start = Date.now();
    try {
        await run();
        results[name] = null;
    } catch (error) {
        results[name] = error.stack ?? String(error);
    }
    process.stderr.write(`${Date.now() - start} ms ${name}\n`);
}
await browser.close();
process.stdout.write(JSON.stringify(results));
