"""Spoken digits as rows of a frozen encoder, each clip encoded once and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

import catchment as ct
from catchment import Array
from catchment.data import model_directories
from catchment.features import FeatureMap
from catchment.plugins import plugin
from catchment.wire import replace_file
from catchment_lab.datasets import Dataset

SIZE, BOUND, BITS = 96, 128.0, 12
AT_ONCE = 50
Clips = dict[str, list[ct.Recording]]


@dataclass(frozen=True)
class Embedded(FeatureMap):
    """A map of recordings that are rows (1, F) of an encoder already."""

    n_features: int = SIZE
    bits: int | None = BITS
    standardize: bool = True

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, BOUND)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the inputs."""
        return list(inputs)


@dataclass(frozen=True)
class Words:
    """Embedded clips of every speaker: those for training, and the publisher's test set."""

    names: tuple[str, ...]
    train: Clips
    test: Clips

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(self.train)


def spoken(directory: Path | None = None, began: Callable[[str], None] | None = None) -> Words:
    """Return the spoken digits, encoded; recordings 0 to 4 of each digit and speaker are for test.

    The rows are kept beside the encoder, under a name that says which encoder and clips they are.
    """
    # They need onnx, which synthetic rows do not.
    from reproductions.speech import load_sound
    from reproductions.speech_graph import locate_networks, write_encoder

    sound = load_sound(directory)
    place = model_directories()[-1]
    sha256 = write_encoder(locate_networks(directory), place / "speech_encoder.onnx")
    clips = [one.u for held in sound.clients.values() for one in held]
    digest = hashlib.sha256(sha256.encode())
    for u in clips:
        digest.update(u.tobytes())
    path = place / f"speech_rows_{digest.hexdigest()[:12]}.npz"
    if path.is_file():
        with np.load(path) as kept:
            z = kept["z"]
    else:
        encoder = plugin("maps", "encoder", needed_for="encoders")(
            place / "speech_encoder.onnx", sha256, layout="1T", pool="mean", bound=BOUND, bits=None
        ).build(1, per_step=False, classes=True)
        parts = []
        for k in range(0, len(clips), AT_ONCE):
            if began is not None:
                began(f"encoding clips {k + 1} to {k + AT_ONCE} of {len(clips)}")
            parts += encoder.rows(clips[k : k + AT_ONCE])
        z = np.concatenate(parts)
        content = BytesIO()
        np.savez(content, z=z)
        replace_file(path, content.getvalue())
    return _dealt(sound, z)


def _dealt(sound: Dataset, z: Array) -> Words:
    rows = iter(z)
    train: Clips = {}
    test: Clips = {}
    for speaker, held in sound.clients.items():
        for k, one in enumerate(held):
            word = sound.classes[int(np.asarray(one.y).argmax())]
            part = test if k in sound.test_positions[speaker] else train
            made = ct.Recording.labeled(next(rows)[None], word, sound.classes)
            part.setdefault(speaker, []).append(made)
    return Words(sound.classes, train, test)


def synthetic(n_clips: int = 12, n_speakers: int = 4, seed: int = 0) -> Words:
    """Return rows that no encoder made, of five words by up to four speakers, for a quick run."""
    rng = np.random.default_rng(seed)
    names = tuple("abcde")
    means = 6 * rng.normal(size=(len(names), SIZE))
    train: Clips = {}
    test: Clips = {}
    for speaker in ("ann", "bob", "cid", "dora")[:n_speakers]:
        accent = 3 * rng.normal(size=SIZE)
        for k, word in enumerate(names):
            z = means[k] + accent + 5 * rng.normal(size=(n_clips, SIZE))
            made = [ct.Recording.labeled(row[None], word, names) for row in z]
            test.setdefault(speaker, []).extend(made[:4])
            train.setdefault(speaker, []).extend(made[4:])
    return Words(names, train, test)


def of_word(clips: Clips, word: str, *, other: bool = False) -> Clips:
    """Return each speaker's clips of a word, or of all others; labels keep their names.

    >>> words = synthetic()
    >>> [len(held) for held in of_word(words.test, "a", other=True).values()]
    [16, 16, 16, 16]
    """
    return {
        speaker: [one for one in held if (said(one) == word) != other]
        for speaker, held in clips.items()
    }


def said(clip: ct.Recording) -> str:
    """Return the word of a clip."""
    assert clip.classes is not None
    return clip.classes[int(np.asarray(clip.y).argmax())]
