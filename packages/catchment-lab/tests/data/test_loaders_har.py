"""UCI HAR: tiny files as the publisher lays them out."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from catchment_lab.datasets import Dataset, load

SIGNALS = [f"{s}_{axis}" for s in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]


def segment(seed: int, n_windows: int) -> NDArray[np.float64]:
    """A continuous signal that n windows of 128 steps, overlapping by half, cover exactly."""
    values = np.random.default_rng(seed).normal(size=(64 * (n_windows + 1), 9))
    return np.round(values, 7)


# Subject, label as published (1..6), and the signal.
TRAIN = [(1, 5, segment(0, 3)), (1, 4, segment(1, 1)), (3, 4, segment(2, 2))]
TEST = [(2, 1, segment(3, 2)), (2, 1, segment(4, 4))]


def windows(signal: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [signal[start : start + 128] for start in range(0, len(signal) - 64, 64)]


def write(root: Path, part: str, segments: list[tuple[int, int, NDArray[np.float64]]]) -> None:
    (root / part / "Inertial Signals").mkdir(parents=True)
    rows = [(s, label, w) for s, label, signal in segments for w in windows(signal)]
    (root / part / f"subject_{part}.txt").write_text("".join(f"{s}\n" for s, _, _ in rows))
    (root / part / f"y_{part}.txt").write_text("".join(f"{label}\n" for _, label, _ in rows))
    for channel, name in enumerate(SIGNALS):
        table = np.array([w[:, channel] for _, _, w in rows])
        np.savetxt(root / part / "Inertial Signals" / f"{name}_{part}.txt", table, fmt=" %.7e")


@pytest.fixture
def published(tmp_path: Path) -> Path:
    root = tmp_path / "uci_har" / "UCI HAR Dataset"
    write(root, "train", TRAIN)
    write(root, "test", TEST)
    return root


def expect(data: Dataset, expected: dict[str, list[tuple[int, NDArray[np.float64]]]]) -> None:
    assert list(data.clients) == sorted(expected)
    for client, pairs in expected.items():
        assert len(data.clients[client]) == len(pairs)
        for sequence, (label, u) in zip(data.clients[client], pairs, strict=True):
            np.testing.assert_allclose(sequence.u, u, rtol=0, atol=1e-7)
            assert sequence.y is not None
            assert sequence.y.argmax() == label - 1


def by_client(pieces: Any) -> dict[str, list[tuple[int, NDArray[np.float64]]]]:
    expected: dict[str, list[tuple[int, NDArray[np.float64]]]] = {}
    for subject, label, signal in [*TRAIN, *TEST]:
        expected.setdefault(f"subject-{subject:02d}", []).extend((label, u) for u in pieces(signal))
    return expected


def test_official_windows(published: Path, tmp_path: Path) -> None:
    data = load("uci_har", directory=tmp_path)
    expect(data, by_client(windows))
    assert data.channels == tuple(SIGNALS)
    assert data.classes[4] == "STANDING"
    assert data.test_clients == ("subject-02",)
    assert list(data.train) == ["subject-01", "subject-03"]
    first, second = data.clients["subject-01"][:2]
    assert np.shares_memory(first.u, second.u)


def test_continuous_segments(published: Path, tmp_path: Path) -> None:
    expect(load("uci_har", directory=tmp_path, window="whole"), by_client(lambda signal: [signal]))


def test_windows_of_another_length(published: Path, tmp_path: Path) -> None:
    data = load("uci_har", directory=tmp_path, window=100, step=50)
    expect(
        data,
        by_client(lambda s: [s[k : k + 100] for k in range(0, len(s) - 99, 50)]),
    )
    assert load("uci_har", directory=tmp_path, step=64).n_sequences == 12
    with pytest.raises(ValueError, match="step is 64"):
        load("uci_har", directory=tmp_path, window="whole", step=64)
    with pytest.raises(ValueError, match="the longest recording of uci_har has 320 steps"):
        load("uci_har", directory=tmp_path, window=321)


def test_zip(published: Path, tmp_path: Path) -> None:
    place = tmp_path / "zipped" / "uci_har"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "UCI HAR Dataset.zip", "w") as archive:
        for file in published.rglob("*.txt"):
            archive.write(file, file.relative_to(published.parent))
    expect(load("uci_har", directory=tmp_path / "zipped"), by_client(windows))


def test_missing_and_wrong_files(published: Path, tmp_path: Path) -> None:
    labels = published / "test" / "y_test.txt"
    good = labels.read_text()
    labels.write_text(good + "1\n")
    with pytest.raises(IntegrityError, match="test has 7 labels, 6 subjects"):
        load("uci_har", directory=tmp_path)
    labels.write_text(good.replace("1", "7"))
    with pytest.raises(IntegrityError, match=r"outside 1\.\.6"):
        load("uci_har", directory=tmp_path)
    labels.unlink()
    with pytest.raises(IntegrityError, match=r"has no .*test/y_test\.txt; get the whole set"):
        load("uci_har", directory=tmp_path)
