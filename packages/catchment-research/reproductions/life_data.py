"""Engines from a start to failure, an engine a client: C-MAPSS FD001, or synthetic ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.errors import IntegrityError
from catchment_lab.datasets import read_numbers
from reproductions.places import locate

CAP = 125.0  # cycles: what is left is not counted beyond
CONSTANT = (4, 5, 9, 14, 20, 22, 23)  # columns without any change


@dataclass(frozen=True, eq=False)
class Engines:
    """Training engines up to their failure, others cut off before it, and what these have left.

    `cycles_left` (n,) is at the last step of each test engine, uncapped.
    """

    train: dict[str, list[Recording]]
    test: dict[str, list[Recording]]
    cycles_left: Array

    @property
    def ages(self) -> Engines:
        """The same engines with the number of the cycle as the only input."""

        def aged(many: dict[str, list[Recording]]) -> dict[str, list[Recording]]:
            return {k: [Recording(np.arange(1.0, r.n_steps + 1), r.y)] for k, [r] in many.items()}

        return Engines(aged(self.train), aged(self.test), self.cycles_left)


def fd001(directory: Path | None = None) -> Engines:
    """Return C-MAPSS FD001, targets capped; MissingDataError if the files are not here."""
    folder = locate("cmapss_fd001", directory=directory).folder
    train, test = (read_numbers(folder, f"{part}_FD001.txt") for part in ("train", "test"))
    left = read_numbers(folder, "RUL_FD001.txt").ravel()
    if train.shape[1] != 26 or test.shape[1] != 26 or len(left) != len(np.unique(test[:, 0])):
        raise IntegrityError(f"{folder} does not hold the 26 columns of FD001; get a fresh copy")
    return Engines(
        _recordings(train, np.zeros(len(np.unique(train[:, 0])))), _recordings(test, left), left
    )


def generated(n: int = 12, seed: int = 0) -> Engines:
    """Return synthetic engines that wear out, half of them cut off before the end.

    >>> engines = generated(4)
    >>> len(engines.train), len(engines.test), engines.cycles_left.shape
    (4, 4, (4,))
    """
    rng = np.random.default_rng(seed)
    parts: list[dict[str, list[Recording]]] = [{}, {}]
    left = np.zeros(n)
    for k in range(2 * n):
        life = int(rng.integers(130, 260))
        wear = np.exp((np.arange(life) - life) / 40 * rng.uniform(0.8, 1.2))
        u = np.outer(wear, [1.0, -1.0, 0.5]) + 0.1 * rng.normal(size=(life, 3))
        ends = life if k < n else int(rng.integers(40, life - 5))
        target = np.minimum(np.arange(life)[::-1], CAP)[:ends, None]
        parts[k >= n][f"engine-{k % n + 1:03d}"] = [Recording(u[:ends], target)]
        if k >= n:
            left[k - n] = life - ends
    return Engines(parts[0], parts[1], left)


def _recordings(rows: Array, left: Array) -> dict[str, list[Recording]]:
    kept = [k for k in range(2, 26) if k not in CONSTANT]
    found = {}
    for number, after in zip(np.unique(rows[:, 0]), left, strict=True):
        own = rows[rows[:, 0] == number]
        target = np.minimum(own[-1, 1] - own[:, 1] + after, CAP)
        found[f"engine-{int(number):03d}"] = [Recording(own[:, kept], target[:, None])]
    return found
