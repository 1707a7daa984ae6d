"""Plans carried out: every example runs, and what the folder says is what was computed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import evaluate, federate, load, read
from catchment.data import (
    ACTIVITIES,
    Preprocessing,
    Scaler,
    find_files,
    read_columns,
    synthetic_wearables,
)
from catchment.engine import data_of, run_locally
from catchment.errors import FederationError, TooFewClientsError
from catchment.features import EchoState
from catchment.federation import Plan, RunFolder, messages_of, read_run
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import Evaluation
from catchment.federation.runs import MODEL
from catchment.plans import (
    Finished,
    example_names,
    example_plan,
    folds_of,
    parse_plan,
    read_plan,
    run_plan,
)
from catchment.readout import Model
from catchment_lab.datasets import packed_path
from catchment_research.plasticity import (
    FederatedPlasticity,
    IntrinsicPlasticity,
    MomentPlasticity,
    plasticity_of,
)
from reproductions.places import find, packed_directory

# Smaller than the examples are, so that all of them run in a few seconds.
SMALLER = {
    "users = 20": "users = 5",
    "users = 32": "users = 14",
    "min_clients = 20 ": "min_clients = 10 ",
    "units = 50": "units = 8",
    "users = 16": "users = 5",
    "users = 12": "users = 5",
    "users = 10": "users = 5",
    "windows_per_user = 60": "windows_per_user = 30",
    "steps = 4000": "steps = 800",
    "steps = 3000": "steps = 800",
    "units = 200": "units = 40",
    "units = 100": "units = 30",
    "units = 120": "units = 30",
    "units = 300": "units = 40",
    "rounds = 20": "rounds = 4",
    "min_clients = 3\n": "min_clients = 2\n",
}
ELSEWHERE = ("own_files", "anomalies", "prompt")  # files of one's own, or a language model
OFFLINE = [n for n in example_names() if "uci_har" not in n and n not in ELSEWHERE]
HAVE_HAR = find("uci_har") is not None


def smaller(name: str) -> str:
    text = example_plan(name)
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    return text


def as_model(found: object) -> Model:
    """Return one model with a readout, as most algorithms make it."""
    assert isinstance(found, Model)
    return found


def ran(text: str, folder: Path, base: Path | None = None) -> Finished:
    return run_plan(parse_plan(text, base=base), folder)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """Return a function that runs an example, once for all tests that look at it."""
    place = tmp_path_factory.mktemp("examples")

    @cache
    def example(name: str) -> Finished:
        return ran(smaller(name), place / name)

    return example


@pytest.mark.parametrize("name", OFFLINE)
def test_examples_run(name: str, examples: Callable[[str], Finished]) -> None:
    done = examples(name)
    run = done.run
    assert run.comparison is not None
    own = run.comparison[run.facts["own_row"]]
    assert own.score == run.scores[""][run.metric]
    assert (own.worst_client, own.worst) == done.scores.worst()
    assert own.rounds == len(run.rounds["training"])
    assert "finished" in run.facts
    if run.metric == "accuracy":
        assert run.confusion is not None
        assert np.trace(run.confusion) / run.confusion.sum() == own.score
    else:
        assert run.confusion is None
        assert own.worst_client in run.scores


AGAIN = """
import json, sys
from pathlib import Path
from catchment import evaluate, load
from catchment.plans import read_plan

found = {}
for folder in map(Path, sys.argv[1:]):
    test = read_plan(folder / "plan.toml").load_data().test
    found[str(folder)] = evaluate(load(folder / "model.safetensors"), test).total.value
print(json.dumps(found))
"""


def in_a_new_process(program: str, *arguments: object) -> Any:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_saved_model_gives_what_the_run_reported(
    examples: Callable[[str], Finished],
) -> None:
    """For every example: the file alone, on the raw recordings of the test people."""
    runs = [examples(name).run for name in OFFLINE]
    found = in_a_new_process(AGAIN, *(run.folder for run in runs))
    reported = {str(run.folder): run.scores[""][run.metric] for run in runs}
    assert found == pytest.approx(reported, rel=1e-9)


WITH_GAPS = """
[data]
files = "people/*.csv"
label = "activity"
time = "t"
test = 0.34
[features]
units = 20
"""
FROM_FILES = """
import json, sys
from catchment import evaluate, load
from catchment.readout import read_for

