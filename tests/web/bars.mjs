// SPDX-License-Identifier: Apache-2.0
// Computes the bars of a flame graph from the document, and compares them with the painted ones.
import assert from "node:assert/strict";

const ROW = 19;
/** Wider bars contain their name. */
const TEXT_MIN = 26;
const TOLERANCE = 0.02;

/** Runs in the page before its scripts: records what is painted on each canvas since it was
 * cleared. */
export function keepBars() {
    const proto = CanvasRenderingContext2D.prototype;
    const { clearRect, fillRect, fillText } = proto;
    proto.clearRect = function (...args) {
        this.canvas.painted = { bars: [], texts: [] };
        return clearRect.apply(this, args);
    };
    proto.fillRect = function (x, y, w, h) {
        this.canvas.painted?.bars.push({ x, y, w, h });
        return fillRect.call(this, x, y, w, h);
    };
    proto.fillText = function (text, x, y, ...rest) {
        this.canvas.painted?.texts.push({ text, x, y });
        return fillText.call(this, text, x, y, ...rest);
    };
}

const sum = (node) => node.own + node.kids.reduce((all, kid) => all + kid.total, 0);

/** Returns the child of a node with a key; adds it if needed. Children are in document order. */
function kid(of, key, name) {
    let found = of.byKey.get(key);
    if (!found) {
        found = { name, own: 0, total: 0, kids: [], byKey: new Map() };
        of.byKey.set(key, found);
        of.kids.push(found);
    }
    return found;
}

const pathOf = ({ nodes }, node) => {
    const path = [];
    for (let at = node; at >= 0; at = nodes.parent[at]) path.unshift(at);
    return path;
};

/** Returns the bars of process and thread above a sample, if there are several. */
function towerOf({ threads, processes }, i) {
    const { pid, tid, name } = threads[i];
    const pids = new Set(threads.map((thread) => thread.pid));
    const bars = [];
    if (pids.size > 1) {
        const command = processes?.find((one) => one.pid === pid)?.name;
        bars.push([`p${pid}`, command ? `process ${pid}: ${command}` : `process ${pid}`]);
    }
    if (threads.length > pids.size) {
        bars.push([`t${i}`, name ? `thread ${name} (${tid})` : `thread ${tid}`]);
    }
    return bars;
}

/** Returns rows of { start, end, name }, the heaviest sibling first; `only` selects a thread. */
export function heaviestFirst(stacks, only = -1) {
    const root = kid({ byKey: new Map(), kids: [] }, 0, "");
    const { node, weight, thread } = stacks.samples;
    const nodeName = (at) => stacks.frames[stacks.nodes.frame[at]].func || "(no name)";
    // The order of threads and nodes decides between equal widths.
    const order = node.map((_, i) => i).filter((i) => node[i] >= 0);
    order.sort((a, b) => thread[a] - thread[b] || node[a] - node[b] || a - b);
    for (const i of order) {
        let at = root;
        if (only >= 0 && thread[i] !== only) continue;
        const above = only < 0 ? towerOf(stacks, thread[i]) : [];
        for (const [key, name] of above) at = kid(at, key, name);
        for (const step of pathOf(stacks, node[i])) at = kid(at, step, nodeName(step));
        at.own += weight[i];
    }
    return layOut(root);
}

function layOut(root) {
    const weigh = (node) => {
        node.kids.forEach(weigh);
        node.total = sum(node);
    };
    weigh(root);
    const rows = [];
    const lay = (node, start, depth) => {
        const sorted = [...node.kids].sort((a, b) => b.total - a.total);
        for (const one of sorted.filter(({ total }) => total > 0)) {
            (rows[depth] ??= []).push({ start, end: start + one.total, name: one.name });
            lay(one, start, depth + 1);
            start += one.total;
        }
    };
    lay(root, 0, 0);
    return rows;
}

/** Returns the rows of one thread in time order. A sample covers the time since the one before it,
 * at most its weight; equal calls without a gap are merged. */
