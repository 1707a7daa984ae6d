"""Subjects of the tables: split whole, scaled alone, cut as the papers cut them."""

from __future__ import annotations

import pickle
import wave
from pathlib import Path

import numpy as np
import pytest

from catchment.data import Recording
from catchment_lab.datasets import Dataset
from reproductions.incfed import space_of
from reproductions.people import (
    available,
    described,
    people,
    recorded,
    rotations,
    split,
    synthetic_people,
    thin,
    window_statistics,
)
from reproductions.reproduce import chosen_sets

STEP_NS = 5_000_000


def toy(n_subjects: int, n: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    clients = {
        f"s{k:02d}": [
            Recording.labeled(rng.normal(k, 1 + k, (20, 2)), label=i % 2, classes=2)
            for i in range(n)
        ]
        for k in range(n_subjects)
    }
    return Dataset(
        name="toy",
        clients=clients,
        channels=("a", "b"),
        classes=("x", "y"),
        test_clients=("s01", "s03"),
    )


@pytest.mark.parametrize(("n", "sizes"), [(15, (9, 3, 3)), (9, (5, 2, 2)), (30, (18, 6, 6))])
def test_subjects_are_split_whole_in_the_papers_proportions(
    n: int, sizes: tuple[int, int, int]
) -> None:
    group = split(toy(n))
    parts = (group.train, group.validation, group.test)
    assert tuple(map(len, parts)) == sizes
    assert len({name for part in parts for name in part}) == n


def test_every_subject_is_scaled_by_itself() -> None:
    group = split(toy(6))
    for part in (group.train, group.validation, group.test):
        for sequences in part.values():
            u = np.concatenate([s.u for s in sequences])
            np.testing.assert_allclose(u.mean(axis=0), 0, atol=1e-12)
            np.testing.assert_allclose(u.std(axis=0), 1, rtol=1e-12)


def test_official_test_subjects_stay_the_test() -> None:
    group = split(toy(10), official=True)
    assert sorted(group.test) == ["s01", "s03"]
    assert len(group.train) + len(group.validation) == 8


def test_shares_are_drawn_by_the_seed() -> None:
    group = split(toy(15))
    assert len(group.share(0.5, 0)) == 4
    assert group.share(0.5, 0) == group.share(0.5, 0)
    assert set(group.share(0.25, 1)) <= set(group.share(0.75, 1)) <= set(group.train)
    assert group.share(1.0, 2) == tuple(sorted(group.train))
    assert len({group.share(0.5, seed) for seed in range(8)}) > 1


def test_thinning_keeps_the_balance_between_subjects() -> None:
    data = toy(6)
    uneven = {name: rows[: 1 + k % 4] * 10 for k, (name, rows) in enumerate(data.clients.items())}
    group = split(Dataset(name="toy", clients=uneven, channels=data.channels, classes=data.classes))
    few = group.within(group.n_sequences * 20 // 2)
    for part, less in ((group.train, few.train), (group.test, few.test)):
        assert {name: len(rows) // 2 for name, rows in part.items()} == {
            name: len(rows) for name, rows in less.items()
        }
    assert group.within(10**9) is group
    assert thin([], 3) == []


def test_window_statistics_are_those_of_the_window() -> None:
    u = np.random.default_rng(0).normal(size=(50, 6))
    rows = window_statistics(u, window=20, step=10)
    assert rows.shape == (50, 6 + 24 + 2)
    for t, start in ((0, 0), (15, 10), (49, 30)):
        view = u[start : start + 20]
        expected = [u[t], view.mean(0), view.std(0), view.min(0), view.max(0)]
        sizes = [np.sqrt((u[t, :3] ** 2).sum()), np.sqrt((u[t, 3:] ** 2).sum())]
        np.testing.assert_allclose(rows[t], np.concatenate([*expected, sizes]), rtol=1e-12)


def test_described_recordings_are_cut_and_short_ones_left_out() -> None:
    rng = np.random.default_rng(0)
    clients = {
        "a": [Recording.labeled(rng.normal(size=(n, 3)), label=0, classes=2) for n in (70, 30)],
        "b": [Recording.labeled(rng.normal(size=(10, 3)), label=1, classes=2)],
    }
    data = Dataset(name="toy", clients=clients, channels=("x", "y", "z"), classes=("p", "q"))
    cut = described(data, window=20, step=10, steps=30)
    assert {name: len(rows) for name, rows in cut.clients.items()} == {"a": 3}
    assert len(cut.channels) == cut.clients["a"][0].u.shape[1] == 16


def write_hhar(root: Path) -> None:
    """Nine users of a Nexus 4 with both sensors, 600 readings each of two activities."""
    place = root / "hhar" / "Activity recognition exp"
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    header = "Index,Arrival_Time,Creation_Time,x,y,z,User,Model,Device,gt\n"
    for sensor, offset in (("accelerometer", 0), ("gyroscope", -STEP_NS)):
        lines = [header]
        for user in "abcdefghi":
            start = 10**18 + offset
            for gt in ("walk", "sit"):
                for k in range(610):
                    x, y, z = rng.normal(size=3)
                    time = start + k * STEP_NS
                    lines.append(
                        f"{k},{time // 10**6},{time},{x},{y},{z},{user},nexus4,nexus4_1,{gt}\n"
                    )
                start += 10**11
        (place / f"Phones_{sensor}.csv").write_text("".join(lines))


def write_wesad(root: Path) -> None:
    """Fifteen subjects with four conditions of 1400 samples."""
    widths = {"ACC": 3, "ECG": 1, "EMG": 1, "EDA": 1, "Temp": 1, "Resp": 1}
    rng = np.random.default_rng(0)
    label = np.repeat([1, 2, 3, 4], 1400).astype(np.int32)
    for subject in (*range(2, 12), *range(13, 18)):
        chest = {name: rng.normal(size=(len(label), width)) for name, width in widths.items()}
        content = {"signal": {"chest": chest}, "label": label, "subject": f"S{subject}"}
        place = root / "wesad" / "WESAD" / f"S{subject}"
        place.mkdir(parents=True)
        (place / f"S{subject}.pkl").write_bytes(pickle.dumps(content, protocol=2))


def test_hhar_as_published_is_cut_as_in_either_paper(tmp_path: Path) -> None:
    write_hhar(tmp_path)
    assert available(tmp_path) == ("hhar",)
    ours = people("hhar", paper="fedip", directory=tmp_path)
    assert (len(ours.train), len(ours.validation), len(ours.test)) == (5, 2, 2)
    assert {s.u.shape for part in ours.train.values() for s in part} == {(400, 6)}
    theirs = people("hhar", paper="incfed", directory=tmp_path)
    assert {s.u.shape for part in theirs.train.values() for s in part} == {(500, 32)}
    assert len(theirs.channels) == 32


def test_motion_gets_the_32_channels_of_the_nexus(tmp_path: Path) -> None:
    place = tmp_path / "motionsense" / "A_DeviceMotion_data" / "wlk_7"
    place.mkdir(parents=True)
    kinds = ("gravity", "rotationRate", "userAcceleration")
    head = "," + ",".join(f'"{kind}.{axis}"' for kind in kinds for axis in "xyz")
    values = np.random.default_rng(1).normal(size=(260, 9))
    rows = [f"{t}," + ",".join(map(repr, row.tolist())) for t, row in enumerate(values)]
    (place / "sub_1.csv").write_text("\n".join([head, *rows, ""]))
    data = recorded("motionsense_32", directory=tmp_path)
    assert (data.name, len(data.channels)) == ("motionsense_32", 32)
    first, second = data.clients["subject-01"]
    assert first.u.shape == second.u.shape == (125, 32)
    six = values[:, [6, 7, 8, 3, 4, 5]]
    window = six[75:125]  # the last one that begins by step 80, 25 from one to the next
    theirs = [*six[80], *window.mean(0), *window.std(0), *window.min(0), *window.max(0)]
    sizes = [np.sqrt((six[80, k : k + 3] ** 2).sum()) for k in (0, 3)]
    assert np.allclose(first.u[80], [*theirs, *sizes])
    assert space_of("motionsense_32").units == (100, 500)


def test_wesad_as_published_is_cut_as_in_either_paper(tmp_path: Path) -> None:
    write_wesad(tmp_path)
    ours = people("wesad", paper="fedip", directory=tmp_path)
    assert (len(ours.train), len(ours.validation), len(ours.test)) == (9, 3, 3)
    assert {s.u.shape for part in ours.train.values() for s in part} == {(700, 8)}
    assert len(ours.classes) == 4
    theirs = people("wesad", paper="incfed", directory=tmp_path)
    assert {s.u.shape for part in theirs.train.values() for s in part} == {(350, 8)}


def test_speakers_are_people_with_mel_bands(tmp_path: Path) -> None:
    place = tmp_path / "fsdd" / "recordings"
    place.mkdir(parents=True)
    sound = (1000 * np.random.default_rng(0).normal(size=2000)).astype("<i2").tobytes()
    for name in (f"{digit}_{who}_0.wav" for who in ("ann", "bob", "cid") for digit in range(2)):
        with wave.open(str(place / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(sound)
    assert chosen_sets("fedip", None, False, tmp_path) == ("fsdd",)
    assert chosen_sets("incfed", None, False, tmp_path) == ("synthetic",)
    (first, *_) = rotations(recorded("fsdd", directory=tmp_path), folds=3)
    assert (len(first.train), len(first.validation), len(first.test)) == (1, 1, 1)
    assert {s.u.shape[1] for part in first.everyone.values() for s in part} == {24}


def test_synthetic_people_say_so() -> None:
    assert "synthetic" in synthetic_people(n_users=5, windows=2).notes[0]
    with pytest.raises(ValueError, match="no set of people is called 'uci'"):
        people("uci")
