// The page: what the file carries becomes charts, and the buttons do something.

const carried = JSON.parse(document.getElementById("carried").textContent);
const arrays = carried.arrays.map(decode);
const unpack = { line: ["x", "y"], fill: ["x", "lower", "upper"], rug: ["x"], dots: [], spans: [], rule: [] };
for (const chart of carried.charts) {
  for (const layer of chart.layers) for (const name of unpack[layer.kind]) layer[name] = arrays[layer[name]];
}
const grid = carried.charts[0].layers.find((layer) => layer.kind === "line").x;
const view = new View(grid[0], grid[grid.length - 1]);
const sayX = (at) => (carried.dates ? sayDate(at, view.width) : sayNumber(at, view.width));

// Observations: all of them, or the range and mean of each of many bins, with the last ones in full.
class Data {
  constructor(packed) {
    this.x = decode(packed.x);
    this.y = decode(packed.y);
    this.bins = packed.bins && Object.fromEntries(
      ["x", "low", "high", "mean", "count"].map((name) => [name, decode(packed.bins[name])]));
    this.half = packed.bins ? packed.bins.width / 2 : 0;
    this.fullFrom = packed.bins ? packed.full_from : -Infinity;
  }
  // What lies between two inputs: single observations if there is room for them, else one entry
  // for each column of pixels. Extremes are never lost.
  columns(from, to, pixels) {
    if (!this.bins || from >= this.fullFrom) {
      const [first, last] = [place(this.x, from), place(this.x, to + 1e-12 * Math.abs(to))];
      if (last - first <= 3 * pixels) {
        return Array.from({ length: last - first }, (_, i) => {
          const y = this.y[first + i];
          return { x: this.x[first + i], low: y, high: y, mean: y, count: 1 };
        });
      }
      return gather(this.x, this.y, this.y, this.y, null, first, last, from, to, pixels);
    }
    const { x, low, high, mean, count } = this.bins;
    const [first, last] = [place(x, from - this.half), place(x, to + this.half)];
    if (last - first <= pixels) {
      return Array.from({ length: last - first }, (_, i) => ({
        x: x[first + i], low: low[first + i], high: high[first + i], mean: mean[first + i],
        count: count[first + i], half: this.half,
      }));
    }
    return gather(x, low, high, mean, count, first, last, from, to, pixels);
  }
}

function gather(x, low, high, mean, count, first, last, from, to, pixels) {
  const columns = [];
  let current = null, number = NaN;
  for (let i = first; i < last; i++) {
    const column = Math.floor(((x[i] - from) / (to - from)) * pixels), weight = count ? count[i] : 1;
    if (column !== number) {
      number = column;
      current = { x: from + ((column + 0.5) / pixels) * (to - from), low: low[i], high: high[i], mean: 0, count: 0 };
      columns.push(current);
    }
    if (low[i] < current.low) current.low = low[i];
    if (high[i] > current.high) current.high = high[i];
    current.mean += (weight * (mean[i] - current.mean)) / (current.count + weight);
    current.count += weight;
  }
  return columns;
}

function range(chart, { x, lower, upper }, at) {
  const height = chart.high - chart.low;
  return sayNumber(interpolate(x, lower, at), height) + " to " + sayNumber(interpolate(x, upper, at), height);
}

// What lies under the pointer: the curves and bands there, and the nearest observation.
function rows(chart, at, pointed) {
  const height = chart.high - chart.low, { layers } = chart.spec;
  const shown = (kind) => layers.filter((layer) => layer.kind === kind && chart.shows(layer.key));
  const said = [[sayX(at)]];
  for (const { name, x, y } of shown("line")) said.push([name || "mean", sayNumber(interpolate(x, y, at), height)]);
  for (const layer of shown("fill")) said.push([layer.name, range(chart, layer, at)]);
  if (shown("dots").length && chart.columns.length) {
    const seen = chart.columns, near = seen[nearest(seen.map((c) => c.x), pointed)];
    if (Math.abs(chart.px(near.x) - chart.px(pointed)) <= 12) {
      said.push(near.count === 1
        ? ["observed " + sayX(near.x), sayNumber(near.mean, height)]
        : [near.count.toLocaleString("en-GB") + " observations", sayNumber(near.low, height) + " to " + sayNumber(near.high, height)]);
    }
  }
  return said;
}

const charts = carried.charts.map(({ id, room, layers }) => {
  const box = document.getElementById(id);
  for (const layer of layers) if (layer.kind === "dots") layer.data = new Data(layer);
  const spec = { room, layers, dates: carried.dates, rows };
  return new Chart(box.querySelector("canvas"), box.querySelector(".tooltip"), view, spec);
});
const [main] = charts;

