"use strict";
// What the page computes, without the page: it runs in a browser and under node alike.

const CLIENTS = 4, MOST_UNITS = 200, MOST_STEPS = 4096, MOST_HORIZON = 1024, FEWEST_STEPS = 200;
const STEPS = 1200, DELAYS = 50, BIAS_SCALING = 0.2, HELD_BACK = 0.2;
const TOPOLOGIES = ["random", "ring", "delay_line", "permutation", "orthogonal"];
// Sums and readouts by number, as play.c counts them; 0 to 3 are the clients.
const TOTAL = 4, POOLED = 5, LEFT = 6, KEPT = 7;
const SIGNAL = 0, STATES = 1, FORECASTS = 2, SCALING = 3, PER_DELAY = 4, VALUES = 5, INPUT = 6;
const BIAS = 7, RAW_RADIUS = 8;

const DEFAULTS = {
  signal: "mackey_glass", units: 100, topology: "random", seed: 1, radius: 0.95, leak: 0.5,
  input: 0.5, ridge: 1e-4, washout: 50, horizon: 200, out: [],
};
const RANGES = {
  units: [10, MOST_UNITS], seed: [0, 9999], radius: [0, 1.5], leak: [0.05, 1], input: [0.05, 2],
  ridge: [1e-6, 100], washout: [0, 100], horizon: [10, MOST_HORIZON],
};
const WHOLE = new Set(["units", "seed", "washout", "horizon"]);

// Signals ------------------------------------------------------------------------------------

function rounded(values) {
  return values.map((value) => Math.round(value * 1e6) / 1e6);
}

function slope(x, delayed) {
  const second = delayed * delayed, fourth = second * second;
  return 0.2 * delayed / (1 + fourth * fourth * second) - 0.1 * x;
}

// The steps of catchment.data.mackey_glass, operation by operation.
function mackeyGlass(steps, start = 1.2, warmUp = 500) {
  const h = 0.1, lag = 170, substeps = 10;
  const x = new Array(lag + 1).fill(start), dx = new Array(lag).fill(0);
  for (let j = 0; j < (warmUp + steps - 1) * substeps; j++) {
    const early = x[j], late = x[j + 1], now = x[x.length - 1], k1 = slope(now, early);
    dx.push(k1);
    const bend = j + 1 <= lag ? 0 : 0.125 * h * (dx[j] - dx[j + 1]);
    const middle = 0.5 * (early + late) + bend;
    const k2 = slope(now + 0.5 * h * k1, middle), k3 = slope(now + 0.5 * h * k2, middle);
    const k4 = slope(now + h * k3, late);
    x.push(now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4));
  }
  const out = [];
  for (let i = lag + warmUp * substeps; i < x.length; i += substeps) out.push(x[i]);
  return out;
}

// NARMA of order 10, driven by numbers between 0 and 0.5 of a linear congruence.
function narma(steps) {
  const u = [], y = new Array(10).fill(0);
  let word = 1;
  for (let t = 0; t < steps + 109; t++) {
    word = (Math.imul(1664525, word) + 1013904223) >>> 0;
    u.push(0.5 * word / 4294967296);
  }
  for (let t = 9; t < steps + 109; t++) {
    let sum = 0;
    for (let i = 0; i < 10; i++) sum += y[t - i];
    y.push(0.3 * y[t] + 0.05 * y[t] * sum + 1.5 * u[t - 9] * u[t] + 0.1);
  }
  return y.slice(-steps);
}

function counted(steps, value) {
  return Array.from({ length: steps }, (_, t) => value(t));
}

