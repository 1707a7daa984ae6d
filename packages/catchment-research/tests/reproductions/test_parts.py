"""Studies in parts: folds run apart and joined are folds run together, and none is run twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from reproductions import incfed, parts, people_command, variance
from reproductions.__main__ import app, main
from reproductions.cells import Cell
from reproductions.people import People, rotations, synthetic_recordings
from reproductions.reproduce import reproduce
from reproductions.study import SetResult, StudyResult, joined, load_result

TINY = incfed.IncFedSettings(
    trials=1, repetitions=1, shares=(1.0,), folds=3, steps=4000, choose_at=(1.0,), rounds=()
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_recorded", lambda *_: synthetic_recordings(n_users=6, windows=6))


@pytest.fixture
def guesses(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of training: of every two sequences one is right."""

    def guessed(people: People, settings: incfed.IncFedSettings, began: object) -> SetResult:
        counts = np.zeros((len(people.classes),) * 2, dtype=int)
        counts[:2, 0] = 1
        sums = dict.fromkeys(people.test, counts.tolist())
        halves = dict.fromkeys(sums, 0.5)
        cell = Cell("incfed", 1.0, 0, 0.5, 0.5, 0.5, halves, 1.0, 0.0, sums)
        return SetResult.about(people, [cell])

    monkeypatch.setattr(incfed, "incfed", guessed)


def run(**options: Any) -> StudyResult:
    return reproduce("incfed", sets=["synthetic"], **{"settings": TINY, **options})


def figures(result: StudyResult) -> list[tuple[int, str, float]]:
    return [(c.fold, c.method, round(c.test, 9)) for one in result.sets for c in one.cells]


@pytest.mark.usefixtures("few")
def test_folds_added_later_are_folds_run_together(tmp_path: Path) -> None:
    said: list[str] = []
    first = run(folds=[2])
    first.save(tmp_path / "first.json")
    again = run(earlier=load_result(tmp_path / "first.json"), began=said.append)
    whole = run(folds=[1, 2, 0])
    assert figures(again) == figures(whole)
    assert "1 of 3 parts are there already" in said
    assert not any("fold 2" in text for text in said)
    (one,) = whole.sets
    everyone = synthetic_recordings(n_users=6, windows=6).clients
    assert sorted(one.counts("incfed", 1.0)[0]) == sorted(everyone)
    assert one.interval("incfed", 1.0).n_people == 6
    assert [chosen.fold for chosen in one.selected] == [0, 0, 1, 1, 2, 2]


@pytest.mark.usefixtures("guesses")
def test_each_part_is_kept_as_it_ends() -> None:
    kept: list[StudyResult] = []
    run(kept=kept.append, folds=[0, 1])
    assert [sorted({c.fold for c in so_far.sets[0].cells}) for so_far in kept] == [[0], [0, 1]]
    assert kept[-1].settings["folds"] == 3


@pytest.mark.usefixtures("guesses")
def test_other_settings_are_not_gone_on_with() -> None:
    first = run(folds=[0])
    with pytest.raises(ValueError, match="made with trials 1, not 2; leave --resume out"):
        run(earlier=first, settings=replace(TINY, trials=2))
    with pytest.raises(ValueError, match="no fold 3; name some of 0 to 2"):
        run(folds=[3])
    with pytest.raises(ValueError, match="unseen has one split of people"):
        reproduce("unseen", sets=["synthetic"], quick=True, folds=[0])


def test_parts_are_run_fold_by_fold_over_all_sets() -> None:
    named = parts.parts_of(parts.STUDIES["incfed"], ["a", "b"], TINY)
    assert [(part.set, part.fold) for part in named][:3] == [("a", 0), ("b", 0), ("a", 1)]
    draws = variance.VarianceSettings(initializations=2)
    named = parts.parts_of(parts.STUDIES["variance"], ["a"], draws)
    assert [str(part) for part in named] == ["a, draw 0", "a, draw 1"]


def test_draws_run_apart_choose_as_draws_run_together() -> None:
    people = rotations(synthetic_recordings(n_users=6, windows=6), folds=3)[0]
    settings = variance.VarianceSettings(
        units=10, initializations=2, target_stds=(0.3, 0.6), rounds=1, pools=("mean",)
    )
    together = variance.variance(people, settings)
    apart = [variance.drawn(people, settings, draw) for draw in (1, 0)]
    whole = variance.chosen(joined(*apart), settings)
    assert [c.test for c in whole.cells] == [c.test for c in together.cells]
    assert whole.remarks == together.remarks
    best = max(
        (0.3, 0.6),
        key=lambda w: sum(
            c.validation for c in together.tried if c.method == f"fedip / mean / {w:g}"
        ),
    )
    assert f"fedip / mean: target of width {best} by validation" in together.remarks


def test_an_option_that_a_study_lacks_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words, sentence in {
        "incfed --rounds 3": "incfed has no --rounds; leave it out",
        "unseen --folds 0": "unseen has no --folds; leave it out",
        "maps --noises 1": "maps has no --noises; leave it out",
        "variance --paper": "variance has no --paper; leave it out",
        "incfed --stand-in": "--stand-in says what --paper may run on",
        "fedip --paper --quick": "--paper and --quick are two settings",
        "incfed --folds a": "'a' is no list of integers",
        "incfed --folds inf": "'inf' is no list of integers",
        "fedpt --noises 1,nan": "'1,nan' is no list of numbers from 0 on",
        "fedpt --noises=-1": "'-1' is no list of numbers from 0 on",
        f"fedip --paper --data {tmp_path}": "these are not here: wesad: ",
        f"fedpt --paper --sets text --data {tmp_path}": "these are not here: stackoverflow: ",
    }.items():
        with pytest.raises(SystemExit) as left:
            main(words.split())
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert sentence in error, error
        assert error.count("\n") == 1


@pytest.mark.usefixtures("guesses")
def test_the_papers_settings_have_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incfed, "PAPER", replace(TINY, trials=7))
    monkeypatch.setattr(people_command, "refuse_stand_ins", lambda *_: None)
    words = ["incfed", "--paper", "--sets", "synthetic", "--seeds", "4", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    settings = load_result(tmp_path / "paper" / "incfed.json").settings
    assert (settings["trials"], settings["repetitions"]) == (7, 4)
    assert not (tmp_path / "incfed.json").exists()


@pytest.mark.usefixtures("guesses")
def test_a_quick_run_says_first_and_last_that_it_means_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incfed, "QUICK", TINY)
    words = ["incfed", "--quick", "--sets", "synthetic", "--folds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line]
    assert "its figures mean nothing" in lines[0]
    assert "its figures mean nothing" in lines[-1]
    text = (tmp_path / "incfed-quick.md").read_text().rstrip().splitlines()
    assert "its figures mean nothing" in text[2]
    assert "its figures mean nothing" in text[-1]
    cells = load_result(tmp_path / "incfed-quick.json").sets[0].cells
    assert {cell.fold for cell in cells} == {1}
