"""`catchment predict`, `evaluate` and `unlearn` on raw files, as a user types them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from catchment import EchoState, Pipeline, Plan, Preprocessing, Recording
from catchment.data import Clients
from catchment.engine import run_locally
from catchment.federation import Memory, Protection, RunFolder
from catchment.federation.learn import Certificate, FederatedRidge, PersonalReadouts
from catchment.privacy import SecureAggregation, generate_keys
from catchment.readout import load_model
from catchment_research.learn import ReservoirEnsemble
from tests.commands import typed, typed_apart

COLUMNS = {"time": "t", "recording": "rec", "target": "activity"}


@dataclass(frozen=True)
class Halved(Protection):
    """One that nobody knows to leave sums as they are."""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def person(k: int, *, gap: bool = False) -> str:
    """Return a CSV file of one person: six recordings, walking and sitting in turns."""
    rng = np.random.default_rng(k)
    lines = ["t,ax,ay,activity,rec"]
    for rec in range(6):
        label, pace = ("walk", 1.0) if rec % 2 else ("sit", 0.2)
        for step in range(40):
            ax, ay = np.sin(pace * step + k), 5 + 2 * np.cos(pace * step) + 0.1 * rng.normal()
            shown = "" if gap and step in (7, 8, 9) else f"{ax:.6f}"
            lines.append(f"{step / 10},{shown},{ay:.6f},{label},{rec}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings with gaps, and a model of them."""
    place = tmp_path_factory.mktemp("people")
    for k in range(4):
        (place / f"p{k}.csv").write_text(person(k, gap=k == 2))
    model = catchment.federate(EchoState(20), people(place)).model
    assert model.columns == COLUMNS
    model.save(place / "model.safetensors")
    return place


def people(folder: Path) -> Clients:
    return catchment.read(f"{folder}/*.csv", label="activity", recording="rec", time="t")


def test_predictions_of_a_file_with_gaps_are_those_of_the_model_in_python(folder: Path) -> None:
    said = typed_apart(
        "predict", folder / "model.safetensors", folder / "p2.csv", "--probabilities"
    )
    header, *_ = said.stdout.splitlines()
    assert header == "file,recording,start,prediction,probability,p_sit,p_walk"
    found = rows(said.stdout)
    model = load_model(folder / "model.safetensors")
    raw = people(folder)["p2"]
    assert [row["prediction"] for row in found] == model.predict(raw)
    expected = model.predict_proba(raw)
    got = [[float(row["p_sit"]), float(row["p_walk"])] for row in found]
    np.testing.assert_allclose(got, expected, atol=1e-4)
    assert [row["recording"] for row in found] == list("012345")


def test_columns_are_found_by_name_whatever_their_order_and_whatever_else_is_there(
    folder: Path, tmp_path: Path
) -> None:
    lines = (folder / "p1.csv").read_text().splitlines()
    turned = [",".join([*line.split(",")[::-1], "extra"]) for line in lines]
    (tmp_path / "p1.csv").write_text("\n".join(turned))
    semicolons = "\n".join(lines).replace(",", ";").replace(".", ",")
    (tmp_path / "semicolons.csv").write_text(semicolons)
    model = folder / "model.safetensors"
    plain = rows(typed("predict", model, folder / "p1.csv").stdout)
    for name in ("p1.csv", "semicolons.csv"):
        found = rows(typed("predict", model, tmp_path / name).stdout)
        assert [r["prediction"] for r in found] == [r["prediction"] for r in plain]
        assert [r["probability"] for r in found] == [r["probability"] for r in plain]


