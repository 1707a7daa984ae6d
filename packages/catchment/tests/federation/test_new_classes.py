"""Classes that come, go and are unknown, against models that were made without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import OAS

import catchment as ct
from catchment.cli import main
from catchment.data import Recording
from catchment.errors import FederationError
from catchment.plans import verify_run
from catchment.readout import (
    KnownClasses,
    RidgeStatistics,
    StatisticsSet,
    only_targets,
    spread_targets,
)

PACES = {"slow": 0.2, "fast": 0.6, "hop": 1.5}
MAP = ct.EchoState(12)


def held(names: tuple[str, ...], n: int = 6, seed: int = 0) -> list[Recording]:
    rng = np.random.default_rng([seed, *map(ord, "".join(names))])
    return [
        Recording.labeled(
            np.sin(np.arange(40) * PACES[name] + rng.uniform(0, 6)) + 0.1 * rng.normal(size=40),
            name,
            names,
        )
        for name in names
        for _ in range(n)
    ]


OLD = ("slow", "fast")
EARLY = {client: held(OLD, seed=k) for k, client in enumerate(("ann", "bob", "cid"))}
LATE = {"dora": held(("hop",), seed=9)}


def test_a_folder_grows_by_a_class_and_shrinks_by_it_again(tmp_path: Path) -> None:
    run = ct.federate(MAP, EARLY, out=tmp_path / "a", threads=1)
    grown = ct.add_clients(tmp_path / "a", LATE, out=tmp_path / "b", threads=1)
    fitted = ct.Pipeline(run.model.preprocessing, MAP)
    always = ct.federate(fitted, EARLY | LATE, classes=(*OLD, "hop"), threads=1)
    assert grown.classes == (*OLD, "hop")
    assert (grown.readout.weights == always.model.readout.weights).all()
    back = ct.remove_class(tmp_path / "b", "hop", out=tmp_path / "c", threads=1)
    assert (back.readout.weights == run.model.readout.weights).all()
    for folder in ("b", "c"):
        checks = verify_run(tmp_path / folder).checks
        assert {one.outcome for one in checks} <= {"ok", "cannot be checked"}
    more = ct.add_clients(tmp_path / "b", {"eve": held(OLD, seed=5)}, out=tmp_path / "d", threads=1)
    assert more.classes == grown.classes
    with pytest.raises(FederationError, match="counts once"):
        ct.add_clients(tmp_path / "b", LATE, out=tmp_path / "e", threads=1)
    assert not (tmp_path / "e").exists()


def test_who_sent_a_class_with_others_takes_its_rows_off(tmp_path: Path) -> None:
    run = ct.federate(MAP, EARLY, out=tmp_path / "a", threads=1)
    grown = ct.add_clients(tmp_path / "a", LATE, out=tmp_path / "b", threads=1)
    with pytest.raises(FederationError, match="ann, bob, cid sent fast in one sum"):
        ct.remove_class(tmp_path / "b", "fast")
    with pytest.raises(FederationError, match="12 rows of fast are still in the sum, of bob, cid"):
        ct.remove_class(tmp_path / "b", "fast", {"ann": EARLY["ann"]}, threads=1)
    other = {**EARLY, "cid": held(OLD, seed=77)}
    with pytest.raises(FederationError, match="cid did not send these rows before"):
        ct.remove_class(tmp_path / "b", "fast", other, threads=1)
    without = ct.remove_class(tmp_path / "b", "fast", EARLY, out=tmp_path / "c", threads=1)
    left = {
        client: [
            Recording.labeled(one.u, "slow", ("slow", "hop"))
            for one in recordings
            if one.y is not None and one.y[0]
        ]
        for client, recordings in EARLY.items()
    }
    fitted = ct.Pipeline(run.model.preprocessing, MAP)
    never = ct.federate(fitted, left | LATE, classes=("slow", "hop"), threads=1)
    assert without.classes == ("slow", "hop")
    assert (without.readout.weights == never.model.readout.weights).all()
    assert grown.classes == (*OLD, "hop")


def test_dropped_columns_are_those_that_were_spread() -> None:
    y = np.eye(3)[[0, 1, 2, 2]]
    sums = RidgeStatistics.from_states(np.arange(8.0).reshape(4, 2), y)
    assert only_targets(spread_targets(sums, (4, 0, 2), 5), (4, 0, 2)) == sums


@pytest.mark.parametrize("by_class", [False, True])
def test_distances_are_those_of_scipy_and_sklearn(by_class: bool) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, size=60)
    z = rng.normal(size=(60, 4)) * [1, 2, 3, 4] + labels[:, None]
    parts = [RidgeStatistics.from_states(z[labels == k], np.eye(3)[labels[labels == k]])
             for k in range(3)]  # fmt: skip
    sums = StatisticsSet(dict(enumerate(parts))) if by_class else parts[0] + parts[1] + parts[2]
    found = KnownClasses.of(sums).distances(z[:5])
    means = [z[labels == k].mean(axis=0) for k in range(3)]
    around = np.concatenate([z[labels == k] - means[k] for k in range(3)])
    for k in range(3):
        rows = z[labels == k] - means[k] if by_class else around
        S = OAS(assume_centered=True).fit(rows).covariance_
        for row, distance in zip(z[:5], found[:, k], strict=True):
            assert distance * 4 == pytest.approx(mahalanobis(row, means[k], np.linalg.inv(S)) ** 2)


def test_a_threshold_is_the_quantile_of_distances_from_what_others_know() -> None:
    many = {client: held(OLD, n=20, seed=k) for k, client in enumerate(("ann", "bob", "cid"))}
    run = ct.federate(MAP, many, threads=1)
    model = ct.reject_unknown(run, many, rate=0.1, threads=1)
    features = run.model.features
    distances = []
    rows = {
        client: (
            np.concatenate(
                features.rows([one.u for one in run.model.preprocessing.apply(recordings)])
            ),
            np.array([one.y for one in recordings]),
        )
        for client, recordings in many.items()
    }
    for client, (z, _) in rows.items():
        others = [rows[name] for name in rows if name != client]
        Z, Y = (np.concatenate(part) for part in zip(*others, strict=True))
        known = KnownClasses.of(RidgeStatistics.from_states(Z, Y), standardize=features.standardize)
        distances.extend(known.distances(z).min(axis=1))
    rank = int(np.ceil(0.9 * (len(distances) + 1)))
    exact = np.sort(distances)[rank - 1]
    assert exact <= model.threshold <= exact * 10 ** (1 / 64) * (1 + 1e-9)
    hops = [one.u for one in held(("hop",), n=10, seed=3)]
    assert model.predict(hops) == ["unknown"] * 10
    said = model.predict([one.u for one in held(OLD, n=20, seed=8)])
    assert np.mean([one == "unknown" for one in said]) < 0.2


def test_an_open_model_is_the_same_from_its_file(tmp_path: Path) -> None:
    many = {client: held(OLD, n=12, seed=k) for k, client in enumerate(("ann", "bob"))}
    model = ct.reject_unknown(ct.federate(MAP, many, threads=1), many, threads=1)
    same = ct.load(model.save(tmp_path / "open.safetensors"))
    new = [one.u for one in held(tuple(PACES), n=3, seed=6)]
    assert same.predict(new) == model.predict(new)
    assert same.classes == (*OLD, "unknown")
    with pytest.raises(FederationError, match="too few"):
        ct.reject_unknown(ct.federate(MAP, EARLY, threads=1), EARLY, rate=0.001, threads=1)


def _write(path: Path, recordings: list[Recording]) -> None:
    lines = ["recording,x,label"]
    for k, one in enumerate(recordings):
        assert one.classes is not None
        assert one.y is not None
        name = one.classes[int(np.argmax(one.y))]
        lines += [f"{k},{value:.6f},{name}" for value in one.u[:, 0]]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))


def test_the_commands_walk_from_files_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for client, recordings in EARLY.items():
        _write(tmp_path / "data" / f"{client}.csv", recordings)
    _write(tmp_path / "late" / "dora.csv", LATE["dora"])
    (tmp_path / "plan.toml").write_text(
        '[data]\nfiles = "data/*.csv"\nrecording = "recording"\ninputs = ["x"]\nlabel = "label"\n'
        'classes = ["slow", "fast"]\nper_step = false\n[features]\nmap = "echo_state"\nunits = 12\n'
    )

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code in (0, None), capsys.readouterr().err
        return capsys.readouterr().out

    said("run", "plan.toml", "--out", "first")
    ct.reject_unknown("first", EARLY, rate=0.1).save("open.safetensors")
    assert said("predict", "open.safetensors", "late/dora.csv").count(",unknown,") == 6
    scored = said("evaluate", "open.safetensors", "late/dora.csv", "--json")
    assert '"accuracy": 1.0' in scored
    assert "new classes: hop" in said("add-clients", "first", "late/dora.csv", "--out", "second")
    assert said("predict", "second", "late/dora.csv").count(",hop,") == 6
    assert ct.remove_class("second", "hop", out="third").classes == ("slow", "fast")
    assert ct.remove_class("second", "fast", EARLY, out="fourth").classes == ("slow", "hop")
