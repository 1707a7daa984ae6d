// Charts on canvases, with labeled axes, in the colors of the page.

const MARGIN = { left: 52, right: 18, top: 10, bottom: 36 };

function colors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "muted", "line", "grid", "panel", "brand", "forecast", "c1", "c2", "c3", "c4", "low", "middle", "high"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// 256 colors (RGB) from low over the middle to high.
function ramp({ low, middle, high }) {
  const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.length === 4 ? hex[(k + 1) / 2].repeat(2) : hex.slice(k, k + 2), 16));
  const [a, b, c] = [low, middle, high].map(rgb), out = new Uint8ClampedArray(768);
  for (let i = 0; i < 256; i++) {
    const share = Math.abs(i - 127.5) / 127.5, end = i < 128 ? a : c;
    for (let k = 0; k < 3; k++) out[3 * i + k] = b[k] + (end[k] - b[k]) * share;
  }
  return out;
}

// The context of a canvas, cleared, one unit being one CSS pixel.
function context(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = Number(canvas.dataset.height);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const to = canvas.getContext("2d");
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = "12px system-ui, 'Liberation Sans', sans-serif";
  to.lineJoin = "round";
  return { to, width, height };
}

function ticks(from, to, most) {
  const low = Math.min(from, to), high = Math.max(from, to), raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw), found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function tickLabel(value, digits) {
  const text = Math.abs(value) >= 1e5 || digits > 4 ? String(Number(value.toPrecision(3))) : value.toFixed(digits);
  return text.replace(/-/g, "−");
}

// A frame with axes; returns functions from values to places.
function frame(canvas, ink, { x, y, xLabel, yLabel, plainGrid = true }) {
  const { to, width, height } = context(canvas);
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const px = (value) => box.left + (value - x[0]) / (x[1] - x[0]) * (box.right - box.left);
  const py = (value) => box.bottom - (value - y[0]) / (y[1] - y[0]) * (box.bottom - box.top);
  to.fillStyle = ink.muted;
  to.strokeStyle = ink.grid;
  to.lineWidth = 1;
  to.beginPath();
  const across = ticks(x[0], x[1], Math.max(4, width / 110)), up = ticks(y[0], y[1], Math.max(3, height / 55));
  to.textAlign = "center";
  to.textBaseline = "top";
  for (const value of across.found) {
    to.fillText(tickLabel(value, across.digits), px(value), box.bottom + 5);
    if (plainGrid) { to.moveTo(px(value), box.top); to.lineTo(px(value), box.bottom); }
  }
  to.textAlign = "right";
  to.textBaseline = "middle";
  for (const value of up.found) {
    to.fillText(tickLabel(value, up.digits), box.left - 6, py(value));
    if (plainGrid) { to.moveTo(box.left, py(value)); to.lineTo(box.right, py(value)); }
  }
  to.stroke();
  to.textAlign = "center";
  to.textBaseline = "alphabetic";
  to.fillText(xLabel, (box.left + box.right) / 2, height - 4);
  to.save();
  to.translate(12, (box.top + box.bottom) / 2);
  to.rotate(-Math.PI / 2);
  to.fillText(yLabel, 0, 0);
  to.restore();
  return { to, box, px, py };
}

function line(at, values, first, color, thickness = 1.5, dash = []) {
  const { to, box, px, py } = at;
  to.save();
  to.beginPath();
  to.rect(box.left, box.top - 4, box.right - box.left, box.bottom - box.top + 8);
  to.clip();
  to.beginPath();
  values.forEach((value, k) => { if (k) to.lineTo(px(first + k), py(value)); else to.moveTo(px(first), py(value)); });
  to.strokeStyle = color;
  to.lineWidth = thickness;
  to.setLineDash(dash);
  to.stroke();
  to.restore();
}

function bounds(...lists) {
  let low = Infinity, high = -Infinity;
  for (const values of lists) for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const edge = 0.06 * (high - low) || 1;
  return [low - edge, high + edge];
}

function legend(at, entries, ink) {
  const { to, box } = at;
  let x = box.left + 8;
  to.textAlign = "left";
  to.textBaseline = "middle";
  for (const [text, color] of entries) {
    const wide = to.measureText(text).width;
    to.globalAlpha = 0.85;
    to.fillStyle = ink.panel;
    to.fillRect(x - 3, box.top + 1, wide + 26, 16);
    to.globalAlpha = 1;
    to.fillStyle = color;
    to.fillRect(x, box.top + 8, 14, 3);
    to.fillStyle = ink.text;
    to.fillText(text, x + 18, box.top + 9);
    x += wide + 34;
  }
}

function drawSignal(canvas, ink, series, result, range) {
  const at = frame(canvas, ink, { x: [0, series.length], y: range, xLabel: "step", yLabel: "value" });
  const { to, box, px } = at;
  for (let k = 0; k < CLIENTS; k++) {
    const left = px(k * result.piece), right = px((k + 1) * result.piece);
    to.globalAlpha = 0.13;
    to.fillStyle = ink[`c${k + 1}`];
    to.fillRect(left, box.top, right - left, box.bottom - box.top);
    to.globalAlpha = 1;
    to.textAlign = "left";
    to.textBaseline = "top";
    if (right - left > 60) to.fillText(`client ${k + 1}`, left + 4, box.top + 2);
    line(at, series.slice(k * result.piece, (k + 1) * result.piece + 1), k * result.piece, ink[`c${k + 1}`], 1.3);
  }
  line(at, series.slice(result.past), result.past, ink.muted, 1.3);
  to.fillStyle = ink.muted;
  if (box.right - px(result.past) > 70) to.fillText("kept back", px(result.past) + 4, box.top + 2);
  return at;
}

