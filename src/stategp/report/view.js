// The stretch of x that all charts show.

class View {
  constructor(from, to) {
    this.whole = [from, to];
    this.from = from;
    this.to = to;
    this.hover = null;
    this.watchers = [];
    this.waiting = false;
  }
  get width() { return this.to - this.from; }
  get zoomed() { return this.width < 0.9999 * (this.whole[1] - this.whole[0]); }
  set(from, to) {
    const [first, last] = this.whole;
    const width = Math.min(Math.max(to - from, (last - first) * 1e-7), last - first);
    const start = Math.min(Math.max((from + to - width) / 2, first), last - width);
    this.from = start;
    this.to = start + width;
    this.changed();
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(share) { this.set(this.from + share * this.width, this.to + share * this.width); }
  reset() { this.set(...this.whole); }
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const watcher of this.watchers) watcher();
    });
  }
}
