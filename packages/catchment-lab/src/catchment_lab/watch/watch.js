// Draws what the server sends. Names and reasons come from clients: they only ever become text.
"use strict";

const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let last = null;

function el(tag, kind, ...inside) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...inside);
  return made;
}

// Somebody's own words, kept from turning the direction of the words around them.
const theirs = (text) => el("bdi", "", text);

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The figure "worst client" is by the metric of the figure beside it.
function isShare(name, beside = []) {
  return /accuracy|macro F1/.test(name) || (name === "worst client" && beside.some((other) => /accuracy/.test(other)));
}

function digits(value, n = 4) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(n)));
}

function figure(name, value, beside = []) {
  if (value === null || value === undefined) return "-";
  return isShare(name, beside) ? `${(100 * value).toFixed(1)} %` : digits(value);
}

function bytes(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} GB`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} MB`;
  if (count >= 1e3) return `${(count / 1e3).toFixed(0)} kB`;
  return `${count} B`;
}

function lasting(seconds, over = false) {
  const s = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${over ? seconds.toFixed(1) : s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
}

const total = (byStage) => Object.values(byStage || {}).reduce((a, b) => a + b, 0);

function drawHead(run) {
  const facts = run.facts || {};
  at("main").dataset.state = run.state;
  at("title").textContent = facts.title || run.folder;
  at("about").textContent = [run.folder, facts.algorithm, facts.engine].filter(Boolean).join(" · ");
  at("state").textContent = run.state;
  at("says").textContent = run.says;
  const now = run.stages.find((stage) => stage.state === "now");
  const where = now ? (now.rounds > 1 ? `${now.name} ${now.finished + 1}/${now.rounds}` : now.name) : run.state;
  document.title = `${where} · ${facts.title || run.folder}`;
}

function share(stage, progress) {
  if (stage.state === "done") return 1;
  if (!stage.rounds) return 0;
  const here = progress && progress.stage === stage.name && progress.round === stage.finished;
  const part = here && progress.asked ? progress.done / progress.asked : 0;
  return Math.min(1, (stage.finished + part) / stage.rounds);
}

function stageWords(stage, progress) {
  if (stage.state === "now" && progress && progress.stage === stage.name && progress.asked) {
    const round = stage.rounds > 1 ? `round ${progress.round + 1} of ${stage.rounds}, ` : "";
    return `${round}${progress.done} of ${progress.asked} clients`;
  }
  if (stage.state === "now" && stage.rounds > 1) return `round ${stage.finished + 1} of ${stage.rounds}`;
  if (stage.state === "done" && stage.finished > 1) return `${stage.finished} rounds`;
  if (stage.state === "cut short" && stage.rounds > 1) return `cut short after ${stage.finished} of ${stage.rounds} rounds`;
  return stage.state;
}

function drawStages(run) {
  at("stages").replaceChildren(...run.stages.map((stage) => {
    const bar = el("i"), item = el("li", stage.state.split(" ")[0]);
    bar.style.width = `${100 * share(stage, run.progress)}%`;
    item.append(el("div", "track", bar), el("b", "", stage.name), el("span", "", stageWords(stage, run.progress)));
    if (stage.state === "now") item.setAttribute("aria-current", "step");
    return item;
  }));
}

function tile(id, value, says, of) {
  const big = el("b", "", value);
  if (of) big.append(el("span", "of", ` ${of}`));
  const made = el("div", "tile", big, el("span", "", ...[].concat(says)));
  made.id = `tile-${id}`;
  return made;
}

function clientsTile(run) {
  const now = run.progress, round = run.rounds[0];
  const open = now && now.asked && run.stages.some((s) => s.state === "now" && s.name === now.stage);
  const trained = run.rounds.find((one) => one.stage === "training");
  if (run.state === "finished" && trained) return tile("clients", String(trained.used), "clients in the last round of the training", `of ${trained.asked}`);
  if (open) return tile("clients", String(now.done), "clients answered in this round", `of ${now.asked}`);
  if (round) return tile("clients", String(round.used), `clients used in the last round (${round.stage})`, `of ${round.asked}`);
  return tile("clients", "-", "clients answered");
}

function drawTiles(run) {
  if (!run.stages.length) return at("tiles").replaceChildren();
  const training = run.stages.find((stage) => stage.name === "training");
  const refused = total(run.refused), tiles = [];
  for (const [metric, value] of Object.entries(run.scores || {})) {
    if (metric !== run.metric || value === null) continue;
    tiles.push(tile("score", figure(metric, value), `${metric} of all test rows`));
    if (run.worst) {
      tiles.push(tile("worst", figure(metric, run.worst[1]), ["worst client: ", theirs(run.worst[0])]));
    }
  }
  if (training) {
    const planned = training.rounds ? `of ${training.rounds}` : "";
    tiles.push(tile("rounds", String(training.finished), "training rounds finished", planned));
  }
  tiles.push(clientsTile(run));
  tiles.push(tile("up", bytes(total(run.bytes_up)), "sent up by clients"));
  tiles.push(tile("down", bytes(total(run.bytes_down)), "sent down to clients"));
  tiles.push(tile("refused", String(refused), "answers not used"));
  for (const held of run.bounds) {
    const says = `epsilon at most, per ${held.unit} in ${held.stage}, delta ${digits(held.delta)}, ${held.made} of ${held.releases} releases`;
    tiles.push(tile("epsilon", digits(held.epsilon, 3), says));
  }
  const facts = run.facts || {};
  if (facts.started) tiles.push(tile("time", "", facts.finished ? "in total" : "since it started"));
  at("tiles").replaceChildren(...tiles);
  tick();
}

function tick() {
  const facts = (last && last.facts) || {}, shown = at("tile-time");
  if (!shown || !facts.started) return;
  const over = { finished: Date.parse(facts.finished) / 1000, stopped: last.seen, failed: last.seen }[last.state];
  shown.firstChild.textContent = lasting((over || Date.now() / 1000) - Date.parse(facts.started) / 1000, last.state === "finished");
}

function steps(low, high, n, whole) {
  const rough = (high - low) / n || 1, unit = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((m) => m * unit).reduce((a, b) => Math.abs(b - rough) < Math.abs(a - rough) ? b : a);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

function limits(name, values) {
  let low = Math.min(...values), high = Math.max(...values);
  if (/^(clients used|bytes up)$/.test(name)) return [0, high * 1.05 || 1];
  const room = 0.08 * (high - low) || 0.05 * Math.abs(high) || 0.5;
  low = low >= 0 ? Math.max(0, low - room) : low - room;
  high = isShare(name) ? Math.min(1, high + room) : high + room;
  return [low, high > low ? high : low + 1];
}

function drawChart(series) {
  const points = series.rounds.map((r, k) => [r + 1, series.values[k]]).filter((p) => p[1] !== null);
  const [low, high] = limits(series.name, points.map((p) => p[1]));
  const left = 64, right = 380, top = 10, bottom = 168;
  const first = points[0][0], final = Math.max(points[points.length - 1][0], first + 1);
  const x = (r) => left + (right - left) * (r - first) / (final - first);
  const y = (v) => bottom - (bottom - top) * (v - low) / (high - low);
  const word = series.name === "bytes up" ? bytes : (v) => figure(series.name, v);
  const chart = svg("svg", { viewBox: "0 0 400 200", class: "chart", role: "img" });
  const end = points[points.length - 1];
  chart.append(svg("title", {}, `${series.name}: ${word(end[1])} after round ${end[0]}`));
  for (const v of steps(low, high, 4, series.name === "clients used")) {
    chart.append(svg("line", { x1: left, x2: right, y1: y(v), y2: y(v), class: "grid" }));
    chart.append(svg("text", { x: left - 6, y: y(v) + 4.5, "text-anchor": "end", class: "muted" }, word(v)));
  }
  for (const r of steps(first, final, 5, true)) {
    chart.append(svg("text", { x: x(r), y: bottom + 20, "text-anchor": "middle", class: "muted" }, r));
  }
  chart.append(svg("polyline", { class: "s0", points: points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ") }));
  chart.append(svg("circle", { class: "s0", cx: x(end[0]), cy: y(end[1]), r: 3.5 }));
  const where = series.stage === "training" ? "" : `, ${series.stage}`;
  const caption = el("figcaption", "", `${word(end[1])} after round ${end[0]}${where}`);
  return el("figure", "", el("h3", "", series.name), chart, caption);
}

function drawCharts(run) {
  const worth = run.series.filter((series) => {
    const known = series.values.filter((value) => value !== null);
    const flat = new Set(known).size < 2 && /^(clients used|bytes up)$/.test(series.name);
    return known.length > 1 && !flat;
  });
  at("charts").replaceChildren(...worth.map(drawChart));
}

const cell = (kind, ...inside) => el("td", kind, ...inside);

function drawRefusals(run) {
  at("refused").hidden = !run.refusals.length;
  const codes = Object.entries(run.refused || {}).map(([code, count]) => `${code}: ${count}`);
  const shown = run.refusals.reduce((sum, one) => sum + one.times, 0);
  const more = total(run.refused) > shown ? `; those of the latest ${run.refusals.length} reasons are shown` : "";
  at("codes").textContent = codes.join(", ") + more;
  at("refusals").replaceChildren(...run.refusals.map((one) => el("tr", "",
    cell("who", theirs(one.client)), cell("", one.stage), cell("n desk", String(one.round + 1)), cell("n", String(one.times)),
    cell("why", theirs(one.reason)))));
}

function drawRounds(run) {
  at("latest").hidden = !run.rounds.length;
  const all = total(run.n_rounds), shown = run.rounds.length;
  at("many").textContent = all > shown ? `The latest ${shown} of ${all}.` : "";
  at("rounds").replaceChildren(...run.rounds.map((one) => {
    const names = Object.keys(one.figures);
    const after = names.map((name) => `${name} ${figure(name, one.figures[name], names)}`).join(", ");
    return el("tr", "", cell("", one.stage), cell("n", String(one.round + 1)), cell("n", `${one.used} of ${one.asked}`),
      cell("after", after), cell("n", bytes(one.bytes_up)), cell("n desk", bytes(one.bytes_down)), cell("n desk", one.seconds.toFixed(2)));
  }));
}

function draw(run) {
  last = run;
  drawHead(run);
  drawStages(run);
  drawTiles(run);
  drawCharts(run);
  drawRefusals(run);
  drawRounds(run);
}

const events = new EventSource("events");
events.onmessage = (event) => draw(JSON.parse(event.data));
events.onopen = () => { at("main").dataset.live = "yes"; at("lost").hidden = true; };
events.onerror = () => {
  at("main").dataset.live = "no";
  at("lost").hidden = false;
};
setInterval(tick, 1000);
