"""FedPT's experiment end to end, on synthetic data and hardly any of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache
from inspect import getmodule
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.errors import FederationError, IntegrityError
from catchment.federation import Record
from catchment_research.partial import IGNORED, Freeze, gaussian
from reproductions import fedpt as module
from reproductions import fedpt_train, fedpt_values
from reproductions.__main__ import app
from reproductions.fedpt import fedpt, paces
from reproductions.fedpt_data import Augmented, held_out, image_set
from reproductions.fedpt_findings import (
    Difference,
    by_percent,
    crossed,
    crossover,
    difference,
    differences,
    findings,
    spread,
    spreads,
)
from reproductions.fedpt_search import chosen, finished, runs_of, searches_of
from reproductions.fedpt_tables import PAPER, load, markdown, private_table, write
from reproductions.fedpt_tasks import (
    END,
    FIRST_WORD,
    UNKNOWN,
    Task,
    task_of,
    text_task,
    windows,
)
from reproductions.fedpt_values import (
    PAPER_NOISES,
    QUICK,
    FedptResult,
    FedptSettings,
    Row,
    Run,
)

TINY = replace(
    QUICK,
    writers_rounds=1,
    writers_cohort=2,
    n_writers=4,
    text_shares=(73.84,),
    text_cohort=1,
    text_steps=1,
    private=replace(QUICK.private, rounds=1, cohort=2),
    n_test=10,
)


@pytest.fixture(scope="module", autouse=True)
def _drawn_once() -> Iterator[None]:
    """Draw the numbers of a network once: its start and its frozen part are asked for often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(getmodule(Freeze), "gaussian", lru_cache(gaussian))
        yield


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> FedptResult:
    parts = ("writers", "text", "private")  # ResNet-18 takes too long for a test
    folder = tmp_path_factory.mktemp("no-data")
    return fedpt(TINY, parts=parts, directory=folder, quick=True)


def test_every_table_has_its_rows(result: FedptResult) -> None:
    parts = [(row.part, round(row.percent, 2), row.noise) for row in result.rows]
    assert parts == [
        ("writers", 100.0, None),
        ("writers", 4.96, None),
        ("text", 73.84, None),
        ("private", 100.0, 0.0),
        ("private", 4.96, 0.0),
        ("private", 100.0, 4.03),
        ("private", 4.96, 4.03),
    ]
    assert all(row.data == "synthetic" for row in result.rows)
    assert [row.epsilon is None for row in result.rows] == [True] * 5 + [False] * 2
    with_noise = result.rows[-1]
    assert (with_noise.participations, with_noise.n_clients) == (1, TINY.n_writers)
    assert with_noise.epsilon is not None
    assert with_noise.strict_epsilon is not None
    assert with_noise.strict_epsilon > with_noise.epsilon
    full, part = result.rows[:2]
    assert full.bytes_up_per_client / part.bytes_up_per_client == pytest.approx(20.1, rel=0.01)


def test_round_times_are_measured_once_for_each_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [*runs_of("writers", replace(TINY, seeds=(0, 1))), *runs_of("private", TINY)]
    asked = []

    def run(part: str, task: Task, freeze: Freeze, seed: int, **_: Any) -> Row:
        asked.append((part, bool(freeze.names), task.rounds))
        return replace(row(100.0, 0.0, 0.5), seconds_per_round=float(len(asked)))

    monkeypatch.setattr(module, "run", run)
    found = paces(TINY, tmp_path, runs)
    assert asked == [("writers", False, module.PACED), ("writers", True, module.PACED)]
    assert found == {("writers", 100.0): 1.0, ("writers", 4.96): 2.0}


def test_a_result_survives_the_disk_and_merges_by_part(result: FedptResult, tmp_path: Path) -> None:
    paths = write(result, tmp_path)
    assert [path.suffix for path in paths] == [".json", ".md", ".png"]
    again = load(paths[0])
    assert again.rows == result.rows
    assert markdown(again) == markdown(result)
    text = replace(result.rows[2], accuracy=0.5)
    write(replace(result, rows=(text,)), tmp_path, merge=True)
    merged = load(paths[0])
    assert len(merged.rows) == len(result.rows)
    assert [row.accuracy for row in merged.rows if row.part == "text"] == [0.5]
    assert merged.notes == result.notes
    paths[0].write_text("{}")
    with pytest.raises(IntegrityError, match="no result of fedpt"):
        load(paths[0])


