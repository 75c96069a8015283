"use strict";
/* Shows the values under the pointer. `plot` is {from, to, zone, panels}; times are in
 * milliseconds. */
(function () {
  const plot = JSON.parse(document.getElementById("data").textContent);
  const svg = document.querySelector("svg.plot");
  const tip = document.getElementById("tip");
  const box = svg.viewBox.baseVal;
  const hair = document.createElementNS("http://www.w3.org/2000/svg", "line");
  hair.id = "hair";
  hair.setAttribute("visibility", "hidden");
  svg.appendChild(hair);

  function number(v, unit) {
    const prefixes = ["", "k", "M", "G", "T", "P"];
    const bytes = unit.startsWith("bytes");
    let at = 0;
    while (unit !== "%" && Math.abs(v) >= 1000 && at + 1 < prefixes.length) {
      v /= 1000;
      at++;
    }
    const name = prefixes[at] + (bytes ? "B" + unit.slice(5) : unit);
    return String(Number(v.toPrecision(4))) + (name && name !== "%" ? " " : "") + name;
  }

  /* Returns the column nearest to x. Columns are sorted by x. */
  function nearest(columns, x) {
    let low = 0;
    let high = columns.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (columns[middle][0] < x) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && x - columns[low - 1][0] < columns[low][0] - x) low--;
    return columns[low];
  }

  function row(parent, color, text) {
    const line = document.createElement("div");
    if (color) {
      const mark = document.createElement("b");
      mark.style.background = color;
      line.appendChild(mark);
    }
    line.appendChild(document.createTextNode(text));
    parent.appendChild(line);
  }

  function show(panel, x, event) {
    const ms = plot.from + ((x - panel.x) / panel.w) * (plot.to - plot.from);
    tip.replaceChildren();
    row(tip, "", new Date(ms + plot.zone * 1000).toISOString().replace("T", " ").replace("Z", ""));
    for (const line of panel.lines) {
      if (!line.columns.length) continue;
      const at = nearest(line.columns, x);
      if (Math.abs(at[0] - x) > 12) continue;
      const range = at[1] < at[3]
        ? "  (" + number(at[1], panel.unit) + " to " + number(at[3], panel.unit) + ")" : "";
      row(tip, line.color, line.label + ": " + number(at[2], panel.unit) + range);
    }
    tip.style.display = "block";
    const main = svg.parentElement.getBoundingClientRect();
    const left = event.clientX - main.left;
    const over = left + 24 + tip.offsetWidth > main.width;
    tip.style.left = (over ? left - 16 - tip.offsetWidth : left + 16) + "px";
    tip.style.top = event.clientY - main.top + 12 + "px";
    hair.setAttribute("x1", x);
    hair.setAttribute("x2", x);
    hair.setAttribute("y1", panel.y);
    hair.setAttribute("y2", panel.y + panel.h);
    hair.setAttribute("visibility", "visible");
  }

  function hide() {
    tip.style.display = "none";
    hair.setAttribute("visibility", "hidden");
  }

  svg.addEventListener("pointermove", function (event) {
    const place = svg.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * box.width;
    const y = ((event.clientY - place.top) / place.height) * box.height;
    const panel = plot.panels.find(
      (p) => x >= p.x && x <= p.x + p.w && y >= p.y && y <= p.y + p.h);
    if (panel) show(panel, x, event);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  document.getElementById("theme").addEventListener("click", function () {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
