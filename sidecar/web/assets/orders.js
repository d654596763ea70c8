// Orders: with the token if one is typed in, asked about once more, and told what was done.


const ORDERS = [
  { title: "Carry out the last plan", main: true, order: { what: "apply" },
    sure: "The sizes of the last plan are set, once. Later plans are only shown, as long as the mode is to recommend." },
  { title: "Carry out plans from now on", order: { what: "apply_from_now_on" },
    sure: "Each plan that passes all checks is carried out, until somebody says otherwise." },
  { title: "Only recommend", order: { what: "recommend" },
    sure: "The sizes in force stay. Plans are made and shown, and not carried out." },
  { title: "Pause for an hour", order: { what: "pause", for_seconds: 3600 }, sure: "For an hour SPREDS sets no size at all." },
  { title: "Pause until resumed", order: { what: "pause" }, sure: "SPREDS sets no size at all until it is told to resume." },
  { title: "Resume", order: { what: "resume" },
    sure: "A pause ends, and so does a wait after a plan that failed. Servers that were resized by hand are given back to SPREDS." },
  { title: "Roll back the last plan", order: { what: "rollback", to: "last" },
    sure: "The sizes from before the last plan that was carried out are set again, and later plans are only shown." },
  { title: "Roll back to before SPREDS", order: { what: "rollback", to: "installation" },
    sure: "The sizes that were found before SPREDS set any are set again, and SPREDS pauses." },
];

function byId(id) {
  return document.getElementById(id);
}

function tell(text, isBad) {
  byId("ordered").textContent = text;
  byId("ordered").classList.toggle("bad", isBad);
}

async function give(order) {
  const token = byId("token").value.trim();
  const table = { ...order };
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  for (const key of ["by", "why"]) {
    if (byId(key).value.trim()) table[key] = byId(key).value.trim();
  }
  try {
    const answer = await fetch("/api/orders", {
      method: "POST", body: JSON.stringify(table), signal: AbortSignal.timeout(60000), headers,
    });
    const words = await answer.json();
    tell(answer.ok ? `Done: ${words.done}` : `Not done: ${words.error}`, !answer.ok);
  } catch (error) {
    tell(`No answer to the order, so look whether it was carried out: ${error.message}`, true);
  }
  turn = 0; // what was decided is asked for at once
  refresh();
}

// Which sizes the last plan would set, so that nobody agrees to what he has not seen.
function changes() {
  const changing = (known.status?.servers ?? []).filter(
    (server) => server.recommended_bytes && server.recommended_bytes !== server.maxmemory_bytes);
  return element("ul", {}, changing.map((server) => element("li", {},
    `${server.name}: from ${size(server.maxmemory_bytes)} to ${size(server.recommended_bytes)}`)));
}

function askFor({ title, order: asked, sure }) {
  // The plan that is shown, and no other that has come until the answer.
  const shown = asked.what.startsWith("apply") ? known.status?.last_plan?.cycle : undefined;
  const order = shown === undefined ? asked : { ...asked, plan: shown };
  const dialog = byId("sure");
  byId("sure-title").textContent = `${title}?`;
  byId("sure-text").replaceChildren(element("p", {}, sure), order.what.startsWith("apply") ? changes() : "");
  byId("sure-yes").onclick = () => { dialog.close(); give(order); };
  byId("sure-no").onclick = () => dialog.close();
  dialog.showModal();
  byId("sure-no").focus();
}

function startOrders() {
  byId("buttons").replaceChildren(...ORDERS.map((item) => {
    const made = element("button", { type: "button", class: item.main ? "main" : null, "data-order": `${item.order.what}-${item.order.to ?? item.order.for_seconds ?? ""}` }, item.title);
    made.addEventListener("click", () => askFor(item));
    return made;
  }));
}
