// SPDX-License-Identifier: Apache-2.0
// How the nodes of a call tree look as bars.
import { percent, value } from "./format";
import type { Lanes } from "./lanes";
import type { Layout } from "./layout";
import { nameOf, placeBeside } from "./section";
import { cssColor, shade, shadeOf } from "./theme";
import type { CallTree, NamedFrame } from "./tree";

/** Returns whether a bar is that of a process or thread. */
function isTower(frame: NamedFrame | undefined): boolean {
    return frame?.type === "process" || frame?.type === "thread";
}

export class TreeLanes {
    private readonly shades: Int16Array;
    /** Marks the frames that match the search; null without a search. */
    matches: Uint8Array | null = null;

    constructor(
        private readonly frames: NamedFrame[],
        private readonly unit: string,
    ) {
        this.shades = Int16Array.from(frames, (frame) => shadeOf(frame.file || frame.type));
    }

    /** `all` is the weight that shares refer to. With `areCalls`, a bar is a single call. */
    of(tree: CallTree, layout: Layout, all: number, areCalls = false): Lanes {
        const { frames, unit, matches } = this;
        return {
            layout,
            name: (item) => nameOf(frames[tree.frame[item]]),
            color: (item) =>
                isTower(frames[tree.frame[item]])
                    ? cssColor("--bar")
                    : shade(this.shades[tree.frame[item]] ?? 0),
            isMatch: matches ? (item) => matches[tree.frame[item]] === 1 : undefined,
            describe: (item, length) => {
                const frame = frames[tree.frame[item]];
                const share = (v: number): string =>
                    all > 0 ? `${value(v, unit)}, ${percent(v / all)}` : value(v, unit);
                return {
                    title: nameOf(frame),
                    lines: [
                        placeBeside(frame, tree.line[item]),
                        areCalls ? `this call: ${value(length, unit)}` : "",
                        `total: ${share(tree.total[item])}`,
                        `self: ${share(tree.own[item])}`,
                        frame && frame.type !== "Python" && !isTower(frame) ? frame.type : "",
                    ].filter(Boolean),
                };
            },
        };
    }
}
