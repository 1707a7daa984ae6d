// The page: knobs, pointer, files, and what is drawn when.

const $ = (id) => document.getElementById(id);
const KNOBS = [
  ["radius", "spectral radius", 0.01, "how long the past echoes"],
  ["leak", "leak rate", 0.01, "how quick the units are; 1 is quickest"],
  ["ridge", "ridge", 0.05, "how strongly weights are held small"],
  ["units", "units", 1, ""],
  ["input", "input scaling", 0.01, "small: linear, long memory; large: non-linear"],
  ["seed", "seed", 1, "which reservoir is drawn"],
  ["horizon", "horizon (steps)", 5, "how far to forecast"],
  ["washout", "washout (steps)", 5, "steps at the start of a piece that do not count"],
];
const state = { settings: settingsOf(location.hash), series: [], own: false, note: "", version: 0, alone: 0, turns: 0 };
let engine, ink, palette, waiting = false, memoryTimer = 0, memoryDue = 0, addressTimer = 0, columns = new Map(), range = [0, 1];

// A slider for the ridge moves through its exponents.
function toSlider(name, value) {
  return name === "ridge" ? Math.log10(value) : value;
}

function fromSlider(name, value) {
  return name === "ridge" ? Number((10 ** value).toPrecision(3)) : Number(value);
}

function shownValue(name, value) {
  return name === "ridge" ? small(value) : WHOLE.has(name) ? String(value) : value.toFixed(2);
}

// 1.2 × 10⁻⁹
function small(value) {
  if (value === 0 || !Number.isFinite(value)) return value === 0 ? "0" : "–";
  const [digits, power] = value.toExponential(1).split("e");
  const raised = [...power.replace("+", "")].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)]));
  return `${digits} × 10${raised.join("")}`;
}

function makeKnobs() {
  for (const [name, label, step, hint] of KNOBS) {
    const knob = document.createElement("div"), [low, high] = RANGES[name];
    knob.className = "knob";
    knob.innerHTML = `<label for="k-${name}">${label}<output id="o-${name}" for="k-${name}"></output></label>
      <input type="range" id="k-${name}" min="${toSlider(name, low)}" max="${toSlider(name, high)}" step="${step}">
      ${hint ? `<small id="h-${name}">${hint}</small>` : ""}`;
    $("ranges").append(knob);
    const input = $(`k-${name}`);
    if (hint) input.setAttribute("aria-describedby", `h-${name}`);
    input.addEventListener("input", () => change({ [name]: within(name, fromSlider(name, input.value)) }));
  }
  for (const name of TOPOLOGIES) $("topology").add(new Option(name.replace("_", " "), name));
  $("topology").addEventListener("change", () => change({ topology: $("topology").value }));
  $("reset").addEventListener("click", () => { state.alone = 0; change({ ...DEFAULTS }); preset(DEFAULTS.signal); });
}

function showKnobs() {
  const { settings } = state;
  for (const [name] of KNOBS) {
    $(`k-${name}`).value = toSlider(name, settings[name]);
    $(`o-${name}`).textContent = shownValue(name, settings[name]);
    $(`k-${name}`).setAttribute("aria-valuetext", shownValue(name, settings[name]));
  }
  $("topology").value = settings.topology;
  for (const button of $("presets").children)
    button.setAttribute("aria-pressed", String(!state.own && button.dataset.signal === settings.signal));
}

function change(settings) {
  Object.assign(state.settings, settings);
  schedule();
}

function schedule() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}

// The signal -----------------------------------------------------------------------------------

function useSeries(series, own, note = "") {
  state.series = series;
  state.own = own;
  state.note = note;
  state.version++;
  const most = series.length - cutOf(series, state.settings).past;
  $("k-horizon").max = most;
  if (state.settings.horizon > most) state.settings.horizon = most;
  const [low, high] = bounds(series);
  range = [low, high + 0.16 * (high - low)]; // room for the names of clients
  $("column-label").hidden = true;
  schedule();
}

function preset(name) {
  state.settings.signal = name;
  useSeries(SIGNALS[name].make(STEPS), false);
}

function makePresets() {
  for (const name in SIGNALS) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = SIGNALS[name].label;
    button.dataset.signal = name;
    button.addEventListener("click", () => preset(name));
    $("presets").append(button);
  }
}

function say(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = !text;
}

function useColumn(name) {
  const { values, note } = columns.get(name);
  useSeries(values, true, note);
}

function load(text, name) {
  columns = columnsOf(text);
  const names = [...columns.keys()];
  if (!names.length) {
    say(`${name} has no column of at least ${FEWEST_STEPS} different numbers; choose another file.`);
    return;
  }
  say("");
  useColumn(names[0]);
  $("column").replaceChildren(...names.map((one) => new Option(one)));
  $("column-label").hidden = names.length < 2;
}

