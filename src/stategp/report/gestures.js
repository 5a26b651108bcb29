// Looking around in a chart: wheel, drag, pinch, keys, and what lies under the pointer.

Object.assign(Chart.prototype, {
  listen() {
    const { canvas, view } = this;
    canvas.addEventListener("wheel", (event) => {
      const out = event.deltaY > 0;
      if (out && !view.zoomed) return;  // nothing left to show: let the page scroll
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(event.deltaX / 800);
      else view.zoom(Math.pow(1.0018, Math.max(Math.min(event.deltaY, 300), -300)), this.at(event.offsetX));
    }, { passive: false });
    canvas.addEventListener("dblclick", () => view.reset());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, event.offsetX);
      const select = event.shiftKey || (!view.zoomed && event.pointerType === "mouse");
      if (this.fingers.size === 1 && select) this.selecting = [this.at(event.offsetX), this.at(event.offsetX)];
      else this.selecting = null;
    });
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.lift(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("blur", () => this.leave());
  },
  key(event) {
    const { view } = this;
    const actions = {
      "+": () => view.zoom(0.7), "=": () => view.zoom(0.7), "-": () => view.zoom(1 / 0.7),
      ArrowLeft: () => view.move(-0.15), ArrowRight: () => view.move(0.15),
      Home: () => view.reset(), Escape: () => view.reset(), 0: () => view.reset(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  },
  moved(event) {
    const { view, fingers } = this, x = event.offsetX;
    if (!fingers.has(event.pointerId)) {
      this.hover(event);
      return;
    }
    const before = fingers.get(event.pointerId);
    if (this.selecting) {
      this.selecting[1] = this.at(Math.min(Math.max(x, this.inner.left), this.inner.right));
      view.changed();
    } else if (fingers.size === 1) {
      view.move((before - x) / (this.inner.right - this.inner.left));
    } else {  // two fingers: what is under them stays under them
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const [was, is] = [Math.abs(before - other), Math.abs(x - other)];
      if (was > 8 && is > 8) view.zoom(was / is, this.at(other));
    }
    fingers.set(event.pointerId, x);
  },
  lift(event) {
    this.fingers.delete(event.pointerId);
    if (!this.selecting) return;
    const [from, to] = this.selecting;
    this.selecting = null;
    if (Math.abs(this.px(to) - this.px(from)) > 6) this.view.set(Math.min(from, to), Math.max(from, to));
    else this.view.changed();
  },
  leave() {
    this.tooltip.hidden = true;
    this.view.hover = null;
    this.view.changed();
  },
  hover(event) {
    const { left, right } = this.inner;
    if (event.offsetX < left || event.offsetX > right) return this.leave();
    const pointed = this.at(event.offsetX);
    const computed = this.line.x[nearest(this.line.x, pointed)];
    // what is said was computed there, unless that is far from the pointer
    const at = Math.abs(this.px(computed) - event.offsetX) <= 40 ? computed : pointed;
    this.view.hover = at;
    this.view.changed();
    this.tooltip.replaceChildren(...this.spec.rows(this, at, pointed).map(([name, value], row) => {
      const line = document.createElement("div"), label = document.createElement("span");
      label.textContent = name;
      if (row === 0) line.className = "when";
      line.append(label);
      if (value !== undefined) {
        const number = document.createElement("b");
        number.textContent = value;
        line.append(number);
      }
      return line;
    }));
    this.tooltip.hidden = false;
    const wide = this.tooltip.offsetWidth, beyond = event.offsetX + 18 + wide > this.size.width;
    this.tooltip.style.left = Math.max(beyond ? event.offsetX - wide - 14 : event.offsetX + 14, 0) + "px";
    this.tooltip.style.top = this.inner.top + 6 + "px";
  },
});
