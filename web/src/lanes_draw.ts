// SPDX-License-Identifier: Apache-2.0
// Draws rows of bars on a canvas. Bars narrower than a pixel share a column, so the cost of a
// picture is rows times pixels, whatever the number of bars.
import { lowerBound } from "./decimate";
import { TIME_STEPS, moment } from "./format";
import type { Lanes } from "./lanes";
import { AXIS, HEAD, ROW, clip } from "./lanes_geometry";
import type { Axis, Bar, Rows } from "./lanes_geometry";
import { cssColor } from "./theme";

/** Narrower bars have no text. */
const TEXT_MIN = 26;
const FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

export interface Picture {
    lanes: Lanes;
    axis: Axis;
    rows: Rows;
    width: number;
    height: number;
    /** How far the rows are scrolled. */
    scroll: number;
    hover: Bar | null;
    picked: Bar | null;
    /** Whether to draw a time axis, and where the cursor is on it. */
    hasTime: boolean;
    cursor: number | null;
    /** Ends of the range that is being selected, in pixels. */
    drag: [number, number] | null;
}

type Context = CanvasRenderingContext2D;

/** Draws everything; returns the number of bars drawn. */
export function drawLanes(g: Context, picture: Picture): number {
    const { lanes, axis, rows, width, height, scroll } = picture;
    g.clearRect(0, 0, width, height);
    g.font = FONT;
    g.textBaseline = "middle";
    g.direction = "ltr";
    let drawn = 0;
    g.save();
    g.beginPath();
    g.rect(axis.left, 0, axis.width, height);
    g.clip();
    for (let row = 0; row < lanes.layout.levels.length; row++) {
        const y = rows.top(row) - scroll;
        if (y > -ROW - HEAD && y < height + HEAD) drawn += drawRow(g, lanes, axis, row, y);
    }
    outline(g, picture, picture.hover, cssColor("--soft"), 1);
    outline(g, picture, picture.picked, cssColor("--ink"), 2);
    g.restore();
    if (picture.hasTime) drawTime(g, picture);
    if (picture.drag) {
        const [a, b] = picture.drag;
        g.fillStyle = cssColor("--select");
        g.fillRect(Math.min(a, b), 0, Math.abs(b - a), height);
    }
    return drawn;
}

function drawRow(g: Context, lanes: Lanes, axis: Axis, row: number, y: number): number {
    const { start, end, item: items } = lanes.layout.levels[row];
    const { left, width, from, to, scale } = axis;
    const head = lanes.head?.(row);
    if (head) {
        g.fillStyle = cssColor("--soft");
        g.fillText(clip(head, width - 8), left + 4, y - HEAD / 2 + 1);
    }
    const ink = cssColor("--bar-ink");
    const hit = cssColor("--hit");
    let drawn = 0;
    let i = lowerBound(end, from);
    // Bars that end at the left edge are outside.
    while (i < items.length && end[i] === from && start[i] < from) i++;
    while (i < items.length && start[i] < to) {
        const item = items[i];
        const x = axis.offset(start[i]);
        const wide = (end[i] - start[i]) * scale;
        const isMatch = lanes.isMatch?.(item);
        g.globalAlpha = isMatch === false ? 0.35 : 1;
        g.fillStyle = isMatch ? hit : lanes.color(item);
        drawn++;
        if (wide < 1) {
            const column = Math.floor(x);
            g.fillRect(left + column, y, 1, ROW - 1);
            // Skip the bars that end in this column.
            i = lowerBound(end, from + (column + 1) / scale, i + 1);
            continue;
        }
        const x0 = Math.max(x, 0);
        const visible = Math.min(x + wide, width) - x0;
        g.fillRect(left + x0, y, Math.max(1, visible - (wide > 3 ? 1 : 0)), ROW - 1);
        if (visible > TEXT_MIN) {
            g.fillStyle = isMatch ? cssColor("--hit-ink") : ink;
            const text = clip(lanes.name(item), visible - 8);
            if (text) g.fillText(text, left + x0 + 4, y + ROW / 2, visible - 6);
        }
        i++;
    }
    g.globalAlpha = 1;
    return drawn;
}

function outline(g: Context, picture: Picture, bar: Bar | null, color: string, wide: number): void {
    const level = bar && picture.lanes.layout.levels[bar.row];
    if (!bar || !level) return;
    const { axis } = picture;
    const x = Math.max(axis.offset(level.start[bar.i]), -4);
    const end = Math.min(axis.offset(level.end[bar.i]), axis.width + 4);
    if (end < 0 || x > axis.width) return;
    g.strokeStyle = color;
    g.lineWidth = wide;
    const y = picture.rows.top(bar.row) - picture.scroll;
    g.strokeRect(
        axis.left + x + wide / 2,
        y + wide / 2,
        Math.max(1, end - x - wide),
        ROW - 1 - wide,
    );
}

function drawTime(g: Context, { axis, width, height, cursor }: Picture): void {
    const { left, from, to } = axis;
    g.fillStyle = cssColor("--panel");
    g.fillRect(0, 0, width, AXIS - 3);
    g.fillStyle = cssColor("--soft");
    const rough = (to - from) / Math.max(2, axis.width / 90);
    const step = TIME_STEPS.find((one) => one >= rough) ?? rough;
    g.font = "12px system-ui, sans-serif";
    g.textAlign = "center";
    for (let k = Math.ceil(from / step); k * step <= to; k++) {
        const text = moment(k * step, step);
        const x = left + axis.offset(k * step);
        g.fillText(text, Math.min(x, width - g.measureText(text).width / 2), 10);
    }
    g.textAlign = "start";
    if (cursor !== null && cursor >= from && cursor <= to) {
        g.fillRect(left + axis.offset(cursor), AXIS - 3, 1, height);
    }
}
