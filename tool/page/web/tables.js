// Tables, the banner and other text.
import { difference, loadFigures, moment, none, serverFigures, signed, written } from "./words.js";

export function element(name, kind = "", text = "") {
  const e = document.createElement(name);
  if (kind) e.className = kind;
  if (text) e.textContent = text;
  return e;
}

export function tableOf(head, rows, kind = "") {
  const table = element("table", kind);
  const top = table.createTHead().insertRow();
  for (const name of head) {
    const cell = element("th", "", name);
    cell.scope = "col";
    top.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const cell of row) line.insertCell().append(cell);
  }
  return table;
}

// once calls make only when its inputs have changed, so that an element that has the
// focus, or is being read aloud, stays.
export function once() {
  const known = new Map();
  return (name, depends, make) => {
    const text = JSON.stringify(depends);
    if (known.get(name) !== text) {
      known.set(name, text);
      make();
    }
  };
}

const words = {
  invalid: "INVALID. These figures are not reliable.", failed: "FAILED. The run did not complete.",
  interrupted: "INTERRUPTED. The run did not complete.",
};

export function fillBanner(banner, store) {
  const { status, reasons } = store.state;
  const bad = words[status] || reasons.length > 0;
  banner.hidden = !bad;
  document.body.classList.toggle("doubted", Boolean(bad));
  if (!bad) return banner.replaceChildren();
  const list = element("ul");
  for (const reason of reasons) list.append(element("li", "", reason));
  banner.replaceChildren(element("strong", "", words[status] || "INVALID so far. These figures are not reliable."), list);
}

// spanOf labels the part of a load that figures other than those of one second cover.
export function spanOf(store) {
  const { hello, state } = store;
  if (hello.measured) return "median of the samples";
  const segment = state.segments?.some((l) => l.group !== "agents") ? "this turn" : "whole run";
  return ["waiting", "running"].includes(state.status) ? segment + " so far" : segment;
}

// fillJumps links to each visible part of the page.
export function fillJumps(nav) {
  const there = [...document.querySelectorAll("main section[id]:not([hidden]), main details[id]")];
  const key = there.map((e) => e.id).join();
  if (nav.dataset.parts === key) return;
  nav.dataset.parts = key;
  nav.replaceChildren(...there.map((e) => {
    const a = element("a", "", e.dataset.jump ?? e.querySelector("h2, summary").textContent);
    a.href = "#" + e.id;
    return a;
  }));
}

export function fillStrip(strip, store) {
  const load = store.hello.groups.includes("client");
  const earlier = store.hello.earlier;
  const parts = (load ? loadFigures : serverFigures).map((figure) => {
    const v = load ? store.state.figures[figure.key] : store.at(figure.key, null);
    const box = element("div");
    box.dataset.figure = figure.key;
    const name = element("dt", "", figure.name);
    const estimated = store.hello.measured && changeOf(store, figure)?.ratio;
    name.append(element("small", "", estimated ? "earlier median × difference" : load ? spanOf(store) : "last second"));
    box.append(name, element("dd", "", written(v, figure.unit)));
    if (load && earlier) box.append(store.hello.measured ? judged(store, figure) : unjudged(v, earlier.figures[figure.key], figure.unit));
    return box;
  });
  strip.replaceChildren(...parts);
  // After a race the segments have figures, and the race itself has none.
  strip.parentElement.hidden = !load && !store.hello.groups.includes("server") || load && Boolean(store.state.segments?.length) && loadFigures.every((f) => (store.state.figures[f.key] ?? null) === null);
}

// kinds are the colours of verdicts. An uncertain difference has none.
const kinds = { better: "good", worse: "bad" };

// changeOf is what the comparison says of a figure.
const changeOf = (store, figure) => (store.state.changes ?? []).find((c) => c.key === figure.key);

// judged is the difference with a verdict.
function judged(store, figure) {
  const change = changeOf(store, figure);
  if (!change?.ratio) return element("dd", "delta");
  return element("dd", "delta " + (kinds[change.verdict] ?? ""), signed(change.ratio - 1) + " of " + written(change.before, figure.unit) + ", " + change.verdict);
}

function unjudged(now, before, unit) {
  const gap = difference(now, before);
  return element("dd", "delta", gap ? gap + " of " + written(before, unit) : "");
}

