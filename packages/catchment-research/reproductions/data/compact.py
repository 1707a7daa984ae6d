"""Reading the compact files of time-series sets; `reproductions.data.make_compact` makes them.

Each file is an npz archive without pickles, made once so that an experiment loads in a second. The
functions here return whole recordings, as the library's readers do of the publishers' files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from catchment_lab.datasets import (
    FIRST_SHORT_TRIAL,
    Dataset,
    Segment,
    Window,
    ahead,
    cut,
    float_rows,
    gathered,
    mel_bands,
    runs,
)
from reproductions.data.arrays import names_of, read_arrays
from reproductions.data.catalogue import COMPACT

STATISTICS = ("mean", "std", "min", "max", "median", "iqr", "skew", "kurtosis")


def read(
    name: str, directory: Path, *, window: Window = "usual", step: int | None = None
) -> Dataset:
    """Return a set of time series from its compact files, cut as the library cuts it.

    Parameters
    ----------
    name
        A public set of the library.
    directory
        The folder of its compact files.
    window, step
        As for `catchment_lab.datasets.load`.
    """
    data = read_whole(name, directory)
    if name in ("santafe_laser", "sunspots"):
        return ahead(data, 1)
    return mel_bands(data) if name == "fsdd" else cut(data, window, step)


def read_whole(name: str, directory: Path) -> Dataset:
    """Return the whole recordings of a set's compact files."""
    return _READERS[name](directory / COMPACT[name].files[0][0])


def _uci_har(path: Path) -> Dataset:
    keys = ("start", "length", "subject", "label")
    arrays = read_arrays(
        path,
        (
            "signal",
            "channels",
            "label_names",
            "subject_id",
            "subject_in_uci_train",
            *(f"segment_{key}" for key in keys),
        ),
    )
    signal = float_rows(arrays["signal"])
    held_out = set(arrays["subject_id"][~arrays["subject_in_uci_train"]].tolist())
    rows = zip(*(arrays[f"segment_{key}"].tolist() for key in keys), strict=True)
    return gathered(
        "uci_har",
        (
            Segment(f"subject-{n:02d}", label, signal[start : start + length], test=n in held_out)
            for start, length, n, label in rows
        ),
        channels=names_of(arrays["channels"]),
        classes=names_of(arrays["label_names"]),
        rate_hz=50.0,
        usual=(128, 64),
        notes=(
            "compact form: segments are not in their order of recording",
            "cite Anguita et al. 2013; any commercial use is prohibited",
        ),
    )


def _motionsense(path: Path) -> Dataset:
    keys = ("start", "length", "subject", "label", "trial")
    arrays = read_arrays(path, ("counts", "scale", "channels", "label_names", *keys))
    signal = float_rows(arrays["counts"] * arrays["scale"].astype(np.float64))
    rows = zip(*(arrays[key].tolist() for key in keys), strict=True)
    return gathered(
        "motionsense",
        (
            Segment(
                f"subject-{subject:02d}",
                label,
                signal[start : start + length],
                test=trial >= FIRST_SHORT_TRIAL,
            )
            for start, length, subject, label, trial in rows
        ),
        channels=names_of(arrays["channels"]),
        classes=names_of(arrays["label_names"]),
        rate_hz=50.0,
        usual=(128, 128),
        notes=("compact form; test: the short trials",),
    )


def _wisdm_watch(path: Path) -> Dataset:
    arrays = read_arrays(path, ("acc", "subject", "label", "label_codes", "label_names"))
    rows = zip(
        float_rows(arrays["acc"]),
        arrays["subject"].tolist(),
        arrays["label"].tolist(),
        strict=True,
    )
    return gathered(
        "wisdm_watch",
        (Segment(str(subject), label, u) for u, subject, label in rows),
        channels=("acc_x", "acc_y", "acc_z"),
        classes=names_of(arrays["label_names"]),
        rate_hz=20.0,
        usual=(200, 200),
        options={"activities": "".join(names_of(arrays["label_codes"]))},
        notes=("compact form; samples are taken to be consecutive",),
    )


def _hhar(path: Path) -> Dataset:
    keys = ("counts", "scale", "user", "label", "user_names", "label_names", "rate_hz")
    arrays = read_arrays(path, keys)
    readings = float_rows(arrays["counts"] * float(arrays["scale"]))
    users = names_of(arrays["user_names"])
    rows = zip(readings, arrays["user"].tolist(), arrays["label"].tolist(), strict=True)
    steps = readings.shape[1]
    return gathered(
        "hhar",
        (Segment(users[user], label, u) for u, user, label in rows),
        channels=("acc_x", "acc_y", "acc_z"),
        classes=names_of(arrays["label_names"]),
        rate_hz=float(arrays["rate_hz"]),
        usual=(steps, steps),
        options={"model": "samsungold", "gyroscope": False},
        notes=(
            "compact form: windows of the samsungold phones, not in their order of recording",
            "the file used for results/ is a 30 % sample, its offsets per user and axis are "
            "estimates, good to about 0.3 m/s^2",
        ),
    )


