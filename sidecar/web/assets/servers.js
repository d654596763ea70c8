// A card for each server: its size within its bounds, what it serves, and what changed last.

const BAR = 34;

function sizeBar(server, place, scaleBytes, width) {
  const across = scaled(0, scaleBytes, 1, width - 1);
  const { maxmemory_bytes: now, recommended_bytes: planned, minimum_bytes: low, maximum_bytes: high } = server;
  const from = across(low ?? 0), to = across(Math.min(high ?? scaleBytes, scaleBytes));
  const words = `${server.name} has ${size(now)}` + (planned ? `, recommended ${size(planned)}` : "") + `, ${boundsWords(server)}`;
  return drawn("svg", { viewBox: `0 0 ${width} ${BAR}`, height: BAR, role: "img", "aria-label": words },
    drawn("rect", { x: 0, y: 9, width, height: 16, rx: 3, fill: "var(--track)" }),
    drawn("rect", { x: from, y: 9, width: Math.max(0, to - from), height: 16, fill: "var(--zone)" }),
    drawn("rect", { x: 0, y: 9, width: Math.max(0, across(Math.min(now ?? 0, scaleBytes)) - 0), height: 16, rx: 3, fill: colour(place) }),
    low && drawn("line", { x1: from, x2: from, y1: 5, y2: 29, stroke: "var(--text)", "stroke-width": 1.5 }),
    high && high <= scaleBytes && drawn("line", { x1: to, x2: to, y1: 5, y2: 29, stroke: "var(--text)", "stroke-width": 1.5 }),
    planned && planned !== now && drawn("path", {
      d: `M${across(planned)} 17m-7 -12h14l-7 9z`, fill: "var(--text)", stroke: "var(--card)", "stroke-width": 1.5,
    }));
}

function boundsWords(server) {
  const least = server.minimum_bytes ? `at least ${size(server.minimum_bytes)}` : "no minimum";
  return `${least}, ${server.maximum_bytes ? `at most ${size(server.maximum_bytes)}` : "no maximum"}`;
}

// Held, and while nothing is set, a server is on its way nowhere.
function isOnItsWay(server, status) {
  const { maxmemory_bytes: now, target_bytes: target } = server;
  return Boolean(status.sets_sizes && !status.pause && !server.held && target && target !== now);
}

function sizeWords(server, status) {
  const { maxmemory_bytes: now, target_bytes: target, recommended_bytes: planned } = server;
  const change = planned && Math.abs(planned - now) > 0.005 * now
    ? `; the last plan has ${size(planned)} (${planned > now ? "+" : "−"}${size(Math.abs(planned - now))}); the mark shows it` : "";
  const way = isOnItsWay(server, status) ? `; on the way to ${size(target)}` : "";
  return element("p", { class: "small" }, element("b", {}, size(now)), ` now${way}${change}. `,
    `It may have ${boundsWords(server)}.`);
}

function fact(title, value, more) {
  return element("div", {}, element("dt", {}, title), element("dd", {}, value, more && element("span", {}, more)));
}

const SOURCES = { team: "as its team says", configured: "as configured", measured: "as measured" };

function latencySource(server) {
  const { backend_latency_source: source, backend_latency_seconds: counts, stated_latency_seconds: stated } = server;
  const isOther = source === "team" && stated && Math.abs(stated - counts) > 1e-9 * stated;
  return isOther ? `its team says ${latency(stated)}` : SOURCES[source];
}

// What is measured now, with what the plan would bring or, once that is carried out, was expected.
function nowAndThen(title, now, withPlan, expected, format, expectedWith) {
  const isKnown = (value) => value !== null && value !== undefined;
  if (isKnown(withPlan)) return fact(title, `now ${format(now)}`, `with the plan ${format(withPlan)}`);
  return fact(title, format(now), isKnown(expected) && `${format(expected)} expected${expectedWith}`);
}