// fillRace lists what is under load in turn, or the agents of one load, with a bar for the
// figure in which they differ: the rate, or p99 if the rate is fixed.
export function fillRace(section, store) {
  const segments = store.state.segments ?? [];
  section.hidden = segments.length === 0;
  const same = segments.length > 0 && segments.every((l) => l.group === segments[0].group) && segments[0].group;
  section.querySelector("h2").textContent = { samples: "Samples, whole run of each", agents: "Agents, last second of each" }[same] ?? "In turn, whole run of each";
  const table = element("table");
  const top = table.createTHead().insertRow();
  for (const name of ["", "", "answers/s", "p50", "p99", "CPU/request"]) {
    const cell = element("th", "", name);
    cell.scope = "col";
    top.append(cell);
  }
  for (const group of [...new Set(segments.map((l) => l.group))]) {
    const of = segments.filter((l) => l.group === group);
    const rates = of.map((l) => l.rate).filter((v) => v > 0);
    const given = rates.length > 1 && Math.max(...rates) < 1.05 * Math.min(...rates) && of.some((l) => l.p99 > 0); // in a closed loop it may be withheld
    const key = given ? "p99" : "rate";
    const most = Math.max(1e-9, ...of.map((l) => l[key] ?? 0));
    const body = table.createTBody();
    const head = element("th", "", group + (given ? " (bars: p99)" : " (bars: answers/s)"));
    head.colSpan = 6;
    head.scope = "rowgroup";
    body.insertRow().append(head);
    for (const l of of) {
      const row = body.insertRow();
      row.className = l.doubtful ? "doubt" : l.done ? "" : "now";
      row.dataset.segment = l.name;
      row.insertCell().append(l.name + (l.doubtful ? " (does not count)" : ""));
      const bar = row.insertCell();
      bar.className = "bar";
      bar.append(barOf((l[key] ?? 0) / most));
      for (const [field, unit] of [["rate", "count"], ["p50", "us"], ["p99", "us"], ["cpu", "us"]]) row.insertCell().append(written(l[field] || undefined, unit));
    }
  }
  const notes = store.state.changes?.length ? [] : store.state.notes ?? []; // those on a comparison are about that
  for (const note of notes) {
    const cell = element("td", "muted", note);
    cell.colSpan = 6;
    (table.tFoot ?? table.createTFoot()).insertRow().append(cell);
  }
  section.querySelector(".scroll").replaceChildren(table);
}

// svgOf creates an SVG element.
export function svgOf(name, attributes = {}) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, typeof value === "number" ? Number(value.toFixed(2)) : value);
  return e;
}

function barOf(part) {
  const svg = svgOf("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(svgOf("rect", { width: (100 * part).toFixed(2), height: "10" }));
  return svg;
}

export function fillChanges(section, store) {
  const { changes = [] } = store.state;
  section.hidden = changes.length === 0;
  const unit = (c) => ({ "req/s": "count", "µs": "us", "µs/req": "us", B: "bytes" }[c.unit] ?? "plain");
  const value = (c, v, i) => (unit(c) === "plain" && v !== null ? c.texts[i] : written(v, unit(c)));
  const gap = (c) => element("span", kinds[c.verdict] ?? "", c.ratio === null ? none : signed(c.ratio - 1));
  const table = tableOf(["figure", "earlier", "now", "difference", "verdict"],
    changes.map((c) => [c.name, value(c, c.before, 0), value(c, c.now, 1), gap(c), element("b", kinds[c.verdict] ?? "muted", c.words)]), "verdicts");
  section.querySelector(".scroll").replaceChildren(table);
}

// fillSpreads shows the figures of a run that has no charts.
export function fillSpreads(section, store) {
  const { spreads = [] } = store.state;
  section.hidden = spreads.length === 0;
  section.querySelector(".scroll").replaceChildren(tableOf(["figure", "median", "range"], spreads, "narrow"));
}

export function fillHot(section, store) {
  const hot = store.state.hot;
  section.hidden = !hot;
  if (!hot) return;
  const seconds = (v) => (v === null ? none : written(v * 1e6, "us"));
  const before = hot.lines.some((l) => l.before !== null);
  const gap = (l) => element("span", "", l.before === null ? none : (l.flat < l.before ? "−" : "+") + seconds(Math.abs(l.flat - l.before)));
  const table = tableOf(["function", "self (flat)", ...(before ? ["earlier", "difference"] : []), "with callees (cum)"],
    hot.lines.map((l) => [l.function, seconds(l.flat), ...(before ? [seconds(l.before), gap(l)] : []), seconds(l.cum)]), "functions");
  section.querySelector("h2").textContent = `CPU time by function, ${hot.per}, from ${hot.samples} samples`;
  const doubts = hot.doubts.map((d) => element("p", "bad", "INVALID: taken under a load that was not valid: " + d));
  if (hot.few) doubts.push(element("p", "muted", hot.few));
  section.querySelector(".scroll").replaceChildren(...doubts, table);
}

export function fillEvents(details, store) {
  const rows = store.marks.slice(-300).map((m) => [moment(m.t), m.kind, m.text]);
  details.hidden = Boolean(store.hello.measured) && rows.length === 0;
  details.querySelector(".scroll").replaceChildren(tableOf(["time", "event", ""], rows, "words"));
}

export function fillAbout(details, store) {
  const rows = [["began", store.hello.began ?? ""], ...(store.hello.about ?? []).map((f) => [f.name, f.value])];
  if (store.hello.earlier) rows.push(["drawn underneath", store.hello.earlier.name]);
  for (const note of store.state.notes ?? []) rows.push(["note", note]);
  details.querySelector(".scroll").replaceChildren(tableOf(["", ""], rows, "words"));
}
