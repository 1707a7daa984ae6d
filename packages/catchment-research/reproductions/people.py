"""The people behind the tables: subjects of public data sets, split whole, each scaled alone.

The papers cut subjects 9/3/3 of 15 and 5/2/2 of 9 into training, validation and test; that is
60/20/20, which is used for every set. Where the publisher's own files are at hand, sequences are as
in the papers: WESAD at 700 Hz in chunks of 350 (IncFed) or 700 samples (FedIP), HHAR of the Nexus 4
in 400 samples (FedIP), or with statistics of sliding windows as further channels in 500 (IncFed).
The compact sets differ from that, and their notes say how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from catchment import Array
from catchment.data import ACTIVITIES, CHANNELS, Recording, Scaler, cohorts, synthetic_wearables
from catchment_lab.datasets import Dataset, cut
from catchment_lab.datasets import load as load_library
from reproductions.data.compact import wesad_statistics
from reproductions.data.wesad import read as read_wesad
from reproductions.places import find, load, locate

SETS = ("uci_har", "motionsense", "wisdm_watch", "hhar", "wesad")
SPOKEN = "fsdd"  # in no table of a paper: digits, by speakers
# The people of motionsense with the 32 channels that IncFed makes of accelerometer and gyroscope.
DESCRIBED = "motionsense_32"
SYNTHETIC = "synthetic"
Paper = Literal["incfed", "fedip"]
Clients = dict[str, list[Recording]]


@dataclass(frozen=True, eq=False, kw_only=True)
class People:
    """Subjects for training, validation and test, every one with data scaled by themselves."""

    name: str
    train: Clients
    validation: Clients
    test: Clients
    channels: tuple[str, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    fold: int = 0

    @property
    def n_sequences(self) -> int:
        return sum(
            len(s) for part in (self.train, self.validation, self.test) for s in part.values()
        )

    @property
    def everyone(self) -> Clients:
        return together(self.train, self.validation, self.test)

    def within(self, steps: int) -> People:
        """Return these people with about this many steps in all, the same share of each subject's.

        >>> few = synthetic_people(n_users=5, windows=8).within(5 * 128 * 2)
        >>> {len(sequences) for sequences in few.test.values()}
        {2}
        """
        parts = (self.train, self.validation, self.test)
        share = steps / sum(s.n_steps for part in parts for v in part.values() for s in v)
        if share >= 1:
            return self
        train, validation, test = (
            {k: thin(v, max(1, round(share * len(v)))) for k, v in part.items()} for part in parts
        )
        return replace(self, train=train, validation=validation, test=test)

    def share(self, fraction: float, seed: int) -> tuple[str, ...]:
        """Return the names of a share of the training subjects, drawn by the seed."""
        names = sorted(self.train)
        n = max(1, round(fraction * len(names)))
        order = np.random.default_rng([seed, 0x5A43]).permutation(len(names))
        return tuple(sorted(names[k] for k in order[:n]))


def people(
    name: str, *, paper: Paper = "fedip", directory: Path | None = None, seed: int = 0
) -> People:
    """Return the subjects of a data set, or synthetic ones for `synthetic`.

    Parameters
    ----------
    name
        One of `SETS`, or synthetic.
    paper
        Whose sequences to cut, where the publisher's own files are at hand.
    directory
        Data directory; the usual ones if not given.
    seed
        Names the split of the subjects.

    >>> people("synthetic").name
    'synthetic'
    """
    return split(recorded(name, paper=paper, directory=directory), seed=seed)


def recorded(name: str, *, paper: Paper = "fedip", directory: Path | None = None) -> Dataset:
    """Return the recordings of a set of people, cut as a paper cuts them."""
    if name == SYNTHETIC:
        return synthetic_recordings()
    if name == SPOKEN:
        return _spoken(directory)
    if name == DESCRIBED:
        return _described_motion(directory)
    if name not in SETS:
        known = ", ".join((*SETS, DESCRIBED, SPOKEN, SYNTHETIC))
        raise ValueError(f"no set of people is called {name!r}; use {known}")
    return _loaded(name, paper, directory)


def available(
    directory: Path | None = None, names: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Return which sets of people are on this machine, of some names or of `SETS`."""
    return tuple(name for name in names or SETS if find(name, directory=directory) is not None)


