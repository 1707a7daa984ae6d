"""The Free Spoken Digit Dataset: recordings of six speakers."""

from __future__ import annotations

import re
import wave
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import require
from catchment_lab.datasets.mel import log_mel
from catchment_lab.datasets.values import Dataset, Stretch, gathered

_RATE_HZ = 8000
_FULL_SCALE = 32768.0
_TEST_BELOW = 5
_HOP = 80
_BANDS = 24


def mel_bands(data: Dataset) -> Dataset:
    """Return spoken digits as log mel energies, from their samples."""
    clients = {
        client: [replace(r, u=log_mel(r.u[:, 0], n_bands=_BANDS, hop=_HOP)) for r in recordings]
        for client, recordings in data.clients.items()
    }
    return replace(
        data,
        clients=clients,
        channels=tuple(f"mel_{k}" for k in range(1, _BANDS + 1)),
        rate_hz=_RATE_HZ / _HOP,
    )


def read(folder: Folder) -> Dataset:
    """Return the Free Spoken Digit Dataset: 6 speakers, 10 digits, 50 recordings of each.

    Recordings 0 to 4 of each digit are for test, by the publisher's rule. The samples are one
    channel at 8 kHz within -1 to 1.
    """
    return gathered(
        "fsdd",
        _recordings(folder),
        channels=("audio",),
        classes=tuple(str(digit) for digit in range(10)),
        rate_hz=float(_RATE_HZ),
        notes=("CC BY-SA 4.0, also for what is derived from it",),
    )


def utterances(folder: Folder) -> list[tuple[str, int, int, str]]:
    """Return (speaker, digit, index, file name) of every recording, in order."""
    found = []
    for name in require(folder, "[0-9]_*_*.wav"):
        match = re.search(r"(?:^|/)(\d)_([^/]+)_(\d+)\.wav$", name, re.IGNORECASE)
        if match is not None:
            found.append((match[2], int(match[1]), int(match[3]), name))
    return sorted(found)


def _recordings(folder: Folder) -> Iterator[Stretch]:
    for speaker, digit, index, name in utterances(folder):
        u = (_samples(folder, name) / _FULL_SCALE)[:, None]
        yield Stretch(speaker, digit, u, test=index < _TEST_BELOW)


def _samples(folder: Folder, name: str) -> Array:
    try:
        with folder.open(name) as stream, wave.open(stream) as sound:
            form = (sound.getframerate(), sound.getnchannels(), sound.getsampwidth())
            raw = sound.readframes(sound.getnframes())
    except wave.Error as error:
        raise IntegrityError(f"{folder}/{name} is not a wav file ({error})") from error
    if form != (_RATE_HZ, 1, 2) or not raw:
        raise IntegrityError(
            f"{folder}/{name} has {form[0]} Hz, {form[1]} channels of {form[2]} bytes and "
            f"{len(raw)} bytes of sound; convert it to 8000 Hz mono, 16 bits"
        )
    return np.frombuffer(raw, dtype="<i2").astype(np.float64)