function facts(server, status) {
  const plan = status.last_plan;
  const way = isOnItsWay(server, status) ? ` with ${size(server.target_bytes)}` : "";
  const isOther = server.recommended_bytes && server.recommended_bytes !== server.maxmemory_bytes;
  const isOpen = plan && !plan.carried_out && isOther && server.curve;
  const expected = (value) => (server.curve ? value : null);
  const hit = isOpen ? server.recommended_hit_ratio : null, time = isOpen ? server.recommended_access_time_seconds : null;
  const isMeasured = server.backend_latency_seconds !== null;
  return element("dl", { class: "facts" },
    nowAndThen(term("hit ratio", "Hit ratio"), server.hit_ratio, hit, expected(server.predicted_hit_ratio), percent, way),
    nowAndThen(term("access time", "Access time"), server.access_time_seconds, time, expected(server.predicted_access_time_seconds), latency, way),
    fact("Reads a second", whole(server.reads_per_second)),
    fact(term("backend latency", "Backend latency"), isMeasured ? latency(server.backend_latency_seconds) : "not known yet", isMeasured && latencySource(server)),
    fact(term("weight", "Weight"), server.weight === null ? "unknown" : trimmed(server.weight, 2), server.settings_by && `its team's, signed ${server.settings_by}`));
}

function tags(server, status) {
  const sampler = server.sampler ? `sampled by the ${server.sampler}` : "no sampler";
  return [
    !server.up && element("span", { class: "tag bad" }, "cannot be read"),
    server.held && element("span", { class: "tag warn" }, "resized by hand"),
    server.keep_reason && element("span", { class: "tag" }, isOnItsWay(server, status) ? "no new size yet" : "keeps its size"),
    element("a", { class: server.sampler ? "tag" : "tag warn", href: "#term-sampler", title: GLOSSARY.sampler }, sampler),
  ];
}

function changeWords(server, status) {
  const now = status.now_seconds;
  const change = server.last_change;
  if (!change) return "Its size has not been changed yet.";
  const why = change.words ? ` ${reason(change.words)}` : "";
  const way = `from ${size(change.from_bytes)} to ${size(change.to_bytes)}`;
  const has = server.maxmemory_bytes === change.to_bytes ? "" : `, and it has ${size(server.maxmemory_bytes)} now`;
  if (has && isOnItsWay(server, status) && server.target_bytes === change.to_bytes) {
    return `Is being brought ${way} since ${moment(change.at_seconds, true)}${has}.${why}`;
  }
  return `Last change ${when(change.at_seconds, now)}: ${way}${has}.${why}`;
}

function serverCard(server, place, { status, scaleBytes, width, isOpen }) {
  const now = status.now_seconds, planned = status.last_plan;
  const isDone = server.last_change && server.last_change.cycle === planned?.cycle; // it says why, then
  const why = isDone ? null : planned?.servers?.find((item) => item.name === server.name)?.reason;
  const rest = !server.up
    ? [element("p", { class: "note bad" }, sentence(server.error ?? "it does not answer"), " Its memory stays reserved for it.")]
    : [sizeBar(server, place, scaleBytes, width), sizeWords(server, status), facts(server, status)];
  return element("article", { "aria-label": `Server ${server.name}` },
    element("div", { class: "heading" }, element("span", { class: "name" }, swatch(place), element("h3", {}, server.name)), tags(server, status)),
    rest,
    server.held && element("p", { class: "note warn" }, `An operator set ${size(server.held.bytes)} by hand ${when(server.held.at_seconds, now)}; it stays until SPREDS is told to resume.`),
    server.keep_reason && !server.held && element("p", { class: "small" }, isOnItsWay(server, status)
      ? `No new plan changes its size yet, and the one before goes on. ${reason(server.keep_reason)}`
      : `It keeps its size. ${reason(server.keep_reason)}`),
    why && !server.keep_reason && element("p", { class: "small" }, "The last plan: ", reason(why), server.curve || !/ ms\b/.test(why) ? "" : " That is a guess."),
    element("p", { class: "small soft" }, changeWords(server, status)),
    server.up && element("details", { "data-key": `curve-${server.name}`, open: isOpen ? "" : null },
      element("summary", { "data-key": `curve-of-${server.name}` }, "What more or less memory would do for it"), curveBlock(server, place, width)));
}

function renderServers(section, status, width) {
  const inside = width >= 1020 ? (width - 16) / 2 - 38 : width - 38;
  const most = Math.max(1, ...status.servers.flatMap((server) => [
    server.maxmemory_bytes ?? 0, server.recommended_bytes ?? 0, server.target_bytes ?? 0, server.minimum_bytes ?? 0]));
  const settings = {
    status, scaleBytes: most * 1.25, width: Math.max(200, Math.floor(inside)),
    isOpen: status.servers.length <= 8,
  };
  section.replaceChildren(
    element("h2", { id: "servers-title" }, `${status.servers.length} servers`),
    element("div", { class: "cards" }, status.servers.map((server, place) => serverCard(server, place, settings))));
}
