"""Our C of a linear model beside m2cgen's and emlearn's: flash, RAM, time and agreement.

    python -m venv peers && peers/bin/pip install m2cgen==0.10.0 emlearn==0.23.2 scikit-learn
    python -m benchmarks.edge_peers --peers peers/bin/python

One ridge classifier of scikit-learn, its numbers in all of them. Neither m2cgen nor emlearn
computes features, so what is compared takes a row of them; ours is then
`NVAR(delays=1, order=1)`, which hands inputs on. Flash and RAM are those of a program linked for a
Cortex-M4F with -Os, less those of a program that does nothing, so that what a model needs of libgcc
and libm counts. RAM is static RAM and the stack of the deepest function. Time is a prediction's on
this machine, with -O2.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from benchmarks import record
from catchment import Array
from catchment.data import synthetic_wearables
from catchment.features import Pipeline
from catchment.readout import Model, Readout
from catchment_edge import c_code

SIDE = Path(__file__).parent / "edge_peers_side.py"
ARM = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
LINKED = ("-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-Wl,-emain")
CALLS, TESTED = 200_000, 64
FEW = 20  # features of the smaller model
NOTHING = "int main(void) { for (;;) ; }"


@dataclass(frozen=True)
class Form:
    """A model in C: its files, and how a program calls it."""

    name: str
    sources: tuple[str, ...]
    head: str
    value: str  # C type of a feature
    score: str  # C type of a score
    call: str  # with x a row of features and out the scores


def forms(n_features: int, n_outputs: int) -> list[Form]:
    return [
        Form(
            "catchment, whole",
            ("integers.c",),
            '#include "integers.h"\nstatic struct integers_state state;',
            "integers_value",
            "float",
            "integers_step(&state, x, out);",
        ),
        Form(
            "m2cgen",
            ("m2cgen_model.c",),
            "void score(double *input, double *output);",
            "double",
            "double",
            "score(x, out);",
        ),
        Form(
            "emlearn",
            (),
            '#include "emlearn_model.h"',
            "float",
            "float",
            f"emlearn_model_regress(x, {n_features}, out, {n_outputs});",
        ),
    ]


def program(form: Form, X: Array, n_outputs: int, *, timed: bool) -> str:
    """Return a program: on this machine it writes scores and times, on the board it predicts."""
    if not timed:
        return f"""{form.head}
volatile {form.value} sensor[{X.shape[1]}];
volatile {form.score} result;
int main(void)
{{
    {form.value} x[{X.shape[1]}];
    {form.score} out[{n_outputs}] = {{0}};
    for (int i = 0; i < {X.shape[1]}; i++)
        x[i] = sensor[i];
    {form.call}
    for (int k = 0; k < {n_outputs}; k++)
        result = out[k];
    for (;;)
        ;
}}
"""
    rows = ",\n".join("{" + ", ".join(repr(float(v)) for v in row) + "}" for row in X)
    return f"""#include <stdio.h>
