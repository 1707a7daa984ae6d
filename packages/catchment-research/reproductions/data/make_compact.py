"""Making the compact files from the publishers' own: `python -m reproductions compact NAME`.

Where the file with which results/ were made came to us in a form whose recipe cannot be fully
known, the file made here is the nearest that the publisher's files allow; `REMARKS` says how it
differs. The readers take either.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from catchment import Array
from catchment.data import Recording
from catchment_lab.datasets import (
    ACTIVITIES,
    Dataset,
    Folder,
    find_folder,
    load,
    load_whole,
    parse_numbers,
    read_text,
    require,
    trials,
    utterances,
    yearly,
)
from catchment_lab.datasets import find as find_library
from catchment_lab.datasets import locate as locate_library
from reproductions.data.catalogue import COMPACT
from reproductions.data.compact import STATISTICS
from reproductions.data.images import cifar10, fashion_mnist, mnist_rows
from reproductions.data.text import shakespeare, sst2, treebank_sentences
from reproductions.data.wesad import read as read_wesad
from reproductions.places import locate

Arrays = dict[str, Any]  # arrays, and scalars such as a rate

REMARKS = {
    "wisdm_watch": "the first 2,400 steps of every 3,600 of an activity; which 2,400 the other "
    "file has is not known",
    "hhar": "all windows of the samsungold phones in their order, with exact offsets; the other "
    "file has a random 30 % of them",
    "wesad": "chest channels only, unfiltered, eight statistics, no window across two conditions; "
    "the other file has wrist channels, heart rates and three spectral statistics, too",
    "fashion_mnist": "the first 2,000 and 500 of each class of the official parts; the other file "
    "has a split of its own",
    "sst2": "whole sentences from the Stanford treebank; the other file's lack some punctuation",
}


def make_compact(name: str, source: Path, out: Path) -> list[Path]:
    """Write the compact files of a set, made from its publisher's, and return their paths.

    Parameters
    ----------
    name
        A set that has a compact form.
    source
        Data directory with the publisher's files in a folder of the set's name.
    out
        Data directory for the compact files; each set has a folder of its own there.
    """
    if name not in COMPACT:
        raise ValueError(f"{name!r} has no compact form; choose from {', '.join(COMPACT)}")
    folder = out / COMPACT[name].folder
    folder.mkdir(parents=True, exist_ok=True)
    if name in _TEXTS:
        return _TEXTS[name](source, folder)
    path = folder / COMPACT[name].files[0][0]
    arrays = _ARRAYS[name](source)
    values: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
    np.savez_compressed(path, **values)
    return [path]


def _label(recording: Recording) -> int:
    if recording.y is None:
        raise ValueError("a recording has no label; this set needs one for each")
    return int(recording.y.argmax())


def _laid_out(parts: list[Array]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the start and the length of parts that lie one after another."""
    length = np.array([len(part) for part in parts], dtype=np.int32)
    return (np.cumsum(length) - length).astype(np.int32), length


def _number(client: str) -> int:
    return int("".join(letter for letter in client if letter.isdigit()))


def _uci_har(source: Path) -> Arrays:
    data = load_whole("uci_har", directory=source)
    # By label, longest first, as in the file used so far.
    segments = [
        (_number(client), _label(r), r.u)
        for client, held in data.clients.items()
        for r in sorted(held, key=lambda r: (_label(r), -r.n_steps))
    ]
    start, length = _laid_out([u for _, _, u in segments])
    windows = [
        (start[k] + offset, subject, label, k)
        for k, (subject, label, u) in enumerate(segments)
        for offset in range(0, len(u) - 127, 64)
    ]
    at, of, what, segment = (np.array(column) for column in zip(*windows, strict=True))
    subjects = sorted({subject for subject, _, _ in segments})
    held_out = {_number(client) for client in data.test_clients}
    return {
        "signal": np.concatenate([u for _, _, u in segments]).astype(np.float32),
        "channels": np.array(data.channels),
        "segment_start": start,
        "segment_length": length,
        "segment_subject": np.array([subject for subject, _, _ in segments], dtype=np.uint8),
        "segment_label": np.array([label for _, label, _ in segments], dtype=np.uint8),
        "window_start": at.astype(np.int32),
        "window_subject": of.astype(np.uint8),
        "window_label": what.astype(np.uint8),
        "window_segment": segment.astype(np.int16),
        "subject_id": np.array(subjects, dtype=np.uint8),
        "subject_in_uci_train": np.array([subject not in held_out for subject in subjects]),
        "label_names": np.array(data.classes),
    }


