// Paints maps of a field: every canvas that says which field it shows, for the time of the slider.
const field = JSON.parse(document.getElementById("maps").textContent);
const [across, up] = field.size;
const steps = {};
const colours = {};
for (const which of Object.keys(field.colours)) {
  steps[which] = Uint8Array.from(atob(field[which]), (letter) => letter.charCodeAt(0));
  const anchors = field.colours[which].map((text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)));
  colours[which] = Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (anchors.length - 1), below = Math.min(Math.floor(place), anchors.length - 2);
    return anchors[below].map((part, i) => part + (place - below) * (anchors[below + 1][i] - part));
  });
}
const paint = (canvas, frame) => {
  const which = canvas.dataset.field;
  canvas.width = across;
  canvas.height = up;
  const context = canvas.getContext("2d"), image = context.createImageData(across, up);
  for (let row = 0; row < up; row++) {
    for (let column = 0; column < across; column++) {
      const step = steps[which][(frame * up + (up - 1 - row)) * across + column]; // the first row is the lowest
      image.data.set([...colours[which][step], 255], 4 * (row * across + column));
    }
  }
  context.putImageData(image, 0, 0);
};
const slider = document.getElementById("map-time"), play = document.getElementById("map-play");
const smalls = [...document.querySelectorAll("button[data-map]")];
const show = (frame) => {
  for (const canvas of document.querySelectorAll(".map canvas")) paint(canvas, frame);
  document.documentElement.dataset.frame = frame;
  if (!slider) return;
  slider.value = frame;
  slider.setAttribute("aria-valuetext", field.titles[frame]);
  document.getElementById("map-shown").textContent = field.titles[frame];
  for (const small of smalls) small.setAttribute("aria-pressed", String(Number(small.dataset.map) === frame));
};
for (const canvas of document.querySelectorAll("canvas[data-at]")) paint(canvas, Number(canvas.dataset.at));
if (slider) {
  let running = null;
  const stop = () => {
    clearInterval(running);
    running = null;
    play.setAttribute("aria-pressed", "false");
    play.textContent = "Play";
  };
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  for (const small of smalls) small.addEventListener("click", () => { stop(); show(Number(small.dataset.map)); });
  play.addEventListener("click", () => {
    if (running !== null) { stop(); return; }
    play.setAttribute("aria-pressed", "true");
    play.textContent = "Pause";
    running = setInterval(() => show((Number(slider.value) + 1) % field.titles.length), 350);
  });
}
show(0);