def test_the_tables_say_what_the_rows_say(result: FedptResult) -> None:
    text = markdown(result)
    for number in (1, 3, 5):
        assert f"## Table {number}" in text
    assert "| 4.96 % | 20.1 |" in text
    assert "| noise | epsilon at delta 0.001 |" in text
    assert any("20.1 times less sent" in line for line in findings(result))


def row(percent: float, noise: float, score: float) -> Row:
    return Row(
        part="private",
        data="x",
        percent=percent,
        reduction=100 / percent,
        accuracy=score,
        seconds_per_round=1.0,
        bytes_up_per_client=1,
        peak_mebibytes=None,
        seed=0,
        noise=noise,
    )


def level(value: float, half: float) -> Difference:
    return Difference(value, (value - half, value + half), None, 3)


def test_the_crossover_is_where_a_settled_sign_changes() -> None:
    behind, ahead, open_ = level(-10.0, 1.0), level(30.0, 2.0), level(1.0, 3.0)
    assert crossover([(0.0, behind), (2.0, ahead)]) == (0.0, 2.0)
    assert crossover([(0.0, behind), (1.0, open_), (2.0, ahead)]) == (0.0, 2.0)
    assert crossover([(0.0, behind), (1.0, ahead), (2.0, open_)]) is None
    assert crossover([(0.0, behind), (1.0, ahead), (2.0, None)]) == (0.0, 1.0)
    assert crossover([(0.0, open_), (2.0, ahead)]) is None
    assert crossover([(0.0, behind), (1.0, behind)]) is None


def test_differences_are_taken_seed_by_seed_with_students_interval() -> None:
    scores = {100.0: (0.5, 0.6, 0.9), 5.0: (0.51, 0.63, 0.92)}
    rows = [
        replace(row(percent, 2.0, score), seed=seed)
        for percent, of in scores.items()
        for seed, score in enumerate(of)
    ]
    ((noise, found),) = differences(rows)
    assert noise == 2.0
    assert found is not None
    # By hand: differences 1, 3 and 2 points, deviation 1, t of 2 degrees of freedom 4.3027.
    assert found.value == pytest.approx(2.0)
    assert found.over_seeds[0] == pytest.approx(2.0 - 4.30265 / 3**0.5, abs=1e-4)
    assert not found.settled
    assert differences(rows, baseline=0.7) == [(2.0, None)]
    assert spread([1.0, 2.0, 3.0]) == "2.00 ± 1.00"
    with pytest.raises(ValueError, match="no seed in common"):
        difference(rows[:1], rows[-1:])


def test_intervals_over_examples_are_those_of_a_mean() -> None:
    rng = np.random.default_rng(1)
    same = np.tile(rng.normal(0.3, 1.0, 400), (4, 1))  # all seeds alike: a mean of 400 numbers
    found = crossed(same)
    assert found.high - found.low == pytest.approx(2 * 1.96 * same.std() / 20, rel=0.1)
    # Where nothing is alike, drawing both is on the safe side of a mean of 1600 numbers.
    values = rng.normal(0.3, 1.0, (4, 400))
    wide = (crossed(values).high - crossed(values).low) / (2 * 1.96 * values.std() / 40)
    assert 1.0 < wide < 2.0


def test_clients_are_compared_by_their_spread() -> None:
    clients = tuple((f"c{k}", float(k), 10.0) for k in range(10))
    one = replace(row(100.0, 0.0, 0.5), part="cifar_many", noise=None, by_client=clients)
    found = spreads([one, one])
    assert (found.mean, found.worst_tenth, found.worst) == (45.0, 0.0, 0.0)
    assert found.deviation == pytest.approx(np.std(np.arange(10) * 10, ddof=1))
    less = replace(one, percent=2.16, accuracy=0.4)
    result = FedptResult(settings={}, rows=(one, less), environment={})
    assert any("worst tenth of 10 clients is right in 0.0 per cent" in x for x in findings(result))
    assert "| accuracy of 10 clients | mean | deviation | worst tenth | worst |" in markdown(result)