def _motionsense(source: Path) -> Arrays:
    data = load_whole("motionsense", directory=source)
    scale = np.repeat(np.array([2.0**-11, 2.0**-10, 2.0**-14], dtype=np.float32), 3)
    folder = _folder("motionsense", source)
    order = iter(trials(folder))
    found = []
    for client, held in data.clients.items():
        found += [(_number(client), next(order)[2], _label(r), r.u) for r in held]
    found.sort(key=lambda one: one[:2])
    start, length = _laid_out([u for *_, u in found])
    arrays: Arrays = {
        "counts": np.rint(np.concatenate([u for *_, u in found]) / scale).astype(np.int16),
        "scale": scale,
        "channels": np.array(data.channels),
        "start": start,
        "length": length,
        "subject": np.array([subject for subject, *_ in found], dtype=np.uint8),
        "label": np.array([label for _, _, label, _ in found], dtype=np.uint8),
        "trial": np.array([trial for _, trial, _, _ in found], dtype=np.uint8),
        "label_names": np.array(data.classes),
        "rate_hz": np.float32(50),
    }
    return {**arrays, **_people(source / "motionsense")}


def _people(root: Path) -> Arrays:
    """Return what the publisher says of its subjects, where that file is there."""
    folder = find_folder(root, ("data_subjects_info.csv",))
    if folder is None:
        return {}
    (name, *_) = require(folder, "data_subjects_info.csv")
    with folder.open(name) as stream:
        rows = parse_numbers(stream, f"{folder}/{name}", delimiter=",", skip=1)
    kinds = {
        "subject_id": np.uint8,
        "weight_kg": np.int16,
        "height_cm": np.int16,
        "age": np.uint8,
        "gender": np.uint8,
    }
    return {key: rows[:, k].astype(kind) for k, (key, kind) in enumerate(kinds.items())}


def _folder(name: str, source: Path) -> Folder:
    """Return the publisher's files of a set."""
    place = locate_library(name, directory=source)
    if place.original is None:
        raise ValueError(
            f"{place.directory} has no files of the publisher; put {place.source.files} there"
        )
    return place.original


def _wisdm_watch(source: Path) -> Arrays:
    codes, steps, every = "ABCDEM", 2400, 3600
    data = load("wisdm_watch", directory=source, window="whole", activities=codes)
    found: list[tuple[Array, int, int, int]] = []
    for client, held in data.clients.items():
        seen: dict[int, int] = {}
        for recording in held:
            label = _label(recording)
            for start in range(0, recording.n_steps - steps + 1, every):
                part = seen.setdefault(label, 0)
                seen[label] += 1
                found.append((recording.u[start : start + steps], int(client), label, part))
    return {
        "acc": np.array([u for u, *_ in found], dtype=np.float32).reshape(-1, steps, 3),
        "subject": np.array([subject for _, subject, _, _ in found], dtype=np.int16),
        "label": np.array([label for _, _, label, _ in found], dtype=np.uint8),
        "part": np.array([part for *_, part in found], dtype=np.uint8),
        "label_codes": np.array(list(codes)),
        "label_names": np.array([ACTIVITIES[code] for code in codes]),
        "channels": np.array(data.channels),
        "rate_hz": np.float32(20),
    }


def _hhar(source: Path) -> Arrays:
    data = load("hhar", directory=source, window=128, model="samsungold", gyroscope=False)
    users = list(data.clients)
    scale = np.float32(9.80665 / 64)
    found = [
        (users.index(client), _label(r), r.u) for client, held in data.clients.items() for r in held
    ]
    return {
        "counts": np.rint(np.array([u for *_, u in found]) / scale).astype(np.int16),
        "scale": scale,
        "user": np.array([user for user, *_ in found], dtype=np.uint8),
        "label": np.array([label for _, label, _ in found], dtype=np.uint8),
        "user_names": np.array(users),
        "label_names": np.array(data.classes),
        "channels": np.array(data.channels),
        "rate_hz": np.float32(50),
    }


