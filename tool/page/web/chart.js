// One chart: a figure with its legend, a canvas, a crosshair and a table.
import { difference, moment, short, written } from "./words.js";
import { linear, logarithmic, timeSteps } from "./axis.js";
import { firstFrom, spacing } from "./store.js";
import { element, spanOf, tableOf } from "./tables.js";

const margin = { right: 10, top: 8, bottom: 20 };
const labelGap = 6; // between an axis and its labels
const mostRows = 300;

export class Chart {
  constructor(store, view, what) {
    Object.assign(this, { store, view, what });
    this.legend = element("figcaption");
    this.canvas = element("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.plot = element("div", "plot");
    this.plot.append(this.canvas);
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "slider");
    this.plot.setAttribute("aria-label", what.title + (what.kind === "curve" ? ", percentile" : ", moment"));
    this.table = element("div", "scroll");
    this.table.tabIndex = 0;
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", what.title + ", as a table");
    this.details = element("details");
    this.details.append(element("summary", "", "Table"), this.table);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.figure = element("figure");
    this.figure.dataset.chart = what.id;
    this.figure.append(this.legend, this.plot, this.details);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  listen() {
    this.plot.addEventListener("pointermove", (e) => this.point(e.offsetX));
    this.plot.addEventListener("pointerleave", () => this.move(null));
    this.plot.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[e.key];
      const [low, high] = this.domain();
      if (step) this.move(Math.min(high, Math.max(low, (this.place() ?? high) + step * this.keyStep())));
      else if (e.key === "Home") this.move(low);
      else if (e.key === "End") this.move(high);
      else if (e.key === "Escape") this.move(null);
      else return;
      e.preventDefault();
    });
  }

  keyStep() { return 1; }

  place() { return this.store.cursor; }

  // point moves the crosshair to the pointer.
  point(x) {
    const part = (x - this.view.left) / (this.width - this.view.left - margin.right);
    const [low, high] = this.domain();
    this.move(part < 0 || part > 1 ? null : low + part * (high - low));
  }

  move(t) {
    this.store.cursor = t;
    this.view.redraw();
  }

  domain() { return this.view.domain(); }

  series() { return this.what.series.filter((s) => (!s.service || this.view.service) && !(s.live && this.store.hello.measured)); }

  // visible returns a key's points within the domain.
  visible(key) {
    const c = this.store.columns.get(key);
    if (!c) return { t: [], v: [] };
    const [low, high] = this.domain();
    const from = Math.max(0, firstFrom(c.t, low) - 1), to = firstFrom(c.t, high + 1);
    return { t: c.t.slice(from, to), v: c.v.slice(from, to) };
  }

  // earlierLines are the earlier run's lines, shifted to the start of this one.
  earlierLines(key) {
    const earlier = this.store.hello.earlier;
    if (!earlier) return [];
    const [low, high] = this.domain();
    if (this.what.constant && earlier.figures[this.what.constant] !== undefined) {
      const v = earlier.figures[this.what.constant];
      return [{ t: [low, high], v: [v, v], whole: true }];
    }
    const starts = this.store.starts();
    return starts.map((s, i) => {
      const until = Math.min(starts[i + 1] ?? Infinity, high);
      const seen = earlier.seconds.filter((p) => p.v[key] !== undefined && p.t + s >= low - 1 && p.t + s < until);
      return { t: seen.map((p) => p.t + s), v: seen.map((p) => p.v[key]) };
    });
  }

  draw() {
    this.width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    const scale = globalThis.devicePixelRatio || 1;
    if (!this.width) return;
    if (this.canvas.width !== Math.round(this.width * scale) || this.canvas.height !== Math.round(this.height * scale)) {
      this.canvas.width = Math.round(this.width * scale);
      this.canvas.height = Math.round(this.height * scale);
    }
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.font = "11px system-ui, sans-serif";
    this.lines = this.series().map((s) => ({ ...s, now: this.visible(s.key), before: this.earlierLines(s.key) }));
    this.scale = this.scaleOf();
    this.labels = this.scale.ticks.map((v) => [v, short(written(v, this.what.unit))]);
    this.view.widen(Math.max(0, ...this.labels.map(([, text]) => this.pen.measureText(text).width)) + 2 * labelGap);
    this.drawGround();
    this.drawFigures();
    this.drawCross();
    this.fillLegend();
    this.describe();
    if (this.details.open) this.fillTable();
  }

  color(name) { return this.view.color(name); }

  x(t) {
    const [low, high] = this.domain();
    return this.view.left + (t - low) / (high - low) * (this.width - this.view.left - margin.right);
  }

  y(v) { return this.height - margin.bottom - this.scale.part(v) * (this.height - margin.top - margin.bottom); }

  scaleOf() {
    let low = Infinity, high = 0;
    for (const line of this.lines) {
      for (const column of [line.now, ...line.before]) {
        for (const v of column.v) {
          if (v > 0 && v < low) low = v;
          if (v > high) high = v;
        }
      }
    }
    return this.what.log ? logarithmic(low, high) : linear(this.what.top ?? high, this.what.unit === "bytes");
  }

  // drawGround draws the background: phases, grid, marks.
  drawGround() {
    const { pen } = this;
    const right = this.width - margin.right, bottom = this.height - margin.bottom;
    pen.fillStyle = this.color("--shade");
    for (const [from, to] of this.view.unmeasured()) {
      const a = Math.max(this.view.left, this.x(from)), b = Math.min(right, this.x(to));
      if (b > a) pen.fillRect(a, margin.top, b - a, bottom - margin.top);
    }
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [v, text] of this.labels) {
      const y = Math.round(this.y(v)) + 0.5;
      if (y < margin.top - 1 || y > bottom + 1) continue;
      this.stroke([[this.view.left, y], [right, y]], "--grid", 1);
      pen.fillStyle = this.color("--muted");
      pen.fillText(text, this.view.left - labelGap, y);
    }
    if (this.what.limit) this.stroke([[this.view.left, this.y(this.what.limit)], [right, this.y(this.what.limit)]], "--bad", 1, [2, 3]);
    this.drawBottom(bottom);
  }

  // drawBottom draws the time axis and its marks.
  drawBottom(bottom) {
    const { pen } = this;
    const [low, high] = this.domain();
    pen.fillStyle = this.color("--muted");
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (const t of timeSteps(low, high, this.width / 90)) {
      const x = this.x(t);
      pen.fillText(moment(t), Math.min(x, this.width - Math.max(14, pen.measureText(moment(t)).width / 2)), this.height - 5);
    }
    for (const m of this.store.marks) {
      if (m.t < low || m.t > high || m.kind === "phase") continue;
      const x = Math.round(this.x(m.t)) + 0.5;
      const color = { end: "--muted", segment: "--earlier" }[m.kind] || "--edge";
      this.stroke([[x, margin.top], [x, bottom]], color, 1, m.kind === "segment" ? [] : [3, 3]);
    }
    const cycles = this.store.columns.get("g.gc");
    if (!cycles) return;
    pen.fillStyle = this.color("--two");
    for (let i = firstFrom(cycles.t, low); i < cycles.t.length; i++) {
      if (cycles.v[i] > 0) pen.fillRect(this.x(cycles.t[i]) - 1, bottom, 2, 3 + Math.min(3, cycles.v[i]));
    }
  }

  drawFigures() {
    for (const line of this.lines) {
      for (const before of line.before) this.drawLine(before, "--earlier", 2, [5, 4], Infinity);
    }
    for (const line of this.lines) this.drawLine(line.now, "--" + line.color, 1.8, [], 2.6 * spacing(line.now.t));
  }

  // drawLine leaves a gap where points are further apart than gap, between segments, and at
  // zeros on a logarithmic scale. Samples that do not count are grey.
  drawLine(column, color, width, dash, gap) {
    const segments = this.view.segments();
    let piece = [], doubtful = false;
    for (let i = 0; i < column.t.length; i++) {
      const t = column.t[i];
      const apart = i > 0 && (t - column.t[i - 1] > gap || segments.some((l) => l > column.t[i - 1] && l <= t));
      const there = column.v[i] !== null && (column.v[i] > 0 || !this.what.log);
      if (apart || !there) {
        this.stroke(piece, doubtful ? "--earlier" : color, width, dash);
        piece = [];
      }
      if (!piece.length) doubtful = this.view.doubtful(t);
      if (there) piece.push([this.x(t), this.y(column.v[i])]);
    }
    this.stroke(piece, doubtful ? "--earlier" : color, width, dash);
  }

  stroke(places, color, width, dash = []) {
    const { pen } = this;
    if (!places.length) return;
    pen.save();
    pen.beginPath();
    pen.rect(this.view.left, margin.top - 4, this.width - this.view.left - margin.right + 1, this.height - margin.bottom - margin.top + 6);
    pen.clip();
    pen.beginPath();
    pen.strokeStyle = this.color(color);
    pen.lineWidth = width;
    pen.lineJoin = "round";
    pen.setLineDash(dash);
    if (places.length === 1) places = [[places[0][0] - 2, places[0][1]], [places[0][0] + 2, places[0][1]]];
    places.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    pen.restore();
  }

  drawCross() {
    const t = this.place();
    if (t === null) return;
    const x = Math.round(this.x(t)) + 0.5;
    this.stroke([[x, margin.top], [x, this.height - margin.bottom]], "--ink", 1);
  }

  valueAt(line, t) { return this.store.at(line.key, t); }

  earlierAt(line, t) { return this.what.constant ? this.store.hello.earlier?.figures[this.what.constant] : this.store.earlierAt(line.key, t); }

  fillLegend() {
    const t = this.place();
    const title = element("b", "", this.what.title);
    title.append(element("small", "", this.span(t)));
    const parts = [title];
    const words = [];
    for (const line of this.lines ?? []) {
      const v = this.valueAt(line, t);
      const gap = difference(v, this.earlierAt(line, t));
      const text = this.silent(t) ? line.name : line.name + " " + written(v, this.what.unit) + (gap ? " (" + gap + ")" : "");
      const item = element("span", "", text);
      item.prepend(element("i", line.color));
      parts.push(item);
      words.push(text);
    }
    if (this.store.hello.earlier && this.lines?.some((l) => l.before.some((b) => b.t.length))) {
      const item = element("span", "muted", "earlier");
      item.prepend(element("i", "earlier"));
      parts.push(item);
    }
    this.legend.replaceChildren(...parts);
    this.words = words.join(", ");
  }

  // silent tells whether the legend has no figures: the last second of a report is one of many, and that
  // or a percentile of all samples together may contradict the verdict.
  silent(t) { return t === null && this.store.hello.measured; }

  // span labels the time that the legend's figures cover.
  span(t) { return this.silent(t) ? "point at a moment for its figures" : t === null ? "last second" : "the second at " + this.at(t); }

  // describe describes the chart to screen readers, and to tests.
  describe() {
    const [low, high] = this.domain();
    const t = this.place();
    const data = this.figure.dataset;
    data.points = (this.lines ?? []).reduce((n, l) => n + l.now.t.length, 0);
    data.left = this.view.left;
    data.cursor = t === null ? "" : t.toFixed(2);
    this.plot.setAttribute("aria-valuemin", low.toFixed(1));
    this.plot.setAttribute("aria-valuemax", high.toFixed(1));
    this.plot.setAttribute("aria-valuenow", (t ?? high).toFixed(1));
    this.plot.setAttribute("aria-valuetext", this.at(t ?? high) + ": " + this.words);
  }

  at(t) { return moment(t); }

  // fillTable lists the newest rows, newest first.
  fillTable() {
    if (!this.details.open) return;
    const times = [...new Set(this.lines.flatMap((l) => l.now.t))].sort((a, b) => b - a).slice(0, mostRows);
    const head = ["time", ...this.lines.flatMap((l) => (l.before.length ? [l.name, l.name + " earlier"] : [l.name]))];
    const rows = times.map((t) => [moment(t), ...this.lines.flatMap((l) => {
      const i = l.now.t.indexOf(t);
      const cell = written(i < 0 ? undefined : l.now.v[i], this.what.unit);
      return l.before.length ? [cell, written(this.earlierAt(l, t), this.what.unit)] : [cell];
    })]);
    this.table.replaceChildren(tableOf(head, rows));
  }
}