def test_a_cell_that_learned_nothing_is_marked() -> None:
    rows = [row(100.0, 1.0, 0.05), row(5.0, 1.0, 0.2)]
    rows = [replace(one, n_clients=3, participations=2, rounds=4) for one in rows]
    settings = {"private_delta": 1e-3, "private_strict_delta": 1e-6}
    table = private_table("private", rows, settings, 0.1)
    assert "| 5.00 † |" in table
    assert "| 20.00 |" in table
    assert "Epsilon is for one of 3 clients, the one drawn most (2 times in 4 rounds)" in table


def test_the_papers_shares_are_those_that_are_run() -> None:
    for part in ("cifar", "cifar_many"):
        assert set(PAPER[part]) == {one.percent for one in runs_of(part, FedptSettings())}
    assert set(PAPER["text"]) == {one.percent for one in runs_of("text", FedptSettings())}


def test_committed_figures_show_what_is_claimed() -> None:
    kept = load(Path(__file__).parents[4] / "results" / "fedpt.json")
    scores = {
        part: {p: np.mean([r.accuracy for r in of]) for p, of in by_percent(rows).items()}
        for part in ("writers", "cifar")
        if (rows := [r for r in kept.rows if r.part == part])
    }
    assert scores["writers"][4.96] > scores["writers"][100.0] - 0.02
    assert scores["cifar"][26.45] > scores["cifar"][100.0] - 0.005
    for part in ("private", "hundred"):
        rows = [r for r in kept.rows if r.part == part]
        levels = {noise: one.value for noise, one in differences(rows) if one is not None}
        assert levels[0.0] < 0 < levels[8.83]
        assert set(levels) == set(PAPER_NOISES)
        rates = chosen(r for r in kept.search if r.part == part)
        assert all(r.rate == rates[part, round(r.percent, 2), r.noise] for r in rows)
        assert all(not r.failed for r in rows)


def test_words_become_windows_and_the_test_part_is_never_trained_on() -> None:
    texts = {"ann": ["One two three. " * 20, "four"], "bob": ["One, one! " * 30]}
    task = text_task("toy", texts, rounds=1, cohort=2, n_steps=5)
    (ann,) = task.clients["ann"]  # type: ignore[misc]
    assert ann.x.shape[1] == 5
    n_words = 63 * 9 // 10  # three times twenty words and an end, one more word and an end
    assert int((ann.y != IGNORED).sum()) == n_words - 1
    assert int(ann.x.max()) == FIRST_WORD + 2
    assert END in task.test.y
    assert UNKNOWN not in task.test.y  # "four" was not in the training part
    assert windows(np.array([5, 6]), 3).x.tolist() == [[5, 0, 0]]


def test_cifar_is_cut_into_equal_clients_of_unequal_classes(tmp_path: Path) -> None:
    settings = replace(TINY, cifar_clients=10)
    whole, part = (task_of("cifar", settings, tmp_path, whole=w) for w in (True, False))
    drawn = [next(iter(source())) for source in part.clients.values() if callable(source)]
    assert [e.x.shape for e in drawn] == [(100, 3, 24, 24)] * 10
    counts = np.array([np.bincount(e.y, minlength=10) for e in drawn])
    assert counts.std(axis=0).min() > 2
    assert (whole.steps.learning_rate, part.steps.learning_rate) == settings.cifar_rates
    assert len(part.test.x) == 10


def test_rates_are_chosen_on_training_images_that_nobody_trains_on(tmp_path: Path) -> None:
    settings = replace(TINY, cifar_clients=10, cifar_candidates=(0.02, 0.3), cifar_held_out=200)
    task = task_of("cifar", settings, tmp_path, rate=0.3, search=True)
    assert task.steps.learning_rate == 0.3
    assert task.rounds == settings.cifar_search_rounds
    drawn = [next(iter(source())) for source in task.clients.values() if callable(source)]
    assert (sum(len(e.x) for e in drawn), len(task.test.x)) == (800, 200)
    images = image_set("cifar10", tmp_path, synthetic=True)
    apart = held_out(images, 200)
    parts = [{one.tobytes() for one in part} for part in (apart.train, apart.test, images.test)]
    assert parts[0] | parts[1] == {one.tobytes() for one in images.train}
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert FedptSettings().cifar_candidates  # on unless it is turned off
    assert not list(searches_of("cifar", replace(settings, cifar_candidates=())))
    assert not list(searches_of("text", settings))


