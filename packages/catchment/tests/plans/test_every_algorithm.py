"""A plan file can name every algorithm, and its result predicts raw files in another process."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.plans import ALGORITHMS, parse_plan, read_plan, run_plan
from catchment.readout import load_model

RUNNER = CliRunner()
DATA = """
[data]
files = "people/*.csv"
label = "activity"
recording = "rec"
time = "t"
test = 0.34
test_of = "recordings"

[features]
units = 12
"""
LEARN = {
    "ridge": "",
    "averaging": "",
    "gradient": "epochs = 5",
    "ensemble": "ridge = 0.1\n[learn.recipes.p1]\nunits = 20\nseed = 9",
    "stacking": "ridge = 0.1\nn_folds = 2",
    "aligned": "alpha = 0.9",
    "personal": "n_blocks = 2",
    "conjugate_gradients": "ridge = 0.1",
    "candidates": "[[candidates]]\nleak_rate = 0.2\n[[candidates]]\nleak_rate = 0.9",
    "partial": """network = "my_networks:small"
        freeze = ["1.weight"]
        epochs = 3
        [run]
        rounds = 5""",
    "my_algorithms:Half": "factor = 0.5",
}
MODULES = {
    "my_networks": """
from torch import nn


def small(n_inputs, n_outputs):
    first = nn.Linear(30 * n_inputs, 16)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), nn.Linear(16, n_outputs))
""",
    "my_algorithms": """
from dataclasses import dataclass, replace

from catchment.federation import Algorithm
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.features import FeatureMap


@dataclass(frozen=True)
class Half(Algorithm):
    features: FeatureMap
    classes: tuple[str, ...] | None
    factor: float = 1.0

    @property
    def ridge(self):
        return FederatedRidge(features=self.features, classes=self.classes, ridge=self.factor)

    def start(self):
        return self.ridge.start()

    def client_update(self, received, data, turn):
        return self.ridge.client_update(received, data, turn)

    def read_update(self, parts, turn):
        return self.ridge.read_update(parts, turn)

    def server_update(self, state, total, turn) -> RidgeState:
        return self.ridge.server_update(state, total, turn)

    def result(self, state):
        return self.ridge.result(state)
""",
}


def person(k: int) -> str:
    """Return a file of six recordings, with a gap in one of them."""
    rng = np.random.default_rng(k)
    lines = ["t,ax,ay,activity,rec"]
    for rec in range(6):
        label, pace = ("walking", 1.0) if rec % 2 else ("sitting", 0.2)
        for step in range(30):
            ax = np.sin(pace * step + k + rng.uniform(0, 0.1))
            ay = 5 + np.cos(pace * step) + 0.1 * rng.normal()
            shown = "" if rec == 2 and step in (7, 8) else f"{ax:.5f}"
            lines.append(f"{step / 10},{shown},{ay:.5f},{label},{rec}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people").mkdir()
    for k in range(4):
        (tmp_path / "people" / f"p{k}.csv").write_text(person(k))
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def command(folder: Path, *words: str) -> str:
    typed = [sys.executable, "-m", "catchment.cli", *words]
    done = subprocess.run(typed, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ANSWER = """
import json, os, sys
from typer.testing import CliRunner
from catchment.cli import app

