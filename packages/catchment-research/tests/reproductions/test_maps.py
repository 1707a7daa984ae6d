"""The maps' table: folds, cells against scikit-learn's ridge and `federate`, bytes, text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

import catchment as ct
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.features import FeatureMap, MiniRocket, WindowStatistics
from reproductions import maps as module
from reproductions.data import ucr
from reproductions.map_methods import LARGE, METHODS, NOTHING_SET, OVER_ROUNDS
from reproductions.map_sets import (
    TEST,
    FoldedSet,
    dealt,
    folded,
    label_of,
    people_folds,
    write_windows,
)
from reproductions.map_tables import markdown, target_table, ucr_table, write
from reproductions.map_values import (
    NETWORKS,
    MapCell,
    MapsResult,
    MapsSettings,
    Row,
    load_maps,
    network_cells,
)
from reproductions.maps import (
    Prepared,
    cells_beside,
    jobs_of,
    majority,
    map_cell,
    maps,
    rounds_cell,
)

TS = """# a comment
@problemName Toy
@univariate false
@classLabel true a b
@data
1.0,2.0,3.0:4.0,5.0,6.0:b
-1,?,0.5:0,0,0:a
"""


def people(n: int = 4, windows: int = 12) -> FoldedSet:
    users = synthetic_wearables(n, 0, windows_per_user=windows)
    return FoldedSet(
        name="toy", clients=users, folds=people_folds(list(users), 2), classes=ACTIVITIES
    )


def built(prepared: Prepared, what: Any) -> FeatureMap:
    made: FeatureMap = what.build(prepared.n_inputs, per_step=False, classes=True)
    return made


def counted(method: str, correct: dict[str, int], seed: int = 0, **values: Any) -> MapCell:
    windows = dict.fromkeys(correct, 10)
    return MapCell(
        set="uci_har", method=method, seed=seed, windows=windows, correct=correct, **values
    )


def test_ts_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "toy.ts").write_text(TS)
    cases, labels, classes = ucr.read_ts(tmp_path / "toy.ts")
    np.testing.assert_array_equal(cases[0], [[1, 4], [2, 5], [3, 6]])
    np.testing.assert_array_equal(cases[1], [[-1, 0], [np.nan, 0], [0.5, 0]])
    assert labels == ["b", "a"]
    assert classes == ("a", "b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@classLabel true a\n@data\n", "no cases"),
        ("@classLabel true a\n@data\n1,2:c\n", "the class 'c'"),
        ("@classLabel true a\n@data\n1,2:1:a\n", "differ in length"),
    ],
)
def test_faulty_ts_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "toy.ts").write_text(text)
    with pytest.raises(ValueError, match=words):
        ucr.read_ts(tmp_path / "toy.ts")


def test_a_problem_is_dealt_to_four_clients(tmp_path: Path) -> None:
    folder = tmp_path / "ucr" / "GunPoint"
    folder.mkdir(parents=True)
    lines = "\n".join(f"{k},{k + 1},{k + 2}:{'ab'[k % 2]}" for k in range(9))
    for part in ("TRAIN", "TEST"):
        (folder / f"GunPoint_{part}.ts").write_text(f"@classLabel true a b\n@data\n{lines}\n")
    (tmp_path / "ucr" / "reference.csv").write_text(
        "dataset,method,accuracy_default_split\nGunPoint,MiniRocket,0.9933\n"
    )
    data = dealt(ucr.load_problem("GunPoint", directory=tmp_path))
    assert sorted(map(len, data.clients.values())) == [2, 2, 2, 3, 9]
    assert data.folds == ((TEST,),)
    assert len(data.training(0)) == 4
    firsts = sorted(float(r.u[0, 0]) for name in data.training(0) for r in data.clients[name])
    assert firsts == list(range(9))
    assert ucr.published(directory=tmp_path) == {("GunPoint", "MiniRocket"): 0.9933}
    assert ucr.available(tmp_path) == ("GunPoint",)


def test_folds_are_written_down() -> None:
    names = [f"subject-{k:02d}" for k in range(1, 25)]
    folds = people_folds(names[::-1])
    assert sorted(name for fold in folds for name in fold) == names
    assert [len(fold) for fold in folds] == [5, 5, 5, 5, 4]
    order = np.random.default_rng(0).permutation(24)
    assert folds[1] == tuple(sorted(names[k] for k in order[1::5]))


def oracle(
    features: FeatureMap, train: list[ct.Recording], ridge: float
) -> Callable[[list[ct.Recording]], NDArray[np.int64]]:
    """Return the classes that scikit-learn's ridge on pooled, divided rows gives recordings."""
    z = np.concatenate(features.rows([r.u for r in train]))
    spread = np.where(z.std(axis=0) > 0, z.std(axis=0), 1.0)
    fitted = Ridge(alpha=ridge).fit(z / spread, np.array([r.y for r in train]))

    def classes(own: list[ct.Recording]) -> NDArray[np.int64]:
        rows = np.concatenate(features.rows([r.u for r in own]))
        found: NDArray[np.int64] = fitted.predict(rows / spread).argmax(axis=1)
        return found

    return classes


