"""Speech: the Free Spoken Digit Dataset, Japanese Vowels, and the logarithm of a mel filter bank.

Frames are weighted by a Hann window; their power spectrum is summed by triangular filters whose
centers are spaced evenly on the mel scale, m(f) = 2595 log10(1 + f / 700).
"""

from __future__ import annotations

import re
import wave
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.sources import Folder, parse_numbers, read_text, require
from catchment_lab.datasets.values import Dataset, Segment, float_rows, gathered

_RATE_HZ = 8000
_FULL_SCALE = 32768.0
_TEST_BELOW = 5
_BANDS, _FRAME, _HOP = 24, 256, 80
_FLOOR = 1e-8  # added to each energy, so that silence has a logarithm
_SPEAKERS, _COEFFICIENTS = 9, 12  # of Japanese Vowels


def log_mel(audio: Array, *, n_bands: int = _BANDS, hop: int = _HOP) -> Array:
    """Return the log energies (frames, bands) of a recording (samples,) at 8 kHz.

    Parameters
    ----------
    audio
        (samples,) values, usually within -1 to 1; padded with zeros to at least one frame.
    n_bands
        Number of filters between 0 and half the rate.
    hop
        Samples from one frame of 256 to the next.

    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000)
    >>> energies = log_mel(tone)
    >>> energies.shape, bool((energies[50].argmax() == energies.argmax(axis=1)).all())
    ((97, 24), True)
    """
    for name, value in (("hop", hop), ("n_bands", n_bands)):
        if value < 1:
            raise ValueError(f"{name} is {value}; pass 1 or more")
    audio = np.asarray(audio, dtype=np.float64)
    if audio.ndim != 1:
        raise ValueError(f"audio has {audio.ndim} dimensions; pass one channel, shape (samples,)")
    audio = np.pad(audio, (0, max(0, _FRAME - len(audio))))
    frames = np.lib.stride_tricks.sliding_window_view(audio, _FRAME)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FRAME), axis=1)) ** 2 / _FRAME
    return np.log(power @ mel_filters(n_bands, power.shape[1]).T + _FLOOR)


def mel_filters(n_bands: int, n_bins: int) -> Array:
    """Return triangular filters (bands, bins) over a spectrum from 0 to half the rate.

    >>> filters = mel_filters(10, 129)
    >>> filters.shape, float(filters.max()) <= 1.0
    ((10, 129), True)
    """
    top = 2595 * np.log10(1 + _RATE_HZ / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, n_bands + 2) / 2595) - 1)
    bins = np.linspace(0, _RATE_HZ / 2, n_bins)
    low, center, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (bins - low) / (center - low)
    falling = (high - bins) / (high - center)
    return np.maximum(0.0, np.minimum(rising, falling))


def mel_bands(data: Dataset) -> Dataset:
    """Return spoken digits as log mel energies, from their samples."""
    clients = {
        client: [replace(r, u=log_mel(r.u[:, 0])) for r in recordings]
        for client, recordings in data.clients.items()
    }
    return replace(
        data,
        clients=clients,
        channels=tuple(f"mel_{k}" for k in range(1, _BANDS + 1)),
        rate_hz=_RATE_HZ / _HOP,
    )


def read_fsdd(folder: Folder) -> Dataset:
    """Return the Free Spoken Digit Dataset: 6 speakers, 10 digits, 50 recordings of each.

    Recordings 0 to 4 of each digit are for test, by the publisher's rule. The samples are one
    channel at 8 kHz within -1 to 1.
    """
    return gathered(
        "fsdd",
        (
            Segment(speaker, digit, _samples(folder, name)[:, None], test=index < _TEST_BELOW)
            for speaker, digit, index, name in utterances(folder)
        ),
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
    return np.frombuffer(raw, dtype="<i2").astype(np.float64) / _FULL_SCALE


def read_japanese_vowels(folder: Folder) -> Dataset:
    """Return Japanese Vowels: 9 speakers, 12 coefficients, 270 utterances and 370 for test.

    The class is the speaker, and so is the client.
    """
    return gathered(
        "japanese_vowels",
        (s for part in ("train", "test") for s in _utterances(folder, part)),
        channels=tuple(f"lpc_{k}" for k in range(1, _COEFFICIENTS + 1)),
        classes=tuple(str(k) for k in range(1, _SPEAKERS + 1)),
        rate_hz=1000 / 6.4,
        notes=("the class is the speaker, so each client has one class",),
    )


def _utterances(folder: Folder, part: str) -> Iterator[Segment]:
    series = folder.matching(f"JapaneseVowels_{part}.ts")
    for u, speaker in _ts(folder, series[0]) if series else _blocks(folder, part):
        if not (1 <= speaker <= _SPEAKERS and u.shape[1] == _COEFFICIENTS):
            raise IntegrityError(
                f"{folder}: an utterance of the {part} part has {u.shape[1]} coefficients and "
                f"speaker {speaker}; get a fresh copy"
            )
        yield Segment(f"speaker-{speaker}", speaker - 1, u, test=part == "test")


def _blocks(folder: Folder, part: str) -> Iterator[tuple[Array, int]]:
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


def _ts(folder: Folder, name: str) -> Iterator[tuple[Array, int]]:
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