// The strip below the main chart: the whole series, and the stretch that is shown.
const strip = document.querySelector("#overview canvas");
const whole = new View(...view.whole);
const widest = main.spec.layers.find((layer) => layer.kind === "fill" && layer.shown);
const below = main.spec.layers.filter((layer) => layer === widest || ["spans", "dots", "line"].includes(layer.kind));
const overview = new Chart(strip, document.querySelector("#overview .tooltip"), whole, {
  ...main.spec, layers: below, small: true, rows: () => [],
});
overview.drawAxes = overview.drawGrid = () => {};
overview.drawHover = function () {
  const { pen } = this, { top, bottom, left, right } = this.inner;
  const [from, to] = [this.px(view.from), this.px(view.to)];
  pen.fillStyle = this.colour("veil");
  pen.fillRect(left, top, from - left, bottom - top);
  pen.fillRect(to, top, right - to, bottom - top);
  pen.strokeStyle = this.colour("model");
  pen.lineWidth = 1.5;
  pen.strokeRect(from + 0.75, top + 0.75, Math.max(to - from - 1.5, 1), bottom - top - 1.5);
  pen.fillStyle = this.colour("model");
  for (const x of [from, to]) pen.fillRect(x - 2, (top + bottom) / 2 - 9, 4, 18);
};
overview.measure = function () {
  Chart.prototype.measure.call(this);
  this.inner.top = 3;
  this.inner.bottom = this.size.height - 3;
};
overview.hover = () => {};
overview.leave = () => {};
let held = null;
overview.lift = () => { held = null; };
overview.moved = function (event) {
  const x = event.offsetX, [from, to] = [this.px(view.from), this.px(view.to)];
  const near = (edge) => Math.abs(x - edge) < 8;
  if (held === null || event.buttons === 0) {
    strip.style.cursor = near(from) || near(to) ? "ew-resize" : x > from && x < to && view.zoomed ? "grab" : "crosshair";
    return;
  }
  const at = this.at(x);
  if (held.kind === "move") view.set(held.from + at - held.at, held.to + at - held.at);
  else view.set(Math.min(at, held.fixed), Math.max(at, held.fixed));
};
strip.addEventListener("pointerdown", (event) => {
  const x = event.offsetX, at = overview.at(x), [from, to] = [overview.px(view.from), overview.px(view.to)];
  overview.selecting = null;
  if (Math.abs(x - from) < 8) held = { kind: "edge", fixed: view.to };
  else if (Math.abs(x - to) < 8) held = { kind: "edge", fixed: view.from };
  else if (x > from && x < to && view.zoomed) held = { kind: "move", at, from: view.from, to: view.to };
  else held = { kind: "edge", fixed: at };
});
strip.addEventListener("dblclick", () => view.reset());
view.watchers.push(() => overview.draw());

// What is shown, in words, for those who cannot see it.
const spoken = document.getElementById("shown");
let saying = 0;
view.watchers.push(() => {
  for (const button of document.querySelectorAll("[data-act=out],[data-act=reset]")) button.disabled = !view.zoomed;
  document.documentElement.dataset.from = view.from;
  document.documentElement.dataset.to = view.to;
  clearTimeout(saying);
  saying = setTimeout(() => { spoken.textContent = sayX(view.from) + " to " + sayX(view.to); }, 250);
});

const acts = { in: () => view.zoom(0.5), out: () => view.zoom(2), left: () => view.move(-0.25),
  right: () => view.move(0.25), reset: () => view.reset(), recent: recent };
function recent() {  // the forecast and as much again of the data, twice
  const ahead = view.whole[1] - carried.end;
  view.set(Math.max(carried.end - Math.max(2 * ahead, 0.05 * (carried.end - view.whole[0])), view.whole[0]), view.whole[1]);
}
for (const button of document.querySelectorAll("[data-act]")) {
  button.addEventListener("click", () => acts[button.dataset.act]());
}
for (const entry of document.querySelectorAll("[data-layer]")) {
  const name = entry.dataset.layer;
  entry.setAttribute("aria-pressed", String(!main.hidden.has(name)));
  entry.addEventListener("click", () => {
    if (!main.hidden.delete(name)) main.hidden.add(name);
    entry.setAttribute("aria-pressed", String(!main.hidden.has(name)));
    view.changed();
  });
}
// The forecast, all of it, as a file that spreadsheets read.
const save = document.getElementById("save-forecast");
if (save) {
  save.hidden = false;
  save.addEventListener("click", () => {
    const { label, x, columns } = carried.forecast, names = Object.keys(columns);
    const at = decode(x), values = names.map((name) => decode(columns[name]));
    const quote = (text) => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
    const lines = [[quote(label), ...names].join(",")];
    at.forEach((t, i) => {
      const when = carried.dates ? new Date(Math.round(t)).toISOString().replace("T", " ").replace(/(:00)?\.000Z$|Z$/, "") : String(t);
      lines.push([when, ...values.map((column) => column[i])].join(","));
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "forecast.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
const redraw = () => { for (const watcher of view.watchers) watcher(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
view.changed();
