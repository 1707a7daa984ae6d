"""Clients of Parquet files that are read one by one are those of the reader that reads all."""

from __future__ import annotations

import datetime as dt
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catchment as ct
from catchment.data import Cache, Changed, Recording, part_of
from catchment_fleet import read_parquet
from catchment_fleet.parquet import HELD

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# Only files that are read whole name their recordings, for runs that go on with what is new.
NUMBER = [name for name in Recording.__dataclass_fields__ if name != "name"]


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    # Tests write other rows under the same names.
    HELD.clear()
    yield
    HELD.clear()


def assert_same(found: Mapping[str, Any], wanted: Mapping[str, Sequence[Recording]]) -> None:
    """Compare every field of every recording, to the bit."""
    assert list(found) == list(wanted)
    for name, recordings in wanted.items():
        own = found[name]()
        assert len(own) == len(recordings)
        for one, other in zip(own, recordings, strict=True):
            for field in NUMBER:
                a, b = getattr(one, field), getattr(other, field)
                if isinstance(b, np.ndarray):
                    assert a.dtype == b.dtype
                    assert a.shape == b.shape
                    assert a.tobytes() == b.tobytes(), field
                    assert not a.flags.writeable
                else:
                    assert a == b, field
                    assert type(a) is type(b), field


def write(path: Path, rows: Mapping[str, Any], group: int = 1000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows), path, row_group_size=group)


def some_rows(n: int, seed: int, *, clients: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    who = np.sort(rng.integers(0, clients, n))
    return {
        "who": [f"p{k}" for k in who],
        "t": np.arange(n) * 0.5,
        "x": rng.normal(size=n),
        "y": rng.normal(size=n).astype(np.float32),
        "does": [("sit", "run")[k % 2] for k in who],
    }


LABELLED: dict[str, Any] = {
    "client": "who", "inputs": ["x", "y"], "label": "does", "classes": ("run", "sit"),
}  # fmt: skip

KINDS = st.sampled_from(["text", "whole", "float"])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[int], dict[str, Any]]:
    """Draw files of rows, the sizes of their row groups, and how they are read."""
    n_files = draw(st.integers(1, 3))
    seed = draw(st.integers(0, 2**31))
    sorted_rows, gaps = draw(st.booleans()), draw(st.booleans())
    names, labels = draw(st.sampled_from(["text", "whole", "coded"])), draw(KINDS)
    per_step, parts = draw(st.booleans()), draw(st.booleans())
    target = draw(st.sampled_from(["label", "target", "targets", "none"]))
    times = draw(st.sampled_from(["", "number", "stamp", "text"]))
    rng = np.random.default_rng(seed)
    files, groups = [], []
    for _ in range(n_files):
        n = int(rng.integers(1, 40))
        who = rng.integers(0, 5, n)
        part = rng.integers(0, 3, n)
        if sorted_rows:
            order = np.lexsort((part, who))
            who, part = who[order], part[order]
        label = rng.integers(0, 3, n) if per_step else (who + 3 * part) % 3
        clock = np.arange(n) if sorted_rows else rng.permutation(n)
        x: Any = rng.normal(size=n)
        if gaps:
            x = pa.array(x, mask=rng.random(n) < 0.3)
        known = pa.array(
            {"text": [f"c{k}" for k in label], "whole": label, "float": label.astype(float)}[
                labels
            ],
            mask=rng.random(n) < 0.3 if gaps else None,
        )
        start = dt.datetime(2024, 1, 1)
        stamps = [start + dt.timedelta(milliseconds=137 * int(k)) for k in clock]
        numbers = pa.array(who if names == "whole" else [f"p{k}" for k in who])
        files.append(
            {
                "who": numbers.dictionary_encode() if names == "coded" else numbers,
                "part": part,
                "x": x,
                "n": rng.integers(-5, 5, n),
                "does": known,
                "z": label * 0.5,
                "number": clock * 0.25,
                "stamp": pa.array(stamps),
                "text": [stamp.isoformat() for stamp in stamps],
            }
        )
        groups.append(int(rng.integers(1, 30)))
    classes = {"text": ("c2", "c0", "c1")}.get(labels, (2, 0, 1))
    all_settled: dict[str, dict[str, Any]] = {
        "label": {"label": "does", "classes": classes},
        "target": {"target": "z"},
        "targets": {"target": ["z", "n"] if per_step else ["z", "z"]},
        "none": {},
    }
    settled = all_settled[target]
    how = {"client": "who", "inputs": ["n", "x"], "per_step": per_step, **settled}
    how |= {"time": times} if times else {}
    how |= {"recording": "part"} if parts or not per_step else {}
    return files, groups, how


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layouts())
def test_recordings_are_those_of_the_eager_reader(
    tmp_path: Path, layout: tuple[list[dict[str, Any]], list[int], dict[str, Any]]
) -> None:
    files, groups, how = layout
    HELD.clear()
    for old in tmp_path.glob("*.parquet"):
        old.unlink()
    for k, (rows, group) in enumerate(zip(files, groups, strict=True)):
        write(tmp_path / f"part-{k}.parquet", rows, group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows that are not sorted
        found = read_parquet(tmp_path, **how)
    assert_same(found, ct.read(tmp_path, **how))
    assert pickle.loads(pickle.dumps(found[next(iter(found))]))()[0].n_steps > 0


def test_names_are_few_bytes_and_come_as_they_first_appear(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"who": [10, 10, 9, 2], "x": [1.0, 2.0, 3.0, 4.0]})
    write(tmp_path / "b.parquet", {"who": [1, 9], "x": [5.0, 6.0]})
    lake = read_parquet(tmp_path, client="who")
    assert list(lake) == ["10", "9", "2", "1"]
    assert sorted(lake) == ["1", "10", "2", "9"]
    assert "9" in lake
    assert "7" not in lake
    assert [one.u.ravel().tolist() for one in lake["9"]()] == [[3.0], [6.0]]
    with pytest.raises(KeyError):
        lake["7"]
    assert len(pickle.dumps(lake["9"])) < 1000