def test_a_cell_is_scikit_learns_ridge_on_pooled_rows() -> None:
    prepared = Prepared.of(people())
    features = built(prepared, MiniRocket(168))
    cell = map_cell(prepared, "toy", 0, [features])
    for fold, tested in enumerate(prepared.data.folds):
        train = [r for name in prepared.data.training(fold) for r in prepared.clients[name]]
        expected = oracle(features, train, float(cell.chosen[fold].split()[-1]))
        for name in tested:
            own = prepared.clients[name]
            assert cell.correct[name] == (expected(own) == [label_of(r) for r in own]).sum()


def test_a_cell_is_what_federate_gives_and_sends() -> None:
    data = people()
    prepared = Prepared.of(data)
    cell = map_cell(prepared, "toy", 0, [built(prepared, WindowStatistics())])
    pipeline = ct.Pipeline(ct.Preprocessing(scale="own"), WindowStatistics())
    train = {name: list(data.clients[name]) for name in data.training(0)}
    run = ct.federate(pipeline, train, ridge="leave-one-client-out", upload="statistics")
    for name in data.folds[0]:
        score = ct.evaluate(run.model, {name: list(data.clients[name])}).total
        assert score is not None
        assert round(score.value * cell.windows[name]) == cell.correct[name]
    assert run.records[0].bytes_up / len(train) == pytest.approx(cell.mean_up, rel=0.05)
    small = ct.federate(pipeline, train, ridge="leave-one-client-out", upload="auto")
    assert small.records[0].bytes_up / len(train) == pytest.approx(cell.least_up, rel=0.05)
    assert cell.least_up < cell.mean_up


def test_test_people_choose_nothing() -> None:
    data = people()
    upside_down = {
        name: [replace(r, y=np.roll(np.asarray(r.y), 1)) for r in own]
        if name in data.folds[0]
        else own
        for name, own in data.clients.items()
    }
    one_fold = replace(data, folds=data.folds[:1])
    cells = [
        map_cell(prepared, "toy", 0, [built(prepared, MiniRocket(84))])
        for prepared in (
            Prepared.of(one_fold),
            Prepared.of(replace(one_fold, clients=upside_down)),
        )
    ]
    assert cells[0].chosen == cells[1].chosen
    assert cells[0].correct != cells[1].correct


def test_of_several_maps_the_better_one_is_chosen_and_all_are_sent() -> None:
    prepared = Prepared.of(people(8, 30))
    good, poor = built(prepared, MiniRocket(168)), built(prepared, ct.EchoState(1, input=False))
    alone = map_cell(prepared, "toy", 0, [good])
    both = map_cell(prepared, "toy", 0, [poor, good])
    assert both.correct == alone.correct
    assert all(text.startswith("map 1") for text in both.chosen)
    assert both.largest_up > alone.largest_up
    assert both.columns == good.n_features + poor.n_features


