// Charts: drawn in pixels of the screen, and again when its width changes.

// --- numbers and scales

function figure(value, percent) {
  if (value === null) return "–";
  if (percent) return `${Number((100 * value).toPrecision(3))} %`;
  const short = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4)
    ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return short.replace(/-/g, "−");
}

function ticks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const places = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) places.push(i === 0 ? 0 : i * step);
  return places;
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// The range of a chart. Diverging fits do not extend it, nor do losses far above those of the
// smallest model and of the fitted one.
function reach(series, losses, fromZero) {
  const sure = data.sure;
  const known = series.flatMap((s) => s.values.filter((v) => v !== null));
  const values = series.flatMap((s) => s.values.filter((v, i) => v !== null && sure[i]));
  if (!values.length) return { low: 0, high: 1, cut: known.length > 0 };
  let [low, high] = [least(values), greatest(values)];
  if (fromZero) low = Math.min(low, 0);
  if (losses) {
    const usual = greatest(series.flatMap((s) => [s.values.find((v) => v !== null), s.values[data.own]]).filter((v) => v != null));
    if (high - low > 4 * (usual - low)) high = low + 2.5 * (usual - low);
  }
  const cut = greatest(known) > high || least(known) < low;
  if (high - low <= 1e-9 * Math.abs(high)) [low, high] = [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(high) / 2 || 0.5)];
  const room = 0.06 * (high - low);
  return { low: fromZero && low === 0 ? 0 : low - room, high: high + room, cut };
}

// Places at least so far apart, in the same order, near to where they were (`spread` in _drawing.py).
function spread(wanted, apart) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b] || a - b);
  const blocks = [];
  for (const i of order) {
    let [mean, size] = [wanted[i], 1];
    while (blocks.length && blocks.at(-1)[0] + blocks.at(-1)[1] * apart > mean) {
      const [last, n] = blocks.pop();
      [mean, size] = [(last * n + (mean - n * apart) * size) / (n + size), n + size];
    }
    blocks.push([mean, size]);
  }
  const placed = [];
  let next = 0;
  for (const [mean, size] of blocks) for (let k = 0; k < size; k++) placed[order[next++]] = mean + k * apart;
  return placed;
}

// The same, moved into a range as far as it has room.
function within(places, apart, low, high) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b] || a - b);
  const moved = [...places];
  let limit = high;
  for (const i of [...order].reverse()) { moved[i] = Math.min(moved[i], limit); limit = moved[i] - apart; }
  limit = low;
  for (const i of order) { moved[i] = Math.max(moved[i], limit); limit = moved[i] + apart; }
  return moved;
}

const shortened = (name, longest) => (name.length <= longest ? name : `${name.slice(0, longest - 1)}…`);

// --- charts over the budgets

const LETTER = 7.4; // pixels, of 12 px text

// The budget at which names of lines are placed: the last one with a finite fit.
const lastKnown = (s) => (s.feature === undefined ? data.budgets.length - 1 : data.sure.lastIndexOf(true));