for line in sys.stdin:
    folder, words = json.loads(line)
    os.chdir(folder)
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
"""
Elsewhere = Callable[..., str]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """Return a function that runs commands in another process, one that has trained nothing.

    Starting an interpreter for each of them takes longer than what they do.
    """
    typed = [sys.executable, "-c", ANSWER]
    with subprocess.Popen(
        typed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as other:

        def run(folder: Path, *words: str) -> str:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(json.dumps([str(folder), words]) + "\n")
            other.stdin.flush()
            code, said, complained = json.loads(other.stdout.readline())
            assert code == 0, complained
            return str(said)

        yield run
        other.communicate("")


def quick(*words: str) -> str:
    """Run a command in this process."""
    done = RUNNER.invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def write_plan(folder: Path, algorithm: str, settings: str) -> Path:
    plan = folder / "plan.toml"
    plan.write_text(f'{DATA}\n[learn]\nalgorithm = "{algorithm}"\n{settings}\n')
    return plan


def test_there_is_a_plan_here_for_every_algorithm_that_can_be_named() -> None:
    assert set(ALGORITHMS) <= {*LEARN, "prompt", "anomaly", "yule_walker"}  # of files of their own


@pytest.mark.parametrize("algorithm", LEARN)
def test_what_a_plan_trains_is_saved_and_says_of_raw_files_what_the_run_said(
    algorithm: str, folder: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    if algorithm == "partial":
        pytest.importorskip("torch")
    file = read_plan(write_plan(folder, algorithm, LEARN[algorithm]))
    finished = run_plan(file, folder / "run")
    use = ["--use", "my_networks:small"] if algorithm == "partial" else []
    monkeypatch.chdir(folder)
    # What reads a file of one's own is found from where a process starts.
    other = command if algorithm in ("partial", "my_algorithms:Half") else elsewhere
    said = other(folder, "predict", "run", "people", *use)
    rows = list(csv.DictReader(io.StringIO(said)))
    assert len(rows) == 24
    truth = {str(rec): "walking" if rec % 2 else "sitting" for rec in range(6)}
    held = [row for row in rows if row["recording"] in ("4", "5")]
    right = [row["prediction"] == truth[row["recording"]] for row in held]
    assert finished.scores.total is not None
    assert np.mean(right) == pytest.approx(finished.scores.total.value)
    whole = json.loads(quick("evaluate", "run", "people", "--json", *use))
    everything = [row["prediction"] == truth[row["recording"]] for row in rows]
    assert whole["total"]["accuracy"] == pytest.approx(np.mean(everything))
    assert whole["total"]["rows"] == 24
    assert set(whole["clients"]) == {"p0", "p1", "p2", "p3"}
    assert finished.scores.total.value > 0.6


def test_a_plan_file_sends_a_part_of_a_network_in_few_bits(folder: Path) -> None:
    pytest.importorskip("torch")
    settings = 'network = "my_networks:small"\nfreeze = ["3.bias"]\n'
    part = 'dropout = ["1", "3"]\ndropout_share = [0.5]\n'
    bits = '[[protections]]\nname = "stochastic_quantization"\nbits = 4\n'
    up = {}
    for name, text in (("whole", ""), ("part", part), ("bits", bits), ("both", part + bits)):
        file = read_plan(write_plan(folder, "partial", settings + text))
        up[name] = run_plan(file, folder / name).run.rounds["training"][0].bytes_up
    assert up["both"] < min(up["part"], up["bits"])
    assert max(up["part"], up["bits"]) < up["whole"]


def test_the_personal_readouts_of_a_run_are_chosen_by_name(
    folder: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    quick("run", str(write_plan(folder, "personal", LEARN["personal"])), "--out", "run")
    rows = csv.DictReader(io.StringIO(elsewhere(folder, "predict", "run", "people/p1.csv")))
    assert {row["client"] for row in rows} == {"p1"}
    assert "p2" not in elsewhere(folder, "predict", "run", "people/p1.csv", "--client", "p2")


def test_a_run_of_a_plan_can_forget_a_client(
    folder: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    plan = write_plan(folder, "ridge", 'store_per_client = true\n[preprocessing]\nscale = "own"')
    quick("run", str(plan), "--out", "run")
    said = elsewhere(folder, "unlearn", "run", "p1")
    assert "model-without-p1.safetensors" in said
    (folder / "people" / "p1.csv").unlink()
    quick("run", str(plan), "--out", "again")
    without = load_model(folder / "run" / "model-without-p1.safetensors")
    retrained = load_model(folder / "again" / "model.safetensors")
    np.testing.assert_allclose(
        without.readout.weights, retrained.readout.weights, rtol=1e-9, atol=1e-9
    )


@pytest.mark.slow
def test_the_advice_after_a_run_hands_over_a_network_of_ones_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    said = quick("run", str(write_plan(folder, "partial", LEARN["partial"])), "--out", "run")
    assert "predict: catchment predict run FILES... --use my_networks:small\n" in said


def test_a_prompt_is_trained_on_a_users_own_files_and_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(folder)
    from tests.prompt.tiny import tiny_model

    tiny_model(folder / "tiny")
    settings = 'language_model = "tiny"\ncontext = "The person is"\nepochs = 4\n[run]\nrounds = 4'
    plan = write_plan(folder, "prompt", settings)
    quick("run", str(plan), "--out", "run")
    rows = list(csv.DictReader(io.StringIO(quick("predict", "run", "people"))))
    assert len(rows) == 24
    assert {row["prediction"] for row in rows} <= {"sitting", "walking"}
    score = json.loads(quick("evaluate", "run", "people", "--json"))["total"]
    truth = {str(rec): "walking" if rec % 2 else "sitting" for rec in range(6)}
    right = [row["prediction"] == truth[row["recording"]] for row in rows]
    assert score["accuracy"] == pytest.approx(np.mean(right))
    assert (folder / "run" / "model.safetensors").stat().st_size < 60_000


@pytest.mark.parametrize(
    ("learn", "complaint"),
    [
        ('algorithm = "aligned"', "lacks 'alpha'"),
        ('algorithm = "partial"', "lacks 'network'"),
        ('algorithm = "partial"\nnetwork = "no_such_module:small"', "cannot be imported"),
        ('algorithm = "prompt"\nlanguage_model = "no-such-model"', "no-such-model"),
        ('algorithm = "persnal"', "did you mean 'personal'"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_runs(
    learn: str, complaint: str
) -> None:
    with pytest.raises(Exception, match=complaint):
        parse_plan(f"{DATA}\n[learn]\n{learn}\n")
