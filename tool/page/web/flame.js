// The flame graph: a profile as a tree of calls, each as wide as its cost.
import { element, svgOf } from "./tables.js";
import { none, signed, written } from "./words.js";

const row = 19, letter = 6.7; // pixels, of a monospaced font

// heat is the change of a call's share against the earlier run, in four steps.
function heat(frame, whole, least) {
  if (frame.b === null || Math.abs(frame.v - frame.b) <= least) return "";
  const part = (frame.v - frame.b) / whole;
  const step = [0.005, 0.02, 0.05].filter((s) => Math.abs(part) >= s).length;
  return step ? (part > 0 ? "more" : "less") + step : "";
}

// size is the width of a frame: its cost now or earlier, whichever is larger.
const size = (frame) => Math.max(frame.v, frame.b ?? 0);

const nameOf = (frame) => (frame.n ? frame.n.slice(frame.n.lastIndexOf("/") + 1) : "all");

export class Flame {
  constructor(box, words) {
    Object.assign(this, { box, words, path: [] });
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(hot) {
    this.hot = hot;
    this.path = [hot.flame];
    this.draw();
  }

  // say shows a call's figures.
  say(frame) {
    const root = this.hot.flame;
    const parts = [nameOf(frame) + ": " + written(frame.v * 1e6, "us"), (100 * frame.v / Math.max(root.v, 1e-12)).toFixed(1) + " % of all"];
    if (frame.b !== null) parts.push("earlier " + written(frame.b * 1e6, "us") + " (" + (frame.b > 0 ? signed(frame.v / frame.b - 1) : frame.v > 0 ? "new" : none) + ")");
    return parts.join(", ");
  }

  draw() {
    const wide = this.box.clientWidth;
    if (!this.hot || !wide || wide === this.drawn) return;
    this.drawn = wide;
    this.place(wide);
  }

  place(wide) {
    const rows = [];
    const whole = size(this.hot.flame);
    const lay = (frame, x, width, depth, callers) => {
      (rows[depth] ??= []).push({ frame, x, width, callers });
      let at = x;
      const all = Math.max(size(frame), frame.c.reduce((sum, c) => sum + size(c), 0));
      for (const c of frame.c) {
        const part = width * size(c) / all;
        if (part >= 1.5) lay(c, at, part, depth + 1, [...callers, frame]);
        at += part;
      }
    };
    const top = this.path.length - 1;
    this.path.forEach((frame, depth) => { if (depth < top) (rows[depth] ??= []).push({ frame, x: 0, width: wide, callers: this.path.slice(0, depth) }); });
    lay(this.path[top], 0, wide, top, this.path.slice(0, top));
    const svg = svgOf("svg", { width: wide, height: rows.length * row, role: "img", "aria-label": "Flame graph of CPU time; the table above has the functions" });
    rows.forEach((all, depth) => all.forEach(({ frame, x, width, callers }) => {
      const cell = svgOf("svg", { x, y: depth * row, width: Math.max(1, width - 1), height: row - 1, class: "frame " + heat(frame, whole, this.hot.least) });
      const title = svgOf("title");
      title.textContent = this.say(frame);
      cell.append(title, svgOf("rect", { width: "100%", height: "100%", rx: 2 }));
      const letters = Math.floor((width - 7) / letter);
      if (letters >= 3) {
        const text = svgOf("text", { x: 4, y: 13 });
        const name = nameOf(frame);
        text.textContent = name.length > letters ? name.slice(0, letters - 1) + "…" : name;
        cell.append(text);
      }
      cell.addEventListener("pointerenter", () => { this.words.textContent = this.say(frame); });
      cell.addEventListener("click", () => { this.path = [...callers, frame]; this.words.textContent = this.say(frame); this.place(wide); });
      svg.append(cell);
    }));
    this.box.replaceChildren(svg);
  }
}

// legendOf explains the graph.
export function legendOf(hot) {
  const p = element("p", "muted", "Each box is a function, below its caller; its width is its CPU time including callees. Click a box to zoom in, and the top box to zoom out.");
  if (hot.flame.b !== null) {
    p.append(" Against the earlier run: ", element("span", "key more3", "more"), " ", element("span", "key less3", "less"), "; a box is as wide as the larger of the two.");
  }
  return p;
}