const SIGNALS = {
  sine: {
    label: "sine",
    make: (n) => rounded(counted(n, (t) => Math.sin(t / 5) + 0.5 * Math.sin(t / 17))),
    python: (n) => `t = np.arange(${n})\nseries = np.round(np.sin(t / 5) + 0.5 * np.sin(t / 17), 6)`,
  },
  mackey_glass: {
    label: "Mackey-Glass",
    make: (n) => rounded(mackeyGlass(n)),
    python: (n) => `series = np.round(mackey_glass(${n}, start=1.2)[:, 0], 6)`,
    from: "from catchment.data import mackey_glass",
  },
  narma: {
    label: "NARMA",
    make: (n) => rounded(narma(n)),
    python: (n) => `word, u, y = 1, [], [0.0] * 10
for t in range(${n + 109}):
    word = (1664525 * word + 1013904223) % 2**32
    u.append(0.5 * word / 2**32)
for t in range(9, ${n + 109}):
    total = 0.0
    for i in range(10):
        total += y[t - i]
    y.append(0.3 * y[t] + 0.05 * y[t] * total + 1.5 * u[t - 9] * u[t] + 0.1)
series = np.round(np.array(y[-${n}:]), 6)`,
  },
  square: {
    label: "square",
    make: (n) => counted(n, (t) => (t % 40 < 20 ? 1 : -1)),
    python: (n) => `series = np.where(np.arange(${n}) % 40 < 20, 1.0, -1.0)`,
  },
};

// The columns of numbers of a CSV file, by name: a first row that is no number names them. Beside the
// values stands what was left out.
function columnsOf(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const mark = ["\t", ";", ","].find((one) => lines[0] && lines[0].includes(one)) || ",";
  const rows = lines.map((line) => line.split(mark).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  const number = (cell) => (cell === undefined || cell === "" ? NaN : Number(cell));
  const named = rows.length > 0 && rows[0].some((cell) => cell !== "" && Number.isNaN(number(cell)));
  const body = rows.slice(named ? 1 : 0), columns = new Map();
  for (let k = 0; rows.length && k < rows[0].length; k++) {
    const values = body.map((row) => number(row[k])).filter(Number.isFinite);
    if (values.length < FEWEST_STEPS || new Set(values).size < 2) continue;
    const skipped = body.length - values.length, notes = [];
    if (skipped) notes.push(`Rows without a number, left out: ${skipped}.`);
    if (values.length > MOST_STEPS) notes.push(`These are the last ${MOST_STEPS} of ${values.length} numbers.`);
    columns.set(named && rows[0][k] ? rows[0][k] : `column ${k + 1}`, { values: values.slice(-MOST_STEPS), note: notes.join(" ") });
  }
  return columns;
}

// Settings -----------------------------------------------------------------------------------

function within(name, value) {
  const [low, high] = RANGES[name], number = WHOLE.has(name) ? Math.round(value) : value;
  return Number.isFinite(number) ? Math.min(high, Math.max(low, number)) : DEFAULTS[name];
}

// "#units=50&seed=1" and so on; what is missing or makes no sense is as it comes.
function settingsOf(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, "")), settings = { ...DEFAULTS };
  for (const name in RANGES) if (given.has(name)) settings[name] = within(name, Number(given.get(name)));
  if (given.get("signal") in SIGNALS) settings.signal = given.get("signal");
  if (TOPOLOGIES.includes(given.get("topology"))) settings.topology = given.get("topology");
  const out = (given.get("out") || "").split(",").map(Number);
  settings.out = [1, 2, 3, 4].filter((client) => out.includes(client)).slice(0, CLIENTS - 1);
  return settings;
}

function fragmentOf(settings) {
  const words = [];
  for (const name in DEFAULTS) {
    const value = name === "out" ? settings.out.join(",") : String(settings[name]);
    if (value !== String(DEFAULTS[name]) && value !== "") words.push(`${name}=${value}`);
  }
  return words.length ? `#${words.join("&")}` : "";
}

// How a series is cut: four equal pieces, and an end that nobody trains on.
function cutOf(series, settings) {
  const past = CLIENTS * Math.floor((1 - HELD_BACK) * series.length / CLIENTS), piece = past / CLIENTS;
  return {
    past, piece,
    horizon: Math.min(settings.horizon, series.length - past),
    washout: Math.min(settings.washout, Math.floor(piece / 2)),
  };
}

