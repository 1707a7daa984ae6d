"""Spoken digits by speakers nobody trained on: a frozen speech encoder beside other fixed maps.

Each of the six speakers of FSDD is a client. In turn one is left out, the other five make a readout
in one round (the ridge is chosen by training speakers left out), and it is tested on the sixth.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Integers, Run
from catchment.data import model_directories
from catchment.features import FeatureMap
from catchment.plugins import plugin
from catchment_lab import datasets as loaders
from catchment_lab.datasets import Dataset, mel_bands
from reproductions.map_sets import label_of
from reproductions.map_values import class_counts
from reproductions.places import locate
from reproductions.speech_frames import MACHINE, ResampledFrames, pooled_answers
from reproductions.speech_graph import locate_networks, write_encoder
from reproductions.study import Began, Value, environment

STEM = "speech"
BANDS = 24
QUICK_CLIPS = 5  # recordings of each digit and speaker
MAJORITY = "most frequent digit"


@dataclass(frozen=True)
class Cell:
    """What one map gave on one speaker."""

    method: str
    speaker: str
    n_tested: int
    accuracy: float
    features: int = 0
    bytes_up: float = 0.0  # of one client, on average
    rounds: int = 0
    seconds: float = 0.0
    macro_f1: float | None = None  # cells of earlier runs have none


@dataclass(frozen=True)
class Method:
    """A map, and the recordings that it takes: samples or mel bands."""

    name: str
    make: Callable[[], FeatureMap]
    sound: bool
    preprocessing: ct.Preprocessing = field(default_factory=ct.Preprocessing)


# Rows of a frozen map do not depend on who else is trained with, so each clip is encoded once.
_known: dict[str, Array] = {}


@dataclass(frozen=True)
class Remembered(FeatureMap):
    """A map that encodes no recording twice in a process."""

    inner: FeatureMap

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def bounds(self) -> Array:
        return self.inner.bounds

    @property
    def bits(self) -> Any:
        return self.inner.bits

    @property
    def standardize(self) -> bool:
        return self.inner.standardize

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the row (1, F) of each recording's inputs (T, I)."""
        keys = [self.inner.fingerprint + hashlib.sha256(u.tobytes()).hexdigest() for u in inputs]
        new = {key: u for key, u in zip(keys, inputs, strict=True) if key not in _known}
        _known.update(zip(new, self.inner.rows(list(new.values()), threads=threads), strict=True))
        return [_known[key] for key in keys]


def methods(directory: Path | None = None) -> tuple[Method, ...]:
    """Return the maps that are compared, the encoder written into the directory of models."""
    path = model_directories()[-1] / "speech_encoder.onnx"
    sha256 = write_encoder(locate_networks(directory), path)

    def encoder(pool: str) -> FeatureMap:
        encode = plugin("maps", "encoder", needed_for="encoders")
        made: FeatureMap = encode(path, sha256, layout="1T", pool=pool, bound=128.0)
        return Remembered(made.build(1, per_step=False, classes=True))

    raw = ct.Preprocessing(scale="none")
    found = [
        Method("speech encoder, mean", lambda: encoder("mean"), True, raw),
        Method("speech encoder, all seven", lambda: encoder("flatten"), True, raw),
        Method("mel mean and deviation", lambda: ct.EchoState(1, state=False), False),
        Method("mel, reservoir of 250", lambda: ct.EchoState(250), False),
    ]
    own = ct.Preprocessing(scale="own")
    alone = "speakers scaled alone"
    found += [
        Method("mel, MiniRocket of 504", lambda: ct.MiniRocket(504), False),
        Method("mel, default map", lambda: ct.DefaultMap(), False),
        Method(f"mel, default map, {alone}", lambda: ct.DefaultMap(), False, own),
        Method(f"mel, reservoir of 250, {alone}", lambda: ct.EchoState(250), False, own),
        Method(f"mel, 12 frames and moments, {alone}", lambda: ResampledFrames(BANDS), False, own),
    ]
    return tuple(found)


def load_sound(directory: Path | None = None) -> Dataset:
    """Return the spoken digits as samples at 8 kHz."""
    from reproductions.data import compact

    place = locate("fsdd", directory=directory)
    if place.form == "compact":
        return compact.read_whole("fsdd", place.directory)
    return loaders.load("fsdd", directory=place.directory.parent, raw=True)


def speech(
    *,
    quick: bool = False,
    directory: Path | None = None,
    out: Path = Path("results"),
    began: Began | None = None,
) -> dict[str, Value]:
    """Return the result, going on from cells that the folder's file has already."""
    say = began or (lambda text: None)
    sound = load_sound(directory)
    if quick:
        sound = _fewer(sound, QUICK_CLIPS)
    mel = mel_bands(sound)
    path = out / f"{STEM}{'-quick' if quick else ''}.json"
    cells = {(one.method, one.speaker): one for one in _earlier(path)}
    everything: tuple[str | Method, ...] = (MAJORITY, *methods(directory), MACHINE)
    for method in everything:
        name = method if isinstance(method, str) else method.name
        for speaker in sound.clients:
            before = cells.get((name, speaker))
            if before is not None and before.macro_f1 is not None:
                continue
            say(f"{name}: without {speaker}")
            if method == MAJORITY:
                made = _majority(sound, speaker)
            elif isinstance(method, str):
                made = _pooled(method, mel, speaker)
            else:
                made = _cell(method, sound if method.sound else mel, speaker)
            cells[name, speaker] = made
            _write(path, [*cells.values()], quick)
    return _write(path, [*cells.values()], quick)


