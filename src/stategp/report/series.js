// Numbers: reading what the file carries, finding them, and choosing the ticks of an axis.

function decode(packed) {
  const raw = atob(packed.bytes);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  if (packed.kind === "f8") return new Float64Array(bytes.buffer);
  return Float64Array.from(new Float32Array(bytes.buffer), (value) => value + packed.offset);
}

// The first place in an ordered array whose value is not below the target.
function place(ordered, target) {
  let low = 0, high = ordered.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < target) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearest(ordered, target) {
  const at = place(ordered, target);
  if (at === 0) return 0;
  if (at === ordered.length) return at - 1;
  return target - ordered[at - 1] < ordered[at] - target ? at - 1 : at;
}

function interpolate(x, y, at) {
  const right = Math.min(Math.max(place(x, at), 1), x.length - 1);
  const left = Math.max(right - 1, 0);
  const width = x[right] - x[left];
  const share = width > 0 ? Math.min(Math.max((at - x[left]) / width, 0), 1) : 0;
  return y[left] + share * (y[right] - y[left]);
}

function niceStep(rough) {
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= rough * 0.999) return factor * power;
  return 10 * power;
}

function numberTicks(from, to, most) {
  const step = niceStep((to - from) / Math.max(most, 1));
  if (!(step > 0) || !isFinite(step)) return [];
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) {
    const value = k * step || 0;  // never −0
    const text = Math.abs(value) >= 1e7 || digits > 6
      ? value.toExponential(2)
      : value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    ticks.push({ at: value, text: text.replace("-", "−") });
  }
  return ticks;
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (n) => String(n).padStart(2, "0");
const clock = (d, seconds) => two(d.getUTCHours()) + ":" + two(d.getUTCMinutes()) +
  (seconds ? ":" + two(d.getUTCSeconds()) : "");

// Dates: the tick says what changed; the first one also says what it is part of.
function dateTicks(from, to, most) {
  const rough = (to - from) / Math.max(most, 1);
  if (!(rough > 0)) return [];
  const fixed = [SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE,
    30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
  const step = fixed.find((s) => s >= rough);
  const ticks = [];
  if (step !== undefined) {
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const d = new Date(t), midnight = t % DAY === 0;
      const day = d.getUTCDate() + " " + MONTHS[d.getUTCMonth()];
      const text = step < DAY && !midnight ? clock(d, step < MINUTE) : day;
      const year = ticks.length === 0 || (midnight && d.getUTCMonth() === 0 && d.getUTCDate() === 1);
      const whole = step < DAY && !midnight && ticks.length === 0 ? day + " " + d.getUTCFullYear() + " " + text
        : year ? text + " " + d.getUTCFullYear() : text;
      ticks.push({ at: t, text: whole });
    }
    return ticks;
  }
  const months = [1, 3, 6].find((m) => m * 30.4 * DAY >= rough);
  const years = rough / (365.25 * DAY);
  const stride = months || 12 * ([1, 2, 4, 5, 10, 20, 25, 50].find((n) => n >= years) || niceStep(years));
  const start = new Date(from);
  let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / stride) * stride;
  for (; ; month += stride) {
    const year = Math.floor(month / 12), within = month - 12 * year;
    const d = new Date(0);
    d.setUTCFullYear(year, within, 1);
    if (d.getTime() > to) break;
    if (d.getTime() < from) continue;
    const name = within === 0 ? String(year) : MONTHS[within] + (ticks.length === 0 ? " " + year : "");
    ticks.push({ at: d.getTime(), text: name });
  }
  return ticks;
}

// One value in words, as finely as the width of the view makes sense of.
function sayDate(t, width) {
  const d = new Date(Math.round(t));
  const day = d.getUTCDate() + " " + MONTHS[d.getUTCMonth()] + " " + d.getUTCFullYear();
  return width > 400 * DAY ? day : day + " " + clock(d, width < 6 * HOUR);
}

function sayNumber(value, width) {
  if (!isFinite(value)) return "–";
  const scale = Math.abs(width) || Math.abs(value) || 1;
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(scale)), 0), 8);
  const shown = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en-GB", shown).replace("-", "−");
}