def test_only_row_groups_of_asked_clients_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", some_rows(400, 0, clients=8), group=50)
    lake = read_parquet(tmp_path, **LABELLED)
    before = HELD.n_reads
    for name in sorted(lake):
        lake[name]()
    assert HELD.n_reads - before == 8


@pytest.mark.parametrize("names", [["1", "10"], ["9", "10"], ["2"], ["1", "2", "9"]])
def test_a_part_has_these_clients_in_this_order_and_nothing_else(
    tmp_path: Path, names: list[str]
) -> None:
    write(tmp_path / "a.parquet", {"who": [10, 10, 9, 2], "x": [1.0, 2.0, 3.0, 4.0]}, group=3)
    write(tmp_path / "b.parquet", {"who": [1, 9], "x": [5.0, 6.0]})
    lake = read_parquet(tmp_path, client="who")
    some = part_of(Changed(part_of(lake, sorted(lake)), lambda source: source), names)
    again = pickle.loads(pickle.dumps(lake.part(names)))
    assert list(some) == list(again) == names
    assert [again[name].pieces for name in names] == [lake[name].pieces for name in names]
    assert_same(again, {name: lake[name]() for name in names})
    with pytest.raises(KeyError):
        part_of(part_of(lake, names), ["7", *names])


def test_a_process_holds_so_many_bytes_of_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", some_rows(400, 0, clients=8), group=50)
    reader = read_parquet(tmp_path, **LABELLED).reader
    path = str(tmp_path / "a.parquet")
    held: Cache[Any] = Cache(1, lambda group: int(group.n_bytes), keep_last=True)
    for group in (0, 0, 1, 0):
        held.get(group, partial(reader.decode, path, group))
    assert (held.n_reads, held.n_bytes) == (3, reader.decode(path, 0).n_bytes)


def test_folders_may_name_the_client_and_other_columns(tmp_path: Path) -> None:
    for name, label in (("ann", "sit"), ("b%20o", "run")):
        rows = {"x": [1.0, 2.0], "t": [2, 1]}
        write(tmp_path / f"who={name}" / f"does={label}" / "part-0.parquet", rows)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_tmp").mkdir()
    write(tmp_path / "_tmp" / "part-0.parquet", {"z": [1]})
    lake = read_parquet(tmp_path, client="who", label="does", time="t")
    assert lake.classes == ("run", "sit")
    assert list(lake) == ["ann", "b o"]
    (one,) = lake["b o"]()
    assert one.u.ravel().tolist() == [2.0, 1.0]
    assert one.y is not None
    assert one.y.tolist() == [1.0, 0.0]


def test_uris_and_filesystems_are_read_alike(tmp_path: Path) -> None:
    from pyarrow import fs

    for k in range(3):
        write(tmp_path / "deep" / f"part-{k}.parquet", some_rows(50, k), group=7)
    wanted = ct.read(tmp_path / "deep", **LABELLED)
    inside = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for lake in (
        read_parquet(f"file://{tmp_path}/deep", **LABELLED),
        read_parquet(f"file://{tmp_path}", **LABELLED),
        read_parquet(f"file://{tmp_path}/deep/part-*.parquet", **LABELLED),
        read_parquet("deep", filesystem=inside, **LABELLED),
    ):
        assert_same(lake, wanted)
        assert pickle.loads(pickle.dumps(lake["p1"]))()[0].n_steps == wanted["p1"][0].n_steps


