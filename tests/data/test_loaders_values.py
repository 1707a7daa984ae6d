"""What loaders return, cutting into windows, and loading by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.data.catalogue import CATALOGUE
from catchment.data.loaders import load, load_images, load_texts
from catchment.data.loaders.files import parse_numbers, read_arrays, read_text
from catchment.data.loaders.values import Dataset, Images, Stretch, cut, runs, window_steps
from catchment.data.recording import Recording
from catchment.data.sources import locate
from catchment.errors import IntegrityError, MissingDataError


@given(
    lengths=st.lists(st.integers(1, 40), max_size=5),
    window=st.integers(1, 12),
    step=st.none() | st.integers(1, 15),
)
def test_windows_are_numpys_sliding_windows(
    lengths: list[int], window: int, step: int | None
) -> None:
    recordings = [
        Stretch("a", k % 2, np.arange(2.0 * n).reshape(n, 2) + 100 * k, test=k == 1)
        for k, n in enumerate(lengths)
    ]
    clients, test = cut(recordings, n_classes=2, window=window, step=step)
    expected, labels = [], []
    for recording in recordings:
        if len(recording.u) >= window:
            slides = np.lib.stride_tricks.sliding_window_view(recording.u, window, axis=0)
            picked = slides[:: step or window].swapaxes(1, 2)
            expected += list(picked)
            labels += [recording.label] * len(picked)
    ours = clients.get("a", [])
    assert len(ours) == len(expected)
    for sequence, u, label in zip(ours, expected, labels, strict=True):
        np.testing.assert_array_equal(sequence.u, u)
        assert sequence.y is not None
        assert sequence.y.tolist() == [label == 0, label == 1]
    held_out = [k for k, s in enumerate(ours) if 100 <= s.u[0, 0] < 200]
    assert list(test.get("a", ())) == held_out


def test_whole_recordings_share_memory() -> None:
    u = np.zeros((5, 1))
    clients, _ = cut([Stretch("a", 0, u)], n_classes=1, window=None)
    assert np.shares_memory(clients["a"][0].u, u)


def test_a_label_with_as_many_classes_as_steps_stays_one_label() -> None:
    clients, _ = cut([Stretch("a", 2, np.zeros((3, 1)))], n_classes=3, window=None)
    y = clients["a"][0].y
    assert y is not None
    assert y.shape == (3,)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=30))
def test_runs_cover_everything_and_change_at_each_edge(keys: list[tuple[int, int]]) -> None:
    first, second = np.array([a for a, _ in keys]), np.array([b for _, b in keys])
    parts = runs(first, second)
    assert [k for start, stop in parts for k in range(start, stop)] == list(range(len(keys)))
    assert all(len(set(keys[start:stop])) == 1 for start, stop in parts)
    assert all(keys[stop - 1] != keys[stop] for _, stop in parts[:-1])


def test_wrong_windows() -> None:
    for window in (0, -3, 2.5, "half"):
        with pytest.raises(ValueError, match=r"window is .*; pass a number of steps"):
            window_steps(window, None, usual=8)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="step is 0"):
        window_steps(8, 0, usual=8)
    with pytest.raises(ValueError, match="step is 2"):
        window_steps("whole", 2, usual=8)
    with pytest.raises(ValueError, match="step is 2"):
        window_steps("usual", 2, usual=None)


def test_dataset_is_read_only_and_its_parts_are_disjoint() -> None:
    many = [Recording(np.array([float(k)])) for k in range(4)]
    data = Dataset(
        name="toy",
        clients={"a": many, "b": many[:2], "c": many[:1]},
        channels=("x",),
        test_clients=("c",),
        test_positions={"a": (0, 3)},
    )
    assert data.n_sequences == 7
    assert [s.u.item() for s in data.train["a"]] == [1.0, 2.0]
    assert [s.u.item() for s in data.test["a"]] == [0.0, 3.0]
    assert list(data.train) == ["a", "b"]
    assert list(data.test) == ["a", "c"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        data.clients["d"] = []  # type: ignore[index]


def test_images_need_a_label_each() -> None:
    dots, labels = np.zeros((3, 2, 2), np.uint8), np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="3 images and 2 labels"):
        Images(name="t", train=dots, train_labels=labels, test=dots, test_labels=labels, classes=())


def test_positions_of_clients_images() -> None:
    dots, labels = np.zeros((5, 2, 2), np.uint8), np.zeros(5, np.uint8)
    images = Images(
        name="toy",
        train=dots,
        train_labels=labels,
        test=dots,
        test_labels=labels,
        classes=("x",),
        train_clients=("b", "a", "b", "c", "a"),
    )
    assert {k: v.tolist() for k, v in images.positions.items()} == {
        "a": [1, 4],
        "b": [0, 2],
        "c": [3],
    }
    assert not images.train.flags.writeable


def test_numbers_that_are_not() -> None:
    for lines, message in (
        ([b"1 2", b"3"], "not a table of numbers"),
        ([b"1 x"], "not a table of numbers"),
        ([b"1 nan"], "not finite at row 0"),
        ([b"1 2", b"inf 3"], "not finite at row 1"),
        ([], "is empty"),
        ([b"", b" "], "is empty"),
    ):
        with pytest.raises(IntegrityError, match=message):
            parse_numbers(lines, "here")


def put(root: Path, name: str, content: bytes) -> None:
    place = root / name
    place.mkdir()
    (place / CATALOGUE[name].files[0][0]).write_bytes(content)


def test_damaged_compact_files(tmp_path: Path) -> None:
    put(tmp_path, "uci_har", b"not a zip")
    with pytest.raises(IntegrityError, match=r"SHA-256"):
        load("uci_har", directory=tmp_path)
    place = locate("uci_har", directory=tmp_path)
    with pytest.raises(IntegrityError, match=r"uci_har\.npz is damaged"):
        read_arrays(place, ("signal",))
    np.savez(tmp_path / "uci_har" / "uci_har.npz", other=np.zeros(1))
    with pytest.raises(IntegrityError, match=r"uci_har\.npz lacks .*signal"):
        read_arrays(place, ("signal",))
    np.savez(tmp_path / "uci_har" / "uci_har.npz", signal=np.array([{}]))
    with pytest.raises(IntegrityError, match=r"damaged .*allow_pickle"):
        read_arrays(place, ("signal",))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    put(tmp_path, "sotu", b"")
    (tmp_path / "sotu" / "x.txt").write_bytes(b"\xff\xfe")
    place = locate("sotu", directory=tmp_path)
    folder = type(place.folder)(place.directory, ("x.txt",))
    with pytest.raises(IntegrityError, match="not UTF-8"):
        read_text(folder, "x.txt")


def test_loading_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cifar10 holds images; use load_images"):
        load("cifar10")
    with pytest.raises(ValueError, match="sst2 holds texts; use load_texts"):
        load_images("sst2")
    with pytest.raises(ValueError, match="fsdd holds sequences; use load"):
        load_texts("fsdd")
    with pytest.raises(ValueError, match="no data set is called 'mnist'"):
        load("mnist")
    loaders: dict[str, Callable[..., object]] = {
        "sequences": load,
        "images": load_images,
        "texts": load_texts,
    }
    for name, entry in CATALOGUE.items():
        with pytest.raises(MissingDataError, match=name):
            loaders[entry.kind](name, directory=tmp_path)
    (tmp_path / "sunspots").mkdir()
    (tmp_path / "sunspots" / "sunspots.csv").write_text("YEAR,SUNACTIVITY\n1700,5\n1701,11\n")
    assert load("sunspots", directory=tmp_path).n_sequences == 1
    with pytest.raises(ValueError, match="sunspots is not cut into windows"):
        load("sunspots", directory=tmp_path, window=5)
