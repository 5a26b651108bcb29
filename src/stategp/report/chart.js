// One chart on a canvas: what it draws.

class Chart {
  // spec: x, mean, bands [{lower, upper, shade}], colour, data, inducing, gaps, end, dates, rows(at)
  constructor(canvas, tooltip, view, spec) {
    Object.assign(this, { canvas, tooltip, view, spec });
    this.hidden = new Set();
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

  // The heights that are in view: data and mean in full, intervals unless they are far wider.
  fitHeight() {
    const { x, mean, bands, data } = this.spec;
    const [first, last] = this.visible(x);
    let low = Infinity, high = -Infinity;
    const include = (value) => { if (value < low) low = value; if (value > high) high = value; };
    for (let i = first; i < last; i++) include(mean[i]);
    if (data && this.shows("data")) {
      this.columns = data.columns(this.view.from, this.view.to, Math.max(this.inner.right - this.inner.left, 50));
      for (const column of this.columns) { include(column.low); include(column.high); }
    }
    let bottom = low, top = high;
    for (const band of bands) {
      if (!this.shows(band.name)) continue;
      for (let i = first; i < last; i++) {
        if (band.lower[i] < bottom) bottom = band.lower[i];
        if (band.upper[i] > top) top = band.upper[i];
      }
    }
    const room = this.spec.data ? 0.75 * (high - low) || 1 : Infinity;
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
    this.drawGaps();
    this.drawGrid();
    for (const band of this.spec.bands) if (this.shows(band.name)) this.fillBand(band);
    if (this.spec.data && this.shows("data")) this.drawData();
    if (this.shows("mean")) this.strokeLine(this.spec.mean, this.colour(this.spec.colour), 1.6);
    this.drawEnd();
    if (this.spec.inducing && this.shows("inducing")) this.drawInducing();
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
  drawGaps() {
    this.pen.fillStyle = this.colour("gap");
    for (const [from, to] of this.spec.gaps) {
      const x = this.px(from);
      this.pen.fillRect(x, this.inner.top, this.px(to) - x, this.inner.bottom - this.inner.top);
    }
  }
  fillBand(band) {
    const { pen } = this, { x } = this.spec;
    const [first, last] = this.visible(x);
    pen.beginPath();
    for (let i = first; i < last; i++) pen.lineTo(this.px(x[i]), this.py(band.upper[i]));
    for (let i = last - 1; i >= first; i--) pen.lineTo(this.px(x[i]), this.py(band.lower[i]));
    pen.closePath();
    pen.globalAlpha = band.shade;
    pen.fillStyle = this.colour(band.colour || this.spec.colour);
    pen.fill();
    pen.globalAlpha = 1;
  }
  strokeLine(values, colour, thick) {
    const { pen } = this, { x } = this.spec;
    const [first, last] = this.visible(x);
    pen.beginPath();
    for (let i = first; i < last; i++) pen.lineTo(this.px(x[i]), this.py(values[i]));
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.lineJoin = "round";
    // where the line swings faster than pixels, it would hide everything below it
    pen.globalAlpha = last - first > 5 * (this.inner.right - this.inner.left) ? 0.55 : 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }
  drawData() {
    const { pen, columns } = this;
    const seen = columns.reduce((sum, column) => sum + column.count, 1);
    const size = (this.spec.small ? 0.5 : 1) * Math.min(Math.max(60 / Math.sqrt(seen), 1.6), 3.5);
    pen.fillStyle = this.colour("data");
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
  drawEnd() {
    const x = this.px(this.spec.end);
    if (this.spec.end >= this.view.whole[1] || x < this.inner.left || x > this.inner.right) return;
    const { pen } = this;
    pen.strokeStyle = pen.fillStyle = this.colour("forecast");
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
    pen.fillText("forecast", x + (fits ? 6 : -6), this.inner.top + 2);
  }
  drawInducing() {
    const { pen } = this, z = this.spec.inducing;
    const [first, last] = this.visible(z);
    pen.strokeStyle = this.colour("inducing");
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
    const x = this.px(hover), y = this.py(interpolate(this.spec.x, this.spec.mean, hover));
    pen.strokeStyle = this.colour("muted");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    pen.moveTo(Math.round(x) + 0.5, top);
    pen.lineTo(Math.round(x) + 0.5, bottom);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillStyle = this.colour(this.spec.colour);
    pen.beginPath();
    pen.arc(x, y, 3.5, 0, 2 * Math.PI);
    pen.fill();
  }
}