class Chart {
  // series: [{name, classes, values, errors, feature, labelled}], later ones on top
  constructor(host, series, options) {
    Object.assign(this, { host, series, options, selected: data.own });
    host.addEventListener("click", (event) => select(this.nearest(event)));
    for (const kind of ["pointermove", "pointerdown"]) host.addEventListener(kind, (event) => this.name(this.seriesAt(event)));
    host.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.name(null); });
  }

  // How much room it wants for numbers on its left and names on its right; charts below one another share the most.
  wants() {
    const { tall, losses, fromZero, percent } = this.options;
    const width = this.host.clientWidth;
    const height = Math.round(tall(width));
    const { low, high, cut } = reach(this.series, losses, fromZero);
    const labelled = width >= 520 ? this.series.filter((s) => s.labelled && s.values[lastKnown(s)] !== null) : [];
    const names = labelled.map((s) => shortened(s.name, 20));
    const places = ticks(low, high, height / 48);
    this.plan = { height, low, high, places, labelled, names };
    this.cut = cut;
    return { left: 10 + LETTER * greatest(places.map((v) => figure(v, percent).length)),
      right: names.length ? 34 + LETTER * greatest(names.map((n) => n.length)) : 10 };
  }

  draw(margins) {
    const width = this.host.clientWidth;
    if (!width) return;
    const { percent } = this.options;
    const { height, low, high, places, labelled, names } = this.plan;
    const box = { left: margins.left, right: width - margins.right, top: 18, bottom: height - (this.options.axis ? 40 : 24) };
    const [first, last] = [data.budgets[0], data.budgets.at(-1)];
    this.x = (v) => box.left + 6 + ((v - first) / (last - first)) * (box.right - box.left - 12);
    this.y = (v) => box.bottom - ((v - low) / (high - low)) * (box.bottom - box.top);
    this.box = box;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.options.label });
    root.append(this.wash(box), this.axes(box, places, percent, low, high), this.ownMark(box));
    this.mark = svg("g", { class: "mark" }, svg("line", { x1: 0, x2: 0, y1: box.top - 6, y2: box.bottom }));
    root.append(this.mark);
    const clip = `${this.host.id}-clip`;
    root.append(svg("clipPath", { id: clip }, svg("rect", { x: 0, y: box.top - 8, width, height: box.bottom - box.top + 16 })));
    this.groups = this.series.map((s) => this.line(s));
    root.append(svg("g", { "clip-path": `url(#${clip})` }, ...this.groups), this.labels(labelled, names, box));
    this.tip = svg("text", { class: "tip" });
    root.append(this.tip);
    this.host.replaceChildren(root);
    this.show(this.selected);
  }

  axes(box, places, percent, low, high) {
    const group = svg("g", {});
    for (const v of places) {
      const y = this.y(v);
      group.append(svg("line", { class: v === 0 && low < 0 ? "zero" : "grid", x1: box.left, x2: box.right, y1: y, y2: y }));
      group.append(svg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, figure(v, percent)));
    }
    const [first, last] = [data.budgets[0], data.budgets.at(-1)];
    let along = ticks(first, last, (box.right - box.left) / 56);
    if (data.by === "n_features") along = along.filter(Number.isInteger);
    for (const v of along) group.append(svg("text", { x: this.x(v), y: box.bottom + 18, "text-anchor": "middle" }, figure(v)));
    const middle = (box.left + box.right) / 2;
    if (this.options.axis) group.append(svg("text", { x: middle, y: box.bottom + 35, "text-anchor": "middle" }, data.axis));
    return group;
  }

  // Behind the budgets whose fits diverge.
  wash(box) {
    const x = (i) => (i < 0 ? box.left : i >= data.budgets.length - 1 ? box.right : (this.x(data.budgets[i]) + this.x(data.budgets[i + 1])) / 2);
    return svg("g", {}, ...data.sure.flatMap((sure, i) => (sure ? [] : [svg("rect", { class: "wash", x: x(i - 1),
      y: box.top, width: x(i) - x(i - 1), height: box.bottom - box.top })])));
  }

  ownMark(box) {
    const x = this.x(data.budgets[data.own]);
    return svg("g", {}, svg("line", { class: "own", x1: x, x2: x, y1: box.top - 4, y2: box.bottom }),
      svg("text", { x, y: box.top - 8, "text-anchor": "middle" }, "fitted"));
  }

  line(s) {
    const group = svg("g", { class: `series ${s.classes}` });
    if (s.errors) group.append(this.band(s));
    let path = "";
    let pen = "M";
    s.values.forEach((v, i) => {
      if (v === null) { pen = "M"; return; }
      path += `${pen}${this.x(data.budgets[i]).toFixed(1)} ${this.y(v).toFixed(1)}`;
      pen = "L";
    });
    const dots = data.by === "n_features" && data.budgets.length <= 40;
    const kind = ["curve", s.classes.includes("dashed") ? "dashed" : "", dots || s.classes.includes("other") ? "thin" : ""];
    group.append(svg("path", { class: kind.filter(Boolean).join(" "), d: path }));
    if (dots || data.budgets.length === 1) s.values.forEach((v, i) => {
      if (v !== null && !(s.feature !== undefined && v === 0))
        group.append(svg("circle", { cx: this.x(data.budgets[i]).toFixed(1), cy: this.y(v).toFixed(1), r: s.classes.includes("other") ? 1.5 : 2.75 }));
    });
    return group;
  }

  band(s) {
    const known = s.values.map((_, i) => i).filter((i) => s.values[i] !== null && s.errors[i] !== null);
    const edge = (i, sign) => `${this.x(data.budgets[i]).toFixed(1)} ${this.y(s.values[i] + sign * s.errors[i]).toFixed(1)}`;
    const points = [...known.map((i) => edge(i, 1)), ...known.reverse().map((i) => edge(i, -1))];
    return svg("path", { class: "band", d: points.length ? `M${points.join("L")}Z` : "" });
  }

  labels(labelled, names, box) {
    const group = svg("g", {});
    const ends = labelled.map((s) => Math.min(Math.max(this.y(s.values[lastKnown(s)]), box.top - 8), box.bottom + 8));
    within(spread(ends, 16), 16, box.top - 8, box.bottom + 4).forEach((y, i) => {
      const x = this.x(data.budgets[lastKnown(labelled[i])]) + 4;
      const named = svg("g", { class: labelled[i].classes });
      named.append(svg("path", { class: "leader", d: `M${x} ${ends[i]}L${x + 14} ${y}` }));
      named.append(svg("path", { class: "key", d: `M${x + 14} ${y}h12` }));
      named.append(svg("text", { x: x + 31, y: y + 4 }, names[i]));
      group.append(named);
    });
    return group;
  }

  show(i) {
    this.selected = i;
    if (this.mark) this.mark.style.transform = `translateX(${this.x(data.budgets[i])}px)`;
  }

  place(event) {
    const frame = this.host.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  nearest(event) {
    const [x] = this.place(event);
    const off = data.budgets.map((v) => Math.abs(this.x(v) - x));
    return off.indexOf(Math.min(...off));
  }

  // The series nearest to the pointer, and where: between two budgets on the line that joins them.
  seriesAt(event) {
    const [x, y] = this.place(event);
    let best = null;
    this.series.forEach((s, k) => s.values.forEach((v, i) => {
      if (v === null) return;
      const [x0, y0] = [this.x(data.budgets[i]), this.y(v)];
      const w = s.values[i + 1] ?? null;
      const [x1, y1] = w === null ? [x0, y0] : [this.x(data.budgets[i + 1]), this.y(w)];
      const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
      const part = length ? Math.min(1, Math.max(0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length)) : 0;
      const [px, py] = [x0 + part * (x1 - x0), y0 + part * (y1 - y0)];
      const off = Math.hypot(x - px, y - py) - (s.classes.includes("other") ? 0 : 2);
      if (!best || off < best.off) best = { off, k, x: px, y: py };
    }));
    return best && best.off < 20 ? best : null;
  }

  name(near) {
    this.host.classList.toggle("naming", near !== null);
    this.groups?.forEach((group, k) => group.classList.toggle("near", near !== null && near.k === k));
    if (this.tip) {
      this.tip.textContent = near ? shortened(this.series[near.k].name, 40) : "";
      if (near) {
        const middle = (this.box.left + this.box.right) / 2;
        grow(this.tip, { x: near.x + (near.x > middle ? -10 : 10), y: Math.max(near.y - 10, 12),
          "text-anchor": near.x > middle ? "end" : "start" }, []);
      }
    }
    const feature = near ? this.series[near.k].feature : undefined;
    for (const line of at("features").children)
      line.classList.toggle("near", feature !== undefined && line.dataset.feature === String(feature));
  }

  nameFeature(feature) {
    const k = this.series.findIndex((s) => s.feature === feature);
    const i = k < 0 ? -1 : this.series[k].values.map((v, j) => (v === null ? -1 : j)).filter((j) => j <= this.selected).at(-1) ?? -1;
    this.name(i < 0 ? null : { k, x: this.x(data.budgets[i]), y: this.y(this.series[k].values[i]) });
  }
}

