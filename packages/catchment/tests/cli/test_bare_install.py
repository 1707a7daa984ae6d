"""What `pip install catchment` gives by itself: a folder of CSV files, trained on and predicted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

EXTRAS = ["pandas", "polars", "torch", "flwr", "ray", "transformers"]
EXTRAS += ["peft", "onnxruntime", "onnx", "optuna", "matplotlib", "reservoirpy", "dp_accounting"]
EXTRAS += ["aeon", "sktime", "pyarrow"]
CODE = f"""
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
from catchment.cli import app

for line in sys.stdin.read().splitlines():
    print("$", line)
    app(line.split(), standalone_mode=False)
"""
PLAN = """
[data]
files = "recordings/*.csv"
label = "what"
time = "t"
per_step = true
test = 0.4

[preprocessing]
gaps = "hold"
window = "1s"
scale = "federated"

[features]
map = "window_statistics"
"""


def write_people(folder: Path, n_people: int) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    t = np.arange(300) / 50
    for person in range(n_people):
        what = np.repeat(rng.permutation(["sit", "walk"] * 3), 50)
        x = np.where(what == "walk", np.sin(12 * t), 0.0) + 0.1 * rng.normal(size=300)
        rows = [
            f"{a:.2f};{b:.3f};{c}".replace(".", ",") for a, b, c in zip(t, x, what, strict=True)
        ]
        rows[7] = rows[7].split(";")[0] + ";;" + str(what[7])
        (folder / f"p{person}.csv").write_text("t;x;what\n" + "\n".join(rows) + "\n")


def test_files_become_a_model_and_predictions_without_any_extra(tmp_path: Path) -> None:
    write_people(tmp_path / "recordings", 5)
    (tmp_path / "plan.toml").write_text(PLAN)
    commands = [
        "plan plan.toml",
        "run plan.toml",
        "predict runs/plan recordings/p0.csv",
        "evaluate runs/plan recordings/p0.csv",
        "ledger runs/plan",
        "report runs/plan",
        "verify runs/plan",
        "fit recordings --label what --map window_statistics --plan fitted.toml",
        "diagnose runs/recordings --client p0",
        "watch runs/recordings --once",
    ]
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input="\n".join(commands),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    said = done.stdout.split("$ ")
    assert [part.splitlines()[0] for part in said if part] == commands
    predictions = said[3].splitlines()[2:]
    assert len(predictions) == 6
    assert {line.split(",")[3] for line in predictions} == {"sit", "walk"}
    assert (tmp_path / "runs" / "plan" / "model.safetensors").is_file()
