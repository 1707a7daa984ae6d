"""Japanese Vowels: short utterances of nine speakers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder
from catchment_lab.datasets.files import parse_numbers, read_text, require
from catchment_lab.datasets.values import Dataset, Stretch, float_rows, gathered

_SPEAKERS = 9
_COEFFICIENTS = 12


def read(folder: Folder) -> Dataset:
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


def _utterances(folder: Folder, part: str) -> Iterator[Stretch]:
    series = folder.matching(f"JapaneseVowels_{part}.ts")
    for u, speaker in _ts(folder, series[0]) if series else _blocks(folder, part):
        if not (1 <= speaker <= _SPEAKERS and u.shape[1] == _COEFFICIENTS):
            raise IntegrityError(
                f"{folder}: an utterance of the {part} part has {u.shape[1]} coefficients and "
                f"speaker {speaker}; get a fresh copy"
            )
        yield Stretch(f"speaker-{speaker}", speaker - 1, u, test=part == "test")


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
