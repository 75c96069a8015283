// SPDX-License-Identifier: Apache-2.0
// Builds one HTML file with its script and style inside. The content security policy allows
// exactly these two, by their hashes.
import { createHash } from "node:crypto";
import { defineConfig } from "vite";

// gsp_export_page_write() in src/export/page.c replaces it with the document.
const PLACEHOLDER = "@GSPROF_DOCUMENT@";

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function oneFile() {
    return {
        name: "one-file",
        enforce: "post",
        generateBundle(_options, bundle) {
            const extract = (end) =>
                Object.keys(bundle)
                    .filter((name) => name.endsWith(end))
                    .map((name) => {
                        const part = bundle[name];
                        delete bundle[name];
                        return String(part.code ?? part.source).trim();
                    })
                    .join("\n");
            const script = extract(".js");
            const style = extract(".css");
            if (/<\/(script|style)|<!--/i.test(script + style)) {
                throw new Error("the script or the style contains the end of its own element");
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
            // Replacement functions: "$&" in a script is not a pattern.
            html = html.replace(
                '<meta charset="utf-8" />',
                (found) =>
                    `${found}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`,
            );
            html = html.replace("</head>", (found) => `<style>${style}</style>\n${found}`);
            html = html.replace(
                "</body>",
                (found) =>
                    `<script type="application/json" id="document">${PLACEHOLDER}</script>\n` +
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
