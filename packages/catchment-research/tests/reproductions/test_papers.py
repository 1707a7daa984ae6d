"""The table of the papers' claims: made from the kept figures, and changed when they change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from reproductions.cells import Cell
from reproductions.claims import Results, Verdict, same_sign
from reproductions.claims_concepts import CONCEPTS
from reproductions.claims_networks import FEDPT, within
from reproductions.claims_people import FEDIP, INCFED
from reproductions.claims_prompts import FEDRESPROMPT, cells_of
from reproductions.intervals import Interval, over_runs
from reproductions.papers import PAPERS, document, limits, table
from reproductions.study import SetResult, StudyResult
from reproductions.unfinished import unfinished

ROOT = Path(__file__).parents[4]


def test_the_documents_are_what_the_figures_say() -> None:
    text = document(Results(ROOT / "results", ROOT / "benchmarks" / "results"))
    for folder in ("results", "docs/research"):
        kept = (ROOT / folder / "papers.md").read_text()
        assert kept == text, "run `python -m reproductions papers` again"


def people(name: str, *methods: str, right: dict[str, list[int]], n: int = 20) -> StudyResult:
    cells = [
        Cell(
            method,
            share,
            0,
            0.5,
            0.9 - 0.3 * share,
            0.5,
            {f"p{k}": v / n for k, v in enumerate(right[method])},
            1.0,
            1e-12,
            {f"p{k}": [[v, n - v], [0, 0]] for k, v in enumerate(right[method])},
        )
        for method in methods
        for share in (0.25, 1.0)
    ]
    one = SetResult(
        name="wesad",
        notes=("compact form",),
        subjects={"train": 2, "validation": 1, "test": 6},
        n_sequences=20,
        classes=("a", "b"),
        cells=tuple(cells),
    )
    return StudyResult(name=name, settings={"alphas": [0.1]}, sets=(one,))


GOOD, FAIR = [18, 17, 19, 18, 16, 18], [12, 11, 13, 12, 10, 12]


def verdict(paper: Any, k: int, folder: Path) -> Verdict | None:
    found: Verdict | None = paper.claims[k].judge(Results(folder, folder))
    return found


def test_the_verdict_turns_with_the_figures(tmp_path: Path) -> None:
    for ours, theirs, same in (
        (GOOD, FAIR, "yes"),
        (FAIR, GOOD, "no"),
        (FAIR, FAIR, "not settled"),
    ):
        right = {"incfed": ours, "fedavg-samples": theirs}
        people("incfed", *right, right=right).save(tmp_path / "incfed.json")
        found = verdict(INCFED, 1, tmp_path)
        assert found is not None
        assert found.same == same
        assert "6 people" in found.ours
        right = {"fedip-paper-mean": ours, "incfed-mean": theirs}
        people("fedip", *right, right=right).save(tmp_path / "fedip.json")
        found = verdict(FEDIP, 0, tmp_path)
        assert found is not None
        assert found.same == same


def test_skew_is_the_most_uneven_dealing_against_all_alike(tmp_path: Path) -> None:
    names = [f"fedip / {how} / mean" for how in ("alpha 10", "alpha 0.1", "iid")]
    right = dict(zip(names, (GOOD, FAIR, GOOD), strict=True))
    people("skew", *names, right=right).save(tmp_path / "skew.json")
    found = verdict(FEDIP, -1, tmp_path)
    assert found is not None
    assert found.same == "yes"
    assert found.ours.startswith("wesad +30.0")


def rows(part: str, by_share: dict[float, list[float]], **more: Any) -> list[dict[str, Any]]:
    return [
        {"part": part, "data": "x", "percent": share, "accuracy": value, "seed": seed, **more}
        | {"reduction": 100 / share, "seconds_per_round": share, "peak_mebibytes": share}
        for share, values in by_share.items()
        for seed, value in enumerate(values)
    ]


def test_partial_networks_are_judged_seed_by_seed(tmp_path: Path) -> None:
    full = [0.90, 0.80, 0.85]
    little = [value - 0.01 + 0.001 * k for k, value in enumerate(full)]
    much = [value - 0.05 + 0.001 * k for k, value in enumerate(full)]
    for part, expected in ((little, "yes"), (much, "no")):
        content = {"rows": rows("writers", {100.0: full, 4.96: part}), "notes": []}
        (tmp_path / "fedpt.json").write_text(json.dumps(content))
        found = verdict(FEDPT, 0, tmp_path)
        assert found is not None
        assert found.same == expected
    noisy = [
        *rows("private", {100.0: full, 4.96: much}, noise=0.0),
        *rows("private", {100.0: much, 4.96: full}, noise=8.83),
    ]
    (tmp_path / "fedpt.json").write_text(json.dumps({"rows": noisy, "notes": []}))
    found = verdict(FEDPT, 8, tmp_path)
    assert found is not None
    assert found.same == "yes"
    assert "at noise 8.83" in found.ours


def test_bytes_of_prompts_count_a_round_in_all_and_until_an_accuracy(tmp_path: Path) -> None:
    def cell(method: str, rounds: int, sent: int, asked: int, seed: int) -> dict[str, Any]:
        variant = {"method": method, "noise": 0.0}
        job = {"task": "sst2", "variant": variant, "seed": seed, "search": False}
        counted = {"bytes_up": sent // 2, "bytes_down": sent // 2, "asked_up": asked}
        curve = [[1, sent // rounds, 0.5], [2, 2 * sent // rounds, 0.9 if seed else 0.5]]
        figures = {"test": 0.9, "rounds": rounds, "asked_down": 0, "curve": curve}
        return {"job": job, **counted, **figures}

    def judged(*kinds: tuple[str, int, int, int]) -> Verdict:
        cells = [cell(*kind, seed) for kind in kinds for seed in range(3)]
        content = {"settings": {"model": "m"}, "cells": cells}
        (tmp_path / "fedresprompt.json").write_text(json.dumps(content))
        found = verdict(FEDRESPROMPT, 3, tmp_path)
        assert found is not None
        return found

    mega, lora = 10**6, ("lora", 10, 400 * 10**6, 0)
    few, many = ("reservoir", 20, 8 * mega, 4 * mega), ("published", 20, 80 * mega, 80 * mega)
    alone = judged(lora, few)
    assert alone.same == "yes"
    assert "100 and 67 times fewer a round" in alone.ours
    assert "50 and 33 times in all, with 2.0 times the rounds" in alone.ours
    assert alone.ours.endswith("0.8 MB and 1.2 MB until 87 % on development, where LoRA took 80 MB")
    both = judged(lora, few, many)
    assert both.same == "partly"
    assert "as published 10 and 5.0 times fewer a round" in both.ours
    assert judged(lora, many).same == "no"


def test_prompts_are_judged_over_people_where_they_are_known(tmp_path: Path) -> None:
    def cell(method: str, known: int, new: int) -> dict[str, Any]:
        people = {
            kind: {f"p{k}": (right + k % 2, 20) for k in range(8)}
            for kind, right in (("known", known), ("new", new))
        }
        variant = {"method": method, "noise": 0.0}
        job = {"task": "instructed", "variant": variant, "seed": 0, "search": False}
        return {"job": job, "test": known / 20, "people": people, "extra": {}}

    cells = [cell("reservoir", 15, 12), cell("ridge", 18, 4), cell("largest", 6, 6)]
    cells.append(cell("lora", 1, 1))
    cells[-1]["job"]["variant"]["rounds"] = 40
    content = {"settings": {"model": "m"}, "cells": cells}
    (tmp_path / "fedresprompt.json").write_text(json.dumps(content))
    one, both = verdict(FEDRESPROMPT, -2, tmp_path), verdict(FEDRESPROMPT, -1, tmp_path)
    assert one is not None
    assert both is not None
    assert (one.same, both.same) == ("yes", "partly")
    assert both.ours.startswith("-15.0 (-15.0 to -15.0; 8 people) with known wordings, +40.0")
    assert cells_of(Results(tmp_path, tmp_path), "instructed", "lora") == {}


def test_what_is_missing_says_that_it_was_not_run(tmp_path: Path) -> None:
    empty = Results(tmp_path, tmp_path)
    for paper in PAPERS:
        assert table(paper, empty).count("**not run**") == len(paper.claims)
    assert limits(empty).count("\n- ") == 6
    assert CONCEPTS in PAPERS
    assert FEDRESPROMPT in PAPERS


def test_data_of_the_publisher_is_no_limit_any_more(tmp_path: Path) -> None:
    study = people("incfed", "incfed", right={"incfed": GOOD})
    own = replace(study, sets=(replace(study.sets[0], notes=("the publisher's files",)),))
    study.save(tmp_path / "incfed.json")
    assert "raw WESAD" in limits(Results(tmp_path, tmp_path))
    own.save(tmp_path / "incfed.json")
    assert "raw WESAD" not in limits(Results(tmp_path, tmp_path))


def test_an_interval_over_runs_is_that_of_student() -> None:
    values = [0.3, 0.1, 0.25, 0.4]
    theirs = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    ours = over_runs(values)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs))
    assert not over_runs([0.3]).settled


def test_concepts_are_settled_over_seeds(tmp_path: Path) -> None:
    def row(alone: list[float], summed: list[float]) -> dict[str, Any]:
        return {"by_seed": {"ensemble": alone, "aggregation": summed}}

    wide = row([0.15, 0.16, 0.17, 0.16], [0.45, 0.46, 0.48, 0.47])
    for summed, expected in (
        ([0.14, 0.15, 0.16, 0.15], "yes"),
        ([0.10, 0.20, 0.15, 0.18], "partly"),
    ):
        alike = row([0.15, 0.16, 0.17, 0.16], summed)
        content = {"alpha": {"0.0": wide, "0.99": wide, "1.0": alike}}
        (tmp_path / "heterogeneous.json").write_text(json.dumps(content))
        safe, near = verdict(CONCEPTS, 1, tmp_path), verdict(CONCEPTS, 2, tmp_path)
        assert safe is not None
        assert near is not None
        assert (safe.same, near.same) == ("yes", expected)
        assert "0.160 against 0.465 at 0 (+0.305, +0.2" in safe.ours


def test_signs_and_bounds() -> None:
    up, down, open_ = (Interval(v, v - 0.1, v + 0.1, 5, runs=True) for v in (0.2, -0.2, 0.05))
    assert same_sign([up, up]) == "yes"
    assert same_sign([up, down, open_]) == "partly"
    assert same_sign([down, open_]) == "no"
    assert same_sign([open_]) == "not settled"
    assert same_sign([replace(up, n_people=5, runs=False)]) == "not settled"
    assert within(Interval(-0.02, -0.03, -0.01, 3), 2.0) == "not settled"
    assert within(Interval(-0.02, -0.03, -0.01, 3), 4.0) == "yes"
    assert within(Interval(-0.02, -0.03, -0.015, 3), 1.0) == "no"


def test_the_order_of_shares_is_open_where_a_rate_is_at_the_edge(tmp_path: Path) -> None:
    full, less = [0.90, 0.80, 0.85], [0.80, 0.71, 0.75]
    for accuracies, expected in (((0.3, 0.5, 0.4), "yes"), ((0.5, 0.4, 0.3), "not settled")):
        tried = zip((0.1, 0.2, 0.4), accuracies, strict=True)
        search = [
            {"part": "cifar", "percent": 100.0, "rate": rate, "accuracy": right}
            for rate, right in tried
        ]
        content = {"rows": rows("cifar", {100.0: full, 3.47: less}), "search": search, "notes": []}
        (tmp_path / "fedpt.json").write_text(json.dumps(content))
        found = verdict(FEDPT, 2, tmp_path)
        assert found is not None
        assert found.same == expected


def test_the_order_of_shares_is_that_of_all_runs(tmp_path: Path) -> None:
    full, less = [0.90, 0.80, 0.85], [0.80, 0.71, 0.75]
    content: dict[str, Any] = {
        "rows": [
            *rows("cifar", {100.0: full, 2.16: less}),
            *rows("cifar_many", {100.0: less, 2.16: full}),
        ],
        "search": [
            {"part": "cifar", "percent": 2.16, "rate": rate, "accuracy": rate} for rate in (0.1, 1)
        ],
        "notes": [],
    }
    (tmp_path / "fedpt.json").write_text(json.dumps(content))
    found = verdict(FEDPT, 2, tmp_path)
    assert found is not None
    assert found.same == "partly"
    assert found.ours.startswith("points lost with 10 clients: +9.7")
    assert "points lost with 100 clients: -9.7" in found.ours
    assert "best rate of 2.16 % with 10 clients is the last that was tried" in found.why
    assert verdict(FEDPT, 3, tmp_path) is None, "no other images yet"
    content["rows"] += rows("fashion", {100.0: less, 2.16: full})
    (tmp_path / "fedpt.json").write_text(json.dumps(content))
    other = verdict(FEDPT, 3, tmp_path)
    assert other is not None
    assert other.same == "no"


def test_next_words_stand_beside_the_most_frequent_one(tmp_path: Path) -> None:
    content = {
        "rows": rows("text", {100.0: [0.16, 0.17], 91.28: [0.16, 0.17]}),
        "baselines": {"text": 0.088},
        "notes": [],
    }
    (tmp_path / "fedpt.json").write_text(json.dumps(content))
    found = verdict(FEDPT, 4, tmp_path)
    assert found is not None
    assert found.ours.endswith("(the most frequent word alone: 8.8 %)")


def test_memory_that_was_measured_the_other_way_round_is_told(tmp_path: Path) -> None:
    def measured(whole: float, part: float) -> str:
        rows = [
            {"percent": share, "mebibytes": value, "repetition": k}
            for share, value in ((100.0, whole), (2.16, part))
            for k in range(3)
        ]
        return json.dumps({"rows": [], "memory": rows})

    (tmp_path / "earlier").mkdir()
    for before, expected in ((measured(180, 205), "partly"), (measured(205, 180), "yes")):
        (tmp_path / "fedpt.json").write_text(measured(330, 190))
        (tmp_path / "earlier" / "fedpt-memory.json").write_text(before)
        found = verdict(FEDPT, 6, tmp_path)
        assert found is not None
        assert found.same == expected
        assert ("180 MiB with 100 %, 205 to 205" in found.ours) == (expected == "partly")


def test_plasticity_says_from_how_many_recipes_and_what_became_of_rules(tmp_path: Path) -> None:
    right = {"fedip-paper-mean": FAIR, "incfed-mean": GOOD}
    study = people("fedip", *right, right=right)
    line = (
        "paper ranges, an update a step, printed equation: 28 of 30 rules took gains below zero, "
        "0 were left out"
    )
    one = replace(study.sets[0], remarks=(line,))
    replace(study, settings={"trials": 30}, sets=(one,)).save(tmp_path / "fedip.json")
    found = verdict(FEDIP, 0, tmp_path)
    assert found is not None
    assert "from the same 30 recipes in a fold" in found.why
    assert "28 of 30 rules take gains through zero" in found.why


def test_memory_is_settled_by_three_measurements(tmp_path: Path) -> None:
    for n, expected in ((1, "not settled"), (3, "yes")):
        memory = [
            {"percent": share, "mebibytes": share, "repetition": k}
            for share in (100.0, 2.16)
            for k in range(n)
        ]
        (tmp_path / "fedpt.json").write_text(json.dumps({"rows": [], "memory": memory}))
        found = verdict(FEDPT, 6, tmp_path)
        assert found is not None
        assert found.same == expected
        assert ("--sets memory" in unfinished(Results(tmp_path, tmp_path))) == (n == 1)


def test_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    assert unfinished(Results(tmp_path, tmp_path)) == ""
    study = people("fedip", "incfed-mean", right={"incfed-mean": GOOD})
    replace(study, settings={"folds": 2}).save(tmp_path / "fedip.json")
    lines = unfinished(Results(tmp_path, tmp_path))
    assert "--sets fsdd,uci_har,motionsense,wisdm_watch,hhar" in lines
    assert "fedip --resume --folds 1`" in lines


def test_the_earlier_measurement_of_memory_is_told_with_its_figures() -> None:
    kept = json.loads((ROOT / "results" / "earlier" / "fedpt-memory.json").read_text())["memory"]
    (note,) = (
        note
        for note in json.loads((ROOT / "results" / "fedpt.json").read_text())["notes"]
        if note.startswith("memory: ")
    )
    for whole in (True, False):
        own = [row for row in kept if (row["percent"] == 100) is whole]
        for before in (0, 1):
            values = [row["mebibytes"] + before * row["mebibytes_before"] for row in own]
            assert f"{min(values):.0f} to {max(values):.0f}" in note
