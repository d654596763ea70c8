// What came over time: sizes, hit ratios, and predictions beside what came.

function timeAxis(times, width) {
  const low = times[0], high = times.at(-1);
  const steps = [60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];
  const most = Math.max(2, Math.floor((width - 70) / 62));
  const step = steps.find((seconds) => (high - low) / seconds <= most) ?? 1209600;
  const shift = -serverOffset;
  const found = [];
  for (let at = Math.ceil((low - shift) / step) * step + shift; at <= high; at += step) found.push(at);
  const isLong = step >= 86400;
  const format = (at) => isLong
    ? new Date((at + serverOffset) * 1e3).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }) : moment(at);
  return { low, high, ticks: found, format };
}

function legend(items) {
  return element("p", { class: "legend" }, items.map(([mark, text]) => element("span", {}, mark, text)));
}

function dashed(isDashed, stroke) {
  const made = drawn("svg", { viewBox: "0 0 24 8", height: 8, "aria-hidden": "true" },
    drawn("line", { x1: 0, x2: 24, y1: 4, y2: 4, stroke, "stroke-width": 2.5, "stroke-dasharray": isDashed ? "5 4" : null }));
  made.style.width = "24px";
  return made;
}

function stackedChart(series, names, budget, width) {
  const sums = series.at_seconds.map(() => 0);
  const known = series.at_seconds.map((_, at) => names.some((name) => series.servers[name].maxmemory_bytes[at] !== null));
  const layers = names.map((name) => {
    const below = [...sums];
    series.servers[name].maxmemory_bytes.forEach((bytes, at) => { sums[at] += bytes ?? 0; });
    return { below, above: [...sums] };
  });
  const high = Math.max(budget ?? 0, ...sums) * 1.05 || 1;
  const x = timeAxis(series.at_seconds, width);
  return chart({
    width, height: 220, x, y: { low: 0, high, format: size, ticks: sizeTicks(high, 440) },
    label: `Sizes of ${names.length} servers over time, stacked; together ${size(sums.at(-1))} now, of a budget of ${size(budget)}.`,
    inside: (across, up) => [
      ...layers.map((layer, place) => drawn("path", {
        d: runs(known).map((run) => path([
          ...run.map((at) => [across(series.at_seconds[at]), up(layer.above[at])]),
          ...run.toReversed().map((at) => [across(series.at_seconds[at]), up(layer.below[at])]),
        ]) + "Z").join(""),
        fill: colour(place), opacity: 0.8, stroke: "var(--card)", "stroke-width": 1,
      })),
      budget && drawn("line", { x1: across(x.low), x2: across(x.high), y1: up(budget), y2: up(budget), stroke: "var(--text)", "stroke-width": 1.5, "stroke-dasharray": "5 4" }),
    ],
  });
}

// Stretches of time without a gap.
function runs(known) {
  const found = [];
  known.forEach((isKnown, at) => {
    if (!isKnown) return;
    if (at && known[at - 1]) found.at(-1).push(at); else found.push([at]);
  });
  return found;
}

function linesChart({ series, lines, width, y, label, marks = [] }) {
  const x = timeAxis(series.at_seconds, width);
  return chart({
    width, height: 200, x, y, label,
    inside: (across, up) => [
      ...marks.filter((mark) => mark.at_seconds >= x.low && mark.at_seconds <= x.high).map((mark) => drawn("line", {
        x1: across(mark.at_seconds), x2: across(mark.at_seconds), y1: up(y.low), y2: up(y.high), stroke: "var(--soft)", "stroke-dasharray": "2 3",
      }, drawn("title", {}, mark.words))),
      ...lines.map(({ values, stroke, isDashed }) => line(
        values.map((value, at) => [across(series.at_seconds[at]), value === null ? null : up(value)]),
        { stroke, "stroke-dasharray": isDashed ? "5 4" : null, opacity: isDashed ? 0.8 : 1 },
      )),
    ],
  });
}

function meansChart(series, width) {
  const observed = series.mean_access_time_seconds, predicted = series.predicted_mean_access_time_seconds;
  const high = Math.max(...observed, ...predicted, 0) * 1.15 || 1;
  const marks = series.marks ?? [];
  const last = marks.length ? ` ${sentence(marks.at(-1).words)}` : "";
  return linesChart({
    series, width, marks, label: `Mean access time over time: ${latency(observed.findLast((value) => value !== null))} in the end.${last}`,
    y: { low: 0, high, format: latency },
    lines: [{ values: predicted, stroke: colour(1), isDashed: true }, { values: observed, stroke: colour(0) }],
  });
}

function renderTime(section, series, status, width) {
  const title = element("h2", { id: "time-title" }, "Over time");
  const names = status.servers.map((server) => server.name).filter((name) => name in (series?.servers ?? {}));
  if (!series || series.at_seconds.length < 2 || !names.length) {
    section.replaceChildren(title, element("p", { class: "soft" }, "Nothing is recorded yet: this fills as time passes."));
    return;
  }
  const hitLines = names.flatMap((name, place) => [
    { values: series.servers[name].predicted_hit_ratio, stroke: colour(place), isDashed: true },
    { values: series.servers[name].hit_ratio, stroke: colour(place) }]);
  const styles = [[dashed(false, "var(--soft)"), "as it came"], [dashed(true, "var(--soft)"), "as predicted"]];
  section.replaceChildren(title, legend(names.map((name, place) => [swatch(place), name])),
    element("div", { class: "chart" }, element("h3", {}, "Sizes"),
      element("p", { class: "small soft" }, term("maxmemory"), " of all servers, one upon the other; the dashed line is the ", term("budget"), "."),
      stackedChart(series, names, status.budget.bytes, width)),
    element("div", { class: "chart" }, element("h3", {}, "Hit ratios"), legend(styles),
      linesChart({
        series, lines: hitLines, width, label: `Hit ratios of ${names.length} servers over time, with what was predicted.`,
        y: { low: 0, high: 1, format: (ratio) => percent(ratio, 0), ticks: [0, 0.25, 0.5, 0.75, 1] },
      })),
    element("div", { class: "chart" }, element("h3", {}, "Mean access time"),
      legend([[dashed(false, colour(0)), "as it came"], [dashed(true, colour(1)), "as predicted"]]), meansChart(series, width),
      series.marks?.length ? element("p", { class: "small soft" }, "A dotted line is where what counts changed, most recently: ", sentence(series.marks.at(-1).words)) : null));
}