def test_rates_of_text_are_chosen_by_authors_whom_nobody_trains_on(tmp_path: Path) -> None:
    settings = replace(TINY, text_candidates=(1e-4, 1e-3), text_search_seed=7, text_held_out=0.5)
    runs = list(searches_of("text", settings))
    assert {(one.rate, one.seed, one.search) for one in runs} == {(1e-4, 7, True), (1e-3, 7, True)}
    whole, search = (task_of("text", settings, tmp_path, search=s) for s in (False, True))
    left = set(whole.clients) - set(search.clients)
    assert len(left) == round(0.5 * len(whole.clients)) > 0
    sources = [source for name, source in whole.clients.items() if name in left]
    held = {x.tobytes() for s in sources if not callable(s) for e in s for x in e.x}
    assert {x.tobytes() for x in search.test.x} <= held
    result = fedpt(settings, parts=["text"], directory=tmp_path)
    assert sorted(row.rate or 0.0 for row in result.search) == [1e-4, 1e-3]
    (row,) = result.rows
    assert row.rate == chosen(result.search)["text", 73.84, None]


def test_private_rates_are_chosen_on_clients_whom_nobody_trains_on(tmp_path: Path) -> None:
    private = replace(TINY.private, held_out=5, candidates=(0.1, 0.3), search_seeds=(8, 9))
    settings = replace(TINY, n_writers=20, private=private, addresses=private)
    runs = list(searches_of("private", settings))
    assert len(runs) == 2 * 2 * 2 * 2  # seeds, noises, shares, rates
    one = replace(settings.private, own_candidates=((4.03, (0.7,)),))
    narrowed = list(searches_of("private", replace(settings, private=one)))
    assert {run.rate for run in narrowed if run.noise == 4.03} == {0.7}
    assert [run for run in narrowed if run.noise == 0] == [run for run in runs if run.noise == 0]
    assert all(one.search and one.rate for one in runs)
    for part in ("private", "addresses"):
        whole, search = (task_of(part, settings, tmp_path, search=s) for s in (False, True))
        left = set(whole.clients) - set(search.clients)
        assert len(left) == 5
        sources = [source for name, source in whole.clients.items() if name in left]
        held = {x.tobytes() for s in sources if not callable(s) for e in s for x in e.x}
        assert {x.tobytes() for x in search.test.x} == held
        assert UNKNOWN not in search.test.y or part == "private"


def test_a_rate_with_which_a_training_fails_is_none_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = replace(TINY.private, noises=(4.03,), candidates=(0.1, 1.0), search_seeds=(8, 9))
    settings = replace(TINY, private=private)

    def run(
        part: str, task: Task, freeze: Freeze, seed: int, *, rate: float, noise: float, **_: Any
    ) -> Row:
        if rate == 1.0 and seed == 9:
            raise FederationError("values are not finite")
        made = row(4.96 if freeze.names else 100.0, noise, rate)
        return replace(made, seed=seed, rate=rate, rounds=private.rounds)

    monkeypatch.setattr(module, "run", run)
    whole = fedpt(settings, parts=["private"], directory=tmp_path)
    assert sum(bool(one.failed) for one in whole.search) == 2
    assert {one.rate for one in whole.rows} == {0.1}
    assert "| 4.03 | 4.96 % | 10.0 | - |" in markdown(whole)
    monkeypatch.setattr(module, "run", None)  # what failed is not tried again
    again = fedpt(settings, parts=["private"], directory=tmp_path, earlier=whole)
    assert (again.rows, again.search) == (whole.rows, whole.search)


def test_a_client_that_does_not_answer_ends_a_private_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Run(part="private", percent=4.96, seed=0, noise=4.03)
    monkeypatch.setattr(
        fedpt_train,
        "_fitted",
        lambda *_, **__: (SimpleNamespace(records=[Record(0, 2, 1, 0.0, 0, 0)]), None),
    )
    with pytest.raises(FederationError, match="epsilon is for 2 answers"):
        module.outcome_of(TINY, tmp_path, one)
    assert "2 answers" in module.outcome_of(TINY, tmp_path, replace(one, search=True)).failed


def test_settings_of_other_parts_do_not_matter_to_a_resumed_one(result: FedptResult) -> None:
    def parts(settings: FedptSettings) -> set[str]:
        return {key[0] for key in finished(result, json.loads(json.dumps(asdict(settings))))}

    assert parts(TINY) == {"writers", "text", "private"}
    assert parts(replace(TINY, text_cohort=7)) == {"writers", "private"}
    assert parts(replace(TINY, private=replace(TINY.private, clip=9.0))) == {"writers", "text"}
    assert parts(replace(TINY, private=replace(TINY.private, noises=(1.0,)))) == parts(TINY)
    assert parts(replace(TINY, n_test=7)) == set()