def test_the_majority_is_that_of_training_people() -> None:
    data = people()
    cell = majority(Prepared.of(data))
    for fold, tested in enumerate(data.folds):
        classes = [label_of(r) for n in data.training(fold) for r in data.clients[n]]
        most = max(range(len(ACTIVITIES)), key=lambda k: (classes.count(k), -k))
        for name in tested:
            own = [label_of(r) for r in data.clients[name]]
            assert cell.correct[name] == own.count(most)


def test_a_row_says_who_is_worst_and_how_far_people_differ() -> None:
    cells = tuple(
        counted("m", {"ann": right, "bob": 10, "cy": 8}, seed) for seed, right in enumerate((4, 6))
    )
    row = Row(cells=cells)
    assert row.accuracy == pytest.approx((22 / 30 + 24 / 30) / 2)
    assert row.deviation == pytest.approx(np.std([22 / 30, 24 / 30], ddof=1))
    assert row.worst == ("ann", 0.5)
    # Within each seed somebody is worst, also where it is another every time.
    turns = ({"ann": 2, "bob": 8}, {"ann": 8, "bob": 4})
    other = Row(cells=tuple(counted("m", right, seed) for seed, right in enumerate(turns)))
    assert other.worst[0] == "ann"
    assert other.worst[1] == pytest.approx(0.3)
    low, high = row.interval
    # With three people every share between all-worst and all-best is drawn.
    assert 0.5 <= low < row.accuracy < high <= 1.0
    same = Row(cells=(counted("m", {"ann": 7, "bob": 7}),))
    assert same.interval == pytest.approx((0.7, 0.7))


def test_cells_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = MapsSettings(seeds=2, methods=("majority", "window statistics"), windows=6)
    first = maps(settings, sets=["synthetic"])
    first.save(tmp_path / "maps.json")
    again = load_maps(tmp_path / "maps.json")
    assert [c.key for c in first.cells] == [
        ("synthetic", "majority", 0),
        ("synthetic", "window statistics", 0),
    ]

    def refuse(*_: object) -> MapCell:
        raise AssertionError("this cell was there")

    monkeypatch.setattr(module, "map_cell", refuse)
    resumed = maps(settings, sets=["synthetic"], earlier=again)
    assert [dict(c.correct) for c in resumed.cells] == [dict(c.correct) for c in first.cells]
    with pytest.raises(AssertionError, match="was there"):
        maps(replace(settings, windows=5), sets=["synthetic"], earlier=again)


def test_large_maps_are_for_sets_of_one_fold() -> None:
    data, settings = people(), MapsSettings(seeds=1)
    several = {job.method for job in jobs_of(data, settings)}
    one = {job.method for job in jobs_of(replace(data, folds=data.folds[:1]), settings)}
    assert one - several == set(LARGE)
    assert one == set(METHODS) - {OVER_ROUNDS}
    cases = replace(data, folds=data.folds[:1], scale="federated")
    assert {job.method for job in jobs_of(cases, settings)} == set(METHODS) - {NOTHING_SET}


def test_products_over_rounds_give_scikit_learns_ridge() -> None:
    data = people(10, 8)
    data = replace(data, folds=data.folds[:1], scale="federated")
    prepared = Prepared.of(data)
    features = built(prepared, MiniRocket(168))
    cell = rounds_cell(prepared, "rounds", 0, [features])
    train = [r for name in data.training(0) for r in prepared.clients[name]]
    expected = oracle(features, train, float(cell.chosen[0].split()[-1]))
    for name in data.folds[0]:
        own = prepared.clients[name]
        assert cell.correct[name] == (expected(own) == [label_of(r) for r in own]).sum()
    assert cell.rounds > 1