// from returns the start of step n of a heat map, in microseconds.
const from = (step) => Math.pow(2, step / 8) / 1000;

// HeatMap shows the distribution of response times, second by second.
export class HeatMap extends Chart {
  cells() {
    const [low, high] = this.domain();
    return this.store.heat.filter((c) => c.t >= low && c.t <= high + 1)
      .map((c) => ({ t: c.t, pairs: this.view.service && c.s ? c.s : c.h }));
  }

  scaleOf() {
    let low = Infinity, high = 0;
    this.shown = this.cells();
    for (const { pairs } of this.shown) {
      low = Math.min(low, pairs[0]);
      high = Math.max(high, pairs[pairs.length - 2] + 1);
    }
    return high ? logarithmic(from(low), from(high)) : logarithmic(0, 0);
  }

  drawFigures() {
    const { pen } = this;
    let most = 1;
    for (const { pairs } of this.shown) for (let i = 1; i < pairs.length; i += 2) most = Math.max(most, pairs[i]);
    const gap = spacing(this.shown.map((c) => c.t));
    pen.fillStyle = this.color("--one");
    for (const { t, pairs } of this.shown) {
      const left = Math.max(this.view.left, this.x(t - gap)), right = this.x(t);
      for (let i = 0; i < pairs.length && right > left; i += 2) {
        const top = this.y(from(pairs[i] + 1));
        pen.globalAlpha = 0.1 + 0.9 * Math.log1p(pairs[i + 1]) / Math.log1p(most);
        pen.fillRect(left, top, Math.max(1, right - left + 0.3), this.y(from(pairs[i])) - top + 0.3);
      }
    }
    pen.globalAlpha = 1;
    for (const line of this.lines) {
      for (const before of line.before) this.drawLine(before, "--earlier", 2, [5, 4], Infinity);
      this.drawLine(line.now, "--two", 1.5, [], 2.6 * spacing(line.now.t));
    }
  }

