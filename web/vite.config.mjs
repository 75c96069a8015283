// SPDX-License-Identifier: Apache-2.0
// One HTML file: script and style stand inside it, allowed by their hashes and nothing else.
import { createHash } from "node:crypto";
import { defineConfig } from "vite";

// What gsp_page_write() of src/export/page.c replaces by the document.
const PLACE = "@GSPROF_DOCUMENT@";

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function oneFile() {
    return {
        name: "one-file",
        enforce: "post",
        generateBundle(_options, bundle) {
            const take = (end) =>
                Object.keys(bundle)
                    .filter((name) => name.endsWith(end))
                    .map((name) => {
                        const part = bundle[name];
                        delete bundle[name];
                        return String(part.code ?? part.source).trim();
                    })
                    .join("\n");
            const script = take(".js");
            const style = take(".css");
            if (/<\/(script|style)|<!--/i.test(script + style)) {
                throw new Error("the script or the style would end its own element");
            }
            const policy = [
                "default-src 'none'",
                `script-src ${hash(script)}`,
                `style-src ${hash(style)}`,
                "base-uri 'none'",
                "form-action 'none'",
            ].join("; ");
            const page = bundle["index.html"];
            let html = String(page.source)
                .replace(/\s*<script type="module"[^>]*><\/script>/g, "")
                .replace(/\s*<link rel="(stylesheet|modulepreload)"[^>]*>/g, "")
                .replace(/\n\s+/g, "\n");
            // Replaced by functions: "$&" in a script is text.
            html = html.replace(
                '<meta charset="utf-8" />',
                (found) =>
                    `${found}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`,
            );
            html = html.replace("</head>", (found) => `<style>${style}</style>\n${found}`);
            html = html.replace(
                "</body>",
                (found) =>
                    `<script type="application/json" id="document">${PLACE}</script>\n` +
                    `<script type="module">${script}</script>\n${found}`,
            );
            page.source = html;
        },
    };
}

export default defineConfig({
    plugins: [oneFile()],
    base: "./",
    // The page is embedded in a C program as ASCII.
    esbuild: { charset: "ascii", legalComments: "none" },
    build: {
        target: "es2020",
        assetsInlineLimit: 0,
        cssCodeSplit: false,
        modulePreload: false,
        reportCompressedSize: false,
        emptyOutDir: true,
    },
});