def test_inputs_and_classes_are_found_in_footers_and_labels(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", some_rows(50, 1))
    lake = read_parquet(tmp_path, client="who", label="does", time="t")
    assert lake.channels == ("x", "y")
    assert lake.classes == ("run", "sit")


def test_labels_of_two_kinds_are_text(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"who ": ["a"], "x": [1.0], " does": ["1"]})
    write(tmp_path / "b.parquet", {"who": ["b"], "x": [1.0], "does": [2]})
    how: dict[str, Any] = {"client": "who", "inputs": "x", "label": "does", "per_step": False}
    assert_same(read_parquet(tmp_path, **how), ct.read(tmp_path, **how))


def test_rows_that_are_not_sorted_by_client_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"who": [f"p{k % 50}" for k in range(2000)], "x": np.zeros(2000)}
    write(tmp_path / "a.parquet", rows, group=100)
    monkeypatch.setattr("catchment_fleet.parquet.clients.DEFAULT_BYTES", 1000)
    with pytest.warns(UserWarning, match="not sorted by 'who'"):
        lake = read_parquet(tmp_path, client="who")
    assert lake.reads(held=1) > 20
    assert lake.reads(held=10**9) == 1


@pytest.mark.parametrize(
    ("rows", "how", "said"),
    [
        ({"x": [1.0]}, {}, r"b.parquet has no column 'who' that names clients"),
        ({"who": ["a"], "z": [1.0]}, {"inputs": "x"}, r"b.parquet has no column 'x'; .*anew"),
        ({"who": ["a", None], "x": [1.0, 2.0]}, {}, r"column 'who' is empty in row 1; fill"),
        ({"who": ["a"], "z": [1.0]}, {}, r"b.parquet and a.parquet differ in column 'x'; pass"),
    ],
)
def test_errors_say_what_to_do(
    tmp_path: Path, rows: dict[str, Any], how: dict[str, Any], said: str
) -> None:
    write(tmp_path / "a.parquet", {"who": ["a"], "x": [1.0]})
    write(tmp_path / "b.parquet", rows)
    with pytest.raises(ValueError, match=said):
        read_parquet(tmp_path, client="who", **how)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("who,x\n")
    with pytest.raises(ValueError, match=r"a.parquet is not a Parquet file .*; take it out"):
        read_parquet(tmp_path, client="who")
    with pytest.raises(FileNotFoundError, match=r"no Parquet file in .*pass a folder"):
        read_parquet(tmp_path / "nowhere", client="who")
    with pytest.raises(ValueError, match=r"cannot be opened .*write s3://"):
        read_parquet("nonsense://lake", client="who")


def test_only_the_client_at_fault_cannot_be_read(tmp_path: Path) -> None:
    rows = {"who": ["a", "b", "c"], "x": [1.0, np.inf, 2.0], "does": ["sit", "sit", "jump"]}
    write(tmp_path / "a.parquet", rows)
    lake = read_parquet(tmp_path, **(LABELLED | {"inputs": "x"}))
    assert lake["a"]()[0].u.tolist() == [[1.0]]
    with pytest.raises(ValueError, match=r"a.parquet: client 'b': inputs"):
        lake["b"]()
    with pytest.raises(ValueError, match=r"a.parquet: client 'c': there is no class 'jump'"):
        lake["c"]()


def test_a_lake_is_a_federation(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", some_rows(300, 5), group=60)
    features = ct.EchoState(10, washout=0).build(2, per_step=False)
    plan = ct.Plan(algorithm=ct.FederatedRidge(features=features, ridge=1e-3))
    lazily = ct.federate(plan, read_parquet(tmp_path, **LABELLED))
    at_once = ct.federate(plan, ct.read(tmp_path, **LABELLED))
    sums = [result.state.total for result in (lazily, at_once)]
    assert all(isinstance(one, ct.RidgeStatistics) for one in sums)
    assert len({one.digest() for one in sums if one is not None}) == 1


def test_a_lake_is_federated_by_a_map_and_models_know_its_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", some_rows(300, 5), group=60)
    how = LABELLED | {"per_step": False, "time": "t"}
    lake = read_parquet(tmp_path, **how)
    held = ct.read(tmp_path, **how)
    lazily, at_once = (ct.federate(ct.EchoState(10), one) for one in (lake, held))
    assert lazily.model.columns == at_once.model.columns
    assert lazily.model.columns["client"] == "who"
    weights = [one.model.readout.weights.tobytes() for one in (lazily, at_once)]
    assert weights[0] == weights[1]
    scores = [ct.evaluate(lazily.model, one).total for one in (lake, held)]
    assert len({one.value for one in scores if one is not None}) == 1