// Computing ----------------------------------------------------------------------------------

class Engine {
  constructor(exports) {
    this.exports = exports;
    this.drawn = this.scaled = this.driven = this.remembered = "";
  }

  numbers(what, length) {
    return new Float64Array(this.exports.memory.buffer, this.exports.play_at(what), length);
  }

  // Only what a change touches is computed anew. Returns null if no radius was found.
  update(settings, series, version) {
    const { units, topology, seed, radius, leak, input, ridge } = settings, e = this.exports;
    const cut = cutOf(series, settings), { past, washout, horizon } = cut;
    const drawn = [seed, units, topology].join();
    if (this.drawn !== drawn && !e.play_draw(seed, units, TOPOLOGIES.indexOf(topology))) return null;
    const scaled = [drawn, radius, leak, input].join();
    if (this.scaled !== scaled) e.play_scale(seed, radius, leak, input, BIAS_SCALING);
    const driven = [scaled, version, past, washout].join();
    if (this.driven !== driven) {
      this.numbers(SIGNAL, MOST_STEPS).set(series);
      e.play_drive(past, washout);
    }
    Object.assign(this, { drawn, scaled, driven });
    e.play_solve(ridge, settings.out.reduce((mask, client) => mask | 1 << (client - 1), 0));
    const held = [0, 1, 2, 3, TOTAL, POOLED, LEFT].map((which) => e.play_forecast(which, horizon));
    return this.result(settings, series, cut, held);
  }

  result(settings, series, cut, held) {
    const e = this.exports, features = settings.units + 1;
    const [mean, deviation] = this.numbers(SCALING, 2);
    const forecast = (which) => this.numbers(FORECASTS, 8 * MOST_HORIZON)
      .subarray(which * MOST_HORIZON, which * MOST_HORIZON + cut.horizon);
    const shown = settings.out.length ? LEFT : TOTAL;
    const error = (which) => {
      let sum = 0;
      forecast(which).forEach((value, t) => { sum += (value - series[cut.past + t]) ** 2; });
      return Math.sqrt(sum / cut.horizon) / deviation;
    };
    return {
      ...cut, mean, deviation, features, shown,
      states: this.numbers(STATES, cut.past * MOST_UNITS),
      forecast: forecast(shown),
      errors: [0, 1, 2, 3].map(error), error: error(shown), held: held[shown === LEFT ? 6 : 4],
      solved: this.readout(shown).solved,
      pooled: e.play_difference(TOTAL, POOLED),
      subtracted: settings.out.length ? e.play_difference(LEFT, KEPT) : 0,
    };
  }

  // Rows, sums and products of a client, of the total, or of what is left.
  sums(which, features) {
    const at = this.exports.play_sums(which === LEFT ? 7 : which), most = MOST_UNITS + 1;
    const all = new Float64Array(this.exports.memory.buffer, at, 3 + 2 * most + most * (most + 1) / 2);
    return {
      rows: all[0], feature: all.subarray(3, 3 + features),
      cross: all.subarray(3 + most, 3 + most + features),
      gram: all.subarray(3 + 2 * most, 3 + 2 * most + features * (features + 1) / 2),
    };
  }

  readout(which) {
    const at = this.exports.play_readout(which), most = MOST_UNITS + 1, { buffer } = this.exports.memory;
    const all = new Float64Array(buffer, at, most + 3);
    return {
      weights: all, intercept: all[most], lowest: all[most + 1], highest: all[most + 2],
      solved: new Int32Array(buffer, at + 8 * (most + 3), 1)[0] === 1,
    };
  }

  memorySteps(units) {
    return Math.max(2000, 20 * units);
  }

  memory(units) {
    if (this.remembered !== this.scaled)
      this.capacity = this.exports.play_memory(DELAYS, this.memorySteps(units));
    this.remembered = this.scaled;
    return { perDelay: this.numbers(PER_DELAY, DELAYS), total: this.capacity };
  }