def test_the_table_runs_with_the_chosen_rates_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(
        TINY, seeds=(0, 1), cifar_shares=(100.0, 2.16), cifar_candidates=(0.02, 0.05, 0.1)
    )
    best, asked = {100.0: 0.05, 2.16: 0.1}, list[Run]()

    def outcome(settings: FedptSettings, directory: Path | None, one: Run, **_: Any) -> Row:
        asked.append(one)
        score = 1 - abs((one.rate or 0.0) - best[one.percent])
        made = replace(row(one.percent, 0.0, score), part="cifar", noise=None, seed=one.seed)
        rounds = settings.cifar_search_rounds if one.search else settings.cifar_rounds
        return replace(made, rate=one.rate, rounds=rounds)

    monkeypatch.setattr(module, "outcome_of", outcome)
    whole = fedpt(settings, parts=["cifar"], directory=tmp_path)
    assert [one.search for one in asked] == [True] * 6 + [False] * 4
    assert {(r.percent, r.rate) for r in whole.rows} == set(best.items())
    assert chosen(whole.search) == {("cifar", p, None): rate for p, rate in best.items()}
    assert "rate 0.05" in markdown(whole)
    asked.clear()
    assert fedpt(settings, parts=["cifar"], directory=tmp_path, earlier=whole).rows == whole.rows
    assert not asked
    more = replace(settings, seeds=(0, 1, 2))
    fedpt(more, parts=["cifar"], directory=tmp_path, earlier=replace(whole, rows=whole.rows[1:]))
    assert [(one.percent, one.seed) for one in asked] == [(100.0, 0), (100.0, 2), (2.16, 2)]
    other = fedpt(replace(settings, cifar_cohort=1), parts=["cifar"], directory=tmp_path)
    assert finished(whole, other.settings) == {}


def test_the_papers_own_sets_come_first(tmp_path: Path) -> None:
    put_emnist_by_writer(tmp_path)
    assert task_of("writers", TINY, tmp_path).name == "femnist"
    assert task_of("cifar", TINY, tmp_path).name == "synthetic"
    put_speeches(tmp_path)
    task = task_of("speeches", TINY, tmp_path)
    assert task.name == "shakespeare"
    assert set(task.clients) == {"HAMLET", "OPHELIA"}


def put_emnist_by_writer(folder: Path) -> None:
    for part in ("train", "test"):
        data = {"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784] * 3, "y": [1, 2, 61]}}}
        (folder / "femnist" / part).mkdir(parents=True)
        (folder / "femnist" / part / "all_data_0.json").write_text(json.dumps(data))


def put_speeches(folder: Path) -> None:
    speech = "to be or not to be that is the question " * 3
    (folder / "shakespeare").mkdir()
    text = f"HAMLET:\n{speech}\n\nOPHELIA:\n{speech}\n"
    (folder / "shakespeare" / "input.txt").write_text(text)


def test_images_are_cut_anew_every_time() -> None:
    pixels = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)
    draw = Augmented(pixels, np.array([0, 1]), seed=[1], side=6)
    cuts = [draw()[0].x for _ in range(12)]
    assert all(cut.shape == (2, 3, 6, 6) for cut in cuts)
    assert len({cut.tobytes() for cut in cuts}) > 4
    again = Augmented(pixels, np.array([0, 1]), seed=[1], side=6)
    assert np.array_equal(again()[0].x, cuts[0])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedpt_values, "QUICK", TINY)
    out = tmp_path / "results"
    words = ["fedpt", "--quick", "--data", str(tmp_path), "--out", str(out)]
    outcome = CliRunner().invoke(app, [*words, "--sets", "writers"])
    assert outcome.exit_code == 0, outcome.output
    assert "data are synthetic" in outcome.output
    assert json.loads((out / "fedpt-quick.json").read_text())["quick"] is True
    assert (out / "fedpt-quick.md").read_text().count("its figures mean nothing") == 2
    with pytest.raises(ValueError, match="no part 'esn'"):
        fedpt(TINY, parts=["esn"])
    refused = CliRunner().invoke(app, [*words, "--trials", "3"])
    assert refused.exit_code != 0
