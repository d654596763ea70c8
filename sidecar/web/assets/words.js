"use strict";
// Numbers as people read them, and what each word of this page means.

const GLOSSARY = {/* glossary */};
let serverOffset = 0; // seconds: the server's clock is ahead of UTC by so much

function term(word, shown) {
  const id = word.replaceAll(" ", "-");
  return element("a", { class: "term", href: `#term-${id}`, title: GLOSSARY[word] }, shown ?? word);
}

function trimmed(number, digits) {
  return String(Number(number.toFixed(digits)));
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  if (bytes >= 2 ** 61) return "2 EiB or more";
  for (const [unit, scale] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (Math.abs(bytes) >= scale) return `${trimmed(bytes / scale, bytes / scale < 10 ? 2 : 1)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

function latency(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds >= 1) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds > 0 && seconds < 1e-6) return "less than 0.001 ms";
  return `${Number((seconds * 1e3).toPrecision(3))} ms`;
}

function percent(ratio, digits = 1) {
  return ratio === null || ratio === undefined ? "unknown" : `${(100 * ratio).toFixed(digits)} %`;
}

function whole(number) {
  return number === null || number === undefined ? "unknown" : Math.round(number).toLocaleString("en");
}

function duration(seconds) {
  const rest = Math.max(0, Math.round(seconds));
  if (rest < 90) return `${rest} s`;
  if (rest < 5400) return `${Math.round(rest / 60)} min`;
  if (rest < 129600) return `${trimmed(rest / 3600, 1)} h`;
  return `${Math.round(rest / 86400)} days`;
}

function moment(seconds, withDay) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "UTC" };
  if (withDay) Object.assign(options, { weekday: "short", day: "numeric", month: "short" });
  return new Date((seconds + serverOffset) * 1e3).toLocaleString("en-GB", options);
}

function when(seconds, now) {
  const age = now - seconds;
  if (age < 0) return `at ${moment(seconds, -age > 80000)}`;
  return `${duration(age)} ago`;
}

function ended(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

const serverNames = new Set(); // of the node: a name stays as it is, also where a sentence begins

function sentence(text) {
  if (!text) return "";
  const isName = serverNames.has(text.split(/[\s:,]/, 1)[0]);
  return ended(isName ? text : text[0].toUpperCase() + text.slice(1));
}

// What follows a reason's last code, as `reason_words` in solver_lambda/documents/words.py has it.
const LEADS = {
  no_eviction: "it does not evict: ", no_model: "no curve can be measured ", refuses: "it refuses: ",
  no_backend_latency: "its backend latency is ", few_samples: "only ",
};

// A reason starts with codes for programs, such as "stays: no_eviction: ".
function reason(text) {
  const [codes] = /^([a-z_]+: )*/.exec(text ?? "");
  const words = (text ?? "").slice(codes.length);
  const lead = LEADS[codes.split(": ").at(-2)] ?? "";
  return sentence(words.startsWith("it ") ? words : lead + words);
}
