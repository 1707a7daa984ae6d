"""What loaders return, cutting into windows, and loading by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.data import Recording
from catchment.errors import IntegrityError, MissingDataError
from catchment_lab.datasets import (
    CATALOGUE,
    Dataset,
    Folder,
    Segment,
    cut,
    gathered,
    load,
    load_whole,
    parse_numbers,
    read_text,
    runs,
    window_steps,
)


@given(
    lengths=st.lists(st.integers(1, 40), max_size=5),
    window=st.integers(1, 12),
    step=st.none() | st.integers(1, 15),
)
def test_windows_are_numpys_sliding_windows(
    lengths: list[int], window: int, step: int | None
) -> None:
    recordings = [
        Segment("a", k % 2, np.arange(2.0 * n).reshape(n, 2) + 100 * k, test=k == 1)
        for k, n in enumerate(lengths)
    ]
    whole = gathered("toy", recordings, channels=("x", "y"), classes=("no", "yes"))
    if lengths and max(lengths) < window:
        with pytest.raises(ValueError, match="pass that or less"):
            cut(whole, window, step)
        return
    data = cut(whole, window, step)
    expected, labels = [], []
    for recording in recordings:
        if len(recording.u) >= window:
            slides = np.lib.stride_tricks.sliding_window_view(recording.u, window, axis=0)
            picked = slides[:: step or window].swapaxes(1, 2)
            expected += list(picked)
            labels += [recording.label] * len(picked)
    ours = data.clients.get("a", [])
    assert len(ours) == len(expected)
    for sequence, u, label in zip(ours, expected, labels, strict=True):
        np.testing.assert_array_equal(sequence.u, u)
        assert sequence.y is not None
        assert sequence.y.tolist() == [label == 0, label == 1]
    held_out = [k for k, s in enumerate(ours) if 100 <= s.u[0, 0] < 200]
    assert list(data.test_positions.get("a", ())) == held_out


def test_whole_recordings_share_memory() -> None:
    u = np.zeros((5, 1))
    data = gathered("toy", [Segment("a", 0, u)], channels=("x",), classes=("it",))
    assert np.shares_memory(cut(data).clients["a"][0].u, u)
    assert np.shares_memory(cut(data, 2).clients["a"][0].u, u)


def test_a_label_with_as_many_classes_as_steps_stays_one_label() -> None:
    segment = Segment("a", 2, np.zeros((6, 1)))
    data = gathered("toy", [segment], channels=("x",), classes=("a", "b", "c"))
    for sequence in cut(data, 3).clients["a"]:
        assert sequence.y is not None
        assert sequence.y.shape == (3,)


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
            window_steps(window, None, usual=(8, 8))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="step is 0"):
        window_steps(8, 0, usual=(8, 8))
    with pytest.raises(ValueError, match="step is 2"):
        window_steps("whole", 2, usual=(8, 8))
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


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(IntegrityError, match="not UTF-8"):
        read_text(Folder(tmp_path, ("x.txt",)), "x.txt")


def test_loading_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set is called 'mnist'"):
        load("mnist")
    for name in CATALOGUE:
        for reader in (load, load_whole):
            with pytest.raises(MissingDataError, match=name):
                reader(name, directory=tmp_path)
    (tmp_path / "sunspots").mkdir()
    (tmp_path / "sunspots" / "sunspots.csv").write_text("YEAR,SUNACTIVITY\n1700,5\n1701,11\n")
    assert load("sunspots", directory=tmp_path).n_sequences == 1
    assert load_whole("sunspots", directory=tmp_path).clients["sunspots"][0].y is None
    with pytest.raises(ValueError, match="sunspots is not cut into windows"):
        load("sunspots", directory=tmp_path, window=5)
