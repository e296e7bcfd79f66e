# SPDX-License-Identifier: GPL-2.0-only
"""`testbed watch --serve`: a page for a browser on this machine; nothing is loaded from elsewhere or changed."""
from __future__ import annotations

import http.server
import json
import sys
import threading

from testbed.core import ending
from testbed.core.errors import EnvironmentProblem
from testbed.core.progress import print_error
from testbed.runs.live import Watcher

ADDRESS = "127.0.0.1"
#: names under which a browser on this machine asks; another one is a page elsewhere that lets its name lead here
_HOSTS = ("127.0.0.1", "localhost")
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                       "connect-src 'self'; frame-ancestors 'none'"}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def service_actions(self) -> None:
        """Between requests, twice a second: it goes round for ever."""
        super().service_actions()
        ending.if_asked()

    def handle_error(self, request: object, client_address: object) -> None:
        """One line instead of a traceback; nothing of browsers that do not wait for the answer."""
        problem = sys.exc_info()[1]
        if not isinstance(problem, ConnectionError):
            print_error(f"a request failed: {type(problem).__name__}: {problem}")


def server(watcher: Watcher, port: int, every_s: float) -> http.server.ThreadingHTTPServer:
    """A server that listens; EnvironmentProblem if the port is taken. port 0: any that is free."""
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        server_version, sys_version = "testbed", ""
        timeout = 30

        def do_GET(self) -> None:
            host, _, asked_port = self.headers.get("Host", "").partition(":")
            if host not in _HOSTS or asked_port != str(made.server_port):
                self._answer(403, "text/plain", "this page is for browsers on this machine\n")
            elif self.path == "/":
                self._answer(200, "text/html", _PAGE.replace("EVERY_MS", str(int(1000 * every_s))))
            elif self.path == "/look.json":
                try:
                    with lock:
                        text = json.dumps(watcher.look().record())
                except OSError as problem:      # the results folder is gone, or may not be read
                    self._answer(500, "text/plain", f"{problem.filename}: {problem.strerror}\n")
                else:
                    self._answer(200, "application/json", text)
            else:
                self._answer(404, "text/plain", "no such page\n")

        def _answer(self, code: int, kind: str, text: str) -> None:
            data = text.encode("utf-8", "replace")
            self.send_response(code)
            for name, value in {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data)),
                                **_HEADERS}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody wants a line for each look."""

    try:
        made = _Server((ADDRESS, port), Handler)
    except OSError as problem:
        raise EnvironmentProblem(f"--serve {port}: {problem.strerror}; another port, or 0 for any that is free, may "
                                 "do") from None
    return made


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>testbed watch</title>
<style>
:root { color-scheme: light dark; --line: #8885; --bar: #0072b2; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5em auto; max-width: 68em; padding: 0 1em; }
h1 { font-size: 1.3em; } h2 { font-size: 1.05em; margin-top: 1.6em; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .3em .6em; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td { font-variant-numeric: tabular-nums; }
progress { width: 8em; accent-color: var(--bar); } .note { opacity: .75; }
figure { display: inline-block; margin: .6em 1em .6em 0; } figcaption { font-size: .9em; }
svg { display: block; width: 30em; max-width: 100%; height: auto; }
svg[hidden] { display: none; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
polyline { fill: none; stroke: var(--bar); stroke-width: 1.5; } path { stroke: var(--line); fill: none; }
</style></head><body>
<h1>Runs under way</h1><p class="note" id="state" role="status">...</p>
<div class="wide" id="runs"></div><h2>Bottlenecks so far</h2><div class="wide" id="links"></div><div id="curves"></div>
<svg hidden></svg>
<h2>Experiments</h2><div class="wide" id="experiments"></div>
<script>
"use strict";
const span = s => s === null ? "\\u2013" : s < 60 ? s.toFixed(1) + " s" : s < 3600 ?
  Math.floor(s / 60) + ":" + String(Math.floor(s % 60)).padStart(2, "0") :
  Math.floor(s / 3600) + ":" + String(Math.floor(s / 60) % 60).padStart(2, "0") + ":" +
  String(Math.floor(s % 60)).padStart(2, "0");
function table(place, heads, rows, none) {
  const there = document.getElementById(place), made = document.createElement("table");
  const line = (cells, kind) => {
    const row = document.createElement("tr");
    for (const cell of cells) {
      const one = document.createElement(kind);
      if (cell instanceof Node) one.append(cell); else one.textContent = cell;
      row.append(one);
    }
    return row;
  };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(line(heads, "th"));
  for (const row of rows) body.append(line(row, "td"));
  made.append(head, body);
  there.replaceChildren(rows.length ? made : document.createTextNode(none));
}
function bar(value, most, label) {
  const one = document.createElement("progress");
  one.value = value; one.max = most || 1; one.setAttribute("aria-label", label);
  return one;
}
function drawn(name, attributes, ...inside) {
  const one = document.createElementNS(document.querySelector("svg").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  one.append(...inside);
  return one;
}
function curve(title, points, until, least) {
  const width = 480, height = 130, left = 46, bottom = 18, top = 8;
  const most = Math.max(least, ...points.map(p => p[1])), round = v => Number(v.toPrecision(3)).toString();
  const x = t => left + (width - left - 8) * t / (until || 1);
  const y = v => height - bottom - (height - bottom - top) * v / most;
  const text = (at, down, words, anchor) => drawn("text", {x: at, y: down, "text-anchor": anchor}, words);
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption, drawn("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": title},
    drawn("path", {d: "M" + left + " " + top + "V" + (height - bottom) + "H" + (width - 8)}),
    text(left - 4, top + 8, round(most), "end"), text(left - 4, height - bottom, "0", "end"),
    text(left, height - 4, "0", "middle"), text(width - 8, height - 4, round(until) + " s", "end"),
    drawn("polyline", {points: points.map(p => x(p[0]).toFixed(1) + "," + y(p[1]).toFixed(1)).join(" ")})));
  return figure;
}
async function look() {
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/look.json");
    if (!answer.ok) { state.textContent = await answer.text(); setTimeout(look, EVERY_MS); return; }
    const found = await answer.json();
    state.textContent = found.results + ", " + new Date().toLocaleTimeString();
    table("runs", ["run", "scenario", "phase", "", "virtual time", "wall time", "speed", "left"], found.running.map(
      r => [r.name, r.scenario, r.phase, bar(r.virtual_s, r.duration_s, "share of " + r.name + " that is done"),
            r.virtual_s.toFixed(0) + " of " + r.duration_s.toFixed(0) + " s", span(r.wall_s),
            r.speed === null ? "\\u2013" : r.speed.toFixed(1) + "\\u00d7", span(r.left_s)]), "Nothing runs.");
    table("links", ["run", "link", "now", "mean", "of", "queue", "delay", "dropped"], found.running.flatMap(
      r => r.links.map(l => [r.name, l.name, l.now_mbps.toFixed(2) + " Mbit/s", l.mean_mbps.toFixed(2) + " Mbit/s",
            l.rate_mbps + " Mbit/s", l.backlog_packets + " packets", l.backlog_ms.toFixed(2) + " ms", l.drops])),
      "No samples yet.");
    document.getElementById("curves").replaceChildren(...found.running.flatMap(r => r.links.flatMap(l => [
      curve(r.name + ", " + l.name + ": throughput in Mbit/s", l.curve.map(p => [p[0], p[1]]), r.duration_s,
            l.rate_mbps),
      curve(r.name + ", " + l.name + ": queue in packets", l.curve.map(p => [p[0], p[2]]), r.duration_s, 10)])));
    table("experiments", ["experiment", "", "ended", "under way", "left"], found.experiments.map(
      e => [e.name, bar(e.ended, e.runs, "share of the runs of " + e.name + " that ended"), e.ended + " of " + e.runs,
            e.under_way, span(e.left_s)]), "None.");
  } catch (problem) { state.textContent = "No answer: testbed watch has ended."; }
  setTimeout(look, EVERY_MS);
}
look();
</script></body></html>
"""