function makeFiles() {
  const read = async (file) => { if (file) load(await file.text(), file.name); };
  $("file").addEventListener("change", () => read($("file").files[0]));
  $("column").addEventListener("change", () => {
    useColumn($("column").value);
    $("column-label").hidden = false;
  });
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
  addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    read(event.dataTransfer.files[0]);
  });
}

// Draw between the last place of the pointer and this one.
function drawTo(event, last) {
  const box = $("signal").getBoundingClientRect(), wide = box.width - MARGIN.left - MARGIN.right;
  const tall = box.height - MARGIN.top - MARGIN.bottom, n = state.series.length;
  const t = Math.round((event.clientX - box.left - MARGIN.left) / wide * n);
  const share = 1 - (event.clientY - box.top - MARGIN.top) / tall;
  const value = range[0] + Math.min(1, Math.max(0, share)) * (range[1] - range[0]);
  const from = last || { t, value }, steps = Math.max(1, Math.abs(t - from.t));
  for (let k = 0; k <= steps; k++) {
    const at = Math.round(from.t + (t - from.t) * k / steps);
    const drawn = from.value + (value - from.value) * k / steps;
    if (at >= 0 && at < n) state.series[at] = Number(drawn.toPrecision(4));
  }
  state.own = true;
  state.version++;
  schedule();
  return { t, value };
}

function makeDrawing() {
  const canvas = $("signal");
  let last = null, on = false;
  $("draw").addEventListener("click", () => {
    on = $("draw").getAttribute("aria-pressed") !== "true";
    $("draw").setAttribute("aria-pressed", String(on));
    canvas.classList.toggle("drawing", on);
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!on) return;
    canvas.setPointerCapture(event.pointerId);
    state.series = Array.from(state.series);
    last = drawTo(event, null);
  });
  canvas.addEventListener("pointermove", (event) => { if (last) last = drawTo(event, last); });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
}

// The clients ----------------------------------------------------------------------------------

function setOut(out) {
  change({ out });
}

function makeClients() {
  const figure = (name) => {
    const element = document.createElement("figure");
    element.id = `figure-${name}`;
    element.innerHTML = '<canvas role="img"></canvas><canvas class="strip" role="img"></canvas><figcaption></figcaption>';
    return element;
  };
  const sign = (text) => Object.assign(document.createElement("div"), { className: "sign", textContent: text });
  for (let client = 1; client <= CLIENTS; client++) {
    const element = figure(client), tools = document.createElement("div");
    tools.className = "tools";
    tools.innerHTML = `<button type="button" data-out="${client}" aria-pressed="false">take out</button>
      <button type="button" data-alone="${client}" aria-pressed="false" title="show the forecast of this client alone">alone</button>`;
    element.append(tools);
    if (client > 1) $("sums").append(sign("+"));
    $("sums").append(element);
  }
  $("sums").append(sign("="), figure("sum"));
  $("sums").addEventListener("click", ({ target }) => {
    const { out } = state.settings, client = Number(target.dataset.out);
    if (client && out.includes(client)) setOut(out.filter((one) => one !== client));
    else if (client && out.length < CLIENTS - 1) setOut([...out, client].sort());
    if (target.dataset.alone) {
      state.alone = state.alone === Number(target.dataset.alone) ? 0 : Number(target.dataset.alone);
      schedule();
    }
  });
  $("one-by-one").addEventListener("click", oneByOne);
}

function oneByOne() {
  const turns = [[2, 3, 4], [3, 4], [4], []];
  turns.forEach((out, k) => setTimeout(() => setOut(out), 900 * k));
}

function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-300);
}

function showClients(result) {
  const { out } = state.settings, total = engine.sums(TOTAL, result.features);
  const scale = { gram: largest(total.gram), cross: largest(total.cross) };
  const draw = (name, sums, label) => {
    const [square, strip] = $(`figure-${name}`).querySelectorAll("canvas");
    drawSums(square, strip, palette, sums, result.features, scale);
    square.setAttribute("aria-label", `G of ${label}, ${result.features} by ${result.features}`);
    strip.setAttribute("aria-label", `C of ${label}`);
  };
  for (let client = 1; client <= CLIENTS; client++) {
    const sums = engine.sums(client - 1, result.features), element = $(`figure-${client}`);
    draw(client, sums, `client ${client}`);
    element.classList.toggle("is-out", out.includes(client));
    element.querySelector("figcaption").innerHTML =
      `<b class="c${client}">client ${client}</b> ${sums.rows} rows<br>alone: error ${shownError(result.errors[client - 1])}`;
    const [take, alone] = element.querySelectorAll("button");
    take.setAttribute("aria-pressed", String(out.includes(client)));
    take.textContent = out.includes(client) ? "put back" : "take out";
    take.disabled = !out.includes(client) && out.length === CLIENTS - 1;
    alone.setAttribute("aria-pressed", String(state.alone === client));
  }
  const left = engine.sums(result.shown, result.features), minus = out.length ? ` − client ${out.join(", ")}` : "";
  draw("sum", left, "the sum");
  $("figure-sum").querySelector("figcaption").innerHTML =
    `<b class="sum">sum${minus}</b> ${left.rows} rows<br>together: error ${shownError(result.error)}`;
  $("pooled").textContent = small(result.pooled);
  $("subtracted").textContent = out.length ? small(result.subtracted) : "nobody is out";
  const features = result.features, of = (which) => engine.readout(which).weights.subarray(0, features);
  const clients = [1, 2, 3, 4].filter((client) => !out.includes(client)).map((client) => ({ client, weights: of(client - 1) }));
  drawWeights($("weights"), ink, of(out.length ? KEPT : POOLED), clients, of(result.shown));
}

