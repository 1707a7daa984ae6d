"""Japanese Vowels and the Free Spoken Digit Dataset: short utterances of a few speakers."""

from __future__ import annotations

import re
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from catchment.arrays import Array
from catchment.data.archive import Folder
from catchment.data.loaders.files import parse_numbers, read_arrays, read_text, require
from catchment.data.loaders.mel import log_mel
from catchment.data.loaders.values import Dataset, Stretch, cut, float_rows, names_of
from catchment.data.sources import Place, locate
from catchment.errors import IntegrityError

_SPEAKERS = 9
_COEFFICIENTS = 12
_RATE_HZ = 8000
_FULL_SCALE = 32768.0
_TEST_BELOW = 5
_HOP = 80
_BANDS = 24


def japanese_vowels(*, directory: Path | str | None = None) -> Dataset:
    """Return Japanese Vowels: 9 speakers, 12 coefficients, 270 utterances and 370 for test.

    The class is the speaker, and so is the client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> japanese_vowels(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: japanese_vowels (12 cepstrum coefficients ...
    """
    place = locate("japanese_vowels", directory=directory)
    recordings: list[Stretch] = []
    for part in ("train", "test"):
        utterances = (
            _vowels_compact(place, part)
            if place.original is None
            else _vowels_original(place.original, part)
        )
        for u, speaker in utterances:
            if not (1 <= speaker <= _SPEAKERS and u.shape[1] == _COEFFICIENTS):
                raise IntegrityError(
                    f"{place.directory}: an utterance of the {part} part has {u.shape[1]} "
                    f"coefficients and speaker {speaker}; get a fresh copy"
                )
            recordings.append(Stretch(f"speaker-{speaker}", speaker - 1, u, test=part == "test"))
    clients, test = cut(recordings, n_classes=_SPEAKERS, window=None)
    return Dataset(
        name="japanese_vowels",
        clients=clients,
        channels=tuple(f"lpc_{k}" for k in range(1, _COEFFICIENTS + 1)),
        classes=tuple(str(k) for k in range(1, _SPEAKERS + 1)),
        rate_hz=1000 / 6.4,
        test_positions=test,
        notes=(f"{place.form} form; the class is the speaker, so each client has one class",),
    )


def _vowels_compact(place: Place, part: str) -> Iterator[tuple[Array, int]]:
    keys = tuple(f"{part}_{key}" for key in ("frames", "start", "length", "speaker"))
    arrays = read_arrays(place, keys)
    frames = float_rows(arrays[keys[0]])
    for start, length, speaker in zip(*(arrays[key].tolist() for key in keys[1:]), strict=True):
        yield frames[start : start + length], speaker


def _vowels_original(folder: Folder, part: str) -> Iterator[tuple[Array, int]]:
    series = folder.matching(f"JapaneseVowels_{part}.ts")
    return _vowels_ts(folder, series[0]) if series else _vowels_blocks(folder, part)


def _vowels_blocks(folder: Folder, part: str) -> Iterator[tuple[Array, int]]:
    """Yield the utterances of ae.train or ae.test: blocks of lines between empty lines."""
    (name, *_), (sizes, *_) = require(folder, f"ae.{part}"), require(folder, f"size_ae.{part}")
    blocks = [
        block.encode().splitlines()
        for block in re.split(r"\n\s*\n", read_text(folder, name).replace("\r\n", "\n").strip())
    ]
    counts = parse_numbers(folder.read(sizes).split(), f"{folder}/{sizes}").astype(int).ravel()
    if counts.sum() != len(blocks):
        raise IntegrityError(
            f"{folder}/{name} has {len(blocks)} utterances, {sizes} counts {counts.sum()}; "
            f"get a fresh copy"
        )
    speakers = np.repeat(np.arange(1, len(counts) + 1), counts)
    for block, speaker in zip(blocks, speakers.tolist(), strict=True):
        yield float_rows(parse_numbers(block, f"{folder}/{name}")), speaker


def _vowels_ts(folder: Folder, name: str) -> Iterator[tuple[Array, int]]:
    """Yield the utterances of a .ts file: channels between colons, the class at the end."""
    _, found, data = re.sub("@DATA", "@data", read_text(folder, name)).partition("@data")
    if not found:
        raise IntegrityError(f"{folder}/{name} has no @data; get a fresh copy")
    for number, line in enumerate(data.strip().splitlines(), start=1):
        *channels, speaker = line.strip().split(":")
        rows = [channel.encode() for channel in channels]
        what = f"{folder}/{name}, utterance {number},"
        if not speaker.strip().isdigit():
            raise IntegrityError(f"{what} ends in {speaker!r}, not in a speaker's number")
        yield float_rows(parse_numbers(rows, what, delimiter=",").T), int(speaker)


def fsdd(*, directory: Path | str | None = None, raw: bool = False) -> Dataset:
    """Return the Free Spoken Digit Dataset: 6 speakers, 10 digits, 50 recordings of each.

    Recordings 0 to 4 of each digit are for test, by the publisher's rule.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    raw
        The samples themselves, one channel at 8 kHz within -1 to 1; otherwise 24 log mel energies
        at 100 Hz.

    >>> fsdd(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: fsdd (spoken English digits, ...
    """
    place = locate("fsdd", directory=directory)
    spoken = _digits_compact(place) if place.original is None else _digits_original(place.original)
    recordings = []
    for audio, digit, speaker, index in spoken:
        samples = audio / _FULL_SCALE
        u = samples[:, None] if raw else log_mel(samples, n_bands=_BANDS, hop=_HOP)
        recordings.append(Stretch(speaker, digit, u, test=index < _TEST_BELOW))
    clients, test = cut(recordings, n_classes=10, window=None)
    return Dataset(
        name="fsdd",
        clients=dict(sorted(clients.items())),
        channels=("audio",) if raw else tuple(f"mel_{k}" for k in range(1, _BANDS + 1)),
        classes=tuple(str(digit) for digit in range(10)),
        rate_hz=float(_RATE_HZ if raw else _RATE_HZ / _HOP),
        test_positions=test,
        notes=(f"{place.form} form; CC BY-SA 4.0, also for what is derived from it",),
    )


_Spoken = tuple[Array, int, str, int]


def _digits_compact(place: Place) -> Iterator[_Spoken]:
    keys = ("start", "length", "digit", "speaker", "index")
    arrays = read_arrays(place, ("audio", "speaker_names", *keys))
    audio, speakers = arrays["audio"], names_of(arrays["speaker_names"])
    for start, length, digit, speaker, index in zip(
        *(arrays[key].tolist() for key in keys), strict=True
    ):
        samples = audio[start : start + length].astype(np.float64)
        yield samples, digit, speakers[speaker], index


def _digits_original(folder: Folder) -> Iterator[_Spoken]:
    found = []
    for name in require(folder, "[0-9]_*_*.wav"):
        match = re.search(r"(?:^|/)(\d)_([^/]+)_(\d+)\.wav$", name, re.IGNORECASE)
        if match is not None:
            found.append((match[2], int(match[1]), int(match[3]), name))
    for speaker, digit, index, name in sorted(found):
        yield _samples(folder, name), digit, speaker, index


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
