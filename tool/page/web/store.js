// The page's data, from the stream or from the report itself.

const kept = 900; // seconds

export class Store {
  constructor() {
    this.watchers = [];
    this.reset({ title: "hone", groups: ["client", "host"], about: [] });
  }

  reset(hello) {
    this.hello = hello;
    this.columns = new Map(); // key → {t: [], v: []}
    this.heat = [];
    this.marks = [];
    this.state = { status: "waiting", reasons: [], figures: {} };
    this.first = undefined;
    this.last = undefined;
    this.cursor = null;
    this.fresh = true;
    this.changed();
  }

  watch(call) { this.watchers.push(call); }

  changed() { for (const call of this.watchers) call(); }

  addPoint(p) {
    this.first = this.first === undefined ? p.t : Math.min(this.first, p.t);
    this.last = this.last === undefined ? p.t : Math.max(this.last, p.t);
    for (const [key, v] of Object.entries(p.v)) {
      let c = this.columns.get(key);
      if (!c) this.columns.set(key, c = { t: [], v: [] });
      c.t.push(p.t);
      c.v.push(v);
    }
    if (p.h) this.heat.push({ t: p.t, h: p.h, s: p.s });
    if (!this.hello.measured) this.forget(this.last - kept);
    this.changed();
  }

  // forget drops old points from time to time.
  forget(before) {
    if (before - this.first < 60) return;
    for (const c of this.columns.values()) {
      const n = firstFrom(c.t, before);
      c.t.splice(0, n);
      c.v.splice(0, n);
    }
    this.heat = this.heat.filter((one) => one.t >= before);
    this.first = before;
  }

  addMark(m) { this.marks.push(m); this.changed(); }

  setState(s) { this.state = s; this.changed(); }

  // at returns the value of a key at a moment, or the newest.
  at(key, t) {
    const c = this.columns.get(key);
    if (!c || !c.t.length) return undefined;
    if (t === null) return c.v[c.v.length - 1];
    const i = nearest(c.t, t);
    return Math.abs(c.t[i] - t) <= 1.6 * spacing(c.t) ? c.v[i] : undefined;
  }

  // starts are the moments at which measured time began.
  starts() {
    const early = this.hello.measured ? 0 : 1; // the first second is reported at its end
    return this.marks.filter((m) => m.kind === "measuring").map((m) => m.t - early);
  }

  // earlierAt returns the earlier run's value at the same time after its start.
  earlierAt(key, t) {
    const earlier = this.hello.earlier;
    if (!earlier) return undefined;
    const at = t === null ? this.last : t;
    const begun = this.starts().filter((s) => s <= at).pop();
    if (begun === undefined || !earlier.seconds.length) return undefined;
    const times = earlier.seconds.map((p) => p.t);
    const i = nearest(times, at - begun);
    return Math.abs(times[i] - (at - begun)) <= 1.6 ? earlier.seconds[i].v[key] : undefined;
  }
}

// firstFrom returns the index of the first time not before t.
export function firstFrom(times, t) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1; else high = middle;
  }
  return low;
}

export function nearest(times, t) {
  const i = firstFrom(times, t);
  return i > 0 && (i === times.length || t - times[i - 1] <= times[i] - t) ? i - 1 : Math.min(i, times.length - 1);
}

// spacing returns the usual time between points.
export function spacing(times) {
  const n = times.length;
  if (n < 2) return 1;
  const gaps = [];
  for (let i = Math.max(1, n - 9); i < n; i++) gaps.push(times[i] - times[i - 1]);
  gaps.sort((a, b) => a - b);
  return Math.max(0.5, gaps[gaps.length >> 1]);
}

// follow fills the store from the stream until its bye event.
export function follow(store, say) {
  const source = new EventSource("events");
  const on = (kind, call) => source.addEventListener(kind, (e) => call(JSON.parse(e.data)));
  source.onopen = () => say("live");
  source.onerror = () => {
    say("disconnected; reconnecting");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(store, say), 3000); // refused: too many readers
  };
  on("hello", (h) => store.reset(h));
  on("point", (p) => store.addPoint(p));
  on("mark", (m) => store.addMark(m));
  on("state", (s) => store.setState(s));
  on("bye", () => { source.close(); say("the program has exited; these are its last figures"); });
}

// take fills the store with a recorded page.
export function take(store, recorded) {
  store.reset(recorded.hello);
  for (const m of recorded.marks) store.addMark(m);
  for (const p of recorded.points) store.addPoint(p);
  store.setState(recorded.state);
}
