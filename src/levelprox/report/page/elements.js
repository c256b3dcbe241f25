// Elements, and the parts of a fit that the static page also has (_content.py). Names and numbers come from the data and are
// only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// --- elements

function grow(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const html = (tag, attributes = {}, ...children) => grow(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => grow(document.createElementNS(SVG, tag), attributes, children);

// --- the parts of a fit that the static page also has (_content.py)

function tile([name, value, note]) {
  return html("div", { class: "tile" }, html("dt", {}, name), html("dd", { class: "value" }, value),
    html("dd", { class: "note" }, note));
}

const colours = new Map(data.lines.features.map((feature, i) => [feature, data.lines.colours[i]]));

function swatch(colour) {
  return colour < 0 ? "swatch" : `swatch c${colour % 8}${colour >= 8 ? " dashed" : ""}`;
}

function cell([number, part]) {
  if (part === null) return html("td", { class: "number" }, number);
  const bar = svg("rect", { class: part < 0 ? "minus" : "plus", x: Math.min(part, 0), y: 0, width: Math.abs(part), height: 10 });
  const box = svg("svg", { class: "bar", viewBox: "-100 0 200 10", preserveAspectRatio: "none", "aria-hidden": "true" }, bar);
  return html("td", { class: "number with-bar" }, html("div", {}, box, html("span", {}, number)));
}

function row([feature, cells]) {
  const name = html("th", { scope: "row" }, html("span", { class: swatch(colours.get(feature) ?? -1) }),
    html("span", { class: "name", title: data.features[feature] }, data.features[feature]));
  return html("tr", { "data-feature": feature }, name, ...cells.map(cell));
}

function intercept(cells) {
  return html("tr", { class: "intercept" }, html("th", { scope: "row" }, html("span", { class: "swatch" }), "intercept"),
    ...cells.map(cell));
}

const fact = ([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words));

function classes(outcome, i) {
  const head = html("tr", {}, html("th", { scope: "col", class: "corner" }, "actual ↓ predicted →"),
    ...outcome.names.map((name) => html("th", { scope: "col", class: "number", title: name }, name)));
  const rows = outcome.counts[i].map((counts, k) => {
    const total = counts.reduce((a, b) => a + b, 0);
    return html("tr", {}, html("th", { scope: "row", title: outcome.rows[k] }, outcome.rows[k]), ...counts.map((n, j) => {
      const shade = total ? Math.ceil((9 * n) / total) : 0;
      return html("td", { class: `number ${j === k ? "right" : "wrong"} shade-${shade}` }, n);
    }));
  });
  return [html("thead", {}, head), html("tbody", {}, ...rows)];
}

function write(i) {
  const fit = data.fits[i];
  at("tiles").replaceChildren(...fit.tiles.map(tile));
  at("features").replaceChildren(...fit.rows.map(row), ...(fit.intercept.length ? [intercept(fit.intercept)] : []));
  at("left-out").textContent = fit.left_out;
  at("facts").replaceChildren(...fit.facts.map(fact));
  at("status").textContent = fit.status[0];
  at("status").className = `status ${fit.status[1]}`;
  if (data.outcome.kind === "classes") at("classes").replaceChildren(...classes(data.outcome, i));
}