#include <time.h>
{form.head}
static {form.value} rows[{len(X)}][{X.shape[1]}] = {{ {rows} }};
int main(void)
{{
    {form.score} out[{n_outputs}] = {{0}};
    volatile {form.score} sink = 0;
    clock_t began;
    for (int r = 0; r < {len(X)}; r++) {{
        {form.value} *x = rows[r];
        {form.call}
        for (int k = 0; k < {n_outputs}; k++)
            printf("%.17g ", (double)out[k]);
    }}
    began = clock();
    for (long c = 0; c < {CALLS}; c++) {{
        {form.value} *x = rows[c % {len(X)}];
        {form.call}
        sink += out[0];
    }}
    printf("%.17g\\n", (double)(clock() - began) / CLOCKS_PER_SEC / {CALLS});
    return 0;
}}
"""


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def on_board(text: str, sources: list[Path], include: list[str], folder: Path) -> tuple[int, int]:
    """Return flash and RAM in bytes of a program linked for the board."""
    main, made = folder / "board.c", folder / "board.elf"
    main.write_text(text)
    for old in folder.glob("*.su"):
        old.unlink()
    options = ["-nostartfiles", "-specs=nano.specs", "-specs=nosys.specs", "-fstack-usage"]
    files = [str(main), *map(str, sources)]
    run([*ARM, *LINKED, *options, *include, *files, "-o", str(made), "-lm"])
    text_, data, bss = map(int, run(["arm-none-eabi-size", str(made)]).splitlines()[1].split()[:3])
    usage = [path.read_text() for path in folder.glob("*.su")]
    deepest = max(int(n) for one in usage for n in re.findall(r"\t(\d+)\t", one))
    return text_ + data, data + bss + deepest


def measured(
    form: Form, X: Array, scores: Array, include: list[str], folder: Path
) -> dict[str, Any]:
    sources = [folder / name for name in form.sources]
    K = scores.shape[1]
    nothing = on_board(NOTHING, [], [], folder)
    flash, ram = on_board(program(form, X, K, timed=False), sources, include, folder)
    here, made = folder / "here.c", folder / "here"
    here.write_text(program(form, X, K, timed=True))
    run(["gcc", "-O2", *include, str(here), *map(str, sources), "-o", str(made), "-lm"])
    times = []
    for _ in range(5):
        *numbers, seconds = map(float, run([str(made)]).split())
        times.append(seconds)
    found = np.array(numbers).reshape(scores.shape)
    return {
        "flash": flash - nothing[0],
        "ram": ram - nothing[1],
        "microseconds": round(1e6 * min(times), 3),
        "largest difference of a score": float(f"{np.abs(found - scores).max():.1e}"),
        "same class": float((found.argmax(axis=1) == scores.argmax(axis=1)).mean()),
    }


def linear(weights: Array, intercept: Array, X: Array, grid: int) -> Model:
    """Return a model that hands its inputs to a readout with scikit-learn's numbers."""
    before = Pipeline(ct.Preprocessing(gaps="error", scale="none"), ct.NVAR(1, order=1, bits=grid))
    K = weights.shape[1]
    trained = ct.fit(before, [ct.Recording(X, np.zeros((len(X), K)))], ridge=1.0)
    padded = np.vstack([np.zeros((1, K)), weights])  # the map's first feature is a constant
    return replace(trained, readout=Readout(padded, intercept, 1.0), statistics=None)


def rows() -> tuple[Array, Array, list[ct.Recording]]:
    """Return window statistics of wearables, of deviation 1 and within 4, and their classes."""
    people = synthetic_wearables(8, windows_per_user=60, steps=64, seed=0)
    every = [one for some in people.values() for one in some]
    features = ct.WindowStatistics(bits=None).build(6, per_step=False)
    scaled = ct.Preprocessing(scale="own").apply(every)
    X = np.concatenate(features.rows([one.u for one in scaled]))
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    X = np.clip((X - X.mean(axis=0)) / spread, -4, 4)
    return X, np.array([int(np.argmax(np.asarray(one.y))) for one in every]), every


def compare(X: Array, y: Array, peers: str) -> tuple[dict[str, Any], dict[str, str]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.savez(folder / "rows.npz", X=X, y=y, tested=X[:TESTED])
        run([peers, "-W", "ignore", str(SIDE), str(folder / "rows.npz"), place])
        told = json.loads((folder / "told.json").read_text())
        with np.load(folder / "scikit.npz") as theirs:
            weights, intercept, scores = theirs["weights"], theirs["intercept"], theirs["scores"]
        c_code(linear(weights, intercept, X, 20), name="integers").write(folder)
        include = [f"-I{folder}", f"-I{told['include']}"]
        found = {
            form.name: measured(form, X[:TESTED], scores, include, folder)
            for form in forms(X.shape[1], scores.shape[1])
        }
    return found, told["versions"]


def from_samples(every: list[ct.Recording]) -> dict[str, Any]:
    """Return what ours needs from raw samples to classes, which the others do not have."""
    model = ct.fit(Pipeline(ct.Preprocessing(window=64), ct.WindowStatistics()), every, ridge=1.0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source, _ = c_code(model, name="whole_way").write(folder)
        form = Form(
            "",
            (),
            '#include "whole_way.h"\nstatic struct whole_way_state state;',
            "whole_way_value",
            "float",
            "whole_way_step(&state, x, out);",
        )
        text = program(form, every[0].u, model.n_outputs, timed=False)
        flash, ram = on_board(text, [source], [f"-I{folder}"], folder)
        empty = on_board(NOTHING, [], [], folder)
    return {"whole": {"flash": flash - empty[0], "ram": ram - empty[1]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", required=True, help="python that has m2cgen and emlearn")
    X, y, every = rows()
    results: dict[str, object] = {}
    peers = parser.parse_args().peers
    for n in (FEW, X.shape[1]):
        results[f"{n} features"], versions = compare(X[:, :n], y, peers)
    compiler = run([ARM[0], "--version"]).splitlines()[0]
    told = {"versions": versions, "compiler": compiler, "classes": int(y.max()) + 1}
    made = {**told, **results, "from raw samples": from_samples(every)}
    print(json.dumps(made, indent=1))
    record.write("edge_peers", made)


if __name__ == "__main__":
    main()
