// One chart on a canvas: what it draws.

class Chart {
  // spec: dates, room, rows(chart, at, pointed), and layers from back to front: each has a kind
  // (spans, fill, dots, line, rule, rug), a colour, a key by which it can be hidden, and a name.
  constructor(canvas, tooltip, view, spec) {
    Object.assign(this, { canvas, tooltip, view, spec });
    this.hidden = new Set(spec.layers.filter((layer) => !layer.shown).map((layer) => layer.key));
    this.line = spec.layers.find((layer) => layer.kind === "line");
    this.fingers = new Map();
    this.selecting = null;
    this.listen();
    view.watchers.push(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // --- geometry
  measure() {
    const box = this.canvas.getBoundingClientRect();
    this.size = { width: box.width, height: box.height };
    const narrow = box.width < 520;
    this.inner = { left: narrow ? 44 : 58, right: box.width - 12, top: 10, bottom: box.height - 26 };
  }
  px(x) {
    const { left, right } = this.inner;
    return left + ((x - this.view.from) / this.view.width) * (right - left);
  }
  py(y) {
    const { top, bottom } = this.inner;
    return bottom - ((y - this.low) / (this.high - this.low)) * (bottom - top);
  }
  at(pixel) {
    const { left, right } = this.inner;
    return this.view.from + ((pixel - left) / (right - left)) * this.view.width;
  }
  visible(x) {
    return [Math.max(place(x, this.view.from) - 1, 0), Math.min(place(x, this.view.to) + 1, x.length)];
  }
  shows(name) { return !this.hidden.has(name); }

  // The heights that are in view: dots and lines in full, fills unless they are far wider.
  fitHeight() {
    let low = Infinity, high = -Infinity;
    const include = (value) => { if (value < low) low = value; if (value > high) high = value; };
    for (const layer of this.spec.layers) {
      if (layer.kind === "line") {
        const [first, last] = this.visible(layer.x);
        for (let i = first; i < last; i++) include(layer.y[i]);
      } else if (layer.kind === "dots" && this.shows(layer.key)) {
        this.columns = layer.data.columns(this.view.from, this.view.to, Math.max(this.inner.right - this.inner.left, 50));
        for (const column of this.columns) { include(column.low); include(column.high); }
      }
    }
    let bottom = low, top = high;
    for (const layer of this.spec.layers) {
      if (layer.kind !== "fill" || !this.shows(layer.key)) continue;
      const [first, last] = this.visible(layer.x);
      for (let i = first; i < last; i++) {
        if (layer.lower[i] < bottom) bottom = layer.lower[i];
        if (layer.upper[i] > top) top = layer.upper[i];
      }
    }
    const room = this.spec.room === null ? Infinity : this.spec.room * (high - low) || 1;
    low = Math.max(bottom, low - room);
    high = Math.min(top, high + room);
    const margin = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1;
    this.low = low - margin;
    this.high = high + margin;
  }

  // --- drawing
  draw() {
    this.measure();
    const { width, height } = this.size;
    if (width === 0 || this.inner.right <= this.inner.left) return;
    const ratio = window.devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== tall) this.canvas.height = tall;
    const pen = (this.pen = this.canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue("--" + name).trim();
    pen.font = "12px " + getComputedStyle(this.canvas).fontFamily;
    this.fitHeight();
    const { left, right, top, bottom } = this.inner;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, bottom - top);
    pen.clip();
    const painters = { spans: this.drawSpans, fill: this.drawFill, dots: this.drawDots, line: this.drawLine, rule: this.drawRule, rug: this.drawRug };
    for (const below of [true, false]) {
      if (!below) this.drawGrid();
      for (const layer of this.spec.layers) {
        if ((layer.kind === "spans") === below && this.shows(layer.key)) painters[layer.kind].call(this, layer);
      }
    }
    this.drawHover();
    pen.restore();
    this.drawAxes();
  }
  ticks() {
    const { left, right, top, bottom } = this.inner;
    const most = Math.max(2, Math.floor((right - left) / (this.size.width < 520 ? 62 : 95)));
    const across = (this.spec.dates ? dateTicks : numberTicks)(this.view.from, this.view.to, most);
    return [across, numberTicks(this.low, this.high, Math.max(2, Math.floor((bottom - top) / 27)))];
  }
  drawGrid() {
    const { pen } = this;
    pen.strokeStyle = this.colour("grid");
    pen.lineWidth = 1;
    pen.beginPath();
    for (const tick of this.ticks()[1]) {
      const y = Math.round(this.py(tick.at)) + 0.5;
      pen.moveTo(this.inner.left, y);
      pen.lineTo(this.inner.right, y);
    }
    pen.stroke();
  }
  drawAxes() {
    const { pen } = this, { left, right, bottom } = this.inner;
    const [across, up] = this.ticks();
    pen.fillStyle = this.colour("muted");
    pen.strokeStyle = this.colour("axis");
    pen.beginPath();
    pen.moveTo(left, bottom + 0.5);
    pen.lineTo(right, bottom + 0.5);
    pen.textBaseline = "top";
    let free = -Infinity;
    for (const tick of across) {
      const x = this.px(tick.at), half = pen.measureText(tick.text).width / 2;
      const centre = Math.min(Math.max(x, left - 30 + half), this.size.width - half);
      pen.moveTo(Math.round(x) + 0.5, bottom);
      pen.lineTo(Math.round(x) + 0.5, bottom + 5);
      if (centre - half < free) continue;
      pen.textAlign = "center";
      pen.fillText(tick.text, centre, bottom + 8);
      free = centre + half + 10;
    }
    pen.stroke();
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const tick of up) pen.fillText(tick.text, left - 8, this.py(tick.at));
  }
  drawSpans(layer) {
    this.pen.fillStyle = this.colour(layer.colour);
    for (const [from, to] of layer.spans) {
      const x = this.px(from);
      this.pen.fillRect(x, this.inner.top, this.px(to) - x, this.inner.bottom - this.inner.top);
    }
  }
  drawFill({ x, lower, upper, colour, shade }) {
    const { pen } = this;
    const [first, last] = this.visible(x);
    pen.beginPath();
    for (let i = first; i < last; i++) pen.lineTo(this.px(x[i]), this.py(upper[i]));
    for (let i = last - 1; i >= first; i--) pen.lineTo(this.px(x[i]), this.py(lower[i]));
    pen.closePath();
    pen.globalAlpha = shade;
    pen.fillStyle = this.colour(colour);
    pen.fill();
    pen.globalAlpha = 1;
  }
  drawLine({ x, y, colour }) {
    const { pen } = this;
    const [first, last] = this.visible(x);
    pen.beginPath();
    for (let i = first; i < last; i++) pen.lineTo(this.px(x[i]), this.py(y[i]));
    pen.strokeStyle = this.colour(colour);
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    // where the line swings faster than pixels, it would hide everything below it
    pen.globalAlpha = last - first > 5 * (this.inner.right - this.inner.left) ? 0.55 : 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }
  drawDots(layer) {
    const { pen, columns } = this;
    const seen = columns.reduce((sum, column) => sum + column.count, 1);
    const size = (this.spec.small ? 0.5 : 1) * Math.min(Math.max(60 / Math.sqrt(seen), 1.6), 3.5);
    pen.fillStyle = this.colour(layer.colour);
    for (const column of columns) {
      const x = this.px(column.x), y = this.py(column.mean);
      if (column.count > 1) {
        const top = this.py(column.high), half = Math.max(0.5, column.half ? this.px(column.x + column.half) - x : 0.5);
        pen.globalAlpha = 0.28;
        pen.fillRect(x - Math.min(half, 4), top, 2 * Math.min(half, 4), Math.max(this.py(column.low) - top, 1));
        pen.globalAlpha = 0.8;
        pen.fillRect(x - 0.8, y - 0.8, 1.6, 1.6);
      } else {
        pen.globalAlpha = 0.72;
        pen.beginPath();
        pen.arc(x, y, size, 0, 2 * Math.PI);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }
  drawRule({ at, colour, name }) {
    const x = this.px(at);
    if (x < this.inner.left || x > this.inner.right) return;
    const { pen } = this;
    pen.strokeStyle = pen.fillStyle = this.colour(colour);
    pen.lineWidth = 1.2;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(x, this.inner.top);
    pen.lineTo(x, this.inner.bottom);
    pen.stroke();
    pen.setLineDash([]);
    pen.textBaseline = "top";
    const fits = this.inner.right - x > 60;
    pen.textAlign = fits ? "left" : "right";
    pen.fillText(name, x + (fits ? 6 : -6), this.inner.top + 2);
  }
  drawRug(layer) {
    const { pen } = this, z = layer.x;
    const [first, last] = this.visible(z);
    pen.strokeStyle = this.colour(layer.colour);
    pen.globalAlpha = last - first > 300 ? 0.4 : 0.9;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (let i = first; i < last; i++) {
      const x = this.px(z[i]);
      pen.moveTo(x, this.inner.bottom);
      pen.lineTo(x, this.inner.bottom - 7);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }
  drawHover() {
    const { pen } = this, { hover } = this.view, { top, bottom } = this.inner;
    if (this.selecting) {
      const [from, to] = this.selecting.map((x) => this.px(x));
      pen.fillStyle = this.colour("select");
      pen.fillRect(Math.min(from, to), top, Math.abs(to - from), bottom - top);
    }
    if (hover === null || hover < this.view.from || hover > this.view.to) return;
    const x = this.px(hover), y = this.py(interpolate(this.line.x, this.line.y, hover));
    pen.strokeStyle = this.colour("muted");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    pen.moveTo(Math.round(x) + 0.5, top);
    pen.lineTo(Math.round(x) + 0.5, bottom);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillStyle = this.colour(this.line.colour);
    pen.beginPath();
    pen.arc(x, y, 3.5, 0, 2 * Math.PI);
    pen.fill();
  }
}