def synthetic_people(*, n_users: int = 15, windows: int = 60, seed: int = 0) -> People:
    """Return synthetic people, for a look at the machinery; their figures mean nothing.

    >>> len(synthetic_people(n_users=5, windows=4).train)
    3
    """
    return split(synthetic_recordings(n_users=n_users, windows=windows, seed=seed), seed=seed)


def synthetic_recordings(*, n_users: int = 15, windows: int = 60, seed: int = 0) -> Dataset:
    """Return the recordings of synthetic people."""
    users = synthetic_wearables(n_users, seed, windows_per_user=windows)
    note = "synthetic signals: the figures say nothing about people"
    return Dataset(
        name=SYNTHETIC, clients=users, channels=CHANNELS, classes=ACTIVITIES, notes=(note,)
    )


def split(data: Dataset, *, seed: int = 0, official: bool = False) -> People:
    """Return a data set's subjects, split whole and each scaled by themselves.

    Parameters
    ----------
    official
        Whether the publisher's test subjects are the test, and a fifth of the others validates.
    """
    scaled = scale_each(data.clients)
    if official:
        rest = [name for name in scaled if name not in data.test_clients]
        train, validation, test = cohorts(rest, validation=0.2, test=0, seed=seed)
        test = data.test_clients
    else:
        train, validation, test = cohorts(scaled, seed=seed)
    return People(
        name=data.name,
        train={name: scaled[name] for name in sorted(train)},
        validation={name: scaled[name] for name in sorted(validation)},
        test={name: scaled[name] for name in sorted(test)},
        channels=data.channels,
        classes=data.classes,
        notes=data.notes,
    )


def rotations(data: Dataset, *, folds: int = 5, seed: int = 0) -> tuple[People, ...]:
    """Return a data set's subjects split `folds` times, so that everybody is tested once.

    People are dealt to folds at random. In each split one fold tests, the next one validates, and
    the others train: whatever is chosen in a split is chosen by people who are not tested in it.

    >>> split_five = rotations(synthetic_recordings(n_users=10, windows=2))
    >>> sorted(name for one in split_five for name in one.test) == sorted(split_five[0].everyone)
    True
    """
    scaled = scale_each(data.clients)
    if not 3 <= folds <= len(scaled):
        raise ValueError(f"folds is {folds}; pass 3 to {len(scaled)}, the number of subjects")
    order = np.random.default_rng([seed, 0xF01D]).permutation(len(scaled))
    names = sorted(scaled)
    groups = [[names[k] for k in order[fold::folds]] for fold in range(folds)]
    splits = []
    for fold in range(folds):
        test, validation = groups[fold], groups[(fold + 1) % folds]
        train = [name for name in names if name not in {*test, *validation}]
        parts = [
            {name: scaled[name] for name in sorted(part)} for part in (train, validation, test)
        ]
        splits.append(
            People(
                name=data.name,
                train=parts[0],
                validation=parts[1],
                test=parts[2],
                channels=data.channels,
                classes=data.classes,
                notes=data.notes,
                fold=fold,
            )
        )
    return tuple(splits)


def thin(sequences: list[Recording], cap: int) -> list[Recording]:
    """Return at most `cap` of the sequences, evenly taken.

    >>> [int(s.u[0, 0]) for s in thin([Recording([float(k)]) for k in range(10)], 4)]
    [0, 3, 6, 9]
    """
    if len(sequences) <= cap:
        return sequences
    return [sequences[k] for k in np.linspace(0, len(sequences) - 1, cap).round().astype(int)]


def _loaded(name: str, paper: Paper, directory: Path | None) -> Dataset:
    place = locate(name, directory=directory)
    root = place.directory.parent
    if name == "wesad" and place.form == "compact":
        # A segment of one minute every 20 s; the mean alone would lose what 5 s windows averaged.
        return cut(wesad_statistics(place.directory, statistics=("mean", "std")), 24, step=8)
    if name == "wesad":
        return cut(read_wesad(place.folder), 350 if paper == "incfed" else 700)
    if name == "hhar" and place.form != "compact" and paper == "incfed":
        return described(load_library("hhar", directory=root, window="whole"))
    return load(name, directory=directory)


