// The state of the node in a few sentences: mode, last plan, memory, problems.

function because(why) {
  return why ? `: ${why}` : "";
}

function modeWords(status) {
  const { pause, wait, mode, mode_by: by } = status;
  const who = by ? ended(` Ordered ${when(by.at_seconds, status.now_seconds)} by ${by.by}${because(by.why)}`) : "";
  if (pause) {
    const until = pause.until_seconds ? `until ${moment(pause.until_seconds, true)}` : "until somebody resumes it";
    return ["Paused: nothing is set", ended(`Paused ${when(pause.at_seconds, status.now_seconds)} by ${pause.by}, ${until}${because(pause.why)}`)];
  }
  if (wait) {
    return ["Waiting: a plan did not keep its promise", `No plan is carried out until ${moment(wait.until_seconds, true)}. ${sentence(wait.why)}`];
  }
  if (mode === "apply") return ["Mode apply: plans are carried out", `Each plan that passes all checks is carried out.${who}`];
  const isMoving = status.servers.some((server) => isOnItsWay(server, status));
  const ordered = isMoving ? "What was ordered before is being carried out." : "The sizes that were ordered are kept.";
  const held = status.sets_sizes ? ordered : "Nothing is set.";
  return ["Mode recommend: no plans are carried out", `Plans are made, checked and shown. ${held}${who}`];
}

// Of whom too little is known yet, as `guessed` in sidecar/commands/plan/plan_words.py has it.
function guessed(status) {
  const part = ({ reads_per_second: reads, weight }) => (reads ?? 0) * (weight ?? 0);
  const all = status.servers.reduce((sum, server) => sum + part(server), 0);
  const isLearnt = (server) => !server.curve && !/^no_(sampler|model|eviction)/.test(server.keep_reason ?? "");
  return status.servers.filter((server) => isLearnt(server) && part(server) >= 0.02 * all).map(({ name }) => name);
}

function planWords(status) {
  const plan = status.last_plan;
  if (!plan) {
    const due = status.next_observation_at_seconds;
    return `No plan yet. ${due ? `The servers are observed until ${moment(due, true)} at the latest; a plan follows.` : ""}`;
  }
  const observed = status.last_observation;
  const early = observed?.was_early && observed.cycle === plan.cycle ? ", before the cycle's end, as much more could be gained" : "";
  const made = `The last plan came ${when(plan.taken_at_seconds, status.now_seconds)}${early}.`;
  const names = guessed(status).join(", ");
  const guess = names ? ` That is a guess, as too little is known of ${names} so far.` : "";
  const known = plan.known_words && !names ? ` ${sentence(plan.known_words)}` : "";
  const gain = plan.gain_words ? ` It predicts: ${ended(plan.gain_words)}` : ` ${reason(plan.reason)}`;
  const underWay = status.servers.filter((server) => isOnItsWay(server, status)).map((server) => server.name).join(", ");
  if (plan.decision === "keep") {
    const keeps = underWay && !plan.overtaken_by ? `what is planned (${underWay} on the way to it)` : "all sizes";
    return `${made} It keeps ${keeps}. ${reason(plan.reason)}${known}`;
  }
  const carriedOut = underWay && !plan.overtaken_by ? ` It is being carried out (${underWay} on the way).` : " It was carried out.";
  const done = plan.carried_out ? carriedOut : ` It was not carried out: ${ended(plan.not_carried_out_because ?? "its sizes are in force already")}`;
  const since = plan.overtaken_by ? ` Sizes are others since: ${ended(plan.overtaken_by)}` : "";
  return made + gain + guess + known + done + since;
}

function outcomeWords(status) {
  const check = status.last_check;
  if (!check || check.observed_seconds === null) return null;
  const at = check.at_seconds ?? null; // not of every one it is known
  return `The last outcome${at === null ? "" : `, ${when(at, status.now_seconds)}`}: ${ended(check.words)}`;
}

function recommendedWords(status) {
  const gain = status.recommended_gain;
  const isToChange = ({ recommended_bytes: wanted, maxmemory_bytes: now }) => wanted && wanted !== now;
  if (!gain || gain.ratio === null || gain.ratio === undefined || !status.servers.some(isToChange)) return null;
  if (status.sets_sizes) return null;
  const much = gain.ratio >= 0 ? `${percent(gain.ratio)} less` : `${percent(-gain.ratio)} more`;
  return `With the recommended sizes the mean access time would have been ${much} since ${moment(gain.since_seconds, true)}, against the sizes in force and without the cost of moving.`;
}

