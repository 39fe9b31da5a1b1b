// Assembles the page.
import { charts, groupNames, jumpNames, metricChart } from "./words.js";
import { Store, follow, take } from "./store.js";
import { Knee, kneeTable, kneeWords } from "./knee.js";
import { Chart, Curve, HeatMap } from "./chart.js";
import { element, fillAbout, fillBanner, fillChanges, fillEvents, fillHot, fillJumps, fillRace, fillSpreads, fillStrip, once } from "./tables.js";

const find = (name) => document.querySelector("[data-" + name + "]");
const changed = once();
const paintEvery = 250; // milliseconds between repaints, at least
const leastLeft = 58; // pixels for the labels of an axis

class View {
  constructor(store) {
    this.store = store;
    this.drawn = [];
    this.colors = new Map();
    this.service = false;
    this.rarity = null;
    this.waiting = 0;
    this.left = leastLeft;
    this.knee = new Knee(find("knee"));
    store.watch(() => this.later());
  }

  // later repaints at most every paintEvery.
  later() {
    if (!this.waiting) this.waiting = setTimeout(() => { this.waiting = 0; this.paint(); }, paintEvery);
  }

  redraw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; for (const c of this.drawn) c.draw(); });
  }

  paint() {
    if (this.store.fresh) this.build();
    const { store } = this;
    const status = find("status");
    status.textContent = status.dataset.status = store.state.status;
    find("phase").textContent = store.state.phase || "";
    changed("banner", [store.state.status, store.state.reasons], () => fillBanner(find("banner"), store));
    fillStrip(find("strip"), store);
    changed("race", [store.state.segments, store.state.notes], () => fillRace(find("race"), store));
    changed("changes", store.state.changes, () => fillChanges(find("changes"), store));
    changed("spreads", store.state.spreads, () => fillSpreads(find("spreads"), store));
    changed("hot", store.state.hot, () => fillHot(find("hot"), this.store));
    changed("knee", [store.state.knee, store.state.status], () => this.showKnee());
    changed("events", store.marks.length, () => fillEvents(find("events"), store));
    changed("about", [store.hello, store.state.notes], () => fillAbout(find("about"), store));
    fillJumps(find("jumps"));
    find("service-label").hidden = !store.state.curve?.service && !store.heat.some((c) => c.s);
    this.spans = this.segmentsAt = null;
    for (const c of this.drawn) c.draw();
  }

  // build creates the page's charts.
  build() {
    const { hello } = this.store;
    this.store.fresh = false;
    document.title = "hone: " + hello.title;
    find("title").textContent = hello.title;
    find("range").parentElement.hidden = hello.groups.length === 0 || Boolean(hello.short);
    changed("charts", [hello.groups, hello.metrics], () => {
      this.drawn = [];
      const all = charts.concat((hello.metrics ?? []).map(metricChart));
      find("charts").replaceChildren(...hello.groups.map((group) => {
        const section = element("section");
        section.id = "charts-" + group;
        section.dataset.jump = jumpNames[group];
        const box = element("div", "group");
        section.append(element("h2", "", groupNames[group]), box);
        for (const what of all.filter((c) => c.group === group && this.has(c))) {
          const chart = new ({ heat: HeatMap, curve: Curve }[what.kind] ?? Chart)(this.store, this, what);
          this.drawn.push(chart);
          box.append(chart.figure);
        }
        section.hidden = !box.hasChildNodes();
        return section;
      }));
    });
  }

  // widen makes room for labels, equally in all charts, so that their time axes align.
  widen(left) {
    if (left <= this.left) return;
    this.left = Math.ceil(left);
    this.redraw();
  }

  // has reports whether a chart will have figures: a report knows all of them.
  has(what) {
    const { measured, short } = this.store.hello;
    if (!measured) return true;
    if (what.kind === "curve") return Boolean(this.store.state.curve);
    return !short && Boolean(what.kind || what.series.some((s) => this.store.columns.has(s.key)));
  }

  // domain is the time range that all charts show.
  domain() {
    const range = Number(find("range").value);
    const first = this.store.first ?? 0, last = this.store.last ?? 30;
    if (this.store.hello.measured && !range) return [0, Math.max(last, 2)];
    return range && last - first > range ? [last - range, last] : [first, Math.max(last, first + 10)];
  }

  // segments are the moments at which another segment begins.
  segments() { return this.segmentsAt ??= this.store.marks.filter((m) => m.kind === "segment").map((m) => m.t); }

  // doubtful tells whether a moment belongs to a sample that does not count.
  doubtful(t) { return Boolean(this.store.marks.findLast((m) => m.kind === "segment" && m.t <= t)?.doubtful); }

  // unmeasured are the times outside the measured window.
  unmeasured() {
    if (this.spans) return this.spans;
    const spans = [];
    let since = null;
    for (const m of this.store.marks) {
      const counts = m.kind === "measuring";
      if (since !== null && (counts || m.kind === "end")) {
        spans.push([since, m.t - (counts && !this.store.hello.measured ? 1 : 0)]);
        since = null;
      }
      if (since === null && m.kind === "phase") since = m.t;
    }
    if (since !== null) spans.push([since, Infinity]);
    return this.spans = spans;
  }

  color(name) {
    if (!this.colors.has(name)) this.colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    return this.colors.get(name);
  }

  recolor() {
    this.colors.clear();
    this.redraw();
  }

  showKnee() {
    const { knee, status } = this.store.state;
    find("search").hidden = !knee;
    if (!knee) return;
    find("knee-says").textContent = kneeWords(knee, status === "running");
    find("knee-trials").replaceChildren(kneeTable(knee));
    this.knee.show(knee);
  }
}

// remembered is stored in the browser's local storage, if that is available.
function remembered(value) {
  try {
    if (value !== undefined) localStorage.setItem("hone-theme", value);
    return localStorage.getItem("hone-theme");
  } catch {
    return value ?? null;
  }
}

function setTheme(theme, view) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("theme-switch").textContent = "Theme: " + theme;
  view.recolor();
}

const store = new Store();
const view = new View(store);
const themes = ["auto", "light", "dark"];
let theme = themes.includes(remembered()) ? remembered() : "auto";
setTheme(theme, view);
find("theme-switch").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  remembered(theme);
  setTheme(theme, view);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.recolor());
find("range").addEventListener("change", () => view.redraw());
find("service").addEventListener("change", (e) => { view.service = e.target.checked; view.redraw(); });
const recorded = document.getElementById("recorded");
if (recorded) {
  take(store, JSON.parse(recorded.textContent));
  find("link").textContent = "a report, " + store.hello.began;
  for (const option of [...find("range").options]) option.hidden = option.disabled = option.value !== "0" && Number(option.value) >= store.last;
} else {
  follow(store, (text) => { find("link").textContent = text; });
}
view.paint();