model = load(sys.argv[1])
held = [read_for(model, path, targets=True) for path in sys.argv[2:]]
scores = evaluate(model, {name: kept for one in held for name, kept in one.items()})
print(json.dumps([scores.total.value, {n: s.value for n, s in scores.by_client.items()}]))
"""


def people(folder: Path, n: int = 6, seed: int = 0) -> None:
    """Write walks and rests of some people, a file each, with empty cells."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for k in range(n):
        kind = "walk" if k % 2 else "rest"
        t = np.arange(300) / 50
        x = (3.0 if k % 2 else 0.1) * np.sin(9 * t + k) + 5 + 0.1 * rng.normal(size=len(t))
        cells = [f"{value:.5f}" for value in x]
        for gap in rng.integers(0, len(t), size=10):
            cells[gap] = ""
        rows = [f"{a:.2f},{b},{-k},{kind}" for a, b in zip(t, cells, strict=True)]
        text = "t,acc,device,activity\n" + "\n".join(rows) + "\n"
        (folder / f"person-{k}.csv").write_text(text)


def test_a_gap_does_not_stop_a_plan(tmp_path: Path) -> None:
    """A folder of CSV files with empty cells, nothing set; and the saved model on the raw files."""
    people(tmp_path / "people")
    done = ran(WITH_GAPS, tmp_path / "run", tmp_path)
    run = done.run
    assert [record.n_used for record in run.rounds["training"]] == [4]
    assert done.model.channels == ("acc", "device")
    assert done.model.classes == ("rest", "walk")
    assert done.model.columns == {"time": "t", "target": "activity"}
    clients = [name for name in run.scores if name]
    assert len(clients) == 2
    files = [tmp_path / "people" / f"{name}.csv" for name in clients]
    total, by_client = in_a_new_process(FROM_FILES, run.folder / MODEL, *files)
    assert total == run.scores[""]["accuracy"]
    assert by_client == {name: run.scores[name]["accuracy"] for name in clients}
    with pytest.raises(TooFewClientsError, match="not finite at row"):
        ran(
            f'{WITH_GAPS}[preprocessing]\ngaps = "error"\nscale = "none"\n',
            tmp_path / "x",
            tmp_path,
        )


def test_folds_test_every_client_by_a_model_without_it(tmp_path: Path) -> None:
    people(tmp_path / "people", n=7)
    text = WITH_GAPS.replace("test = 0.34", 'test = "folds"')
    done = ran(text, tmp_path / "run", tmp_path)
    run = done.run
    clients = {name for name in run.scores if name}
    assert clients == {f"person-{k}" for k in range(7)}
    assert "evaluation" not in run.rounds
    assert run.rounds["delivery"][0].n_used == 7
    # By hand: one fold of two, and a model of the five others.
    fold = folds_of(sorted(clients))[0]
    held = read(tmp_path / "people", label="activity", time="t")
    others = {name: list(held[name]) for name in held if name not in fold}
    model = federate(EchoState(20), others, classes=held.classes).model
    scores = evaluate(model, {name: list(held[name]) for name in fold})
    for name in fold:
        assert run.scores[name]["accuracy"] == scores.by_client[name].value
        assert run.scores[name]["accuracy"] in (0.0, 1.0)
    # The model itself is one of everybody.
    whole = federate(EchoState(20), {name: list(held[name]) for name in held}).model
    np.testing.assert_array_equal(as_model(done.model).readout.weights, whole.readout.weights)
    for wrong, reason in (
        (text + '[run]\nbaselines = ["uniform"]\n', "folds keep none apart"),
        (text.replace('"folds"', '"folds"\ntest_of = "steps"'), "leave out test_of"),
    ):
        with pytest.raises(ValueError, match=reason):
            parse_plan(wrong)


LOGS = """
[data]
files = "logs/*.csv"
inputs = ["load", "temperature"]
time = "hour"
test = 0.2
[preprocessing]
horizon = 1
scale = "{scale}"
[features]
units = 10
washout = 5
[run]
baselines = [{baselines}]
"""


