// The search for a knee: the trials' results by load.
import { logarithmic } from "./axis.js";
import { element, svgOf, tableOf } from "./tables.js";
import { short, written } from "./words.js";

const height = 220, left = 62, right = 14, top = 12, bottom = 34;

export class Knee {
  constructor(box) {
    this.box = box;
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(knee) {
    this.knee = knee;
    this.drawn = 0;
    this.draw();
  }

  draw() {
    const wide = this.box.clientWidth;
    const trials = (this.knee?.trials ?? []).filter((t) => t.load > 0 && t.plotted_us > 0);
    if (!wide || wide === this.drawn || !trials.length) return;
    this.drawn = wide;
    const { knee } = this;
    const loads = trials.map((t) => t.load), values = trials.map((t) => t.plotted_us).concat(knee.goal_us ?? []);
    const across = logarithmic(Math.min(...loads), Math.max(...loads)), up = logarithmic(Math.min(...values), Math.max(...values));
    const x = (v) => left + across.part(v) * (wide - left - right), y = (v) => height - bottom - up.part(v) * (height - top - bottom);
    const svg = svgOf("svg", { width: wide, height, role: "img", "aria-label": kneeWords(knee, false) });
    const line = (kind, x1, y1, x2, y2) => svg.append(svgOf("line", { class: kind, x1, y1, x2, y2 }));
    const label = (text, at, down, anchor) => {
      const e = svgOf("text", { x: at, y: down, "text-anchor": anchor });
      e.textContent = text;
      svg.append(e);
    };
    if (knee.knee.met > 0 && knee.knee.missed > 0) {
      svg.append(svgOf("rect", { class: "knee", x: x(knee.knee.met), y: top, width: Math.max(2, x(knee.knee.missed) - x(knee.knee.met)), height: height - top - bottom }));
    }
    for (const v of up.ticks) {
      line("grid", left, y(v), wide - right, y(v));
      label(short(written(v, "us")), left - 6, y(v) + 4, "end");
    }
    const room = Math.max(1, Math.ceil(across.ticks.length * 70 / (wide - left - right)));
    across.ticks.forEach((v, i) => { if (i % room === 0) label(written(v, "count"), x(v), height - bottom + 16, "middle"); });
    label(knee.unit, wide - right, height - 3, "end");
    if (knee.goal_us > 0) {
      line("goal", left, y(knee.goal_us), wide - right, y(knee.goal_us));
      label("goal", wide - right, y(knee.goal_us) - 4, "end");
    }
    for (const t of trials) {
      const mark = svgOf("g", { class: kindOf(t), transform: "translate(" + x(t.load) + " " + y(t.plotted_us) + ")" });
      const title = svgOf("title");
      title.textContent = written(t.load, "count") + " " + knee.unit + ": " + knee.drawn + " " + written(t.plotted_us, "us") + ", " + wordOf(t);
      const size = t.full ? 5 : 3.5;
      mark.append(title, kindOf(t) === "met" ? svgOf("circle", { r: size }) : svgOf("path", { d: "M-" + size + " -" + size + "L" + size + " " + size + "M-" + size + " " + size + "L" + size + " -" + size }));
      svg.append(mark);
    }
    this.box.replaceChildren(svg);
  }
}

const kindOf = (t) => (!t.valid ? "unclear" : t.met ? "met" : "missed");
const wordOf = (t) => (!t.valid ? "not valid" : t.met ? "met" : "missed") + (t.why ? " (" + t.why + ")" : "");

// kneeWords summarises the trials.
export function kneeWords(knee, running) {
  const load = (v) => written(v, "count") + " " + knee.unit;
  const parts = [];
  if (knee.knee.met > 0) parts.push("met up to " + load(knee.knee.met));
  if (knee.knee.missed > 0) parts.push("missed from " + load(knee.knee.missed));
  return knee.knee.goal + ": " + (parts.join(", ") || "not known yet") + (running ? ", so far" : "");
}

export function kneeTable(knee) {
  return tableOf([knee.unit, knee.drawn, "trial", "result"],
    knee.trials.toReversed().map((t) => [written(t.load, "count"), written(t.plotted_us, "us"), t.full ? "full" : "short", element("span", { met: "good", missed: "bad" }[kindOf(t)] ?? "muted", wordOf(t))]), "verdicts");
}
