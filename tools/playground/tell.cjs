// Reads a list of fragments as JSON, computes what the page would show, and writes it as JSON:
//   node tell.cjs play.wasm < fragments.json
"use strict";
const fs = require("fs");
const core = require("./core.js");

WebAssembly.instantiate(fs.readFileSync(process.argv[2]), {}).then(({ instance }) => {
  const engine = new core.Engine(instance.exports), told = [];
  for (const fragment of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const settings = core.settingsOf(fragment), series = core.SIGNALS[settings.signal].make(core.STEPS);
    const python = core.pythonOf(settings, series, false);
    told.push({ ...engine.told(settings, series, settings.signal), python, fragment: core.fragmentOf(settings) });
  }
  process.stdout.write(JSON.stringify(told));
});
