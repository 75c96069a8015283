// SPDX-License-Identifier: Apache-2.0
// Small documents for the unit tests of the page.

/**
 * Returns the stacks of a document. Each sample is [thread, path, weight], with a path such as
 * "main/work" and a time that is the sum of the weights of its thread. Threads have the process of
 * the same index in `pids`.
 */
export function stacksOf(samples, { pids = [1], unit = "s", onCpu = null } = {}) {
    const frames = [];
    const nodes = { parent: [], frame: [], line: [] };
    const byPath = new Map([["", -1]]);
    const nodeOf = (path) => {
        if (!byPath.has(path)) {
            const func = path.slice(path.lastIndexOf("/") + 1);
            const parent = nodeOf(path.slice(0, Math.max(0, path.lastIndexOf("/"))));
            let frame = frames.findIndex((one) => one.func === func);
            if (frame < 0) {
                frame = frames.push({ func, file: `${func}.py`, line: 1, type: "Python" }) - 1;
            }
            nodes.parent.push(parent);
            nodes.frame.push(frame);
            nodes.line.push(null);
            byPath.set(path, nodes.parent.length - 1);
        }
        return byPath.get(path);
    };
    const now = pids.map(() => 0);
    return {
        unit,
        processes: [{ pid: 1, name: "python3 train.py" }],
        threads: pids.map((pid, i) => ({ pid, tid: 10 + i, name: i ? `worker-${i}` : "main" })),
        frames,
        nodes,
        samples: {
            node: samples.map(([, path]) => nodeOf(path)),
            thread: samples.map(([thread]) => thread),
            weight: samples.map(([, , weight]) => weight),
            t: samples.map(([thread, , weight]) => (now[thread] += weight)),
            ...(onCpu ? { on_cpu: onCpu } : {}),
            seen: samples.length,
        },
    };
}

/** Selects all samples, except for the given members. */
export const selection = (members = {}) => ({
    thread: -1,
    onCpuOnly: false,
    start: 0,
    end: 100,
    isPart: false,
    isTime: true,
    ...members,
});

/** Returns the rows of a layout as lists of [name, start, end]. */
export const rowsOf = ({ levels }, tree, frames) =>
    levels.map(({ item, start, end }) =>
        Array.from(item, (node, i) => [frames[tree.frame[node]].func, start[i], end[i]]),
    );
