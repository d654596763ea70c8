// A server's curve: the hit ratio with each size, how far it may be off, now and by the plan.

function hitRatioAt(curve, bytes) {
  const sizes = curve.sizes_bytes, misses = curve.miss_ratios;
  if (bytes <= sizes[0]) return 1 - (sizes[0] ? 1 + (misses[0] - 1) * (bytes / sizes[0]) : misses[0]);
  for (let at = 1; at < sizes.length; at += 1) {
    if (bytes <= sizes[at]) {
      const part = (bytes - sizes[at - 1]) / (sizes[at] - sizes[at - 1]);
      return 1 - (misses[at - 1] + part * (misses[at] - misses[at - 1]));
    }
  }
  return 1 - misses[misses.length - 1];
}

function curveChart(server, place, width) {
  const { curve, maxmemory_bytes: now, recommended_bytes: planned } = server;
  const highest = Math.max(now ?? 0, planned ?? 0, server.minimum_bytes ?? 0) * 1.6;
  const end = Math.min(Math.max(highest, 1), Math.max(curve.sizes_bytes.at(-1), highest / 1.6, 1));
  const sizes = [0, ...curve.sizes_bytes.filter((bytes) => bytes > 0 && bytes < end), end];
  const hits = sizes.map((bytes) => hitRatioAt(curve, bytes));
  const error = server.curve_error_ratio ?? 0;
  const clipped = (ratio) => Math.min(1, Math.max(0, ratio));
  const label = `Curve of ${server.name}: a hit ratio of ${percent(hitRatioAt(curve, now ?? 0))} with ${size(now)}`
    + (planned ? `, ${percent(hitRatioAt(curve, planned))} with the recommended ${size(planned)}.` : ".");
  return chart({
    width, height: 190, label,
    x: { low: 0, high: end, format: size, ticks: sizeTicks(end, width) },
    y: { low: 0, high: 1, format: (ratio) => percent(ratio, 0), ticks: [0, 0.25, 0.5, 0.75, 1] },
    inside: (across, up) => {
      const above = sizes.map((bytes, at) => [across(bytes), up(clipped(hits[at] + error))]);
      const below = sizes.map((bytes, at) => [across(bytes), up(clipped(hits[at] - error))]);
      return [
        drawn("path", { d: path(above) + path(below.reverse()).replace("M", "L") + "Z", fill: colour(place), opacity: 0.22 }),
        line(sizes.map((bytes, at) => [across(bytes), up(hits[at])]), { stroke: colour(place) }),
        planned && planned !== now && dot(across(planned), up(hitRatioAt(curve, planned)), colour(place), false),
        now && dot(across(Math.min(now, end)), up(hitRatioAt(curve, now)), colour(place), true),
      ];
    },
  });
}

// Sizes are read in powers of two.
function sizeTicks(high, width) {
  const most = Math.max(2, Math.floor(width / 110));
  let step = 2 ** Math.floor(Math.log2(high / most || 1));
  while (high / step > most) step *= 2;
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, at) => at * step);
}

function dot(x, y, stroke, isFull) {
  return drawn("circle", { cx: x, cy: y, r: 5.5, stroke, "stroke-width": 2.5, fill: isFull ? stroke : "var(--card)" });
}

function curveBlock(server, place, width) {
  if (!server.curve || !server.curve.sizes_bytes.length) {
    const why = /^no_(model|eviction):/.test(server.keep_reason ?? "")
      ? "No curve: with the way it evicts, or does not, nothing is known of other sizes."
      : server.sampler ? "Its curve is still learnt from samples of its reads: until it is known, what more memory would do is a guess."
      : "No curve: neither the patch nor the module is in this server, so nothing is known of other sizes.";
    return element("p", { class: "soft small" }, why);
  }
  const changes = server.recommended_bytes && server.recommended_bytes !== server.maxmemory_bytes;
  return element("div", {},
    element("p", { class: "small soft" }, term("hit ratio", "Hit ratio"), " with each size, as the ", term("curve"), " has it, ± ",
      `${(100 * server.curve_error_ratio).toFixed(1)} points. The dot is now`, changes ? "; the ring is the plan." : "."),
    curveChart(server, place, width));
}