def _spoken(directory: Path | None) -> Dataset:
    """Return spoken digits as log mel energies, speakers as subjects."""
    from catchment_lab.datasets import mel_bands
    from reproductions.data.compact import read_whole

    place = locate(SPOKEN, directory=directory)
    if place.form == "compact":
        return mel_bands(read_whole(SPOKEN, place.directory))
    return load_library("fsdd", directory=place.directory.parent)


def _described_motion(directory: Path | None) -> Dataset:
    """Return motionsense in the form of IncFed's HAR; windows are as long as those at 200 Hz."""
    whole = load("motionsense", directory=directory, window="whole")
    six = {
        name: [replace(one, u=one.u[:, :6]) for one in recordings]
        for name, recordings in whole.clients.items()
    }
    data = replace(whole, name=DESCRIBED, clients=six, channels=whole.channels[:6])
    note = "6 of its channels with statistics of sliding windows of 1 s, 2.5 s a sequence"
    return replace(described(data, window=50, step=25, steps=125), notes=(*whole.notes, note))


def described(data: Dataset, *, window: int = 200, step: int = 100, steps: int = 500) -> Dataset:
    """Return recordings with the statistics of sliding windows as channels, cut into sequences.

    Each sample gets the mean, standard deviation, least and greatest value of every channel in its
    window, and the magnitudes of acceleration and rotation: 6 + 24 + 2 channels of the Nexus 4.

    Parameters
    ----------
    window, step
        Samples in a sliding window, and from one to the next.
    steps
        Samples in a sequence; what is left over at the end of a recording is dropped.
    """
    clients: dict[str, list[Recording]] = {}
    for name, recordings in data.clients.items():
        for recording in recordings:
            if recording.n_steps < max(window, steps):
                continue
            u = window_statistics(recording.u, window, step)
            pieces = [u[k : k + steps] for k in range(0, len(u) - steps + 1, steps)]
            clients.setdefault(name, []).extend(replace(recording, u=piece) for piece in pieces)
    kinds = [
        f"{channel}_{kind}" for kind in ("mean", "std", "min", "max") for channel in data.channels
    ]
    magnitudes = [f"magnitude_{k}" for k in range(len(data.channels) // 3)]
    return replace(data, clients=clients, channels=(*data.channels, *kinds, *magnitudes))


def window_statistics(u: Array, window: int = 200, step: int = 100) -> Array:
    """Return samples (T, 5 I + I / 3) beside the statistics of the window they lie in.

    >>> window_statistics(np.arange(18.0).reshape(6, 3), window=4, step=2).shape
    (6, 16)
    """
    starts = range(0, len(u) - window + 1, step)
    views = [u[k : k + window] for k in starts]
    table = np.array([[v.mean(0), v.std(0), v.min(0), v.max(0)] for v in views])
    at = np.minimum(np.arange(len(u)) // step, len(views) - 1)
    sizes = [np.linalg.norm(u[:, k : k + 3], axis=1) for k in range(0, u.shape[1], 3)]
    return np.hstack([u, table[at].reshape(len(u), -1), np.stack(sizes, axis=1)])


def together(*parts: Mapping[str, list[Recording]]) -> Clients:
    """Return the clients of several mappings as one."""
    return {name: sequences for part in parts for name, sequences in part.items()}


def scale_each(clients: Mapping[str, Iterable[Recording]]) -> dict[str, list[Recording]]:
    """Return every client's sequences scaled by that client's own moments, gaps as they are.

    >>> scaled = scale_each({"a": [Recording(np.array([1.0, 3.0]))]})
    >>> scaled["a"][0].u.ravel()
    array([-1.,  1.])
    """
    held = {name: list(sequences) for name, sequences in clients.items()}
    return {name: Scaler.fit(own).apply(own) for name, own in held.items()}