def statistics_of(u: Array) -> Array:
    """Return the statistics (I, 8) of a window (T, I), in the order of `STATISTICS`.

    >>> statistics_of(np.array([[0.0], [1.0], [2.0], [5.0]])).round(3).tolist()
    [[2.0, 1.871, 0.0, 5.0, 1.5, 2.0, 0.687, -1.0]]
    """
    with np.errstate(invalid="ignore"):
        higher = [scipy.stats.skew(u), scipy.stats.kurtosis(u)]
    quarter, median, three_quarters = np.percentile(u, (25, 50, 75), axis=0)
    plain = [u.mean(0), u.std(0), u.min(0), u.max(0), median, three_quarters - quarter]
    return np.stack([*plain, *(np.nan_to_num(value) for value in higher)], axis=1)


def _wesad(source: Path) -> Arrays:
    data = read_wesad(locate("wesad", directory=source).folder)
    rate = data.rate_hz or 0.0
    window, hop = round(5 * rate), round(2.5 * rate)
    rows: list[Array] = []
    label: list[int] = []
    subject: list[int] = []
    for client, held in data.clients.items():
        for recording in held:
            if _label(recording) > 2:
                continue
            for start in range(0, recording.n_steps - window + 1, hop):
                rows.append(statistics_of(recording.u[start : start + window]))
                label.append(_label(recording) + 1)
                subject.append(_number(client))
    return {
        "features": np.array(rows, dtype=np.float32),
        "label": np.array(label, dtype=np.uint8),
        "subject": np.array(subject, dtype=np.uint8),
        "channels": np.array(data.channels),
        "stats": np.array(STATISTICS),
        "label_names": np.array(["undefined", "baseline", "stress", "amusement"]),
        "hop_s": np.float32(2.5),
        "window_s": np.float32(5),
    }


def _japanese_vowels(source: Path) -> Arrays:
    data = load_whole("japanese_vowels", directory=source)
    arrays: Arrays = {}
    for part, clients in (("train", data.train), ("test", data.test)):
        frames = [r.u for held in clients.values() for r in held]
        start, length = _laid_out(frames)
        speakers = [_number(client) for client, held in clients.items() for _ in held]
        arrays |= {
            f"{part}_frames": np.concatenate(frames).astype(np.float32),
            f"{part}_start": start,
            f"{part}_length": length,
            f"{part}_speaker": np.array(speakers, dtype=np.uint8),
        }
    return arrays


def _fsdd(source: Path) -> Arrays:
    data = load_whole("fsdd", directory=source)
    speakers = list(data.clients)
    held = {client: iter(recordings) for client, recordings in data.clients.items()}
    found = [
        (name, digit, speakers.index(speaker), index, next(held[speaker]).u[:, 0])
        for speaker, digit, index, name in utterances(_folder("fsdd", source))
    ]
    found.sort(key=lambda one: one[0])
    audio = [u for *_, u in found]
    start, length = _laid_out(audio)
    return {
        "audio": np.rint(np.concatenate(audio) * 32768.0).astype(np.int16),
        "start": start,
        "length": length,
        "digit": np.array([digit for _, digit, _, _, _ in found], dtype=np.uint8),
        "speaker": np.array([speaker for _, _, speaker, _, _ in found], dtype=np.uint8),
        "index": np.array([index for _, _, _, index, _ in found], dtype=np.uint8),
        "speaker_names": np.array(speakers),
        "rate_hz": np.float32(8000),
    }


