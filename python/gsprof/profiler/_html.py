# SPDX-License-Identifier: Apache-2.0
"""The report as one page without network access: inline SVG charts, dark and light."""

from __future__ import annotations

import html
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import _gsprof
from . import _series, _text

WIDTH = 900
CHART_HEIGHT = 126
LANE_HEIGHT = 18
LANES_MAX = 12
COLORS = 8
# Columns of a chart; each shows the least and the greatest of its values.
COLUMNS = 450

_STYLE = """
:root{--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--card:#f6f8fa;
--c0:#2f6fb7;--c1:#b3541e;--c2:#2d7d46;--c3:#8250a8;--c4:#8a6d00;--c5:#b02a56;--c6:#00757f;
--c7:#5b6470}
@media (prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e9ec;--dim:#9aa4af;--line:#363c44;
--card:#1e2228;--c0:#6cabf0;--c1:#f0935a;--c2:#6cc78a;--c3:#c398ea;--c4:#d9b83e;--c5:#f07ba0;
--c6:#4fc4cf;--c7:#a3adb8}}
*{box-sizing:border-box}body{margin:0 auto;max-width:980px;padding:24px;background:var(--bg);
color:var(--fg);font:15px/1.5 system-ui,sans-serif}h1{font-size:24px}h2{font-size:18px;
margin:32px 0 8px}p,figcaption{color:var(--dim);margin:4px 0 8px}figure{margin:0 0 20px}
.cards{display:flex;flex-wrap:wrap;gap:12px}.card{background:var(--card);
border:1px solid var(--line);
border-radius:8px;padding:10px 16px;min-width:150px}.card b{display:block;font-size:20px}
.card span{color:var(--dim)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible{outline:2px solid var(--c0)}svg{width:100%;height:auto;display:block}
svg text{fill:var(--dim);font:12px system-ui,sans-serif}svg .frame{stroke:var(--line);fill:none}
"""

# Sorts a table by the clicked column: by number if the cells have one, else by text.
_SCRIPT = """
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[head.cellIndex];
      return cell.dataset.value ?? cell.textContent;
    };
    const order = (a, b) => {
      const x = Number(key(a)), y = Number(key(b));
      return Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
    };
    body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
  });
}
"""


def _escape(text: object) -> str:
    return html.escape(_text.plain(text))


def _cell(shown: str, value: Optional[float] = None) -> str:
    key = f' data-value="{value!r}"' if value is not None and math.isfinite(value) else ""
    return f"<td{key}>{_escape(shown)}</td>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f'<th scope="col"><button>{_escape(one)}</button></th>' for one in head)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{_escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{_escape(caption)}</figcaption></figure>"


# ------------------------------------------------------------------------------ charts


def _columns(samples: Sequence[Tuple[int, float]]) -> List[Tuple[float, float, float]]:
    """Returns position (0 to 1), least and greatest value of each column that has values."""
    finite = [(at, value) for at, value in samples if math.isfinite(value)]
    if not finite:
        return []
    first, last = finite[0][0], finite[-1][0]
    found: Dict[int, Tuple[float, float]] = {}
    for at, value in finite:
        place = int((at - first) * (COLUMNS - 1) / (last - first)) if last > first else 0
        low, high = found.get(place, (value, value))
        found[place] = (min(low, value), max(high, value))
    return [(place / (COLUMNS - 1), *found[place]) for place in sorted(found)]


def _chart(name: str, samples: Sequence[Tuple[int, float]], color: int, unit: str) -> str:
    columns = _columns(samples)
    if not columns:
        return _figure(_svg(20, name, []), f"{name}: no finite value")
    low = min(column[1] for column in columns)
    high = max(column[2] for column in columns)
    spread = high - low or abs(high) or 1.0

    def at(place: float, value: float) -> str:
        return f"{60 + place * (WIDTH - 70):.1f},{10 + (high - value) / spread * 110:.1f}"

    points = []
    for place, least, greatest in columns:
        points.append(at(place, greatest))
        if least != greatest:
            points.append(at(place, least))
    stroke = f'stroke="var(--c{color % COLORS})" fill="none" stroke-width="1.5"'
    shape = f'<polyline points="{" ".join(points)}" {stroke}/>'
    if len(points) == 1:
        x, y = points[0].split(",")
        shape = f'<circle cx="{x}" cy="{y}" r="3" fill="var(--c{color % COLORS})"/>'
    parts = [
        f'<rect class="frame" x="60" y="10" width="{WIDTH - 70}" height="110"/>',
        f'<text x="54" y="18" text-anchor="end">{_text.number(high)}</text>',
        f'<text x="54" y="120" text-anchor="end">{_text.number(low)}</text>',
        shape,
    ]
    took_s = (samples[-1][0] - samples[0][0]) / 1e9
    caption = f"{name}{unit}: {len(samples)} values over {_text.milliseconds(took_s * 1e3)}"
    return _figure(_svg(CHART_HEIGHT, name, parts), caption)