  // Everything that Python can be compared with.
  told(settings, series, version = 0) {
    const result = this.update(settings, series, version), memory = this.memory(settings.units);
    const { features, past } = result, N = settings.units, list = (array) => Array.from(array);
    const readout = (which) => {
      const { weights, intercept } = this.readout(which);
      return { weights: list(weights.subarray(0, features)), intercept };
    };
    return {
      series: list(series), past, horizon: result.horizon, washout: result.washout,
      mean: result.mean, deviation: result.deviation,
      radius: this.numbers(RAW_RADIUS, 1)[0],
      input: list(this.numbers(INPUT, N)), bias: list(this.numbers(BIAS, N)),
      states: [0, 1, Math.floor(past / 2), past - 1].map((t) => ({
        step: t, x: list(result.states.subarray(t * MOST_UNITS, t * MOST_UNITS + N)),
      })),
      clients: [0, 1, 2, 3].map((k) => {
        const { rows, cross, gram } = this.sums(k, features);
        return { rows, cross: list(cross), gram_sum: gram.reduce((a, b) => a + b, 0), ...readout(k) };
      }),
      total: readout(TOTAL), pooled: readout(POOLED), shown: readout(result.shown),
      forecast: list(result.forecast), held: result.held, error: result.error, errors: result.errors,
      differences: [result.pooled, result.subtracted],
      memory: { per_delay: list(memory.perDelay), total: memory.total },
    };
  }
}

// Python -------------------------------------------------------------------------------------

function listed(series) {
  const lines = [];
  for (let k = 0; k < series.length; k += 12) lines.push(`    ${series.slice(k, k + 12).join(", ")},`);
  return `series = np.array([\n${lines.join("\n")}\n])`;
}

// The same computation in catchment, as text.
function pythonOf(settings, series, own) {
  const { past, horizon, washout } = cutOf(series, settings), known = own ? null : SIGNALS[settings.signal];
  const names = settings.out.map((client) => `"client-${client}"`).join(", ");
  const lines = [
    "import numpy as np", "", "import catchment as ct", known && known.from,
    "from catchment_lab import memory_capacity", "",
    known ? known.python(series.length) : listed(Array.from(series)),
    `past, truth = series[:${past}], series[${past}:${past + horizon}]`,
    'clients = {f"client-{k + 1}": [ct.Recording(part)] for k, part in enumerate(np.split(past, 4))}',
    "", "reservoir = ct.EchoState(",
    `    ${settings.units}, seed=${settings.seed}, topology="${settings.topology}",`,
    `    spectral_radius=${settings.radius}, leak_rate=${settings.leak}, input_scaling=${settings.input},`,
    `    bias_scaling=${BIAS_SCALING}, washout=${washout}, grid=None,  # grid=None: float64, as on the page`,
    ")",
    `ridge = ${settings.ridge}`,
    "run = ct.federate(ct.Pipeline(ct.Preprocessing(horizon=1), reservoir), clients, ridge=ridge)",
    "model = run.model",
  ];
  if (names) lines.push(
    "", "# Who leaves is taken out of the sum; the scale stays as it was fitted with them.",
    `rest = {name: data for name, data in clients.items() if name not in {${names}}}`,
    "model = ct.federate(ct.Pipeline(model.preprocessing, reservoir), rest, ridge=ridge).model",
  );
  return [
    ...lines, "", `forecast = model.forecast(past, ${horizon})[:, 0]`,
    "error = np.sqrt(np.mean((forecast - truth) ** 2)) / past.std()",
    `memory = memory_capacity(model.features.reservoir, ${DELAYS}, steps=${Math.max(2000, 20 * settings.units)})`,
    'print(f"error of the forecast {error:.4g}, memory capacity {memory.total:.2f}")', "",
  ].filter((line) => line !== null && line !== undefined).join("\n");
}

if (typeof module !== "undefined") module.exports = { Engine, SIGNALS, STEPS, columnsOf, settingsOf, fragmentOf, pythonOf };
