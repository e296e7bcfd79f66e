// SPDX-License-Identifier: GPL-2.0-only
// Charts of one run, of which all show the same time.
(function () {
  "use strict";
  const data = document.getElementById("series-data");
  if (!data) return;
  const runs = JSON.parse(data.textContent);
  const byId = (name) => document.getElementById("series-" + name);
  const CHARTS = [["throughput", "Throughput (Mbit/s)"], ["delay", "Queueing delay (ms)"],
    ["cwnd", "Congestion window (segments)"], ["rtt", "Smoothed round-trip time (ms)"],
    ["packets", "In flight, window and bounds (packets)"], ["rates", "Rates (Mbit/s of payload)"]];
  // Okabe and Ito; links are grey or ink and dashed, so that flows stand out
  const FLOWS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  const DASHES = [null, [6, 3], [2, 2], [8, 3, 2, 3]];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let run, charts = [], span = [0, 1], hidden = {link: new Set(), flow: new Set()};

  function look(kind, place) {
    if (kind === "link") return {colour: dark.matches ? "#c9ced6" : "#444a52", dash: DASHES[place % DASHES.length]};
    return {colour: FLOWS[place % FLOWS.length], dash: null};
  }

  const nameOf = (one) => (one.k === "link" ? run.links : run.flows)[one.i];

  // Base64 of 16-bit numbers, little end first: times, then values.
  function unpack(one) {
    const text = atob(one.d), count = text.length / 4, points = [];
    const at = (k) => text.charCodeAt(2 * k) + 256 * text.charCodeAt(2 * k + 1);
    for (let k = 0; k < count; k++) points.push([at(k), at(count + k) / 65535 * one.max]);
    return points;
  }

  // A row for each instant at which any of the curves has a point.
  function rowsOf(curves) {
    const rows = new Map();
    curves.forEach((one, column) => {
      for (const [t, value] of unpack(one)) {
        if (!rows.has(t)) rows.set(t, [t / 65535 * run.end, ...curves.map(() => null)]);
        rows.get(t)[column + 1] = value;
      }
    });
    return Array.from(rows.keys()).sort((a, b) => a - b).map((t) => rows.get(t));
  }

  const seconds = (value) => Number(value.toPrecision(6)).toString();

  function show(from, to, said) {
    const least = run.end / 1e5;
    from = Math.max(0, Math.min(from, run.end - least));
    to = Math.min(run.end, Math.max(to, from + least));
    span = [from, to];
    for (const chart of charts) chart.graph.updateOptions({dateWindow: [from, to]});
    byId("from").value = seconds(from);
    byId("to").value = seconds(to);
    if (said) byId("said").textContent = `${run.name}: ${seconds(from)} s to ${seconds(to)} s`;
  }

  function move(how) {
    const [from, to] = span, width = to - from, middle = (from + to) / 2;
    if (how === "in") show(middle - width / 4, middle + width / 4, true);
    else if (how === "out") show(middle - width, middle + width, true);
    else if (how === "left") { const by = Math.min(width / 2, from); show(from - by, to - by, true); }
    else if (how === "right") { const by = Math.min(width / 2, run.end - to); show(from + by, to + by, true); }
    else show(0, run.end, true);
  }

  function shade(context, area, graph) {
    for (const [from, to, , colour] of run.states || []) {
      const left = Math.max(graph.toDomXCoord(from), area.x);
      const width = Math.min(graph.toDomXCoord(to), area.x + area.w) - left;
      context.fillStyle = colour;
      context.globalAlpha = dark.matches ? 0.25 : 1;
      if (width > 0) context.fillRect(left, area.y, width, area.h);
    }
    context.globalAlpha = 1;
    const right = graph.toDomXCoord(run.start);
    if (right <= area.x) return;
    context.fillStyle = dark.matches ? "rgba(255, 255, 255, 0.08)" : "rgba(0, 0, 0, 0.06)";
    context.fillRect(area.x, area.y, Math.min(right, area.x + area.w) - area.x, area.h);
  }

  // As dygraphs has it, but that a finger scrolls the page; on touch screens there are buttons.
  function mouseOnly() {
    const model = Object.assign({}, Dygraph.defaultInteractionModel);
    delete model.touchstart; delete model.touchmove; delete model.touchend;
    model.dblclick = () => show(0, run.end, true);
    return model;
  }

  function draw(kind, title) {
    const curves = run.series.filter((one) => one.c === kind);
    if (!curves.length) return;
    const box = document.createElement("div"), head = document.createElement("h3");
    const plot = document.createElement("div"), values = document.createElement("div");
    box.className = "chart"; plot.className = "plot"; values.className = "values";
    head.textContent = title + " over time (s)";
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${title} over time of ${run.name}: ${curves.map(nameOf).join(", ")}. Keys: plus, minus, arrows, 0.`);
    box.append(head, plot, values);
    byId("charts").append(box);
    const series = {}, labels = ["s"];
    for (const one of curves) {
      const of = look(one.k, one.i);
      labels.push(`${one.k} ${nameOf(one)}`);
      series[labels[labels.length - 1]] = {color: of.colour, strokePattern: of.dash};
    }
    const graph = new Dygraph(plot, rowsOf(curves), {
      labels, series, visibility: curves.map((one) => !hidden[one.k].has(one.i)), connectSeparatedPoints: true,
      includeZero: true, legend: "always", labelsDiv: values, legendFormatter: (found) => legend(found),
      strokeWidth: 1.4, stepPlot: Boolean(run.states), axisLineColor: "#8a8a8a", gridLineColor: dark.matches ? "#3a4049" : "#dddddd",
      highlightCircleSize: 3, animatedZooms: false, dateWindow: span.slice(), underlayCallback: shade,
      interactionModel: mouseOnly(), xRangePad: 0, axes: {y: {axisLabelWidth: 46}},
      drawCallback: (drawn, initial) => {
        const [from, to] = drawn.xAxisRange();
        if (!initial && (from !== span[0] || to !== span[1])) show(from, to, true);
      },
    });
    charts.push({graph, curves});
  }

  function legend(found) {
    const box = document.createElement("span");
    const state = (run.states || []).find(([from, to]) => found.x >= from && found.x < to);
    const at = found.x === undefined ? "" : `${seconds(found.x)} s${state ? `, ${state[2]}` : ""}: `;
    const known = found.series.filter((one) => one.isVisible && one.y !== undefined && one.y !== null && at);
    box.textContent = at + known.map((one) => `${one.label.replace(/^(link|flow) /, "")} ${Number(one.y.toPrecision(4))}`).join("; ");
    return box.innerHTML;
  }

  function boxes(kind, names) {
    const place = byId(kind + "s");
    place.replaceChildren();
    names.forEach((name, number) => {
      const label = document.createElement("label"), box = document.createElement("input");
      const swatch = document.createElement("span"), of = look(kind, number);
      box.type = "checkbox";
      box.checked = !hidden[kind].has(number);
      swatch.className = "swatch";
      swatch.style.borderColor = of.colour;
      swatch.style.borderTopStyle = of.dash ? "dashed" : "solid";
      box.addEventListener("change", () => {
        hidden[kind][box.checked ? "delete" : "add"](number);
        for (const chart of charts) {
          chart.graph.updateOptions({visibility: chart.curves.map((one) => !hidden[one.k].has(one.i))});
        }
      });
      label.append(box, " ", swatch, name);
      place.append(label, " ");
    });
  }

  function choose(name, keep) {
    for (const chart of charts) chart.graph.destroy();
    charts = [];
    byId("charts").replaceChildren();
    run = runs.find((one) => one.name === name) || runs[0];
    if (!keep || span[1] > run.end) span = run.span ? run.span.slice() : [0, run.end];
    byId("row").value = run.row;
    fill(byId("seed"), runs.filter((one) => one.row === run.row).map((one) => String(one.seed)), String(run.seed));
    byId("run").href = "#" + (run.anchor || run.name);
    byId("flows-box").hidden = !run.flows.length;
    byId("links-box").hidden = !run.links.length;
    boxes("link", run.links);
    boxes("flow", run.flows);
    for (const [kind, title] of CHARTS) draw(kind, title);
    show(span[0], span[1], false);
  }

  function fill(select, values, chosen) {
    select.replaceChildren(...values.map((value) => new Option(value, value, false, value === chosen)));
  }

  byId("controls").hidden = false;
  fill(byId("row"), Array.from(new Set(runs.map((one) => one.row))), runs[0].row);
  byId("row").addEventListener("change", () => {
    const same = runs.filter((one) => one.row === byId("row").value);
    choose((same.find((one) => one.seed === run.seed) || same[0]).name, !run.span);
  });
  byId("seed").addEventListener("change", () => choose(runs.find(
    (one) => one.row === byId("row").value && String(one.seed) === byId("seed").value).name, !run.span));
  for (const name of ["from", "to"]) {
    byId(name).addEventListener("change", () => {
      const [from, to] = [Number(byId("from").value), Number(byId("to").value)];
      if (to > from) show(from, to, true); else show(span[0], span[1], true);
    });
  }
  for (const button of document.querySelectorAll("#series-controls [data-move]")) {
    button.addEventListener("click", () => move(button.dataset.move));
  }
  const KEYS = {"+": "in", "=": "in", "-": "out", "ArrowLeft": "left", "ArrowRight": "right", "0": "all", "Home": "all"};
  byId("charts").addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(KEYS[event.key]);
  });
  for (const link of document.querySelectorAll("a[data-series]")) {
    link.addEventListener("click", () => choose(link.dataset.series, !runs[0].span));
  }
  dark.addEventListener("change", () => choose(run.name, true));
  choose(runs[0].name, false);
}());