def test_a_run_folder_and_a_folder_of_files_will_do_and_out_is_written_whole(
    folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    files = tmp_path / "files"
    files.mkdir()
    for k in range(2):
        (files / f"p{k}.csv").write_text(person(k))
    done = typed("predict", run, files, "--out", tmp_path / "answers.csv")
    assert done.stdout == ""
    assert f"wrote {tmp_path / 'answers.csv'}" in done.stderr
    assert len(rows((tmp_path / "answers.csv").read_text())) == 12


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("t,ax,activity,rec\n0,1,walk,0\n", "has no column 'ay'; the model was trained on ax, ay"),
        ("t,x,y\n0,1,2\n", "has no columns 'ax', 'ay'"),
        ("", "bad.csv"),
        ("t,ax,ay,activity,rec\n", "has no rows"),
        ("t,ax,ay\n0,one,2\n", "bad.csv"),
    ],
)
def test_files_that_do_not_fit_are_one_line_that_says_what_is_missing(
    folder: Path, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "bad.csv").write_text(text)
    done = typed("predict", folder / "model.safetensors", tmp_path / "bad.csv", code=2)
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_one_row_is_enough_where_there_is_no_window(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("t,ax,ay\n0,0.5,5.5\n")
    found = rows(typed("predict", folder / "model.safetensors", tmp_path / "one.csv").stdout)
    assert [(row["recording"], row["start"]) for row in found] == [("0", "0.0")]
    assert found[0]["prediction"] in ("sit", "walk")


def test_windows_have_a_row_each_with_their_start_in_seconds(folder: Path, tmp_path: Path) -> None:
    preprocessing = Preprocessing(window="1s", scale="own")
    model = catchment.federate(Pipeline(preprocessing, EchoState(10)), people(folder)).model
    path = model.read_from(COLUMNS).save(tmp_path / "m")
    found = rows(typed("predict", path, folder / "p0.csv").stdout)
    assert [row["start"] for row in found[:4]] == ["0.0", "1.0", "2.0", "3.0"]
    assert len(found) == 24
    (tmp_path / "short.csv").write_text("t,ax,ay\n0.0,0.5,5.5\n0.1,1,5\n")
    done = typed("predict", path, tmp_path / "short.csv", code=2)
    assert "short.csv: no recording is as long as a window of '1s'" in done.stderr


def test_numbers_come_with_an_interval_that_holds_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u = np.sin(np.arange(400) / 5) + 0.05 * rng.normal(size=400)
    series = {"a": [Recording(u, channels=("load",))], "b": [Recording(-u, channels=("load",))]}
    pipeline = Pipeline(Preprocessing(horizon=1), EchoState(30, washout=10))
    model = replace(catchment.federate(pipeline, series).model, deviation=np.array([0.07]))
    path = model.save(tmp_path / "m")
    lines = "\n".join(f"{value:.9f}" for value in u)
    (tmp_path / "series.csv").write_text(f"load\n{lines}\n")
    found = rows(typed("predict", path, tmp_path / "series.csv", "--coverage", "0.9").stdout)
    assert list(found[0]) == ["file", "recording", "start", "load", "load_low", "load_high"]
    assert found[0]["start"] == "10.0"
    expected = model.predict(Recording(u))
    told = [float(r["load"]) for r in found]
    np.testing.assert_allclose(told, expected[:, 0], rtol=1e-5, atol=1e-7)
    pairs = zip(found[:-1], u[11:], strict=True)
    inside = [float(row["load_low"]) < y < float(row["load_high"]) for row, y in pairs]
    assert np.mean(inside) > 0.8
    done = typed("predict", path, tmp_path / "series.csv", "--coverage", "2", code=2)
    assert "coverage is 2.0" in done.stderr


def test_evaluate_is_the_score_of_the_verb_by_client_with_the_worst_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    said = json.loads(typed("evaluate", path, folder / "p*.csv", "--json").stdout)
    scores = catchment.evaluate(load_model(path), people(folder))
    assert scores.total is not None
    assert said["total"]["accuracy"] == pytest.approx(scores.total.value, abs=1e-12)
    assert said["total"]["rows"] == 24
    assert {n: v["accuracy"] for n, v in said["clients"].items()} == pytest.approx(
        {name: score.value for name, score in scores.by_client.items()}
    )
    assert (said["worst"]["client"], said["worst"]["value"]) == scores.worst()
    table = typed("evaluate", path, folder / "p1.csv").stdout
    assert "accuracy" in table
    assert "(worst)" not in table


def test_evaluate_needs_targets_and_says_which_column(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("t,ax,ay\n0,1,2\n")
    done = typed("evaluate", folder / "model.safetensors", tmp_path / "new.csv", code=2)
    assert "has no column 'activity' to compare with" in done.stderr
    (tmp_path / "other.csv").write_text("t,ax,ay,activity,rec\n0,1,2,fly,0\n")
    done = typed("evaluate", folder / "model.safetensors", tmp_path / "other.csv", code=2)
    assert "fly" in done.stderr


def test_labels_that_are_numbers_are_compared_as_the_model_names_them(tmp_path: Path) -> None:
    for k in range(2):
        text = person(k).replace("walk", "1").replace("sit", "0")
        (tmp_path / f"p{k}.csv").write_text(text)
    model = catchment.federate(EchoState(20), people(tmp_path)).model
    path = model.read_from(COLUMNS).save(tmp_path / "m.safetensors")
    said = json.loads(typed("evaluate", path, tmp_path / "p*.csv", "--json").stdout)
    assert said["total"]["accuracy"] == 1.0


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    assert "there is no model" in typed("predict", tmp_path, tmp_path, code=2).stderr


def test_a_personal_readout_is_chosen_by_the_files_client_or_by_name(
    folder: Path, tmp_path: Path
) -> None:
    clients = people(folder)
    preprocessing = Preprocessing(scale="own")
    features = EchoState(12).build(2, per_step=False)
    ridge = FederatedRidge(features=features, ridge=0.1, classes=("sit", "walk"))
    plan = Plan(
        algorithm=PersonalReadouts(ridge=ridge, n_blocks=2),
        rounds=2,
        preprocessing=preprocessing,
        channels=("ax", "ay"),
    )
    made = run_locally(plan, clients).predictor.read_from(COLUMNS)
    path = made.save(tmp_path / "personal.safetensors")
    own = rows(typed("predict", path, folder / "p1.csv").stdout)
    assert {row["client"] for row in own} == {"p1"}
    assert [row["prediction"] for row in own] == made.predict(clients["p1"], client="p1")
    other = rows(typed("predict", path, folder / "p1.csv", "--client", "p3").stdout)
    assert [row["prediction"] for row in other] == made.predict(clients["p1"], client="p3")
    done = typed("predict", path, folder / "p1.csv", "--client", "p9", code=2)
    assert "nothing of its own for 'p9'; it has for p0, p1, p2, p3" in done.stderr
    scores = json.loads(typed("evaluate", path, folder / "p*.csv", "--json").stdout)
    expected = catchment.evaluate(made, clients)
    assert expected.total is not None
    assert scores["total"]["accuracy"] == expected.total.value


def kept_run(
    folder: Path,
    algorithm: Any,
    clients: Clients,
    *,
    rounds: int = 1,
    protections: tuple[Any, ...] = (),
) -> Path:
    """Return the folder of a training that was kept, as `catchment run` keeps it."""
    plan: Plan[Any, Any, Any] = Plan(
        algorithm=algorithm,
        rounds=rounds,
        preprocessing=Preprocessing(scale="own"),
        channels=("ax", "ay"),
        protections=protections,
    )
    with RunFolder(folder) as store:
        memories: dict[str, Memory] = {}
        if protections and isinstance(protections[0], SecureAggregation):
            identities = generate_keys(clients)
            memories = identities.memories
            plan = Plan(
                algorithm=algorithm,
                preprocessing=plan.preprocessing,
                channels=plan.channels,
                protections=(
                    SecureAggregation(identities=identities, min_clients=3, rows_per_feature=2.0),
                ),
            )
        result = run_locally(
            plan, clients, keeper=store.keeper("training", plan), memories=memories
        )
        store.save_model(result.predictor.read_from(COLUMNS))
    return folder


FEATURES = EchoState(15, seed=3).build(2, per_step=False)
FEW = EchoState(1).build(2, per_step=False)
CLASSES = ("sit", "walk")


@pytest.mark.parametrize(
    "algorithm",
    [
        FederatedRidge(features=FEATURES, classes=CLASSES),
        FederatedRidge(features=FEATURES, classes=CLASSES, ridge="gcv", standardize=True),
        ReservoirEnsemble(features=FEATURES, classes=CLASSES, ridge=0.1, weighting="samples"),
    ],
    ids=["ridge", "gcv", "ensemble"],
)
def test_unlearning_a_client_gives_the_model_of_a_run_without_it(
    folder: Path, tmp_path: Path, algorithm: Any
) -> None:
    clients = people(folder)
    run = kept_run(tmp_path / "run", algorithm, clients)
    said = typed("unlearn", run, "p1").stdout
    rest = clients.only(["p0", "p2", "p3"])
    retrained = load_model(kept_run(tmp_path / "again", algorithm, rest) / "model.safetensors")
    without = load_model(run / "model-without-p1.safetensors")
    np.testing.assert_allclose(
        without.readout.weights, retrained.readout.weights, rtol=1e-9, atol=1e-9
    )
    assert without.pipeline.fingerprint == retrained.pipeline.fingerprint
    assert (without.channels, without.columns) == (retrained.channels, retrained.columns)
    certificate = Certificate.from_json((run / "certificate.json").read_text())
    assert certificate.client == "p1"
    assert certificate.n_rows == 6
    assert certificate.before in said
    assert certificate.after in said
    state = run_locally(
        Plan(algorithm=algorithm, preprocessing=Preprocessing(scale="own")), rest
    ).state
    total = state if isinstance(algorithm, ReservoirEnsemble) else state.total
    assert certificate.after == certificate.hash_of(total)


def test_unlearning_can_be_written_elsewhere_and_used(folder: Path, tmp_path: Path) -> None:
    algorithm = FederatedRidge(features=FEATURES, classes=CLASSES)
    run = kept_run(tmp_path / "run", algorithm, people(folder))
    typed("unlearn", run, "p0", "--out", tmp_path / "elsewhere", "--json")
    assert not (run / "certificate.json").exists()
    model = tmp_path / "elsewhere" / "model-without-p0.safetensors"
    assert len(rows(typed("predict", model, folder / "p0.csv").stdout)) == 6


@pytest.mark.parametrize(
    ("algorithm", "rounds", "protections", "reason"),
    [
        (
            FederatedRidge(features=FEATURES, classes=CLASSES, ridge=0.1, store_per_client=False),
            1,
            (),
            "the run kept only the sum of all clients",
        ),
        (
            FederatedRidge(features=FEW, classes=CLASSES, ridge=0.1, store_per_client=False),
            1,
            (SecureAggregation(identities={}),),
            "the run saw nothing but sums (secure_aggregation)",
        ),
        (
            FederatedRidge(features=FEATURES, classes=CLASSES),
            1,
            (Halved(),),
            "Halved changes the sum of all clients",
        ),
        (
            PersonalReadouts(ridge=FederatedRidge(features=FEATURES, classes=CLASSES), n_blocks=2),
            2,
            (),
            "depends on p1",
        ),
    ],
    ids=["sum", "secure-sum", "cap", "personal"],
)
def test_what_cannot_be_unlearned_is_refused_in_one_sentence(
    folder: Path,
    tmp_path: Path,
    algorithm: Any,
    rounds: int,
    protections: tuple[Any, ...],
    reason: str,
) -> None:
    clients = people(folder)
    run = kept_run(tmp_path / "r", algorithm, clients, rounds=rounds, protections=protections)
    done = typed("unlearn", run, "p1", code=2)
    assert reason in done.stderr
    assert "run the plan again without p1" in done.stderr
    assert not (run / "certificate.json").exists()


def test_who_was_not_there_cannot_be_forgotten(folder: Path, tmp_path: Path) -> None:
    algorithm = FederatedRidge(features=FEATURES, classes=CLASSES)
    run = kept_run(tmp_path / "run", algorithm, people(folder))
    done = typed("unlearn", run, "p9", code=2)
    assert "there is no client 'p9' in the sum; there are p0, p1, p2, p3" in done.stderr