// --- residuals of the selected fit

class Residuals {
  constructor(host, outcome) {
    const size = (outcome.high - outcome.low) / 1000;
    const value = (steps) => outcome.low + steps * size;
    const seen = outcome.predicted.flat();
    Object.assign(this, { host, outcome, value });
    this.across = [value(least(seen)), value(greatest(seen))];
    const off = outcome.predicted.flatMap((row) => row.map((p, i) => Math.abs(outcome.actual[i] - p)));
    this.most = size * Math.max(greatest(off), 1);
  }

  draw() {
    const width = this.host.clientWidth;
    if (!width) return;
    const height = Math.round(Math.min(300, Math.max(220, width * 0.5)));
    const places = ticks(-this.most, this.most, height / 44);
    const left = 10 + LETTER * Math.max(...places.map((v) => figure(v).length));
    const box = { left, right: width - 10, top: 10, bottom: height - 40 };
    const [low, high] = this.across[1] > this.across[0] ? this.across : [this.across[0] - 1, this.across[1] + 1];
    this.x = (v) => box.left + 6 + ((v - low) / (high - low)) * (box.right - box.left - 12);
    this.y = (v) => (box.top + box.bottom) / 2 - (v / this.most) * 0.48 * (box.bottom - box.top);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "Residuals against predictions" });
    for (const v of places) {
      root.append(svg("line", { class: v === 0 ? "zero" : "grid", x1: box.left, x2: box.right, y1: this.y(v), y2: this.y(v) }));
      root.append(svg("text", { x: box.left - 8, y: this.y(v) + 4, "text-anchor": "end" }, figure(v)));
    }
    for (const v of ticks(low, high, (box.right - box.left) / 72))
      root.append(svg("text", { x: this.x(v), y: box.bottom + 18, "text-anchor": "middle" }, figure(v)));
    root.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" }, "Predicted"));
    this.points = svg("g", { class: "points" });
    root.append(this.points);
    this.host.replaceChildren(root);
    this.show(this.selected ?? data.own);
  }

  show(i) {
    this.selected = i;
    if (!this.points) return;
    const radius = this.outcome.shown > 400 ? 1.75 : 2.5;
    this.points.replaceChildren(...this.outcome.predicted[i].map((p, k) => svg("circle", {
      cx: this.x(this.value(p)).toFixed(1), cy: this.y(this.value(this.outcome.actual[k]) - this.value(p)).toFixed(1), r: radius })));
  }
}