@pytest.mark.parametrize("scale", ["none", "own", "federated"])
@pytest.mark.parametrize(
    "baselines", ["", '"persistence", "autoregression", "local", "centralized"']
)
def test_a_file_is_read_once_in_a_run(
    scale: str, baselines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    for k, name in enumerate("abc"):
        hours(tmp_path / "logs", name, seed=k)
    read: Counter[str] = Counter()

    def counting(path: Path) -> Any:
        read[path.name] += 1
        return read_columns(path)

    monkeypatch.setattr(getmodule(find_files), "read_columns", counting)
    text = LOGS.format(scale=scale, baselines=baselines)
    run = ran(text, tmp_path / "run", tmp_path).run
    assert len(run.rounds) == (4 if scale == "federated" else 3)
    assert read == {"a.csv": 1, "b.csv": 1, "c.csv": 1}
    # Nothing named: all files are looked at for what they share, and still each is read once.
    people(tmp_path / "people")
    read.clear()
    ran(WITH_GAPS, tmp_path / "second", tmp_path)
    assert set(read.values()) == {1}


def test_integer_labels_and_windows_of_labels_per_step(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "abcd":
        label = np.repeat(rng.permutation([1, 2, 10, 1, 2, 10]), 100)
        x = np.sin(np.arange(600) * label / 20) + 0.01 * rng.normal(size=600)
        rows = "\n".join(f"{a:.5f},{b}" for a, b in zip(x, label, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"x,what\n{rows}\n")
    text = """
[data]
files = "*.csv"
label = "what"
[preprocessing]
window = 50
[features]
units = 20
"""
    done = ran(text, tmp_path / "run", tmp_path)
    assert done.model.classes == ("1", "2", "10")
    assert done.model.columns == {"target": "what", "per_step": "yes"}
    assert done.run.score_rows[""] == 12
    assert done.run.scores[""]["accuracy"] > 0.8


def test_a_failed_run_leaves_nothing_that_blocks_the_corrected_plan(tmp_path: Path) -> None:
    people(tmp_path / "people")
    wrong = WITH_GAPS + "[run]\nmin_clients = 9\n"
    with pytest.raises(TooFewClientsError):
        ran(wrong, tmp_path / "run", tmp_path)
    assert not (tmp_path / "run").exists()
    first = ran(WITH_GAPS, tmp_path / "run", tmp_path)
    with pytest.raises(FederationError, match=r"already holds a run; resume it .*, replace it"):
        ran(WITH_GAPS, tmp_path / "run", tmp_path)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    other = WITH_GAPS.replace("units = 20", "units = 21")
    second = run_plan(parse_plan(other, base=tmp_path), tmp_path / "run", force=True)
    assert as_model(first.model).features.n_features < as_model(second.model).features.n_features
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_a_run_that_was_killed_at_its_start_is_begun_anew(tmp_path: Path) -> None:
    people(tmp_path / "people")
    with RunFolder(tmp_path / "run", fingerprint="of another plan"):
        pass
    assert ran(WITH_GAPS, tmp_path / "run", tmp_path).scores.total is not None


def test_a_file_that_cannot_be_read_is_left_out_whatever_the_plan_leaves_open(
    tmp_path: Path,
) -> None:
    people(tmp_path / "people")
    paths = sorted((tmp_path / "people").iterdir())
    paths[0].write_text("")
    paths[1].write_text(paths[1].read_text().replace("activity", "what"))
    run = ran(WITH_GAPS + "[learn]\nridge = 0.1\n", tmp_path / "run", tmp_path).run
    refused = {
        one.client: one.reason for kept in run.rounds.values() for r in kept for one in r.refused
    }
    assert refused.keys() == {path.stem for path in paths[:2]}
    assert "it is empty" in refused[paths[0].stem]
    assert "has no column 'activity'" in refused[paths[1].stem]


def test_who_is_left_out_is_one_line_of_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").mkdir()
    for k, name in enumerate("abcd"):
        hours(tmp_path / "logs", name, seed=k)
    (tmp_path / "logs" / "b.csv").write_text("hour,load\n1,2.0\n")
    run = ran(LOGS.format(scale="own", baselines=""), tmp_path / "run", tmp_path).run
    (record,) = run.rounds["training"]
    assert (record.n_used, record.n_asked) == (3, 4)
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [line.split(":")[0] for line in said] == [
        "b was left out of the training",
        "b was left out of the evaluation",
    ]
    assert "there is no column 'temperature'" in said[0]


def test_a_run_holds_intervals_and_limits_for_numbers(
    examples: Callable[[str], Finished],
) -> None:
    model = as_model(load(examples("mackey_glass").run.folder / MODEL))
    assert model.deviation is not None
    assert model.target_range is not None
    assert 0 < model.deviation[0] < 0.5
    low, high = model.target_range[:, 0]
    assert low < 0.4 < 1.3 < high
    classes = as_model(load(examples("wearables").run.folder / MODEL))
    assert (classes.deviation, classes.target_range) == (None, None)


@pytest.fixture(scope="module")
def short_har(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with UCI HAR's people and the first two windows of every bout."""
    held = np.load(packed_path(packed_directory("uci_har"), "uci_har"))
    starts = np.cumsum(held["length"]) - held["length"]
    length = np.minimum(held["length"], 256)
    rows = [np.arange(first, first + n) for first, n in zip(starts, length, strict=True)]
    fewer = {"signal": held["signal"][np.concatenate(rows)], "length": length}
    folder = tmp_path_factory.mktemp("data")
    path = packed_path(folder, "uci_har")
    path.parent.mkdir()
    np.savez(path, **{**dict(held), **fewer})
    return folder


@pytest.mark.skipif(not HAVE_HAR, reason="UCI HAR is not on this machine")
def test_an_example_runs_on_uci_har(tmp_path: Path, short_har: Path) -> None:
    text = smaller("uci_har").replace('"local", "averaging", ', "")
    plan = parse_plan(text.replace('"local", ', ""))
    run = run_plan(plan, tmp_path / "run", data=short_har).run
    assert (run.facts["train_clients"], run.facts["test_clients"]) == ("21", "9")
    assert run.scores[""]["accuracy"] > 0.7


def hours(folder: Path, name: str, n: int = 160, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    load_ = np.sin(t / 4) + 0.05 * rng.normal(size=n)
    rows = "\n".join(f"{k},{a:.5f},{np.cos(k / 7):.5f}" for k, a in zip(t, load_, strict=True))
    (folder / f"{name}.csv").write_text(f"hour,load,temperature\n{rows}\n")


def test_own_files_are_clients(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for k, name in enumerate(("north", "south", "west")):
        hours(tmp_path, name, seed=k)
    run = ran(smaller("own_files"), tmp_path / "run", tmp_path).run
    assert sorted(run.rows_by_client) == ["north", "south", "west"]
    # 160 hours, 24 lost to the washout, a fifth kept for the test, and one lost to the horizon.
    assert set(run.rows_by_client.values()) == {int((160 - 24) * 0.8) - 1}
    assert run.scores[""]["NRMSE"] < 0.5
    assert run.comparison is not None
    assert {row.name for row in run.comparison} == {
        "persistence",
        "seasonal",
        "autoregression",
        "exact federated",
    }


def test_files_with_a_client_column(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = [
        f"{who},{t},{np.sin(t / (3 + k)):.4f},{'fast' if k == 0 else 'slow'}"
        for k, who in enumerate(("ann", "bob", "cyd"))
        for t in range(40)
    ]
    (tmp_path / "log.csv").write_text("who,t,x,label\n" + "\n".join(lines) + "\n")
    text = """
[data]
files = "log.csv"
client = "who"
time = "t"
inputs = ["x"]
label = "label"
classes = ["fast", "slow"]
per_step = true
test = 0.5
test_of = "steps"
[features]
units = 10
[learn]
ridge = 0.01
"""
    run = ran(text, tmp_path / "run", tmp_path).run
    assert sorted(run.rows_by_client) == ["ann", "bob", "cyd"]
    assert run.metric == "accuracy"
    with pytest.raises(FileNotFoundError, match="no file matches"):
        ran(text.replace("log.csv", "logs/*.csv"), tmp_path / "other", tmp_path)


def test_the_folder_says_what_was_computed(tmp_path: Path) -> None:
    text = smaller("wearables")
    done = ran(text, tmp_path / "run")
    run, file = done.run, parse_plan(text)
    held = file.load_data()
    # The same by hand: one scaler of the training people, ridge, evaluation.
    train = {name: list(data_of(source)()) for name, source in held.train.items()}
    scaler = Scaler.fit(one for own in train.values() for one in own)
    kept = as_model(load(tmp_path / "run" / MODEL))
    assert isinstance(kept.preprocessing.scale, Scaler)
    np.testing.assert_allclose(kept.preprocessing.scale.mean, scaler.mean, rtol=1e-12)
    np.testing.assert_allclose(kept.preprocessing.scale.scale, scaler.scale, rtol=1e-12)
    algorithm = FederatedRidge(features=kept.features, classes=ACTIVITIES)
    by_hand = {name: scaler.apply(s) for name, s in train.items()}
    model = run_locally(Plan(algorithm=algorithm), by_hand).model
    np.testing.assert_allclose(kept.readout.weights, model.readout.weights, atol=1e-9)
    test = {name: scaler.apply(data_of(source)()) for name, source in held.test.items()}
    scores = run_locally(Plan(algorithm=Evaluation(model_under_test=model)), test).state
    assert scores.total is not None
    assert run.scores[""]["accuracy"] == scores.total.value
    assert {n: s["accuracy"] for n, s in run.scores.items() if n} == {
        name: score.value for name, score in scores.by_client.items()
    }
    assert run.path is not None
    assert run.path.outputs == ACTIVITIES
    np.testing.assert_allclose(model.readout.ridge, run.path.chosen, rtol=1e-9)
    assert {t.purpose for t in run.traffic if t.direction == "up"} == {
        "moments",
        "ridge-statistics",
        "receipt",
        "score",
    }
    up, _, _ = run.totals()
    assert up == sum(t.total_bytes for t in run.traffic if t.direction == "up")


def test_training_and_test_people_differ(tmp_path: Path) -> None:
    held = parse_plan(smaller("wearables")).load_data()
    assert not set(held.train) & set(held.test)
    everyone = synthetic_wearables(5)
    assert set(held.train) | set(held.test) == set(everyone)


@pytest.mark.parametrize("scale", ["none", "own", "federated"])
def test_scales(scale: str, tmp_path: Path) -> None:
    text = smaller("wearables").replace('scale = "federated"', f'scale = "{scale}"')
    run = ran(text, tmp_path / "run").run
    assert ("scaling" in run.rounds) == (scale == "federated")


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(stage: str, round_: int, done: int, asked: int) -> None:
        if stage == "training" and round_ == 2:
            raise StoppedError

    file = parse_plan(smaller("incremental"))
    with pytest.raises(StoppedError):
        run_plan(file, tmp_path / "run", watch=stop)
    half = read_run(tmp_path / "run")
    assert len(half.rounds["training"]) == 2
    assert "finished" not in half.facts
    with pytest.raises(FederationError, match="already holds a run"):
        run_plan(file, tmp_path / "run")
    other = parse_plan(smaller("incremental").replace("units = 30", "units = 31"))
    with pytest.raises(FederationError, match="another plan"):
        run_plan(other, tmp_path / "run", resume=True)
    seen: list[tuple[str, int]] = []
    resumed = run_plan(
        file, tmp_path / "run", resume=True, watch=lambda s, r, d, a: seen.append((s, r))
    )
    assert {r for s, r in seen if s == "training"} == {2, 3}
    whole = run_plan(file, tmp_path / "whole")
    np.testing.assert_array_equal(
        as_model(resumed.model).readout.weights, as_model(whole.model).readout.weights
    )
    # A finished run is only read again.
    seen.clear()
    run_plan(file, tmp_path / "run", resume=True, watch=lambda s, r, d, a: seen.append((s, r)))
    assert not [s for s, _ in seen if s in ("scaling", "training", "evaluation")]


def test_messages_by_client(tmp_path: Path) -> None:
    ran(smaller("incremental"), tmp_path / "run")
    mine = messages_of(tmp_path / "run", "client-001")
    assert [(m.stage, m.round) for m in mine] == [
        *(("training", k) for k in range(4)),
        ("delivery", 0),
        ("evaluation", 0),
    ]
    assert len(messages_of(tmp_path / "run", limit=3)) == 3
    assert messages_of(tmp_path / "run", "nobody") == []


@pytest.mark.parametrize("name", ["fedip", "moments"])
def test_plasticity_comes_before_training(name: str, tmp_path: Path) -> None:
    text = smaller("plasticity").replace('name = "fedip"', f'name = "{name}"')
    file = parse_plan(text.replace("rounds = 5", "rounds = 2"))
    model = as_model(run_plan(file, tmp_path / "run").model)
    held = file.load_data()
    scaler = Scaler.fit(one for source in held.train.values() for one in data_of(source)())
    scaled = held.prepared(Preprocessing(horizon=6, scale=scaler)).train
    (described,) = file.maps
    assert isinstance(described, EchoState)
    built = described.build(1, per_step=True)
    assert isinstance(built, EchoState)
    assert isinstance(model.features, EchoState)
    reservoir = built.reservoir
    rule = IntrinsicPlasticity(target_std=0.5, learning_rate=0.0003, epochs=2)
    kind = FederatedPlasticity if name == "fedip" else MomentPlasticity
    algorithm = kind(reservoir=reservoir, rule=rule)
    by_hand = run_locally(Plan(algorithm=algorithm, rounds=2), scaled).result
    mine = plasticity_of(model.features.reservoir)
    for got, wanted in zip(mine, plasticity_of(by_hand), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)
    assert not np.array_equal(mine[0], plasticity_of(reservoir)[0])
    assert "plasticity" in {message.stage for message in messages_of(tmp_path / "run")}


def test_secure_aggregation_shows_the_server_no_client(tmp_path: Path) -> None:
    secret = smaller("secure_aggregation")
    done = ran(secret, tmp_path / "run")
    assert {
        t.purpose for t in done.run.traffic if t.direction == "up" and t.stage == "training"
    } == {
        "secure-keys",
        "secure-shares",
        "secure-complaints",
        "secure-upload",
        "secure-consent",
        "secure-shares-given",
    }
    assert done.run.rows_by_client == {}
    plain = ran(secret[: secret.index("[[protections]]")], tmp_path / "plain")
    np.testing.assert_allclose(
        as_model(done.model).readout.weights,
        as_model(plain.model).readout.weights,
        rtol=1e-6,
        atol=1e-9,
    )
    # The clients' keys are kept, so that the run is the same plan when it goes on.
    again = run_plan(parse_plan(secret), tmp_path / "run", resume=True)
    np.testing.assert_array_equal(
        as_model(again.model).readout.weights, as_model(done.model).readout.weights
    )


def test_a_client_whose_targets_are_wrong_is_flagged(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for k, name in enumerate(("a", "b", "c", "d", "e", "f")):
        hours(tmp_path, name, seed=k)
    lines = (tmp_path / "f.csv").read_text().splitlines()
    noise = np.random.default_rng(9).normal(size=len(lines) - 1)
    cells = [line.split(",") for line in lines[1:]]
    bad = [f"{h},{x:.4f},{t}" for (h, _, t), x in zip(cells, 5 * noise, strict=True)]
    (tmp_path / "f.csv").write_text("\n".join([lines[0], *bad]) + "\n")
    text = smaller("own_files").replace('scale = "federated"', 'scale = "none"')
    run = ran(text, tmp_path / "run", tmp_path).run
    assert [flag.client for flag in run.flags] == ["f"]
    assert "f" in run.rows_by_client  # reported, not dropped


def test_splits_deal_sequences_anew(tmp_path: Path) -> None:
    for split in ("iid", "label_skew"):
        text = smaller("averaging").replace(
            "users = 5", f'users = 3\nsplit = "{split}"\nclients = 6\ntest = 0.34'
        )
        held = parse_plan(text).load_data()
        assert (len(held.train), len(held.test)) == (4, 2)
    text = smaller("averaging").replace("users = 5", 'users = 3\nsplit = "contiguous"')
    with pytest.raises(ValueError, match="cuts one long recording, there are 120"):
        parse_plan(text).load_data()
    with pytest.raises(ValueError, match="no official test part"):
        parse_plan(smaller("averaging").replace("users = 5", 'test = "official"')).load_data()


def test_a_run_never_takes_the_folder_of_a_plan_of_ones_own(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[data]\nsource = "wearables"\nusers = 3\nwindows_per_user = 4\n')
    with pytest.raises(ValueError, match="choose another folder for the run"):
        run_plan(read_plan(plan), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]