function installedWords(status) {
  const gain = status.installed_gain;
  if (!gain || gain.ratio === null || gain.ratio === undefined) return null;
  const much = `${percent(Math.abs(gain.ratio))} ${gain.ratio >= 0 ? "shorter" : "longer"}`;
  return `Since ${moment(gain.since_seconds, true)} the mean access time has been ${much}, against the same reads with the sizes that SPREDS found, by the curves, at today's latencies and weights: what moves, restarts and refused writes cost is not in it.`;
}

function measuredWords(status) {
  const measured = status.measured_access_time_seconds;
  if (!measured) return null;
  const before = status.installed_gain?.measured_before_seconds;
  const others = (status.unmeasured ?? []).join(", ");
  return `The mean access time, measured in the last window, is ${latency(measured)}${others ? `, without ${others} (not read in it, or the latency is not known)` : ""}${before ? `; before SPREDS set sizes it was ${latency(before)}, with the load at that time` : ""}.`;
}

function memoryMeters(status) {
  const { budget } = status;
  const share = (part, most) => (most ? ` (${percent(part / most, 0)})` : "");
  const rss = budget.rss_budget_bytes ?? budget.bytes;
  const source = { file: ", as configured", machine: `, ${budget.configured} of the machine's memory`, cgroup: `, ${budget.configured} of the control group's limit`, rss: `, lowered from ${budget.configured} because of resident memory` }[budget.source] ?? "";
  return element("div", {},
    element("div", { class: "meters" },
      meter({ title: element("span", {}, "Sum of ", term("maxmemory")), value: budget.maxmemory_bytes, most: budget.bytes, place: 0,
        over: budget.maxmemory_bytes > budget.bytes, words: `${size(budget.maxmemory_bytes)} of ${size(budget.bytes)}${share(budget.maxmemory_bytes, budget.bytes)}` }),
      meter({ title: term("resident", "Resident memory"), value: budget.rss_bytes, most: rss, place: 2,
        over: budget.rss_budget_bytes && budget.rss_bytes > rss,
        words: budget.rss_budget_bytes ? `${size(budget.rss_bytes)} of ${size(rss)}${share(budget.rss_bytes, rss)}` : size(budget.rss_bytes) })),
    element("p", { class: "small soft" }, term("budget", "Budget"), `: ${size(budget.bytes)}${source}.`,
      budget.rss_budget_bytes ? ` Resident memory may have ${size(budget.rss_budget_bytes)}.` : " Resident memory comes on top of maxmemory, and is not held."));
}

// Of a sum above the budget that is not lowered while a pause lasts.
function remedyWords({ budget, pause }) {
  if (!pause || budget.maxmemory_bytes <= budget.bytes) return null;
  return "The sum of maxmemory is above the budget, and SPREDS is paused: give the order “Resume”, or lower a maxmemory yourself.";
}

function renderBanner(section, status) {
  const [title, mode] = modeWords(status);
  const notes = status.problems.map((text) => element("li", { class: "note bad" }, sentence(text)));
  section.replaceChildren(
    element("h1", { id: "banner-title" }, title),
    element("p", { class: "lead" }, mode),
    ...(notes.length ? [element("ul", { class: "plain", "aria-label": "Problems" }, notes)] : []),
    memoryMeters(status),
    ...[remedyWords(status), planWords(status), recommendedWords(status), measuredWords(status), installedWords(status), outcomeWords(status)].filter(Boolean).map((text) => element("p", {}, text)),
    element("p", { class: "small soft" }, `SPREDS ${status.spreds_version}, running for ${duration(status.now_seconds - status.started_at_seconds)}. `
      + `${whole(status.samples.since_observation)} of the ${whole(status.samples.wanted)} samples that the next observation waits for have come`
      + `${status.next_observation_at_seconds ? `, or it is made ${when(status.next_observation_at_seconds, status.now_seconds)}` : ""}`
      + `${status.samples.lost_batches ? `. ${whole(status.samples.lost_batches)} batches of samples did not arrive, of some 700 at most each: curves hardly change by that` : ""}.`));
}