  fillTable() {
    if (!this.details.open) return;
    const rows = (this.shown ?? []).slice(-mostRows).reverse().map(({ t, pairs }) => {
      let all = 0;
      for (let i = 1; i < pairs.length; i += 2) all += pairs[i];
      const below = (part) => {
        let seen = 0;
        for (let i = 0; i < pairs.length; i += 2) if ((seen += pairs[i + 1]) >= part * all) return "< " + written(from(pairs[i] + 1), "us");
        return written();
      };
      return [moment(t), written(all, "count"), below(0.5), below(0.9), below(0.99), below(1)];
    });
    this.table.replaceChildren(tableOf(["time", "requests", "half", "90 %", "99 %", "all"], rows));
  }
}

// percent formats the quantile that one request in rarity exceeds.
const percent = (rarity) => (rarity <= 1 ? "0" : (100 - 100 / rarity).toFixed(Math.max(0, Math.ceil(Math.log10(rarity)) - 2))) + " %";

// Curve shows time by percentile, with equal room for 0 to 90 %, 90 to 99 %, and so on.
export class Curve extends Chart {
  keyStep() { return 1 / 16; }

  place() { return this.view.rarity; }

  move(at) {
    this.view.rarity = at;
    this.view.redraw();
  }

  points(curves, key) {
    const all = curves?.[key] ?? [];
    return { t: all.map((p) => Math.log10(p[0])), v: all.map((p) => p[1]) };
  }