function drawForecast(canvas, ink, series, result, single) {
  const before = Math.min(result.past, 80), first = result.past - before;
  const shown = series.slice(first, result.past + result.horizon);
  const [low, high] = bounds(shown, result.forecast.map((value) => (Number.isFinite(value) ? value : shown[0])));
  const at = frame(canvas, ink, {
    x: [first, result.past + result.horizon], y: [low, high + 0.1 * (high - low)], // room for the legend
    xLabel: "step", yLabel: "value",
  });
  const { to, box, px } = at;
  line(at, shown, first, ink.muted, 1.6);
  if (single) line(at, [series[result.past - 1], ...single.values], result.past - 1, ink[`c${single.client}`], 1.2, [5, 3]);
  line(at, [series[result.past - 1], ...result.forecast], result.past - 1, ink.forecast, 2.2);
  to.strokeStyle = ink.text;
  to.setLineDash([3, 3]);
  to.beginPath();
  to.moveTo(px(result.past - 1), box.top);
  to.lineTo(px(result.past - 1), box.bottom);
  to.stroke();
  to.setLineDash([]);
  const entries = [["what came", ink.muted], ["forecast", ink.forecast]];
  if (single) entries.push([`client ${single.client} alone`, ink[`c${single.client}`]]);
  legend(at, entries, ink);
}

// Numbers (rows, columns) as a picture, each a pixel.
function picture(rows, columns, value, palette, into) {
  if (into.width !== columns || into.height !== rows) { into.width = columns; into.height = rows; }
  const to = into.getContext("2d"), image = to.createImageData(columns, rows), data = image.data;
  for (let i = 0, p = 0; i < rows; i++) for (let j = 0; j < columns; j++, p += 4) {
    const place = 3 * Math.max(0, Math.min(255, Math.round(127.5 + 127.5 * value(i, j))));
    data[p] = palette[place];
    data[p + 1] = palette[place + 1];
    data[p + 2] = palette[place + 2];
    data[p + 3] = 255;
  }
  to.putImageData(image, 0, 0);
}

const offscreen = document.createElement("canvas");

function drawStates(canvas, ink, palette, result, units) {
  const shown = Math.min(result.past, 240), first = result.past - shown;
  const at = frame(canvas, ink, { x: [first, result.past], y: [units, 0], xLabel: "step", yLabel: "unit", plainGrid: false });
  const { to, box } = at;
  picture(units, shown, (i, t) => result.states[(first + t) * MOST_UNITS + i], palette, offscreen);
  to.imageSmoothingEnabled = false;
  to.drawImage(offscreen, box.left, box.top, box.right - box.left, box.bottom - box.top);
  to.strokeStyle = ink.line;
  to.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
}

// What the colors of states mean.
function drawScale(canvas, ink, palette) {
  const { to, width, height } = context(canvas);
  picture(1, 64, (_, j) => j / 31.5 - 1, palette, offscreen);
  to.imageSmoothingEnabled = false;
  to.drawImage(offscreen, 22, 4, width - 44, height - 8);
  to.fillStyle = ink.muted;
  to.textBaseline = "middle";
  to.textAlign = "left";
  to.fillText("−1", 2, height / 2);
  to.textAlign = "right";
  to.fillText("1", width - 6, height / 2);
}

function drawMemory(canvas, ink, perDelay) {
  const at = frame(canvas, ink, {
    x: [0.5, perDelay.length + 0.5], y: [0, 1], xLabel: "delay (steps)", yLabel: "recovered (r²)",
  });
  const { to, px, py, box } = at, wide = Math.max(1, (box.right - box.left) / perDelay.length - 1.5);
  to.fillStyle = ink.brand;
  perDelay.forEach((value, k) => to.fillRect(px(k + 1) - wide / 2, py(value), wide, py(0) - py(value)));
}

// Every weight as a dot: across, what all rows at once give; up, what sums give.
function drawWeights(canvas, ink, reference, clients, ours) {
  const largest = 1.05 * reference.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-300);
  const at = frame(canvas, ink, {
    x: [-largest, largest], y: [-largest, largest],
    xLabel: "weight if all rows were in one place", yLabel: "weight from sums",
  });
  const { to, box, px, py } = at;
  to.save();
  to.beginPath();
  to.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  to.clip();
  to.strokeStyle = ink.muted;
  to.beginPath();
  to.moveTo(px(-largest), py(-largest));
  to.lineTo(px(largest), py(largest));
  to.stroke();
  const dots = (weights, color, size) => {
    to.fillStyle = color;
    reference.forEach((value, k) => {
      to.beginPath();
      to.arc(px(value), py(weights[k]), size, 0, 7);
      to.fill();
    });
  };
  to.globalAlpha = 0.45;
  for (const { client, weights } of clients) dots(weights, ink[`c${client}`], 2);
  to.globalAlpha = 1;
  dots(ours, ink.forecast, 2.6);
  to.restore();
  legend(at, [["sum", ink.forecast], ["client 1", ink.c1], ["2", ink.c2], ["3", ink.c3], ["4", ink.c4]], ink);
}

// G of a client or of the sum, both halves of it, and C below it.
function drawSums(square, strip, palette, { gram, cross }, features, scale) {
  const starts = new Int32Array(features);
  for (let i = 1; i < features; i++) starts[i] = starts[i - 1] + features - i + 1;
  const shade = (value, most) => Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / most));
  const at = (i, j) => (i <= j ? gram[starts[i] + j - i] : gram[starts[j] + i - j]);
  picture(features, features, (i, j) => shade(at(i, j), scale.gram), palette, square);
  picture(1, features, (_, j) => shade(cross[j], scale.cross), palette, strip);
}