def test_an_unknown_method_or_set_is_refused() -> None:
    with pytest.raises(ValueError, match="no method is called 'best'"):
        maps(MapsSettings(methods=("best",)), sets=["synthetic"])
    with pytest.raises(ValueError, match="no set is called 'everybody'"):
        folded("everybody")


def network(correct: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "set": "synthetic",
        "network": "cnn",
        "numbers": 100,
        "rounds": [30, 6],
        "bytes_up": [12000, 2400],
        "folds": {"0": {"choice": [0.1, 1, 30]}, "1": {"choice": [0.3, 5, 30]}},
        "windows": dict.fromkeys(correct, 6),
        "correct": correct,
        "settings": {"rates": [0.1], "local_epochs": [1], "epochs": [30], "seeds": 2},
        "device": "cpu",
        "seconds": 3.0,
    }


def test_cells_from_elsewhere_join_if_they_saw_the_same_windows(tmp_path: Path) -> None:
    settings = MapsSettings(seeds=1, methods=("majority",), windows=6)
    names = folded("synthetic").tested
    cells = network_cells([network({name: [3, 4] for name in names})])
    assert [c.accuracy for c in cells] == pytest.approx([0.5, 4 / 6])
    assert (cells[0].largest_up, cells[0].rounds) == (12000, 18)
    assert len(maps(settings, sets=["synthetic"], beside=cells).cells) == 3
    others = [replace(cell, windows=dict.fromkeys(names, 7)) for cell in cells]
    assert len(maps(settings, sets=["synthetic"], beside=others).cells) == 1
    (tmp_path / "maps_networks.json").write_text(
        json.dumps([network({name: [3, 4] for name in names})])
    )
    assert [c.method for c in cells_beside(tmp_path)] == [NETWORKS["cnn"]] * 2


def test_text_and_picture(tmp_path: Path) -> None:
    people_cells = [
        counted("default, 510", {"ann": 10, "bob": 9}, largest_up=0.4e6, columns=510),
        counted("CNN by FedAvg", {"ann": 9, "bob": 9}, largest_up=9e6, remark="tuned"),
    ]
    problem = replace(people_cells[0], set="GunPoint", classes=((9, 10, 9), (0, 0, 1)))
    result = MapsResult(settings={}, cells=(*people_cells, problem), folds={})
    published = {("GunPoint", "MiniRocket"): 0.9933}
    text = markdown(result, published)
    assert "| default, 510 | 510 | 95.00 |" in text
    assert "- CNN by FedAvg: tuned" in text
    assert "MiniRocket as aeon has it was not computed" in text
    assert "| MiniRocket, published | 99.33 | 99.33 | - | - | - |" in text
    assert f"| default, 510 | 95.00 | 95.00 | {9 / 19:.3f} | 0.400 |" in text
    assert "| uci_har | 0.970 at 1.1 MB or less | default, 510 | 0.9500 | 0.400 |" in text
    assert "| no |" in target_table(result)
    assert ucr_table(result, ["GunPoint"], {}).count("\n") == 2
    pytest.importorskip("matplotlib")
    paths = write(result, tmp_path, published)
    assert [path.name for path in paths] == ["maps.json", "maps.md", "maps.png"]
    assert paths[2].stat().st_size > 1000


def test_windows_travel_to_programs_that_have_numpy_alone(tmp_path: Path) -> None:
    fedavg = pytest.importorskip("reproductions.stacked_fedavg")
    data = people()
    write_windows(tmp_path / "windows.npz", [data])
    (read,) = fedavg.read(tmp_path / "windows.npz", "cpu")
    assert read.names == tuple(sorted(data.clients))
    assert [tuple(read.names[p] for p in fold) for fold in read.folds] == list(data.folds)
    own = Prepared.of(data).clients[read.names[1]]
    rows = read.rows(1)
    np.testing.assert_allclose(read.x[rows[0]].numpy(), own[0].u, rtol=1e-3, atol=1e-3)
    assert read.label[rows].tolist() == [label_of(r) for r in own]