  visible(key) { return this.points(this.store.state.curve, key); }

  earlierLines(key) {
    const before = this.points(this.store.hello.earlier?.curve, key);
    return before.t.length ? [before] : [];
  }

  domain() {
    const seen = this.store.state.curve?.latency;
    return [0, Math.max(2, seen?.length ? Math.log10(seen[seen.length - 1][0]) : 4)];
  }

  drawGround() {
    const unmeasured = this.view.unmeasured;
    this.view.unmeasured = () => [];
    super.drawGround();
    this.view.unmeasured = unmeasured;
  }

  drawBottom() {
    const { pen } = this;
    pen.fillStyle = this.color("--muted");
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    const [, high] = this.domain(), gap = 8;
    for (let e = 0, from = 0; e <= high; e++) { // rare percentiles have long names
      const name = percent(Math.pow(10, e)), width = pen.measureText(name).width;
      const at = e === 0 ? this.x(e) : Math.min(this.x(e) - width / 2, this.width - width);
      if (at < from) continue;
      pen.fillText(name, at, this.height - 5);
      from = at + width + gap;
    }
  }

  drawLine(column, color, width, dash) { this.stroke(column.t.map((t, i) => [this.x(t), this.y(column.v[i])]), color, width, dash); }

  look(column, at) {
    if (!column.t.length) return undefined;
    const i = Math.min(firstFrom(column.t, (at ?? 2) - 1e-6), column.t.length - 1);
    return column.v[i];
  }

  valueAt(line, at) { return this.look(line.now, at); }

  earlierAt(line, at) { return line.before.length ? this.look(line.before[0], at) : undefined; }

  span(at) {
    if (this.silent(at)) return "whole run, point at a percentile for its figures";
    return (this.store.hello.measured ? "whole run" : spanOf(this.store)) + ", at " + this.at(at ?? 2);
  }

  at(place) { return percent(Math.pow(10, place)); }

  fillTable() {
    if (!this.details.open) return;
    const first = this.lines[0];
    const head = ["percentile", ...this.lines.flatMap((l) => (l.before.length ? [l.name, l.name + " earlier"] : [l.name]))];
    const rows = first.now.t.map((at) => [percent(Math.pow(10, at)), ...this.lines.flatMap((l) => {
      const cell = written(this.look(l.now, at), "us");
      return l.before.length ? [cell, written(this.look(l.before[0], at), "us")] : [cell];
    })]);
    this.table.replaceChildren(tableOf(head, rows));
  }
}