def _wesad(path: Path) -> Dataset:
    return wesad_statistics(path.parent)


def wesad_statistics(
    directory: Path, *, statistics: tuple[str, ...] = ("mean",), wrist: bool = False
) -> Dataset:
    """Return WESAD as statistics of 5 s windows, 2.5 s apart: three conditions.

    Parameters
    ----------
    directory
        The folder of the compact file.
    statistics
        Which statistics become channels.
    wrist
        Whether to add the 6 wrist channels, where the file has them.
    """
    path = directory / COMPACT["wesad"].files[0][0]
    arrays = read_arrays(path, ("features", "label", "subject", "channels", "stats", "hop_s"))
    known, channels = names_of(arrays["stats"]), names_of(arrays["channels"])
    if not statistics or set(statistics) - set(known):
        raise ValueError(f"statistics are {statistics}; choose from {', '.join(known)}")
    rows = [k for k, name in enumerate(channels) if wrist or name.startswith("chest_")]
    columns = [known.index(statistic) for statistic in statistics]
    chosen = arrays["features"][:, rows][:, :, columns]
    u = float_rows(chosen.reshape(len(chosen), -1))
    label = arrays["label"].astype(np.int64)
    subject = arrays["subject"]
    names = [channels[row] for row in rows]
    return gathered(
        "wesad",
        (
            Segment(f"S{subject[start]}", int(label[start]) - 1, u[start:stop])
            for start, stop in runs(subject, label)
        ),
        channels=tuple(
            name if statistics == ("mean",) else f"{name}_{statistic}"
            for name in names
            for statistic in statistics
        ),
        classes=("baseline", "stress", "amusement"),
        rate_hz=1 / float(arrays["hop_s"]),
        usual=(24, 24),
        options={"statistics": ",".join(statistics), "wrist": wrist},
        notes=("compact form: statistics of 5 s windows, not raw signals",),
    )


def _japanese_vowels(path: Path) -> Dataset:
    return gathered(
        "japanese_vowels",
        (s for part in ("train", "test") for s in _utterances(path, part)),
        channels=tuple(f"lpc_{k}" for k in range(1, 13)),
        classes=tuple(str(k) for k in range(1, 10)),
        rate_hz=1000 / 6.4,
        notes=("compact form; the class is the speaker, so each client has one class",),
    )


def _utterances(path: Path, part: str) -> Iterator[Segment]:
    keys = tuple(f"{part}_{key}" for key in ("frames", "start", "length", "speaker"))
    arrays = read_arrays(path, keys)
    frames = float_rows(arrays[keys[0]])
    for start, length, speaker in zip(*(arrays[key].tolist() for key in keys[1:]), strict=True):
        u = frames[start : start + length]
        yield Segment(f"speaker-{speaker}", speaker - 1, u, test=part == "test")


def _fsdd(path: Path) -> Dataset:
    keys = ("start", "length", "digit", "speaker", "index")
    arrays = read_arrays(path, ("audio", "speaker_names", *keys))
    audio = float_rows(arrays["audio"] * (1 / 32768.0))[:, None]
    speakers = names_of(arrays["speaker_names"])
    rows = zip(*(arrays[key].tolist() for key in keys), strict=True)
    return gathered(
        "fsdd",
        (
            Segment(speakers[speaker], digit, audio[start : start + length], test=index < 5)
            for start, length, digit, speaker, index in rows
        ),
        channels=("audio",),
        classes=tuple(str(digit) for digit in range(10)),
        rate_hz=8000.0,
        notes=("compact form; CC BY-SA 4.0, also for what is derived from it",),
    )


def _santafe_laser(path: Path) -> Dataset:
    series = float_rows(read_arrays(path, ("santafe_laser",))["santafe_laser"])[:, None]
    return gathered(
        "santafe_laser",
        [Segment("santafe_laser", None, series)],
        channels=("intensity",),
        notes=("compact form, with the continuation",),
    )


def _sunspots(path: Path) -> Dataset:
    arrays = read_arrays(path, ("sunspot_year", "sunspot_activity"))
    series, years = float_rows(arrays["sunspot_activity"])[:, None], arrays["sunspot_year"]
    return gathered(
        "sunspots",
        [Segment("sunspots", None, series)],
        channels=("sunspot_number",),
        notes=(f"compact form, {years[0]} to {years[-1]}",),
    )


_READERS: dict[str, Callable[[Path], Dataset]] = {
    "uci_har": _uci_har,
    "motionsense": _motionsense,
    "wisdm_watch": _wisdm_watch,
    "hhar": _hhar,
    "wesad": _wesad,
    "japanese_vowels": _japanese_vowels,
    "fsdd": _fsdd,
    "santafe_laser": _santafe_laser,
    "sunspots": _sunspots,
}