def _scalar_series(source: Path) -> Arrays:
    """Return whichever of the two series is here: they share one file."""
    arrays: Arrays = {}
    if find_library("santafe_laser", directory=source) is not None:
        laser = _only(load_whole("santafe_laser", directory=source))
        arrays["santafe_laser"] = laser.astype(np.int16)
    if find_library("sunspots", directory=source) is not None:
        years, numbers, _ = yearly(_folder("sunspots", source))
        arrays["sunspot_year"] = years.astype(np.int16)
        arrays["sunspot_activity"] = numbers.astype(np.float32)
    if not arrays:
        locate_library("santafe_laser", directory=source)
    return arrays


def _only(data: Dataset) -> Array:
    ((recording,),) = data.clients.values()
    return np.asarray(recording.u[:, 0])


def _mnist_writers(source: Path) -> Arrays:
    arrays: Arrays = {}
    place = locate("mnist_writers", directory=source)
    for part, images in (("train", "train-images"), ("test", "t10k-images")):
        pictures, rows = mnist_rows(place.folder, images, part)
        arrays |= {
            f"{part}_images": pictures,
            f"{part}_labels": rows[:, 0].astype(np.uint8),
            f"{part}_writer": rows[:, 2].astype(np.int16),
            f"{part}_hsf": rows[:, 1].astype(np.uint8),
        }
    return arrays


def _cifar10(source: Path) -> Arrays:
    data = cifar10(directory=source)
    return {
        "train_images": data.train[:10_000],
        "train_labels": data.train_labels[:10_000],
        "test_images": data.test[:2_000],
        "test_labels": data.test_labels[:2_000],
        "label_names": np.array(data.classes),
    }


def _fashion_mnist(source: Path) -> Arrays:
    data = fashion_mnist(directory=source)
    train = _first_of_each(data.train_labels, 2_000)
    test = _first_of_each(data.test_labels, 500)
    return {
        "train_images": data.train[train],
        "train_labels": data.train_labels[train],
        "test_images": data.test[test],
        "test_labels": data.test_labels[test],
        "label_names": np.array(data.classes),
    }


def _first_of_each(labels: NDArray[np.uint8], n: int) -> NDArray[np.int64]:
    """Return the positions of the first n of every class, in their order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == k)[:n] for k in np.unique(labels)]))


def _sst2(source: Path, folder: Path) -> list[Path]:
    glue = sst2(directory=source)
    parts = {
        "phrases_train": glue.train,
        "dev": glue.test,
        **{
            f"sentences_{part}": texts
            for part, texts in treebank_sentences(source / "sst2").items()
        },
    }
    return [
        _write(
            folder / f"{part}.tsv.gz",
            "".join(["sentence\tlabel\n", *(f"{text.text}\t{text.label}\n" for text in texts)]),
        )
        for part, texts in parts.items()
    ]


def _shakespeare(source: Path, folder: Path) -> list[Path]:
    lines = [
        json.dumps({"i": i, "speaker": text.client, "text": text.text}) + "\n"
        for i, text in enumerate(shakespeare(directory=source).train)
    ]
    return [_write(folder / "speeches.jsonl.gz", "".join(lines))]


def _sotu(source: Path, folder: Path) -> list[Path]:
    place = locate("sotu", directory=source)
    names = sorted(require(place.folder, "[12][0-9][0-9][0-9]_*.json"))
    records = [json.loads(read_text(place.folder, name)) for name in names]
    text = "".join(json.dumps(record) + "\n" for record in records)
    return [_write(folder / "sotu.jsonl.gz", text)]


def _write(path: Path, text: str) -> Path:
    # No time and no name in the header: the same text is the same file.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


_ARRAYS: Mapping[str, Callable[[Path], Arrays]] = {
    "uci_har": _uci_har,
    "motionsense": _motionsense,
    "wisdm_watch": _wisdm_watch,
    "hhar": _hhar,
    "wesad": _wesad,
    "japanese_vowels": _japanese_vowels,
    "fsdd": _fsdd,
    "santafe_laser": _scalar_series,
    "sunspots": _scalar_series,
    "mnist_writers": _mnist_writers,
    "cifar10": _cifar10,
    "fashion_mnist": _fashion_mnist,
}
_TEXTS: Mapping[str, Callable[[Path, Path], list[Path]]] = {
    "sst2": _sst2,
    "shakespeare": _shakespeare,
    "sotu": _sotu,
}
