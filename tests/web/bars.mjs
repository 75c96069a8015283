// SPDX-License-Identifier: Apache-2.0
// Which bars a flame graph must have, worked out from the document alone, and which it has.
import assert from "node:assert/strict";

const ROW = 19;
/** Bars wider than this have their name in them. */
const TEXT_MIN = 26;
const TOLERANCE = 0.02;

/** Runs in the page before its scripts: keeps what is painted on each canvas since it was cleared. */
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

/** A node of the reference's tree: its kids are found by a key, and keep the order of the document. */
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

/** The bars of its process and thread that a sample stands below, where there are several. */
function towerOf({ threads, processes }, i) {
    const { pid, tid, name } = threads[i];
    const pids = new Set(threads.map((thread) => thread.pid));
    const made = [];
    if (pids.size > 1) {
        const command = processes?.find((one) => one.pid === pid)?.name;
        made.push([`p${pid}`, command ? `process ${pid}: ${command}` : `process ${pid}`]);
    }
    if (threads.length > pids.size) {
        made.push([`t${i}`, name ? `thread ${name} (${tid})` : `thread ${tid}`]);
    }
    return made;
}

/** Rows of { start, end, name }, the heaviest sibling first; `only` chooses a thread. */
export function heaviestFirst(stacks, only = -1) {
    const root = kid({ byKey: new Map(), kids: [] }, 0, "");
    const { node, weight, thread } = stacks.samples;
    const nodeName = (at) => stacks.frames[stacks.nodes.frame[at]].func || "(no name)";
    // In the order of threads and nodes, which decides between equal widths.
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

/** Rows of one thread in the order of time.  A sample stands for the time before it, as far as the
 * one before it does not; those that follow each other without a gap are joined. */
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

/** What of the rows must be painted when `from` to `to` fills the axis, as rectangles. */
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

/** Things that have an x, to be found by it. */
class ByPlace {
    constructor(list) {
        this.bins = new Map();
        for (const one of list) {
            const bin = Math.round(one.x);
            if (this.bins.has(bin)) this.bins.get(bin).push(one);
            else this.bins.set(bin, [one]);
        }
    }

    /** Those within a pixel of x. */
    at(x) {
        const bin = Math.round(x);
        return [bin - 1, bin, bin + 1].flatMap((one) => this.bins.get(one) ?? []);
    }

    hasBar({ x, w }) {
        return this.at(x).some((one) => near(one.x, x) && near(one.w, w));
    }
}

/**
 * Every bar of at least a pixel is painted where it belongs and as wide as it is, every smaller one
 * has its column, names stand in bars, and nothing else is painted.  `axis.top` is where the first
 * row begins.  Gives how many bars of at least a pixel there were.
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
        const [thereBars, wideBars] = [new ByPlace(bars), new ByPlace(wide)];
        const columns = new ByPlace([...new Set(narrow)].map((x) => ({ x })));
        const missing = wide.filter((bar) => !thereBars.hasBar(bar));
        assert.deepEqual(missing, [], `${where}: bars that are missing`);
        // A column at the edge of two may be rounded either way.
        const lost = narrow.filter((x) => !thereBars.at(x).length);
        assert.deepEqual(lost, [], `${where}: columns that are missing`);
        const strange = bars.filter(
            (bar) => !wideBars.hasBar(bar) && !(bar.w === 1 && columns.at(bar.x).length),
        );
        assert.deepEqual(strange, [], `${where}: bars that nothing stands for`);
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
