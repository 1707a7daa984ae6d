"""IncFed's tables: who is trained on what, how connectivity is read, and averaging by rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from catchment import Plan, Reservoir
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment_lab.search import Space
from catchment_research.learn import GradientAveraging
from reproductions import incfed as study_module
from reproductions.cells import Cell, accuracy, read_subjects, summed
from reproductions.connectivity import READINGS, Connectivity, Wired, draw
from reproductions.incfed import TRAINED, IncFedSettings, incfed, select, space_of
from reproductions.incfed_tables import (
    AVERAGE,
    CHOSEN_AT,
    EXACT,
    ahead_in,
    chosen_at,
    findings,
    never_said,
    reached,
    selected,
)
from reproductions.iterative import Averaging, readouts_after
from reproductions.people import rotations, synthetic_recordings
from reproductions.published import (
    INCFED_INPUTS,
    INCFED_SELECTED,
    INCFED_TEST,
    INCFED_TRAIN,
    SHARES,
    printed,
)
from reproductions.quotes import incfed_accuracies, incfed_differences
from reproductions.spaces import Random
from reproductions.study import Selected, SetResult, StudyResult, joined, load_result
from reproductions.tables import markdown

SETTINGS = IncFedSettings(trials=2, repetitions=2, shares=(0.5, 1.0), rounds=(1, 20))


@pytest.fixture(scope="module", autouse=True)
def _small_reservoirs() -> Iterator[None]:
    small = Space(units=(20, 30), connections=(1, 15), input_connections=(1, 15))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_module, "space_of", lambda name: small)
        yield


@pytest.fixture(scope="module")
def result() -> SetResult:
    splits = rotations(synthetic_recordings(n_users=6, windows=10), folds=3)
    first, *others = (incfed(people, SETTINGS) for people in splits)
    for other in others:
        first = joined(first, other)
    return first


def test_everybody_is_tested_once_with_every_method(result: SetResult) -> None:
    averages = [f"fedavg-{w}" for w in ("samples", "uniform", "printed")]
    at_least = ("random", "majority", "centralized", "incfed", *averages)
    others = ("incfed, chosen at 25%", "fedavg, chosen at 25%", "rounds-1", "rounds-20")
    assert result.methods == (*at_least, *others)
    for method in result.methods:
        for counts in result.counts(method, 1.0):
            assert len(counts) == 6
            assert sum(n for _, n in counts.values()) == 60
    for share in result.shares:
        assert result.mean("centralized", share) == result.mean("incfed", share)
    assert all(cell.gap < 1e-9 for cell in result.cells if cell.method == "incfed")
    up = {t.method: t.bytes_up for t in result.traffic}
    assert up["incfed"] > up["fedavg"] > 0
    assert len(result.selected) == 3 * 4
    assert all(0 < chosen.train <= 1 for chosen in result.selected)


def test_the_largest_class_is_the_training_subjects(result: SetResult) -> None:
    for cell in result.of("majority", 1.0):
        said = cell.confusion.confusion.sum(axis=0)
        assert np.count_nonzero(said) == 1
        # Nothing else can have more of the training rows right by saying one thing.
        assert cell.train >= 1 / len(result.classes)


def test_a_choice_at_a_share_is_judged_by_readouts_of_that_share() -> None:
    (people, *_) = rotations(synthetic_recordings(n_users=9, windows=10), folds=3)
    settings = IncFedSettings(trials=3)
    chosen = select(people, settings, lambda text: None)
    assert set(chosen) == {(m, at) for m in ("incfed", "fedavg") for at in (1.0, 0.25)}
    for (method, at), choice in chosen.items():
        features = EchoState.of(choice.wired.reservoir(), input=False, pool="mean")
        few = {name: people.train[name] for name in people.share(at, 0)}
        assert len(few) == (1 if at == 0.25 else 3)
        train = read_subjects(features, few)
        again = TRAINED[method](train, read_subjects(features, people.validation))
        assert (choice.validation, choice.train) == (again.accuracy, accuracy(again.readout, train))


def test_rounds_at_once_are_gradient_averaging_round_by_round() -> None:
    (people, *_) = rotations(synthetic_recordings(n_users=6, windows=8), folds=3)
    features = EchoState.of(
        Wired(Reservoir(units=30, inputs=6, seed=3), 10, 5, "fan_out").reservoir(), pool="mean"
    )
    train = read_subjects(features, people.train)
    ridge = 0.3
    ours = readouts_after(
        train, Averaging(local_steps=3, learning_rate=1.5), ridge=ridge, rounds=(1, 4)
    )
    algorithm = GradientAveraging(
        features=features,
        epochs=3,
        learning_rate=1.5,
        ridge=ridge / summed(train).weight,
        classes=people.classes,
    )
    theirs = run_locally(Plan(algorithm=algorithm, rounds=4), people.train).model
    assert theirs is not None
    np.testing.assert_allclose(ours[4].weights, theirs.readout.weights, rtol=1e-9, atol=1e-12)
    assert sorted(ours) == [1, 4]


def test_one_local_step_goes_to_the_exact_readout() -> None:
    (people, *_) = rotations(synthetic_recordings(n_users=6, windows=8), folds=3)
    features = EchoState.of(
        Wired(Reservoir(units=8, inputs=6, seed=3), 4, 3, "fan_out").reservoir(), pool="mean"
    )
    train = read_subjects(features, people.train)
    # Every client has the same step only where there is one client.
    alone = {"a": next(iter(train.values()))}
    path = readouts_after(
        alone, Averaging(local_steps=1, learning_rate=1.9), ridge=1.0, rounds=(10, 100, 100_000)
    )
    exact = alone["a"].statistics.solve(1.0)
    gaps = [float(np.abs(r.weights - exact.weights).max()) for r in path.values()]
    assert all(later < earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] < 1e-9


def test_the_papers_own_choices_are_possible_as_fan_out_and_per_cent_only() -> None:
    def possible(reading: Connectivity) -> list[bool]:
        return [
            Wired(
                Reservoir(units=chosen.units, inputs=INCFED_INPUTS[name]),
                chosen.input_connectivity,
                chosen.recurrent_connectivity,
                reading,
            ).possible()
            for name, methods in INCFED_SELECTED.items()
            for chosen in methods.values()
        ]

    assert {reading: sum(possible(reading)) for reading in READINGS} == {
        "fan_in": 2,
        "per_cent": 4,
        "fan_out": 4,
    }
    assert IncFedSettings().connectivity == "fan_out"


def test_connections_are_counted_as_each_reading_says() -> None:
    recipe = Reservoir(units=100, inputs=8, seed=4)
    (layer,) = Wired(recipe, 50, 7, "fan_out").reservoir().layers
    W_in = layer.W_in.to_dense()
    assert (np.count_nonzero(W_in, axis=0) == 50).all()
    assert len(set(np.count_nonzero(W_in, axis=1))) > 1
    assert (np.count_nonzero(layer.W.to_dense(), axis=1) == 7).all()
    (layer,) = Wired(recipe, 50, 7, "per_cent").reservoir().layers
    assert layer.W_in.n_nonzero == 400
    assert layer.W.n_nonzero == 700
    (layer,) = Wired(recipe, 5, 7, "fan_in").reservoir().layers
    assert (np.count_nonzero(layer.W_in.to_dense(), axis=1) == 5).all()
    with pytest.raises(ValueError, match="cannot be read as fan_in with 8 inputs"):
        Wired(recipe, 50, 7, "fan_in").reservoir()


@pytest.mark.parametrize("reading", READINGS)
def test_draws_stay_in_the_papers_ranges(reading: Connectivity) -> None:
    chooser = Random(np.random.default_rng(0))
    drawn = [draw(space_of("hhar"), chooser, inputs=6, reading=reading) for _ in range(200)]
    assert all(wired.possible() and wired.recipe.units in (100, 500) for wired in drawn)
    most = max(wired.input_connectivity for wired in drawn)
    assert most == 6 if reading == "fan_in" else 50 < most <= 60


def test_the_papers_figures_are_complete() -> None:
    for table in (INCFED_TEST, INCFED_TRAIN):
        assert set(table) == {"wesad", "hhar"}
        for methods in table.values():
            assert all(len(row) == len(SHARES) for row in methods.values())
            assert methods["centralized"] == methods["incfed"]
    # The paper's random rows are runs of its own, not one over the number of classes.
    assert printed("incfed", "hhar", "random", 0.25) == 15.77
    assert printed("incfed", "wesad", "random", 1.0, "train") == 24.91
    assert printed("incfed", "wesad", "rounds-100", 1.0) is None


def of_counts(method: str, share: float, counts: list[list[int]], **where: int) -> Cell:
    """Return a cell of one person who is found as the counts say."""
    right = float(np.trace(counts) / np.sum(counts))
    who = f"p{where.get('fold', 0)}"
    return Cell(
        method, share, where.get("repetition", 0), right, 0.9, 0.8, {who: right}, 1.0, 0.0,
        {who: counts}, where.get("fold", 0),
    )  # fmt: skip


GOOD, SILENT, ONE_MORE = [[8, 2], [2, 8]], [[10, 0], [10, 0]], [[8, 2], [1, 9]]


def made_of(cells: list[Cell]) -> SetResult:
    return SetResult(
        name="wesad",
        notes=(),
        subjects={"train": 1, "validation": 1, "test": 1},
        n_sequences=20,
        classes=("calm", "glad"),
        cells=tuple(cells),
        selected=(Selected.of("incfed", Reservoir(units=5, inputs=2), 0.9, "mean"),),
    )


def test_a_class_that_is_never_said_is_named_with_how_often() -> None:
    cells = [
        of_counts(method, share, counts, fold=fold)
        for share in (0.5, 1.0)
        for fold in (0, 1)
        for method, counts in (
            ("incfed", GOOD),
            ("fedavg-samples", SILENT if share == 1 or fold == 0 else GOOD),
            ("majority", SILENT),
        )
    ]
    one = made_of(cells)
    said = "wesad: fedavg-samples never says glad in 1 of 2 trainings at 50%, at 100%"
    assert list(never_said(one)) == [said]
    lines = findings(StudyResult(name="incfed", settings={}, sets=(one,)))
    assert said in lines
    # Zero is out of the interval at 100 %, where both people are told apart the same way.
    assert lines[0].startswith("the exact sum is ahead of the average by samples in 1 of 2 sets")


def test_rounds_are_counted_until_averaging_is_near() -> None:
    def curve(*counts: list[list[int]]) -> SetResult:
        named = zip((1, 10, 100), counts, strict=True)
        return made_of(
            [of_counts("incfed", 1.0, GOOD), of_counts("fedavg-samples", 1.0, GOOD)]
            + [of_counts(f"rounds-{n}", 1.0, found) for n, found in named]
        )

    assert reached(curve(SILENT, SILENT, GOOD)) == 100
    assert reached(curve(SILENT, ONE_MORE, SILENT)) == 10
    assert reached(curve(SILENT, SILENT, SILENT)) is None
    text = markdown(StudyResult(name="incfed", settings={}, sets=(curve(GOOD, SILENT, GOOD),)))
    # Both ways, 5 units and a constant, 2 classes, 8 bytes each.
    assert f"| 100 | 80.00 | +0.0 (+0.0 to +0.0) | {100 * 2 * 6 * 2 * 8 / 1024:,.0f} |" in text
    assert "| rounds-100 |" not in text


def test_the_papers_selection_stands_beside_ours(result: SetResult) -> None:
    text = selected(replace(result, name="wesad"))
    assert "| incfed | paper | 100 | 0.99 | 1 | 1 | 5 | 50 | 85.08 | 83.63 |" in text
    assert text.count("\n") == 1 + len(result.selected) + 2
    changes = chosen_at(result)
    assert "| incfed, at 25% |" in changes
    assert "| fedavg, at 25% |" in changes


RESULTS = Path(__file__).parents[4] / "results"
PAGE = Path(__file__).parents[4] / "docs" / "research" / "sums-and-averages.md"


def test_the_page_of_experiments_quotes_the_recorded_figures() -> None:
    study = load_result(RESULTS / "incfed.json")
    page = PAGE.read_text(encoding="utf-8")
    assert incfed_accuracies(study) in page
    assert incfed_differences(study) in page
    flat = " ".join(page.split())
    better, worse, n = ahead_in(study.sets)
    assert f"ahead in {better} of {n} sets and shares, behind in {worse}" in flat
    gap = max(one.largest_gap for one in study.sets)
    assert f"an exact federated score and that of the pooled rows is {gap:.0e}" in flat
    (wesad,) = (one for one in study.sets if one.name == "wesad")
    for line in never_said(wesad):
        if "fedavg-uniform" not in line and "fedavg-printed" not in line:
            assert line.removeprefix("wesad: ") in flat
    for one in study.sets:
        assert one.difference(EXACT, AVERAGE, 1.0).settled
        assert one.mean(AVERAGE, 1.0, "train") < one.mean(AVERAGE, 0.25, "train")
        assert (reached(one) or 30_000) >= 1000
        few = [(f"incfed{CHOSEN_AT}25%", EXACT), (f"fedavg{CHOSEN_AT}25%", AVERAGE)]
        settled = [one.difference(*pair, 1.0).settled for pair in few]
        assert settled == [one.name == "wisdm_watch", one.name == "motionsense"]
    assert (RESULTS / "incfed.md").read_text(encoding="utf-8") == markdown(study)
    assert {cell.fold for one in study.sets for cell in one.cells} == set(range(5))


def test_the_page_has_the_tables_of_32_channels_and_their_order_holds() -> None:
    study = load_result(RESULTS / "motionsense_32" / "incfed.json")
    (one,) = study.sets
    page = PAGE.read_text(encoding="utf-8")
    assert incfed_accuracies(study) in page
    assert incfed_differences(study) in page
    assert ahead_in(study.sets) == (4, 0, 4)
    assert one.mean(AVERAGE, 1.0, "train") < one.mean(AVERAGE, 0.25, "train")
    assert one.mean(EXACT, 1.0) < 0.9
    matrices = [m for c in one.of(EXACT, 1.0) for m in c.confusions.values()]
    said = np.sum(matrices, axis=0)[one.classes.index("standing")]
    assert 0.4 < said[one.classes.index("sitting")] / said.sum() < 0.5
    assert (RESULTS / "motionsense_32" / "incfed.md").read_text("utf-8") == markdown(study)
    assert {cell.fold for cell in one.cells} == set(range(5))
