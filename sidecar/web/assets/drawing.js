// Makes elements and charts. Text always becomes a text node: names and reasons come from elsewhere.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 58, right: 14, top: 10, bottom: 26 };

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function colour(place) {
  return `var(--c${place % 8})`;
}

function swatch(place) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = colour(place);
  return made;
}

// Round steps, so many that they do not touch.
function ticks(low, high, most, base = 10) {
  const step = (high - low) / Math.max(1, most) || 1;
  const power = base ** Math.floor(Math.log(step) / Math.log(base));
  const steps = base === 2 ? [1, 2] : [1, 2, 5, 10];
  const round = power * steps.find((factor) => factor * power >= step * 0.999);
  const found = [];
  for (let at = Math.ceil(low / round) * round; at <= high + round / 1e6; at += round) found.push(at);
  return found;
}

function scaled(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

// A path through points, broken where a value is not known.
function path(points) {
  let down = false;
  return points.map(([x, y]) => {
    if (y === null) { down = false; return ""; }
    const step = `${down ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    down = true;
    return step;
  }).join("");
}

// Axes with their ticks; `inside` draws with the two scales. `label` says all in a sentence.
function chart({ width, height, x, y, label, inside }) {
  const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const across = scaled(x.low, x.high, MARGIN.left, right);
  const up = scaled(y.low, y.high, bottom, MARGIN.top);
  const made = drawn("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  for (const at of y.ticks ?? ticks(y.low, y.high, 4, y.base)) {
    made.append(
      drawn("line", { x1: MARGIN.left, x2: right, y1: up(at), y2: up(at), stroke: "var(--line)" }),
      drawn("text", { x: MARGIN.left - 6, y: up(at) + 4, "text-anchor": "end" }, y.format(at)),
    );
  }
  const most = Math.max(2, Math.floor((right - MARGIN.left) / 90));
  for (const at of x.ticks ?? ticks(x.low, x.high, most, x.base)) {
    const place = Math.min(Math.max(across(at), MARGIN.left + 12), right - 18);
    made.append(drawn("text", { x: place, y: height - 7, "text-anchor": "middle" }, x.format(at)));
  }
  made.append(...inside(across, up).filter(Boolean));
  return made;
}

function line(points, attributes) {
  return drawn("path", { d: path(points), fill: "none", "stroke-width": 2, "stroke-linejoin": "round", ...attributes });
}

function meter({ title, value, most, words, place = 0, over = false }) {
  const part = most ? Math.min(1, Math.max(0, value / most)) : 0;
  const bar = drawn("svg", { viewBox: "0 0 100 10", height: 12, preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("rect", { width: 100, height: 10, rx: 1, fill: "var(--track)" }),
    drawn("rect", { width: 100 * part, height: 10, rx: 1, fill: over ? "var(--bad)" : colour(place) }));
  return element("div", { class: "meter" }, element("div", { class: "words" }, element("span", {}, title), element("b", {}, words)), bar);
}
