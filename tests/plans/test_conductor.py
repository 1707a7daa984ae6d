"""Plans carried out: every example runs, and what the folder says is what was computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catchment import load
from catchment.data.prepare import Prepare
from catchment.data.scaling import Scaler, federated_scaler
from catchment.data.wearables import ACTIVITIES, synthetic_wearables
from catchment.engine.local import data_of, run_locally
from catchment.errors import FederationError
from catchment.features.echo_state.plasticity import IntrinsicPlasticity, plasticity_of
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.federation.learn.plasticity import FederatedPlasticity, MomentPlasticity
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.measure.evaluation import Evaluation
from catchment.federation.plan import Plan
from catchment.federation.runs.read import messages_of, read_run
from catchment.federation.runs.write import MODEL
from catchment.plans.conductor import Finished, run_plan
from catchment.plans.examples import example_names, example_plan
from catchment.plans.file import parse_plan
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
OFFLINE = [name for name in example_names() if "uci_har" not in name and name != "own_files"]
HAVE_HAR = find("uci_har") is not None


def smaller(name: str) -> str:
    text = example_plan(name)
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    return text


def ran(text: str, folder: Path, base: Path | None = None) -> Finished:
    return run_plan(parse_plan(text, base=base), folder)


@pytest.mark.parametrize("name", OFFLINE)
def test_examples_run(name: str, tmp_path: Path) -> None:
    done = ran(smaller(name), tmp_path / "run")
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
        assert run.forecast is None
    else:
        assert run.confusion is None
        assert run.forecast is not None
        assert run.forecast.client == own.worst_client


@pytest.mark.skipif(not HAVE_HAR, reason="UCI HAR is not on this machine")
@pytest.mark.parametrize("name", ["uci_har", "demo_uci_har"])
def test_examples_run_on_uci_har(name: str, tmp_path: Path) -> None:
    text = smaller(name).replace('"local", "averaging", "ensemble", ', "")
    plan = parse_plan(text.replace('"local", ', ""))
    run = run_plan(plan, tmp_path / "run", data=packed_directory("uci_har")).run
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
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ran(text.replace("log.csv", "logs/*.csv"), tmp_path / "other", tmp_path)


def test_the_folder_says_what_was_computed(tmp_path: Path) -> None:
    text = smaller("wearables")
    done = ran(text, tmp_path / "run")
    run, file = done.run, parse_plan(text)
    held = file.load_data()
    # The same by hand: one scaler of the training people, ridge, evaluation.
    train = {name: list(data_of(source)()) for name, source in held.train.items()}
    scaler = federated_scaler(train)
    kept = load(tmp_path / "run" / MODEL)
    assert isinstance(kept.prepare.scale, Scaler)
    np.testing.assert_allclose(kept.prepare.scale.mean, scaler.mean, rtol=1e-12)
    np.testing.assert_allclose(kept.prepare.scale.scale, scaler.scale, rtol=1e-12)
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


def test_later_halves_are_tested(tmp_path: Path) -> None:
    held = parse_plan(smaller("demo_wearables")).load_data()
    for name, source in held.test.items():
        whole, later = list(data_of(held.whole[name])()), list(data_of(source)())
        assert 0 < len(later) < len(whole)
        assert all(any(np.array_equal(s.u, w.u) for w in whole) for s in later)


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
    np.testing.assert_array_equal(resumed.model.readout.weights, whole.model.readout.weights)
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
    model = run_plan(file, tmp_path / "run").model
    held = file.load_data()
    scaler = federated_scaler({name: data_of(source)() for name, source in held.train.items()})
    scaled = held.prepared(Prepare(horizon=6, scale=scaler)).train
    (described,) = file.maps
    built = described.build(1, per_step=True)
    assert isinstance(built, EchoStateMap)
    assert isinstance(model.features, EchoStateMap)
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


def test_a_personalised_baseline_needs_earlier_data(tmp_path: Path) -> None:
    text = smaller("demo_wearables").replace("test_after = 0.5", "")
    with pytest.raises(ValueError, match="needs test_after"):
        ran(text, tmp_path / "run")


def test_a_secure_sum_shows_the_server_no_client(tmp_path: Path) -> None:
    secret = smaller("secure_sum")
    done = ran(secret, tmp_path / "run")
    assert {
        t.purpose for t in done.run.traffic if t.direction == "up" and t.stage == "training"
    } == {
        "secure-keys",
        "secure-shares",
        "secure-upload",
        "secure-consent",
        "secure-shares-given",
    }
    assert done.run.rows_by_client == {}
    plain = ran(secret[: secret.index("[[protect]]")], tmp_path / "plain")
    np.testing.assert_allclose(
        done.model.readout.weights, plain.model.readout.weights, rtol=1e-6, atol=1e-9
    )
    # The clients' keys are kept, so that the run is the same plan when it goes on.
    again = run_plan(parse_plan(secret), tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.model.readout.weights, done.model.readout.weights)


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
    for split in ("iid", "label_skew", "quantity_skew"):
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
