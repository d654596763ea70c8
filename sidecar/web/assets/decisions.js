// What was decided, the newest first; and what another budget would bring.

const KINDS = {
  plan: "plan", check: "outcome", order: "order", hand: "by hand", rollback: "rollback", budget: "room", start: "start", reload: "reload",
  yardstick: "what counts", server: "server", gap: "not written",
};

const DECISIONS_A_STEP = 60;
let shownDecisions = DECISIONS_A_STEP;

function isKept(entry) {
  return entry.kind === "plan" && entry.decision === "keep";
}

// Neighbours that keep all sizes become one.
function folded(entries) {
  const found = [];
  for (const entry of [...entries].reverse()) {
    const last = found.at(-1);
    if (isKept(entry) && last && isKept(last[0])) last.push(entry); else found.push([entry]);
  }
  return found;
}

function entryLine(entry) {
  const bad = entry.kind === "rollback" || ["worse", "rolled_back"].includes(entry.verdict);
  const reasons = Object.entries(entry.reasons ?? {});
  const head = [
    element("time", { datetime: new Date(entry.at_seconds * 1e3).toISOString() }, moment(entry.at_seconds, true)),
    element("span", { class: bad ? "tag bad" : "tag" }, KINDS[entry.kind] ?? entry.kind), " ", sentence(entry.words.replace("apply_from_now_on", "apply --from-now-on")),
    entry.times > 1 ? ` ${entry.times} times, the last at ${moment(entry.last_at_seconds)}.` : null,
    entry.by && entry.by !== "spreds" ? element("span", { class: "soft" }, ` By ${entry.by}.`) : null,
  ];
  if (!reasons.length) return head;
  const key = `entry-${entry.at_seconds}-${entry.kind}`;
  return element("details", { "data-key": key }, element("summary", { "data-key": `${key}-summary` }, head),
    element("p", { class: "small" }, reason(entry.reason)),
    element("ul", { class: "small" },
      reasons.map(([name, words]) => element("li", {}, element("b", {}, name), sizesOf(entry, name), ": ", reason(words)))));
}

function sizesOf(entry, name) {
  const before = entry.sizes_before_bytes?.[name], after = entry.sizes_bytes?.[name];
  return before === undefined || after === undefined ? "" : ` ${size(before)} → ${size(after)}`;
}

function keptLine(entries) {
  const first = entries.at(-1), last = entries[0];
  if (entries.length === 1) return entryLine(first);
  const key = `kept-${first.at_seconds}`;
  return element("details", { "data-key": key },
    element("summary", { "data-key": `${key}-summary` },
      element("time", {}, `${moment(first.at_seconds, true)} – ${moment(last.at_seconds)}`),
      element("span", { class: "tag" }, "plans"), ` ${entries.length} plans kept all sizes.`),
    element("ul", { class: "plain small" }, entries.map((entry) => element("li", {}, entryLine(entry)))));
}

function renderDecisions(section, entries) {
  const title = element("h2", { id: "decisions-title" }, "Decisions");
  const groups = folded(entries);
  const lines = groups.slice(0, shownDecisions).map((group) => element("li", {}, isKept(group[0]) ? keptLine(group) : entryLine(group[0])));
  const isMore = groups.length > shownDecisions || entries[0]?.number > 1;
  const more = isMore && element("button", { type: "button", "data-key": "earlier" }, "Show earlier ones");
  if (more) more.addEventListener("click", showEarlier);
  section.replaceChildren(title, ...(lines.length
    ? [element("ol", { class: "plain entries" }, lines), ...(more ? [more] : [])]
    : [element("p", { class: "soft" }, "Nothing has been decided yet.")]));
}

function renderWhatIf(section, status, width) {
  const plan = status.last_plan;
  const title = element("h2", { id: "what-if-title" }, "If the budget were another");
  const budgets = plan?.what_if ?? [];
  const now = plan?.mean_access_time_seconds;
  if (!budgets.length || now === null || now === undefined) {
    section.replaceChildren(title, element("p", { class: "soft" }, "The next plan that predicts access times will tell."));
    return;
  }
  const names = guessed(status);
  if (names.length) {
    section.replaceChildren(title, element("p", { class: "soft" }, `Not known yet: too little is known of ${names.join(", ")} so far.`));
    return;
  }
  const others = budgets.filter((one) => one.budget_bytes !== plan.budget_bytes);
  const rows = [{ ...budgets.find((one) => one.budget_bytes === plan.budget_bytes), budget_bytes: plan.budget_bytes, mean_access_time_seconds: now }, ...others]
    .sort((one, other) => one.budget_bytes - other.budget_bytes);
  section.replaceChildren(title,
    plan.memory_words && element("p", {}, `As its planner says by the curves, ${plan.memory_words}.`),
    element("p", { class: "small soft" }, "The ", term("access time", "mean access time"), " that the last plan ", term("predicted", "predicts"),
      " by the curves, were there so much memory to divide, without the cost of moving, as far as reads have reached. The dot is this budget; the dashed line is what equal sizes would take."),
    budgetChart(rows, plan, width));
}

// Budgets are asked for in parts of this one, so the axis has equal steps for equal factors.
function budgetChart(rows, plan, width) {
  const equal = rows.filter((row) => row.equal_sizes_seconds !== undefined);
  const factor = (row) => Math.log2(row.budget_bytes / plan.budget_bytes);
  const most = Math.max(...rows.map((row) => row.mean_access_time_seconds), ...equal.map((row) => row.equal_sizes_seconds));
  const label = `Mean access time by budget: ${rows.map((row) => `${latency(row.mean_access_time_seconds)} with ${size(row.budget_bytes)}`).join(", ")}.`;
  const low = factor(rows[0]), high = factor(rows.at(-1));
  return chart({
    width, height: 190, label,
    x: { low, high, format: (at) => size(plan.budget_bytes * 2 ** at), ticks: [-2, -1, 0, 1, 2].filter((at) => low - 1e-9 <= at && at <= high + 1e-9) },
    y: { low: 0, high: most, format: latency },
    inside: (across, up) => [
      line(equal.map((row) => [across(factor(row)), up(row.equal_sizes_seconds)]), { stroke: colour(2), "stroke-dasharray": "5 4" }),
      line(rows.map((row) => [across(factor(row)), up(row.mean_access_time_seconds)]), { stroke: colour(0) }),
      dot(across(0), up(plan.mean_access_time_seconds), colour(0), true),
    ],
  });
}
