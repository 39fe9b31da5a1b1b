// Scales: from values to canvas positions.

// steps returns about count round values between low and high.
export function steps(low, high, about) {
  const rough = (high - low) / Math.max(1, about);
  const ten = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((n) => n * ten).find((s) => s >= rough) || 10 * ten;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) found.push(Number(v.toPrecision(12)));
  return found;
}

// timeSteps returns round times in seconds, minutes or hours.
export function timeSteps(low, high, about) {
  const rough = (high - low) / Math.max(1, about);
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200].find((s) => s >= rough) || 14400;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(v);
  return found;
}

// linear scales from 0 to a round value above top; bytes in KiB, MiB and so on.
export function linear(top, bytes) {
  top = top > 0 ? top : 1;
  const one = bytes ? Math.pow(1024, Math.max(0, Math.floor(Math.log(top * 1.08) / Math.log(1000)))) : 1;
  const ticks = steps(0, top * 1.08 / one, 3).map((v) => v * one);
  const high = Math.max(top * 1.08, ticks[ticks.length - 1]);
  return { ticks, part: (v) => v / high };
}

// logarithmic scales positive values.
export function logarithmic(low, high) {
  if (!(low > 0) || !(high > 0)) { low = 1; high = 1000; }
  low = Math.log10(low) - 0.08;
  high = Math.max(Math.log10(high) + 0.12, low + 1);
  let ticks = [];
  for (let e = Math.floor(low); e <= high; e++) for (const n of high - low > 2.5 ? [1] : [1, 3]) ticks.push(n * Math.pow(10, e));
  ticks = ticks.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high);
  return { ticks, part: (v) => (Math.log10(Math.max(v, 1e-9)) - low) / (high - low) };
}