// Showing --------------------------------------------------------------------------------------

function shownError(error) {
  return Number.isFinite(error) ? error.toPrecision(2) : "–";
}

function showForecast(result) {
  const { settings, series, alone } = state;
  const single = alone ? { client: alone, values: engine.numbers(FORECASTS, 8 * MOST_HORIZON)
    .subarray((alone - 1) * MOST_HORIZON, (alone - 1) * MOST_HORIZON + result.horizon) } : null;
  drawForecast($("forecast"), ink, series, result, single);
  $("error").textContent = `error ${shownError(result.error)} standard deviations`;
  const held = result.held < 0 ? "" :
    ` It left the range of the training targets after ${result.held} steps and was held at the limit.`;
  $("forecast-says").textContent = `Closed loop: each prediction is the next input. It starts where the past ends and never sees what came.${held}`;
  $("forecast").setAttribute("aria-label", `Forecast of ${result.horizon} steps, error ${shownError(result.error)} deviations`);
  say(result.solved ? "" : `Ridge ${settings.ridge} is too small for these states: raise it.`);
}

function show() {
  const start = performance.now(), { settings, series } = state;
  const result = engine.update(settings, series, state.version);
  if (result) drawSignal($("signal"), ink, series, result, range);
  if (!result || !(result.deviation > 0)) {
    say(result ? "The past of the signal is constant: there is nothing to learn." : "No spectral radius was found: take another seed.");
    return;
  }
  const computed = performance.now() - start;
  showKnobs();
  $("signal-says").textContent = `${series.length} steps. Each client holds ${result.piece} of the first ${result.past}; the rest is kept back to judge the forecast. ${state.note}`;
  showForecast(result);
  drawScale($("scale"), ink, palette);
  drawStates($("states"), ink, palette, result, settings.units);
  showClients(result);
  $("python").textContent = pythonOf(settings, series, state.own);
  const drawn = performance.now() - start - computed;
  // The first turns are slower, before the browser has compiled all of it.
  if (state.turns++ > 1) $("speed").textContent = `computed in ${computed.toFixed(0)} ms, drawn in ${drawn.toFixed(0)} ms`;
  const numbers = /[#&]numbers\b/.test(location.hash);
  // Browsers refuse to change an address many times a second.
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", (fragmentOf(settings) || "#") + (numbers ? "&numbers" : "")), 350);
  rememberSoon(numbers);
}

// Memory takes as long as all the rest: it follows when the knobs rest, four times a second at most.
function rememberSoon(numbers) {
  const start = performance.now();
  if (!memoryTimer) memoryDue = start + 250;
  clearTimeout(memoryTimer);
  if (state.turns === 1) remember(numbers);
  else memoryTimer = setTimeout(() => remember(numbers), Math.max(0, Math.min(40, memoryDue - start)));
}

function remember(numbers) {
  memoryTimer = 0;
  const memory = engine.memory(state.settings.units);
  drawMemory($("memory"), ink, memory.perDelay);
  $("capacity").textContent = `capacity ${memory.total.toFixed(2)} steps`;
  $("memory").setAttribute("aria-label", `Memory by delay, capacity ${memory.total.toFixed(2)} steps`);
  if (numbers) $("main").dataset.numbers = JSON.stringify(engine.told(state.settings, state.series, state.version));
  $("main").dataset.ready = String(state.version);
}

function restyle() {
  ink = colors();
  palette = ramp(ink);
  schedule();
}

async function copyPython() {
  const text = $("python").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren($("python"));
    document.execCommand("copy");
  }
  $("copied").textContent = "copied";
  setTimeout(() => { $("copied").textContent = ""; }, 2000);
}

async function begin() {
  const bytes = Uint8Array.from(atob(WASM), (letter) => letter.charCodeAt(0));
  const { instance } = await WebAssembly.instantiate(bytes, {});
  engine = new Engine(instance.exports);
  makeKnobs();
  makePresets();
  makeFiles();
  makeDrawing();
  makeClients();
  $("copy").addEventListener("click", copyPython);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  addEventListener("resize", schedule);
  addEventListener("hashchange", () => { state.settings = settingsOf(location.hash); preset(state.settings.signal); });
  restyle();
  preset(state.settings.signal);
}

begin().catch((error) => say(`This browser could not start the page: ${error.message}`));