def _shares(shares: Dict[str, float], order: Dict[str, int]) -> str:
    parts, left = [], 0.0
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        width = share * WIDTH
        color = "var(--line)" if name == "idle" else f"var(--c{order.get(name, 7) % COLORS})"
        shown = f"{name}: {_text.percent(share)}"
        parts.append(
            f'<g><title>{_escape(shown)}</title><rect x="{left:.1f}" y="0" width="{width:.1f}" '
            f'height="26" fill="{color}"/></g>'
        )
        if width > 8 * len(shown):
            # A plate in the page's background colour, readable on bars of any colour.
            parts.append(
                f'<rect x="{left + 3:.1f}" y="5" width="{7 * len(shown)}" height="16" rx="3" '
                f'fill="var(--bg)"/><text x="{left + 6:.1f}" y="17">{_escape(shown)}</text>'
            )
        left += width
    return _svg(28, "shares of the time", parts)


def _lanes(names: Sequence[str], samples: Dict[str, List[Tuple[int, float]]]) -> str:
    """Returns the timeline: a lane for each name; intervals closer than a pixel are merged."""
    shown = [name for name in names if samples[name]][:LANES_MAX]
    if not shown:
        return ""
    first = min(samples[name][0][0] for name in shown)
    last = max(at + ms * 1e6 for name in shown for at, ms in samples[name])
    scale = (WIDTH - 170) / max(last - first, 1.0)
    parts = []
    for lane, name in enumerate(shown):
        top = lane * (LANE_HEIGHT + 6)
        label = name if len(name) <= 22 else name[:21] + "…"
        parts.append(f'<text x="0" y="{top + 13}">{_escape(label)}</text>')
        path: List[Tuple[float, float]] = []
        end = -1.0
        for at, took_ms in samples[name]:
            left = 160 + (at - first) * scale
            right = max(left + took_ms * 1e6 * scale, left + 0.5)
            if path and left <= end + 0.5:
                end = max(end, right)
                path[-1] = (path[-1][0], end)
            else:
                end = right
                path.append((left, right))
        shape = "".join(f"M{a:.1f} {top}H{b:.1f}V{top + LANE_HEIGHT}H{a:.1f}Z" for a, b in path)
        title = f"{name}: {len(samples[name])} times"
        parts.append(
            f'<path d="{shape}" fill="var(--c{lane % COLORS})">'
            f"<title>{_escape(title)}</title></path>"
        )
    caption = f"from the first start to the last end: {_text.milliseconds((last - first) / 1e6)}"
    if len(names) > len(shown):
        caption += f"; the first {len(shown)} of {len(names)} names"
    return _figure(_svg(len(shown) * (LANE_HEIGHT + 6), "timeline", parts), caption)


# --------------------------------------------------------------------------- the parts


def _cards(collector: Any) -> str:
    memory, speed = collector.memory, collector.throughput
    found = collector.analyze_bottlenecks()
    cards = [
        ("peak memory allocated", _text.byte_count(memory["peak_allocated"])),
        ("peak memory reserved", _text.byte_count(memory["peak_reserved"])),
        ("samples per second", _text.number(speed["samples_per_sec"])),
        ("iterations per second", _text.number(speed["iterations_per_sec"])),
        ("bottleneck", found["bottleneck"] or "-"),
    ]
    body = "".join(
        f'<div class="card"><b>{_escape(value)}</b><span>{_escape(name)}</span></div>'
        for name, value in cards
    )
    return f'<div class="cards">{body}</div>'