export function inTime(stacks, thread) {
    const rows = [];
    let before = [];
    let until = -1;
    const { t, node, weight } = stacks.samples;
    for (let i = 0; i < node.length; i++) {
        if (stacks.samples.thread[i] !== thread) continue;
        const path = pathOf(stacks, node[i]);
        const start = Math.max(t[i] - weight[i], until);
        let same = start === until;
        path.forEach((at, depth) => {
            same &&= before[depth] === at;
            const row = (rows[depth] ??= []);
            const name = stacks.frames[stacks.nodes.frame[at]].func || "(no name)";
            if (same) row[row.length - 1].end = t[i];
            else row.push({ start, end: t[i], name });
        });
        before = path;
        until = t[i];
    }
    return rows;
}

/** Returns the expected rectangles of a row if `from` to `to` fills the axis. */
function rectangles(row, { from, to, left, width }) {
    const scale = width / (to - from);
    const wide = [];
    const narrow = [];
    for (const { start, end, name } of row) {
        if (start >= to || end <= from) continue;
        const x = (start - from) * scale;
        const w = (end - start) * scale;
        if (w < 1) narrow.push(left + Math.floor(x));
        else {
            const x0 = Math.max(x, 0);
            const seen = Math.min(x + w, width) - x0;
            wide.push({ x: left + x0, w: Math.max(1, seen - (w > 3 ? 1 : 0)), seen, name });
        }
    }
    return { wide, narrow };
}

const near = (a, b) => Math.abs(a - b) <= TOLERANCE;

/** Finds objects by their x. */
class ByX {
    constructor(list) {
        this.bins = new Map();
        for (const one of list) {
            const bin = Math.round(one.x);
            if (this.bins.has(bin)) this.bins.get(bin).push(one);
            else this.bins.set(bin, [one]);
        }
    }

    /** Returns those at most a pixel away. */
    at(x) {
        const bin = Math.round(x);
        return [bin - 1, bin, bin + 1].flatMap((one) => this.bins.get(one) ?? []);
    }

    hasBar({ x, w }) {
        return this.at(x).some((one) => near(one.x, x) && near(one.w, w));
    }
}

/**
 * Checks that every bar of at least a pixel is painted with its position and width, that every
 * narrower bar has its column, that names are inside their bars, and that nothing else is painted.
 * `axis.top` is the top of the first row. Returns the number of bars of at least a pixel.
 */
export function compareBars(rows, painted, axis, about) {
    let found = 0;
    rows.forEach((row, depth) => {
        const y = axis.top + depth * ROW;
        if (y + ROW > axis.high) return;
        const bars = painted.bars.filter((bar) => bar.h === ROW - 1 && near(bar.y, y));
        const texts = painted.texts.filter((text) => near(text.y, y + ROW / 2));
        const { wide, narrow } = rectangles(row, axis);
        const where = `${about}, row ${depth}`;
        const [paintedBars, wideBars] = [new ByX(bars), new ByX(wide)];
        const columns = new ByX([...new Set(narrow)].map((x) => ({ x })));
        const missing = wide.filter((bar) => !paintedBars.hasBar(bar));
        const first = JSON.stringify(bars.slice(0, 5));
        assert.deepEqual(missing, [], `${where}: missing bars; painted ${first}`);
        // A column at an edge may be rounded either way.
        const lost = narrow.filter((x) => !paintedBars.at(x).length);
        assert.deepEqual(lost, [], `${where}: missing columns`);
        const unexpected = bars.filter(
            (bar) => !wideBars.hasBar(bar) && !(bar.w === 1 && columns.at(bar.x).length),
        );
        assert.deepEqual(unexpected, [], `${where}: unexpected bars`);
        const named = wide.filter(({ seen }) => seen > TEXT_MIN);
        assert.equal(texts.length, named.length, `${where}: names`);
        for (const { x, name } of named) {
            const text = texts.find((one) => near(one.x, x + 4))?.text ?? "(none)";
            assert.ok(name.startsWith(text.replace(/\u2026$/, "")), `${where}: ${name}, ${text}`);
        }
        found += wide.length;
    });
    return found;
}
