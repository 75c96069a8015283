// SPDX-License-Identifier: Apache-2.0
// Takes the screenshots of a report and of a rendered terminal.
//
// usage: make.mjs MODULES BROWSER REPORT TERMINAL FOLDER
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, executablePath, report, terminal, folder] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/x.js`)("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1240, height: 840 } });
await page.goto(pathToFileURL(report).href);
await page.locator("canvas").first().waitFor();
await page.screenshot({ path: `${folder}/report.png` });
const flame = page.locator("section", { has: page.locator("h2", { hasText: "Flame graph" }) });
const box = await flame.boundingBox();
const clip = { ...box, height: Math.min(box.height, 500) };
await page.screenshot({ path: `${folder}/flamegraph.png`, clip, fullPage: true });

await page.goto(pathToFileURL(terminal).href);
await page.locator("pre").screenshot({ path: `${folder}/top.png` });
await browser.close();
