/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds zoom, search and keyboard control to a flame graph, and keeps the view in the address
 * (#zoom=12&search=regex). The graph is complete without this script. Names are read from and
 * written to text nodes only, never as markup.
 */
(function () {
  "use strict";
  var SVG = "http://www.w3.org/2000/svg";
  var XHTML = "http://www.w3.org/1999/xhtml";
  var doc = document;
  var root = doc.documentElement;
  var byId = function (id) { return doc.getElementById(id); };
  var frames = [];
  var zoomed = 0;
  var term = "";
  var focused = 0;
  var charWidth = 6.7;
  var input = null;

  /* Frames are in preorder, so depths determine parents and the ends of subtrees. */
  function load() {
    var open = [];
    var list = doc.querySelectorAll("#frames .f");
    for (var i = 0; i < list.length; i++) {
      var el = list[i];
      var lines = el.querySelector("title").textContent.split("\n");
      var y = parseFloat(el.getAttribute("y"));
      while (open.length && frames[open[open.length - 1]].y >= y) frames[open.pop()].end = i;
      frames.push({
        el: el, y: y, end: list.length, label: lines[0], facts: lines[1] || "",
        x: parseFloat(el.getAttribute("x")), w: parseFloat(el.getAttribute("width")),
        parent: open.length ? open[open.length - 1] : -1, text: el.querySelector("text")
      });
      open.push(i);
      el.setAttribute("role", "treeitem");
      el.setAttribute("tabindex", i ? "-1" : "0");
      el.setAttribute("data-i", String(i));
    }
  }

  function measure() {
    var probe = doc.createElementNS(SVG, "text");
    probe.textContent = "mmmmmmmmmmmmmmmmmmmm";
    frames[0].el.appendChild(probe);
    var length = probe.getComputedTextLength();
    frames[0].el.removeChild(probe);
    if (length > 0) charWidth = length / 20;
  }

  function cut(label, limit) {
    if (limit < 3) return "";
    var chars = Array.from(label);
    return chars.length <= limit ? label : chars.slice(0, limit - 1).join("") + "\u2026";
  }

  function setText(frame, pct, width) {
    var text = cut(frame.label, Math.floor(((pct / 100) * width - 6) / charWidth));
    if (!frame.text) {
      if (!text) return;
      frame.text = doc.createElementNS(SVG, "text");
      frame.text.setAttribute("x", "3");
      frame.text.setAttribute("y", "12.5");
      frame.el.appendChild(frame.text);
    }
    if (frame.text.textContent !== text) frame.text.textContent = text;
  }

  /* Places every frame for the current zoom and width. */
  function draw() {
    var width = root.getBoundingClientRect().width || 1200;
    var top = frames[zoomed];
    for (var i = 0; i < frames.length; i++) {
      var f = frames[i];
      var inside = i >= zoomed && i < top.end;
      var above = i < zoomed && f.end > zoomed;
      f.el.setAttribute("display", inside || above ? "inline" : "none");
      f.el.classList.toggle("up", above);
      if (!inside && !above) continue;
      var x = above || !(top.w > 0) ? 0 : ((f.x - top.x) / top.w) * 100;
      var w = above || !(top.w > 0) ? 100 : (f.w / top.w) * 100;
      f.el.setAttribute("x", x + "%");
      f.el.setAttribute("width", w + "%");
      setText(f, w, width);
    }
  }

  function details(i) {
    byId("details").textContent = frames[i].label + "  \u2014  " + frames[i].facts;
  }

  function crumb(parent, text, i) {
    var span = doc.createElementNS(SVG, "tspan");
    span.textContent = text;
    if (i >= 0) {
      span.setAttribute("class", "crumb");
      span.setAttribute("tabindex", "0");
      span.setAttribute("role", "button");
      span.setAttribute("data-i", String(i));
    }
    parent.appendChild(span);
  }

  /* Shows the first and last frames of the path to the zoomed frame. */
  function crumbs() {
    var line = byId("crumbs");
    while (line.firstChild) line.removeChild(line.firstChild);
    if (zoomed === 0) return;
    var path = [];
    for (var i = zoomed; i >= 0; i = frames[i].parent) path.unshift(i);
    for (var k = 0; k < path.length; k++) {
      if (k > 1 && k < path.length - 4) {
        if (k === 2) crumb(line, "\u203a \u2026 ", -1);
        continue;
      }
      if (k) crumb(line, "\u203a ", -1);
      crumb(line, cut(frames[path[k]].label, 32) + " ", path[k]);
    }
  }

  function saveView() {
    var parts = [];
    if (zoomed) parts.push("zoom=" + zoomed);
    if (term) parts.push("search=" + encodeURIComponent(term));
    var hash = "#" + parts.join("&");
    if ((location.hash || "#") === hash) return;
    try { history.replaceState(null, "", hash); } catch (e) { location.hash = hash; }
  }

  function zoom(i) {
    zoomed = i >= 0 && i < frames.length ? i : 0;
    byId("reset").setAttribute("visibility", zoomed ? "visible" : "hidden");
    draw();
    crumbs();
    details(zoomed);
    saveView();
  }

  /* A term in lower case matches both cases. An invalid expression is searched as plain text. */
  function pattern(text) {
    var flags = text === text.toLowerCase() ? "i" : "";
    try {
      return { re: new RegExp(text, flags), note: "" };
    } catch (e) {
      var plain = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      return { re: new RegExp(plain, flags), note: " (not a regular expression: searched as text)" };
    }
  }

  function search(text) {
    term = text;
    var p = text ? pattern(text) : null;
    var sum = 0;
    var hits = 0;
    var covered = -1;
    for (var i = 0; i < frames.length; i++) {
      var hit = p !== null && i > 0 && p.re.test(frames[i].label);
      frames[i].el.classList.toggle("hit", hit);
      if (!hit) continue;
      hits++;
      /* Count nested hits only once. */
      if (i >= covered) { sum += frames[i].w; covered = frames[i].end; }
    }
    byId("matched").textContent = p
      ? "matched " + sum.toFixed(sum >= 9.995 ? 1 : 2) + " % of all, " + hits +
        (hits === 1 ? " frame" : " frames") + p.note
      : "";
    if (input && input.value !== text) input.value = text;
    saveView();
  }

  function makeInput() {
    var box = doc.createElementNS(SVG, "foreignObject");
    box.setAttribute("x", "286");
    box.setAttribute("y", "46");
    box.setAttribute("width", "220");
    box.setAttribute("height", "24");
    input = doc.createElementNS(XHTML, "input");
    input.setAttribute("id", "search");
    input.setAttribute("type", "search");
    input.setAttribute("placeholder", "regular expression");
    input.setAttribute("aria-label", "search functions by regular expression");
    box.appendChild(input);
    byId("controls").appendChild(box);
    input.addEventListener("input", function () { search(input.value); });
  }

  /* The help text is below the graph, or in front of it on demand. */
  function help(show) {
    var box = byId("help");
    box.classList.toggle("over", show);
    var from = parseFloat(box.getAttribute("data-y"));
    box.setAttribute("transform", "translate(0," + (show ? 120 + window.scrollY : from) + ")");
  }

  function indexOf(target) {
    var el = target && target.closest ? target.closest("[data-i]") : null;
    return el ? parseInt(el.getAttribute("data-i"), 10) : -1;
  }

  function focus(i) {
    if (i < 0) return;
    frames[focused].el.setAttribute("tabindex", "-1");
    focused = i;
    frames[i].el.setAttribute("tabindex", "0");
    frames[i].el.focus();
  }

  function shown(i) { return i >= zoomed ? i < frames[zoomed].end : frames[i].end > zoomed; }

  /* Returns the nearest visible sibling to the left (-1) or right (1). */
  function sibling(i, way) {
    for (var k = i + way; k >= 0 && k < frames.length; k += way) {
      if (frames[k].y < frames[i].y) return -1;
      if (frames[k].y === frames[i].y && shown(k)) return k;
    }
    return -1;
  }

  function moveKey(i, key) {
    if (key === "ArrowUp") return frames[i].parent;
    if (key === "ArrowDown") return i + 1 < frames[i].end && shown(i + 1) ? i + 1 : -1;
    if (key === "ArrowLeft") return sibling(i, -1);
    if (key === "ArrowRight") return sibling(i, 1);
    return -1;
  }

  function escape() {
    if (byId("help").classList.contains("over")) help(false);
    else if (term) search("");
    else zoom(0);
  }

  function press(target) {
    var i = indexOf(target);
    if (i >= 0) { zoom(i); return true; }
    var button = target && target.closest ? target.closest(".button") : null;
    if (!button) return false;
    if (button.id === "reset") zoom(0);
    else if (button.id === "find") input.focus();
    else if (button.id === "how") help(!byId("help").classList.contains("over"));
    return true;
  }

  function onKey(e) {
    if ((e.ctrlKey || e.metaKey) && e.key === "f" && doc.activeElement !== input) {
      e.preventDefault();
      input.focus();
      input.select();
    } else if (e.key === "Escape") {
      escape();
    } else if (e.target === input || e.ctrlKey || e.metaKey || e.altKey) {
      return;
    } else if (e.key === "Enter" || e.key === " ") {
      if (press(e.target)) e.preventDefault();
    } else if (e.key === "/") {
      e.preventDefault();
      input.focus();
    } else if (e.key === "?") {
      help(!byId("help").classList.contains("over"));
    } else {
      var i = indexOf(e.target);
      var next = i >= 0 ? moveKey(i, e.key) : -1;
      if (next >= 0) { e.preventDefault(); focus(next); }
    }
  }

  function restore() {
    var view = new URLSearchParams(location.hash.slice(1));
    var i = parseInt(view.get("zoom") || "0", 10);
    term = view.get("search") || "";
    zoom(i > 0 ? i : 0);
    search(term);
  }

  function start() {
    load();
    if (!frames.length) return;
    measure();
    makeInput();
    byId("controls").style.display = "inline";
    byId("frames").setAttribute("role", "tree");
    root.addEventListener("click", function (e) { press(e.target); });
    root.addEventListener("mouseover", function (e) {
      var i = indexOf(e.target);
      details(i >= 0 ? i : zoomed);
    });
    root.addEventListener("focusin", function (e) {
      var i = indexOf(e.target);
      if (i >= 0) details(i);
    });
    root.addEventListener("keydown", onKey);
    window.addEventListener("resize", draw);
    window.addEventListener("hashchange", restore);
    /* Keep the head visible while scrolling. */
    window.addEventListener("scroll", function () {
      byId("head").setAttribute("transform", "translate(0," + window.scrollY + ")");
    });
    restore();
  }

  start();
})();
