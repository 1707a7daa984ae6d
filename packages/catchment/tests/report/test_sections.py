"""Sections of the report: who trained, the data, folds, labels of new people, contrast."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from catchment.federation import Record, Refusal
from catchment.federation.measure import Comparison, Row
from catchment.federation.runs import Run
from catchment.report import client_scores, lead, render, theme
from tests.report.pages import Checked

WHY = Refusal("p03", "refused", "there is no column 'y'")


def with_rounds(run: Run, **stages: Record) -> Run:
    return replace(run, rounds={stage: (record,) for stage, record in stages.items()})


def test_the_headline_counts_those_used_of_those_asked(runs: list[Run]) -> None:
    trained = Record(0, 12, 11, 0.1, 1, 1, (WHY,))
    page = Checked(render([with_rounds(runs[0], training=trained)]))
    assert "11 of 12 clients trained ; p03 was left out: there is no column 'y'" in page.text
    tested = Record(0, 4, 3, 0.1, 1, 1, (replace(WHY, client="p09"),))
    page = Checked(render([with_rounds(runs[0], training=trained, evaluation=tested)]))
    assert "11 of 12 clients trained, 3 of 4 were tested" in page.text
    assert "p03 was left out: there is no column 'y'" in page.text
    assert "p09 was not tested: there is no column 'y'" in page.text


def test_the_headline_of_a_run_without_trouble(runs: list[Run]) -> None:
    assert ", 4 clients trained, 2 were tested, " in lead(runs[0])
    assert "left out:" not in render(runs[:1])
    one = with_rounds(runs[0], training=Record(0, 1, 1, 0.1, 1, 1))
    assert ", 1 client trained, " in lead(one)
    rounds = {"training": tuple(Record(k, 9, 9 - k, 0.1, 1, 1) for k in range(3))}
    assert ", at least 7 of 9 clients trained, " in lead(replace(one, rounds=rounds))
    assert "nobody has trained yet" in lead(replace(one, rounds={}))


def test_many_that_were_left_out_are_counted(runs: list[Run]) -> None:
    refused = tuple(replace(WHY, client=f"p{k}") for k in range(7))
    page = render([with_rounds(runs[0], training=Record(0, 12, 3, 0.1, 1, 1, refused))])
    assert '<li><a href="#refused-0">4 more were left out</a></li>' in page
    assert "<li>2 did not answer to the end</li>" in page
    assert '<h3 id="refused-0">Answers that were not used</h3>' in page


def test_personal_rows_say_whose_labels_they_use(runs: list[Run]) -> None:
    rows = (Row("exact federated", "accuracy", 0.9), Row("personalized", "accuracy", 0.95))
    page = render([replace(runs[0], comparison=Comparison(rows))])
    assert page.count("uses labels of the new people") == 1
    assert 'personalized<small class="warn">uses labels of the new people</small>' in page


def test_nothing_is_compared_with_itself(runs: list[Run]) -> None:
    alone = Comparison((Row(runs[0].facts["own_row"], "accuracy", 0.9),))
    assert "Compared with" not in render([replace(runs[0], comparison=alone)])
    other = Comparison((*alone.rows, Row("local", "accuracy", 0.9)))
    assert "Compared with" in render([replace(runs[0], comparison=other)])


def test_folds_are_drawn_with_their_mean_and_range(runs: list[Run]) -> None:
    made = [{"clients": ["ann"], "rows": 4, "score": one} for one in (0.5, 0.75, 1.0, None)]
    page = render([replace(runs[0], facts={**runs[0].facts, "folds": json.dumps(made)})])
    chart = re.search(r"<figure><h3>Folds</h3>.*?</figure>", page)
    assert chart is not None
    assert chart[0].count("<circle") == 3
    assert "mean 75.0 %" in chart[0]
    assert "Mean 75.0 %, from 50.0 % to 100.0 %." in chart[0]
    assert "accuracy, all test clients, in 4 folds" in page
    assert "<h3>Folds</h3>" not in render(runs[:1])


def test_whom_no_fold_could_test_is_named(runs: list[Run]) -> None:
    folds = [
        {"clients": ["ann"], "rows": 9, "score": 0.5, "untested": {}},
        {"clients": [], "rows": 0, "score": None, "untested": {"bob": "no labels"}},
    ]
    page = render([replace(runs[0], facts={**runs[0].facts, "folds": json.dumps(folds)})])
    assert "<bdi>bob</bdi> was not tested: no labels" in page
    assert "Mean 50.0 %, from 50.0 % to 50.0 %." in page
    assert "fold 2 not defined" in page


def test_the_data_are_summed_up_where_the_run_knows(runs: list[Run]) -> None:
    lines = [f"line {k} of <b>" for k in range(15)]
    page = render([replace(runs[0], facts={**runs[0].facts, "summary": json.dumps(lines)})])
    assert "<h3>The data</h3><ul><li>line 0 of &lt;b&gt;</li>" in page
    assert "<summary>3 more lines about the data</summary>" in page
    assert "line 14" in page
    assert "The data" not in render(runs[:1])


def test_the_worst_client_is_a_link_where_the_page_says_more(runs: list[Run]) -> None:
    page = render(runs[:1])
    assert "worst client: <bdi>" in page
    targets = re.findall(r'worst client: <bdi>[^<]*</bdi> <a href="#([^"]*)">why\?</a>', page)
    assert len(targets) == page.count('<section id="served-')
    assert all(page.count(f'id="{target}"') == 1 for target in targets)


def test_terms_are_explained_and_the_axis_of_clients_starts_at_nothing(runs: list[Run]) -> None:
    page = Checked(render(runs[:1]))
    assert "Weight norm: the length of all weights together." in page.text
    scores = {"": {"accuracy": 0.95}, "ann": {"accuracy": 0.93}, "bob": {"accuracy": 0.97}}
    drawn = "".join(client_scores(replace(runs[0], scores=scores)))
    assert ">0 %<" in drawn
    assert ">100 %<" in drawn


def test_nobody_is_called_the_worst_of_those_who_are_alike(runs: list[Run]) -> None:
    scores = {name: {"accuracy": 1.0} for name in ("", "ann", "bob")}
    page = Checked(render([replace(runs[0], scores=scores)]))
    assert "All are alike." in page.text
    assert "The worst first" not in page.text


def test_one_class_in_the_test_is_said(runs: list[Run]) -> None:
    assert runs[0].confusion is not None
    only = np.zeros_like(runs[0].confusion)
    only[1, :2] = 3, 4
    page = Checked(render([replace(runs[0], confusion=only)]))
    assert f"All are of one class, {runs[0].classes[1]}, so that a score says little." in page.text


def luminance(color: str) -> float:
    """Return the relative luminance of a color, by the formula of WCAG 2."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(one: str, other: str, share: float) -> str:
    parts = ((int(c[k : k + 2], 16) for c in (one, other)) for k in (1, 3, 5))
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in parts)


@pytest.mark.parametrize("dark", [False, True])
def test_colors_can_be_told_from_the_page(dark: bool) -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    colors = theme(dark)
    for words in (colors.text, colors.muted, colors.warning, colors.series[0]):
        assert contrast(words, colors.page) >= 4.5
    for drawn in colors.series[:2]:
        assert contrast(drawn, colors.page) >= 3
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):  # the numbers of a confusion
        cell = mixed(colors.series[0], colors.grid, share * colors.deepest / 100)
        assert contrast(colors.text, cell) >= 4.5
