// Asks the sidecar every few seconds, and shows what it says, or since when it says nothing.

const STATUS_MILLISECONDS = 3000, SLOW_TURNS = 5, LIMIT_MILLISECONDS = 8000;
const known = { status: null, series: null, history: [], askedAt: 0, answeredAt: null, error: null };
const MOST_KEPT = 5000;
const opened = new Map();
let turn = 0, timer = null, drawnFrom = "";

async function get(target) {
  const answer = await fetch(target, { signal: AbortSignal.timeout(LIMIT_MILLISECONDS) });
  if (!answer.ok) throw new Error(`answer ${answer.status}`);
  return answer.json();
}

// Entries by their numbers: a page of them may repeat some, with a higher count.
function keep(entries) {
  const byNumber = new Map([...known.history, ...entries].map((entry) => [entry.number, entry]));
  known.history = [...byNumber.values()].sort((one, other) => one.number - other.number).slice(-MOST_KEPT);
}

async function showEarlier() {
  shownDecisions += DECISIONS_A_STEP;
  try {
    keep(await get(`/api/history?limit=300&before=${known.history[0].number}`));
  } catch (error) {
    known.error = error;
  }
  drawnFrom = "";
  show();
}

async function refresh() {
  clearTimeout(timer);
  try {
    known.status = await get("/api/status");
    if (turn % SLOW_TURNS === 0 || !known.series) {
      known.series = await get("/api/series");
      keep(await get("/api/history?limit=300"));
    }
    turn += 1;
    known.answeredAt = known.status.now_seconds;
    serverOffset = known.status.utc_offset_seconds ?? 0;
    known.error = null;
  } catch (error) {
    known.error = error;
    turn = 0;
  }
  show();
  clearTimeout(timer); // two that were asked for at once must not go on as two
  timer = setTimeout(refresh, STATUS_MILLISECONDS);
}

function show() {
  const lost = known.error !== null;
  document.body.classList.toggle("lost-contact", lost);
  byId("contact").classList.toggle("lost", lost);
  const since = known.answeredAt && moment(known.answeredAt, true);
  byId("contact").textContent = !lost ? `as of ${moment(known.answeredAt)} by the server's clock`
    : since ? `No answer since ${since}. What stands below is from then.` : "No answer from the sidecar yet.";
  if (!known.status) return;
  const width = byId("servers").clientWidth;
  const now = JSON.stringify([known.status, known.series, known.history.at(-1), known.history.length, width]);
  if (!width) return; // not laid out: nobody looks
  const isReading = !(getSelection()?.isCollapsed ?? true);
  if (now === drawnFrom || isReading) return;
  drawnFrom = now;
  keepingPlace(() => render(known.status, width));
}

// What is open stays open, and the keyboard stays where it is.
function keepingPlace(draw) {
  const focused = document.activeElement?.closest("[data-key]")?.dataset.key;
  draw();
  for (const details of document.querySelectorAll("details[data-key]")) {
    const key = details.dataset.key;
    if (opened.has(key)) details.open = opened.get(key);
    details.addEventListener("toggle", () => opened.set(key, details.open));
  }
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function render(status, width) {
  byId("node").textContent = status.node;
  document.title = `SPREDS ${status.node}`;
  serverNames.clear();
  for (const server of status.servers) serverNames.add(server.name);
  renderBanner(byId("banner"), status);
  renderServers(byId("servers"), status, width);
  renderTime(byId("time"), known.series, status, width - 38);
  renderDecisions(byId("decisions"), known.history);
  renderWhatIf(byId("what-if"), status, width - 38);
}

function openTerm() {
  const target = location.hash.startsWith("#term-") && byId(location.hash.slice(1));
  if (!target) return;
  target.closest("details").open = true;
  target.focus();
}

byId("terms").replaceChildren(...Object.entries(GLOSSARY).flatMap(([word, meaning]) => [
  element("dt", { id: `term-${word.replaceAll(" ", "-")}`, tabindex: -1 }, word), element("dd", {}, sentence(meaning))]));
startOrders();
addEventListener("hashchange", openTerm);
addEventListener("resize", show);
document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else refresh(); });
refresh();
