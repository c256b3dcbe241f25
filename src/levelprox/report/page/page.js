// The page: the data to draw, and the selection of a budget.

// --- data to draw

const several = data.fits.length > 1;
const charts = [];
let lines = null;
let residuals = null;
const legends = [];

if (several) {
  const series = data.lines.features.map((feature, i) => {
    const colour = data.lines.colours[i];
    return { feature, name: data.features[feature], values: data.lines.values[i], labelled: colour >= 0, colour,
      classes: colour < 0 ? "other" : swatch(colour).replace("swatch ", "") };
  }).sort((a, b) => (a.colour < 0 ? -1 : b.colour) - (b.colour < 0 ? -1 : a.colour) || 0);
  if (series.length) {
    at("lines-section").hidden = false;
    lines = new Chart(at("lines"), series, { tall: (w) => Math.min(400, Math.max(260, 0.6 * w)), axis: true,
      label: `${data.lines.title} of each feature, against the budget` });
    charts.push(lines);
    lines.wants();
    at("lines-caption").textContent = `${data.lines.title}.`
      + (data.lines.left_out ? ` The ${series.length} largest; ${data.lines.left_out} more are not drawn.` : "")
      + " Click to choose a budget; point at a line for its name."
      + (data.sure.includes(false) ? " Shaded: the data are separable, and coefficients have no limit." : "");
  }
  at("charts-section").hidden = false;
  data.charts.forEach((chart, k) => {
    const legend = html("p", { class: "legend" });
    const host = html("div", { class: "chart", id: `chart-${k}` });
    const caption = html("p", { class: "caption" });
    at("charts").append(html("div", { class: "panel" }, legend, host, caption));
    const parts = chart.series.map((s) => ({ ...s, labelled: true, classes: `c${s.colour}` }));
    const made = new Chart(host, parts, { tall: () => (k === data.charts.length - 1 ? 206 : 190), losses: true, fromZero: chart.percent,
      percent: chart.percent, axis: k === data.charts.length - 1, label: `${chart.title}, against the budget` });
    charts.push(made);
    made.wants();
    caption.textContent = made.cut ? "Values far above the others are cut off." : "";
    legends.push((i) => legend.replaceChildren(html("span", { class: "what" }, chart.title), ...parts.map((s) => {
      const error = s.errors && s.errors[i] !== null ? ` ± ${figure(Number(s.errors[i].toPrecision(2)), chart.percent)}` : "";
      return html("span", {}, html("span", { class: `swatch ${s.classes}` }), `${s.name} `, html("b", {}, figure(s.values[i], chart.percent)), error);
    })));
  });
}
if (data.outcome.kind === "residuals") {
  const { shown, all } = data.outcome;
  residuals = new Residuals(at("residuals"), data.outcome);
  at("residuals-caption").textContent = "Actual minus predicted, on the same scale at every budget."
    + (shown < all ? ` ${shown} of ${all} samples.` : "");
}

// --- choosing a budget

let selected = data.own;

function select(i) {
  selected = Math.min(Math.max(i, 0), data.fits.length - 1);
  const fit = data.fits[selected];
  at("slider").value = selected;
  at("slider").setAttribute("aria-valuetext", fit.label);
  at("budget").textContent = fit.label;
  at("which").hidden = selected !== data.own;
  at("own").hidden = selected === data.own;
  at("previous").disabled = selected === 0;
  at("next").disabled = selected === data.fits.length - 1;
  write(selected);
  for (const chart of charts) chart.show(selected);
  residuals?.show(selected);
  for (const legend of legends) legend(selected);
}

at("slider").addEventListener("input", () => select(Number(at("slider").value)));
at("previous").addEventListener("click", () => select(selected - 1));
at("next").addEventListener("click", () => select(selected + 1));
at("own").addEventListener("click", () => { select(data.own); at("slider").focus(); });
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step && event.target === document.body && several && !event.altKey && !event.ctrlKey && !event.metaKey) select(selected + step);
});
at("features").addEventListener("pointerover", (event) => {
  const feature = event.target.closest("tr")?.dataset.feature;
  lines?.nameFeature(feature === undefined ? -1 : Number(feature));
});
at("features").addEventListener("pointerleave", () => lines?.name(null));

at("steps").hidden = !several;
function draw() {
  const wanted = charts.map((chart) => chart.wants());
  const margins = { left: greatest(wanted.map((w) => w.left)), right: greatest(wanted.map((w) => w.right)) };
  for (const chart of charts) chart.draw(margins);
  residuals?.draw();
}
draw();
select(data.own);
let width = document.documentElement.clientWidth;
window.addEventListener("resize", () => {
  if (document.documentElement.clientWidth !== width) { width = document.documentElement.clientWidth; draw(); }
});
