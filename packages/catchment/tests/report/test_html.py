"""The report: what it says, and that it asks no one for anything."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catchment.federation import Record, Refusal
from catchment.federation.measure import Comparison, Flag, Row
from catchment.federation.runs import Run, in_words
from catchment.report import MOST_ROUNDS, SOME_CLIENTS, render, write_report
from tests.report.pages import Checked


def test_it_says_what_was_run_and_found(runs: list[Run]) -> None:
    page = Checked(render(runs[:1]))
    run = runs[0]
    assert "Activities of people with wearables" in page.text
    worst = min((v["accuracy"], name) for name, v in run.scores.items() if name)
    assert f"worst client: {worst[1]}" in page.text
    assert f"{100 * run.scores['']['accuracy']:.1f} %" in page.text
    assert run.comparison is not None
    assert all(row.name in page.text for row in run.comparison)
    for heading in (
        "Compared with other strategies",
        "Every client",
        "Choosing the ridge",
        "Confusion matrix",
        "What left the clients",
        "What never left",
        "Rounds",
        "What was run",
    ):
        assert heading in page.text
    assert "Statistics are not anonymous." in page.text
    assert "have fewer rows than the" in page.text
    assert run.facts["features_fingerprint"] in page.text
    assert "[learn]" in page.text  # the plan itself


def test_clients_that_stand_out_are_named(runs: list[Run]) -> None:
    page = Checked(render([replace(runs[0], flags=(Flag("mallory", 3.5, 7.25),))]))
    assert "Clients that stand out" in page.text
    assert "mallory: mean squared error 3.5" in page.text
    assert "Clients that stand out" not in render([replace(runs[0], flags=())])


def test_a_forecast_has_no_classes(runs: list[Run]) -> None:
    page = Checked(render(runs[1:]))
    assert "Confusion matrix" not in page.text
    assert "NRMSE: lower is better" in page.text


def test_several_runs_share_a_page(folders: list[Path], tmp_path: Path) -> None:
    path = write_report(folders, tmp_path / "both.html")
    page = Checked(path.read_text(encoding="utf-8"))
    assert page.links[:2] == ["#run-0", "#run-1"]
    assert "sent up in training" in page.text
    with pytest.raises(ValueError, match="no runs"):
        write_report([], tmp_path / "none.html")
    with pytest.raises(FileNotFoundError, match="holds no run"):
        write_report([tmp_path], tmp_path / "none.html")


def test_it_asks_no_one_for_anything(runs: list[Run]) -> None:
    page = render(runs)
    assert "default-src 'none'" in page
    assert not re.findall(r"https?://|//[a-z]|url\(|@import|<script|<link|<iframe|<img", page)
    assert all(link.startswith("#") for link in Checked(page).links)


def test_names_cannot_break_out(runs: list[Run]) -> None:
    evil = '</style><script>alert("1")</script>&<b x="'
    run = runs[0]
    scores = {evil if name else "": values for name, values in run.scores.items()}
    refused = Record(0, 1, 0, 0.1, 1, 1, (Refusal(evil, evil, evil),))
    told = [Record(k, 1, 1, 0.1, 1, 1, (), {evil: k, f"{evil}{k}": k}) for k in range(2)]
    rows = (Row(evil, "accuracy", 0.5, evil, 0.1, 0.1, note=evil),)
    changed = replace(
        run,
        facts={**run.facts, "title": evil, "source": evil, "features_fingerprint": evil},
        scores=scores,
        classes=tuple(f"{evil}{k}" for k in range(len(run.classes))),
        comparison=Comparison(rows),
        rounds={evil: (refused,), "training": tuple(told)},
    )
    page = render([changed])
    assert "<script" not in page
    assert "<b x=" not in page
    Checked(page)


def test_an_unfinished_run_can_be_shown(runs: list[Run]) -> None:
    run = replace(
        runs[0],
        facts={"title": "half"},
        scores={},
        comparison=None,
        confusion=None,
        path=None,
        rounds={},
        traffic=(),
    )
    page = Checked(render([run]))
    assert "The run is not finished." in page.text
    assert "Nothing yet." in page.text


def test_many_clients_and_rounds_stay_readable(runs: list[Run]) -> None:
    n = 500
    values = {f"client-{k:03d}": {"accuracy": k / n} for k in range(n)}
    many = {"training": tuple(Record(k, 5, 5, 0.1, 1, 1) for k in range(MOST_ROUNDS + 1))}
    page = render([replace(runs[0], scores={"": {"accuracy": 0.5}, **values}, rounds=many)])
    assert page.count("<circle") == SOME_CLIENTS
    assert page.count('class="rug"') == n
    assert f"All {n} are marked above; the worst {SOME_CLIENTS} have a row." in page
    assert "client-000" in page
    assert f"<summary>All {MOST_ROUNDS + 1} rounds</summary>" in page


def test_figures_are_drawn_round_by_round(descent: Run) -> None:
    records = descent.rounds["training"]
    assert len(records) == 8
    page = render([descent])
    for name in ("training loss", "weight norm"):
        chart = re.search(rf'<svg[^>]*aria-label="{name} after every round.*?</svg>', page)
        assert chart is not None
        values = np.array([record.figures[name] for record in records])
        np.testing.assert_allclose(_read_off(chart[0]), values, atol=0.002 * np.ptp(values))


def _read_off(chart: str) -> list[float]:
    """Return the heights of a line's points, by the numbers at the grid beside it."""
    (points,) = re.findall(r'<polyline class="s0" points="([^"]*)"', chart)
    grid = re.findall(r'y="([\d.]+)" text-anchor="end">([-\d.e]+)<', chart)
    places, numbers = np.array([(float(y) - 4, float(text)) for y, text in grid]).T
    slope, start = np.polyfit(places, numbers, 1)
    return [start + slope * float(point.split(",")[1]) for point in points.split()]


def test_a_figure_of_one_round_is_a_number(runs: list[Run]) -> None:
    page = Checked(render(runs[:1]))
    error = runs[0].rounds["training"][0].figures["held-out error"]
    assert "Figures of the rounds" in page.text
    assert f"held-out error, training {error:.4g}" in page.text
    bare = replace(runs[0], rounds={"training": (Record(0, 1, 1, 0.1, 1, 1),)})
    assert "Figures of the rounds" not in render([bare])


def test_what_a_loss_tells_is_explained(descent: Run) -> None:
    told = in_words(descent, [])
    assert "the mean loss of these steps" in told
    assert "how well the shared model fits this one client's data" in told


def test_scores_that_are_not_defined(runs: list[Run]) -> None:
    values = {"": {"NRMSE": 0.5}, "a": {"NRMSE": float("nan")}, "b": {"NRMSE": 0.7}}
    run = replace(
        runs[1],
        scores=values,
        comparison=Comparison((Row("x", "NRMSE", float("nan")),)),
    )
    page = Checked(render([run]))
    assert "not defined" in page.text
    assert "worst client: b" in page.text
    assert "nan" not in page.text.lower().replace("finance", "")