def _cell(method: Method, data: Dataset, speaker: str) -> Cell:
    start = time.perf_counter()
    clients = {name: held for name, held in data.clients.items() if name != speaker}
    pipeline = ct.Pipeline(method.preprocessing, method.make())
    run: Run = ct.federate(pipeline, clients, ridge="leave-one-client-out", classes=data.classes)
    tested = data.clients[speaker]
    outputs = np.concatenate(run.model.outputs([one.u for one in tested]))
    accuracy, macro_f1 = _scores(tested, outputs.argmax(1))
    up = sum(record.bytes_up for record in run.records) / len(clients)
    return Cell(
        method.name,
        speaker,
        len(tested),
        accuracy,
        run.model.features.n_features,
        up,
        len(run.records),
        time.perf_counter() - start,
        macro_f1,
    )


def _pooled(name: str, data: Dataset, speaker: str) -> Cell:
    start = time.perf_counter()
    columns, said = pooled_answers(data, speaker)
    tested = data.clients[speaker]
    accuracy, macro_f1 = _scores(tested, said)
    seconds = time.perf_counter() - start
    return Cell(name, speaker, len(tested), accuracy, columns, 0.0, 0, seconds, macro_f1)


def _scores(tested: Sequence[ct.Recording], said: Integers) -> tuple[float, float]:
    """Return the accuracy and the macro-F1 of what was said of some recordings."""
    label = np.array([label_of(one) for one in tested])
    right, times_said, times_there = class_counts(label, said, len(np.asarray(tested[0].y))).T
    f1 = 2 * right / np.maximum(times_said + times_there, 1)
    return float((label == said).mean()), float(f1[times_there > 0].mean())


def _majority(data: Dataset, speaker: str) -> Cell:
    others = [
        np.asarray(r.y) for name, held in data.clients.items() if name != speaker for r in held
    ]
    most = int(np.sum(others, axis=0).argmax())
    tested = data.clients[speaker]
    accuracy, macro_f1 = _scores(tested, np.full(len(tested), most))
    return Cell(MAJORITY, speaker, len(tested), accuracy, macro_f1=macro_f1)


def _fewer(data: Dataset, n: int) -> Dataset:
    """Return the set with the first n recordings of each digit of each speaker."""
    from dataclasses import replace

    clients = {}
    for name, held in data.clients.items():
        digits = np.array([np.asarray(one.y).argmax() for one in held])
        kept = sorted(k for digit in set(digits) for k in np.flatnonzero(digits == digit)[:n])
        clients[name] = [held[k] for k in kept]
    return replace(data, clients=clients, test_positions={})


def _earlier(path: Path) -> list[Cell]:
    if not path.is_file():
        return []
    return [Cell(**row) for row in json.loads(path.read_text())["cells"]]


def _write(path: Path, cells: Sequence[Cell], quick: bool) -> dict[str, Value]:
    result: dict[str, Value] = {
        "name": STEM,
        "quick": quick,
        "environment": environment(),
        "cells": [dict(asdict(one)) for one in cells],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(cells))
    return result


def markdown(cells: Sequence[Cell]) -> str:
    """Return the table: a row for each map, a column for each speaker left out.

    >>> print(markdown([Cell("a map", "ann", 10, 0.9, 4, 1e4, 1)]).splitlines()[-1])
    | a map | 4 | 0.010 | 1 | 90.0 | - | 90.0 | 90.0 |
    """
    speakers = list(dict.fromkeys(one.speaker for one in cells))
    lines = [
        "# Spoken digits by unseen speakers",
        "",
        "Free Spoken Digit Dataset, six speakers as clients: accuracy in per cent on the speaker",
        "who is left out; the other five make the readout together in one round, the ridge chosen",
        "by training speakers left out. MB is what one client sends. *Scaled alone*: by the mean",
        "and deviation of a speaker's own clips, the new one's among them. *Pooled*: scikit-learn",
        "on all training speakers' rows in one place, scaled alone too. Macro-F1 is the mean over",
        "speakers, too.",
        "",
        "| map | features | MB up | rounds | mean | macro-F1 | worst | "
        + " | ".join(speakers)
        + " |",
        "| --- | --- | --- | --- | --- | --- | --- |" + " --- |" * len(speakers),
    ]
    by_method: dict[str, dict[str, Cell]] = {}
    for one in cells:
        by_method.setdefault(one.method, {})[one.speaker] = one
    for method, found in by_method.items():
        lines.append(_line(method, found, speakers))
    return "\n".join(lines) + "\n"


def _line(method: str, found: Mapping[str, Cell], speakers: Sequence[str]) -> str:
    first = next(iter(found.values()))
    right = [100 * one.accuracy for one in found.values()]
    each = [f"{100 * found[s].accuracy:.1f}" if s in found else "" for s in speakers]
    up = max(one.bytes_up for one in found.values()) / 1e6
    f1 = [one.macro_f1 for one in found.values() if one.macro_f1 is not None]
    said = f"{np.mean(f1):.3f}" if len(f1) == len(found) else "-"
    return (
        f"| {method} | {first.features} | {up:.3f} | {first.rounds} | "
        f"{np.mean(right):.1f} | {said} | {min(right):.1f} | {' | '.join(each)} |"
    )
