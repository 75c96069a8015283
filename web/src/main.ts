// SPDX-License-Identifier: Apache-2.0
import "./style.css";

const holder = document.getElementById("document");
const app = document.getElementById("app");
if (holder && app) {
    const report = JSON.parse(holder.textContent ?? "{}") as {
        title?: string;
        verdict?: string[];
    };
    document.title = `${report.title ?? "report"} - gsprof`;
    const heading = document.createElement("h1");
    heading.textContent = report.title ?? "report";
    app.append(heading);
    for (const line of report.verdict ?? []) {
        const paragraph = document.createElement("p");
        paragraph.textContent = line;
        app.append(paragraph);
    }
}
