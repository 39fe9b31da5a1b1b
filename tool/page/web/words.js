// The charts of the page, and the formats of figures.

export const charts = [
  { id: "rate", group: "client", title: "Answers per second", unit: "count", series: [{ key: "rate", name: "answers", color: "one" }] },
  {
    id: "times", group: "client", title: "Response time", unit: "us", log: true,
    series: [{ key: "p50", name: "p50", color: "one" }, { key: "p99", name: "p99", color: "two" }, { key: "max", name: "max", color: "three" },
      { key: "sp99", name: "service p99", color: "four", service: true }, { key: "lag", name: "generator's longest delay", color: "five", live: true }],
  },
  { id: "heat", group: "client", title: "Response time heat map", unit: "us", log: true, kind: "heat", series: [{ key: "p99", name: "p99", color: "two" }] },
  {
    id: "curve", group: "client", title: "Response time by percentile", unit: "us", log: true, kind: "curve",
    series: [{ key: "latency", name: "response", color: "one" }, { key: "service", name: "service", color: "four", service: true }],
  },
  {
    id: "share", group: "client", title: "Generator CPU", unit: "share", top: 1, limit: 0.8,
    series: [{ key: "share", name: "of its CPU", color: "one" }],
  },
  {
    id: "errors", group: "client", title: "Errors and connections", unit: "count",
    series: [{ key: "errors", name: "errors", color: "two" }, { key: "conns", name: "connections", color: "one" }],
  },
  { id: "served", group: "server", title: "Requests served per second", unit: "count", series: [{ key: "s.rate", name: "requests", color: "one" }] },
  { id: "cpureq", group: "server", title: "Server CPU per request", unit: "us", series: [{ key: "s.cpureq", name: "CPU", color: "one" }], constant: "cpu" },
  { id: "cpu", group: "server", title: "Server CPUs in use", unit: "plain", series: [{ key: "s.cpu", name: "CPUs", color: "one" }] },
  {
    id: "memory", group: "server", title: "Server memory", unit: "bytes",
    series: [{ key: "s.rss", name: "resident", color: "one" }, { key: "s.outmem", name: "pending output", color: "two" }, { key: "s.inmem", name: "unserved input", color: "three" }],
  },
  { id: "bytes", group: "server", title: "Bytes per second", unit: "bytes", series: [{ key: "s.in", name: "received", color: "one" }, { key: "s.out", name: "sent", color: "two" }] },
  {
    id: "open", group: "server", title: "Connections, rejections and hand-offs", unit: "count",
    series: [{ key: "s.conns", name: "open", color: "one" }, { key: "s.rejected", name: "rejected/s", color: "two" }, { key: "s.handoffs", name: "hand-offs/s", color: "three" }, { key: "s.inline", name: "waiting for memory", color: "four" }],
  },
  { id: "heap", group: "runtime", title: "Go heap", unit: "bytes", series: [{ key: "g.heap", name: "live", color: "one" }, { key: "g.goal", name: "goal", color: "two" }] },
  { id: "goroutines", group: "runtime", title: "Goroutines", unit: "count", series: [{ key: "g.goroutines", name: "goroutines", color: "one" }] },
  { id: "pause", group: "runtime", title: "GC pauses and scheduler latency", unit: "us", log: true, series: [{ key: "g.pause", name: "longest GC pause", color: "two" }, { key: "g.sched", name: "scheduler latency p99", color: "one" }] },
  {
    id: "host", group: "host", title: "CPU of the machine", unit: "share", top: 1,
    series: [{ key: "h.busy", name: "in use", color: "one" }, { key: "h.softirq", name: "interrupts", color: "three" }, { key: "h.steal", name: "steal", color: "two" }],
  },
  { id: "retrans", group: "host", title: "TCP retransmits", unit: "count", series: [{ key: "h.retrans", name: "segments", color: "two" }] },
];

// metricChart draws one of the metrics that the user has chosen.
export const metricChart = (title, i) => ({
  id: "metric-" + i, group: "metrics", title, unit: title.includes("_bytes") ? "bytes" : "count", series: [{ key: "m." + i, name: "value", color: "one" }],
});

export const groupNames = { client: "Measured by the generator", server: "Reported by the server", runtime: "Go runtime", metrics: "Metrics of the server", host: "Machine" };
export const jumpNames = { client: "Generator", server: "Server", runtime: "Runtime", metrics: "Metrics", host: "Machine" };

// The figures of the strip: of a load, or of a server without a load.
export const loadFigures = [
  { key: "rate", name: "answers/s", unit: "count" }, { key: "p50", name: "p50", unit: "us" },
  { key: "p99", name: "p99", unit: "us" }, { key: "p999", name: "p99.9", unit: "us" },
  { key: "errors", name: "errors", unit: "count" }, { key: "cpu", name: "server CPU/request", unit: "us" },
];
export const serverFigures = [
  { key: "s.rate", name: "requests/s", unit: "count" }, { key: "s.cpureq", name: "CPU/request", unit: "us" },
  { key: "s.cpu", name: "CPUs in use", unit: "plain" }, { key: "s.conns", name: "connections", unit: "count" },
  { key: "s.rss", name: "memory", unit: "bytes" }, { key: "g.goroutines", name: "goroutines", unit: "count" },
];

export const none = "–";

// digits formats a number with about three significant digits.
function digits(v) {
  const size = Math.abs(v);
  return v.toFixed(size >= 100 || v === 0 ? 0 : size >= 10 ? 1 : size >= 0.095 ? 2 : 3);
}

// written formats a figure with its unit.
export function written(v, unit) {
  if (v === undefined || v === null || Number.isNaN(v)) return none;
  switch (unit) {
    case "us": return v >= 999500 ? digits(v / 1e6) + " s" : v >= 999.5 ? digits(v / 1000) + " ms" : digits(v) + " µs";
    case "share": return (v >= 0.0995 || v === 0 ? (100 * v).toFixed(0) : digits(100 * v)) + " %";
    case "bytes": {
      const names = ["B", "KiB", "MiB", "GiB", "TiB"];
      let step = 0;
      while (Math.abs(v) >= 1000 && step < 4) { v /= 1024; step++; }
      return digits(v) + " " + names[step];
    }
    case "plain": return digits(v);
  }
  return Math.abs(v) >= 100 || Number.isInteger(v) ? Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, "\u2009") : digits(v);
}

// short removes trailing zeros.
export const short = (text) => text.replace(/\.0+(?=\D|$)|(\.\d*[1-9])0+(?=\D|$)/, "$1");

// moment formats a time on the axis.
export function moment(t) {
  const whole = Math.max(0, Math.round(t));
  const rest = String(whole % 60).padStart(2, "0");
  return whole >= 3600 ? Math.floor(whole / 3600) + ":" + String(Math.floor(whole / 60) % 60).padStart(2, "0") + ":" + rest : Math.floor(whole / 60) + ":" + rest;
}

// difference formats now relative to before, whether or not chance explains it.
export function difference(now, before) {
  if (now === undefined || now === null || before === undefined || before === null || before === 0) return null;
  return signed(now / before - 1);
}

// signed formats a ratio as a percentage with its sign.
export function signed(part) {
  const size = Math.abs(100 * part);
  return (part < 0 ? "−" : "+") + (size >= 10 ? size.toFixed(0) : size.toFixed(1)) + " %";
}