def _statistics(recorder: _gsprof.Recorder, kind: int) -> str:
    keys = ("total", "mean", "std", "min", "median", "p95", "p99", "max")
    show = _text.milliseconds if kind == _series.TIMES else _text.number
    rows = []
    for name in recorder._names(kind):
        stats = _series.statistics(recorder, kind, name)
        cells = [_cell(name), _cell(str(stats["count"]), stats["count"])]
        rows.append(cells + [_cell(show(stats[key]), stats[key]) for key in keys])
    return _table(("name", "count", *keys), rows)


def _bottlenecks(collector: Any, order: Dict[str, int]) -> List[str]:
    found = collector.analyze_bottlenecks()
    reasons = "".join(f"<li>{_escape(reason)}</li>" for reason in found["reasons"])
    bar = _shares(found["shares"], order) if found["shares"] else ""
    return [
        "<h2>Where the time goes</h2>",
        "<p>Each moment counts once, for the innermost measurement. Hover over a part to see its "
        "name.</p>",
        bar,
        f"<ul>{reasons}</ul>",
    ]


def _comparison(comparison: Any) -> List[str]:
    rows, bars = [], []
    for place, (name, row) in enumerate(comparison["metrics"].items()):
        pct = row["difference_pct"]
        bounds = "-"
        if row["ci_low"] is not None:
            bounds = f"{_text.number(row['ci_low'])} to {_text.number(row['ci_high'])}"
        rows.append(
            [
                _cell(name),
                _cell(_text.number(row["a"]), row["a"]),
                _cell(_text.number(row["b"]), row["b"]),
                _cell("-" if pct is None else f"{pct:+.1f} %", pct),
                _cell(bounds, row["ci_low"]),
                _cell(_text.number(row["p_value"]), row["p_value"]),
                _cell(row["verdict"]),
            ]
        )
        if place < LANES_MAX:
            bars += _pair(place, name, row)
    height = min(len(rows), LANES_MAX) * 30
    return [
        "<h2>Compared with the baseline</h2>",
        f"<p>{_escape(comparison['verdict'])}</p>",
        _figure(_svg(height, "comparison", bars), "upper bar: baseline; lower bar: this run"),
        _table(("metric", "baseline", "this run", "change", "95 % bounds", "p", "verdict"), rows),
    ]


def _pair(place: int, name: str, row: Dict[str, Any]) -> List[str]:
    greatest = max(abs(row["a"]), abs(row["b"])) or 1.0
    label = name if len(name) <= 22 else name[:21] + "…"
    parts = [f'<text x="0" y="{place * 30 + 17}">{_escape(label)}</text>']
    for offset, key, color in ((3, "a", 7), (14, "b", 0)):
        width = abs(row[key]) / greatest * (WIDTH - 170)
        parts.append(
            f'<rect x="160" y="{place * 30 + offset}" width="{width:.1f}" height="9" '
            f'fill="var(--c{color})"><title>{_escape(_text.number(row[key]))}</title></rect>'
        )
    return parts


def page(collector: Any, comparison: Optional[Any]) -> str:
    """Returns the whole document."""
    times, metrics = collector._names(_series.TIMES), collector._names(_series.VALUES)
    order = {name: place for place, name in enumerate(times)}
    samples = {name: collector._samples(_series.TIMES, name) for name in times}
    parts = ["<h1>gsprof report</h1>", _cards(collector)]
    notes = "".join(f"<li>{_escape(note)}</li>" for note in collector.notes())
    if notes:
        parts.append(f"<ul>{notes}</ul>")
    if times:
        parts += _bottlenecks(collector, order)
        parts += ["<h2>Times</h2>", "<p>Click a column to sort by it.</p>"]
        parts += [_statistics(collector, _series.TIMES)]
        parts += ["<h2>Timeline</h2>", _lanes(times, samples)]
        parts += [_chart(name, samples[name], order[name], ", ms") for name in times[:LANES_MAX]]
    if metrics:
        parts += ["<h2>Metrics</h2>", _statistics(collector, _series.VALUES)]
        for place, name in enumerate(metrics[:LANES_MAX]):
            parts.append(_chart(name, collector._samples(_series.VALUES, name), place, ""))
    if not times and not metrics:
        parts.append("<p>Nothing was recorded.</p>")
    if comparison is not None:
        parts += _comparison(comparison)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>gsprof report</title><style>{_STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script></body></html>\n"
    )
