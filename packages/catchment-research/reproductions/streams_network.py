"""Between the stream experiment and its recurrent network: streams out, labels in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reproductions.streams_data import People, Task
from reproductions.streams_gru import SCALE, Streams, first_numbers, fitted, outputs

Draw = tuple[Task, int]


@dataclass(frozen=True, eq=False)
class Labels:
    """What a network said about every draw's judged steps (D, P, S, J), and how it was chosen."""

    draws: tuple[Draw, ...]
    found: NDArray[np.int64]
    chosen: tuple[tuple[str, ...], ...]
    hidden: int

    def of(self, task: Task, seed: int) -> tuple[NDArray[np.int64], tuple[str, ...]] | None:
        """Return the labels (P, S, J) of one draw and its choices, None if it was not exported."""
        if (task, seed) not in self.draws:
            return None
        place = self.draws.index((task, seed))
        return self.found[place], self.chosen[place]


def export(
    make: Callable[[Task, int], People],
    draws: Sequence[Draw],
    folds: Callable[[Sequence[str]], list[tuple[str, ...]]],
    n_classes: int,
    path: Path,
) -> None:
    """Write the streams of some draws, rounded to 2^-10, for a machine with torch alone."""
    made = [make(task, seed) for task, seed in draws]
    names = sorted(made[0])
    u, label = (np.stack(parts) for parts in zip(*map(_arrays, made), strict=True))
    about = {
        "draws": draws,
        "folds": [[names.index(name) for name in fold] for fold in folds(names)],
        "judged": next(iter(made[0].values()))[0].judged.tolist(),
        "n_classes": n_classes,
    }
    counts = np.clip(np.rint(u * SCALE), -32768, 32767).astype(np.int16)
    np.savez_compressed(
        path, counts=counts, label=label.astype(np.int8), about=np.array(json.dumps(about))
    )


def read_labels(path: Path) -> Labels:
    """Return what `reproductions.streams_gru` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        told = json.loads(str(arrays["about"]))
        found = arrays["labels"].astype(np.int64)
    draws = tuple((task, int(seed)) for task, seed in told["draws"])
    return Labels(draws, found, tuple(map(tuple, told["chosen"])), int(told["hidden"]))


def labels_here(
    people: People,
    parts: Sequence[tuple[str, ...]],
    n_classes: int,
    *,
    draw: Draw,
    hidden: int,
    rounds: int,
    device: str,
) -> Labels:
    """Return what a network trained on this machine says."""
    names = sorted(people)
    u, label = _arrays(people)
    judged = people[names[0]][0].judged
    counted = np.full_like(label, -1)
    counted[..., judged] = label[..., judged]
    data = Streams(
        torch.tensor(u[None], dtype=torch.float32, device=device),
        torch.tensor(counted[None], device=device),
        judged,
        tuple(tuple(names.index(name) for name in fold) for fold in parts),
        n_classes,
    )
    found, chosen = fitted(data, [draw[1]], hidden, rounds)
    return Labels((draw,), found, tuple(map(tuple, chosen)), hidden)


def network_costs(
    n_inputs: int, n_classes: int, hidden: int, chosen: Sequence[str]
) -> dict[str, Any]:
    """Return what the network takes; a client sends all of its numbers in every round."""
    one = first_numbers(n_inputs, hidden, n_classes, 0)
    rounds = max(int(text.split(", ")[1].split()[0]) for text in chosen)
    return {
        "columns": hidden,
        "state_bytes": 4 * hidden,
        "work": float(3 * hidden * (hidden + n_inputs) + 10 * hidden),
        "microseconds": _microseconds({name: v[None] for name, v in one.items()}, n_inputs, hidden),
        "upload_bytes": 4 * sum(value.numel() for value in one.values()) * rounds,
    }


def _arrays(people: People) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return inputs (P, S, T, I) and labels (P, S, T) in the order of names."""
    u = np.stack([np.stack([s.u for s in people[name]]) for name in sorted(people)])
    return u, np.stack([np.stack([s.label for s in people[name]]) for name in sorted(people)])


@torch.no_grad()
def _microseconds(model: dict[str, torch.Tensor], n_inputs: int, hidden: int) -> float:
    """Return the processor time of one step of one stream."""
    u, x = torch.zeros((1, 1, 500, n_inputs)), torch.zeros((1, 1, hidden))
    outputs(model, u, x)
    start = time.process_time()
    outputs(model, u, x)
    return 1e6 * (time.process_time() - start) / u.shape[2]
