"""Federated averaging of small networks on windows, tuned by training people who are left out.

Every client trains a copy of the network on its own windows (SGD with momentum, batches of 32) and
the server averages the copies by their numbers of windows (McMahan et al., 2017). The rate falls
along a cosine over the epochs of a run. Rate, epochs between two averages and epochs in all are
chosen for every fold by the accuracy on training people left out of training; the network is then
trained on all training people, and only then looks at the test people, once.

    python -m reproductions.stacked_fedavg windows.npz --out FOLDER

needs torch and numpy alone; `reproductions.map_sets` writes windows.npz. Results are written after
every set and network, and those that the folder has already are not computed again. With `--chosen
FILE` the choices are those of a file of such results, and nothing is searched.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

try:
    from reproductions.stacked_networks import MOMENTUM, Network, Stack, is_moment, stacked
except ImportError:  # on a machine with these two files alone
    from stacked_networks import (  # type: ignore[import-not-found,no-redef]
        MOMENTUM,
        Network,
        Stack,
        is_moment,
        stacked,
    )

BATCH = 32
DECAY = 1e-4
BYTES = 4  # of a number that is sent


@dataclass(frozen=True)
class Settings:
    """What is searched, and how often the best is trained.

    Parameters
    ----------
    rates, local_epochs, epochs
        Learning rates, epochs between two averages, and epochs in all that are tried.
    inner
        Times that training people are split to choose among them, a fifth left out each time.
    most_models
        Copies that are trained side by side.
    pooled
        Whether all training windows are in one place: one copy, nothing is averaged.
    """

    rates: tuple[float, ...] = (0.005, 0.02, 0.08, 0.3)
    local_epochs: tuple[int, ...] = (1, 5)
    epochs: tuple[int, ...] = (30, 90)
    seeds: int = 3
    inner: int = 2
    most_models: int = 600
    depth: int = 6
    pooled: bool = False


@dataclass(frozen=True)
class Windows:
    """A set's windows (n, T, C) on a device, whose they are, and which people test in each fold."""

    name: str
    x: Tensor
    label: Tensor
    person: NDArray[np.int64]
    names: tuple[str, ...]
    folds: tuple[tuple[int, ...], ...]
    classes: int

    def rows(self, person: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.person == person)


@dataclass(frozen=True)
class Group:
    """One federation: who trains, who is looked at afterwards, and how it learns."""

    train: tuple[int, ...]
    test: tuple[int, ...]
    rate: float
    local_epochs: int
    seed: int
    tag: tuple[int, ...] = ()
    pooled: bool = False

    @property
    def owners(self) -> tuple[tuple[int, ...], ...]:
        """The people of each copy that is trained."""
        return (self.train,) if self.pooled else tuple((person,) for person in self.train)


@dataclass(frozen=True)
class Found:
    """Windows classified right of every test person, and of every class `class_counts` (K, 3)."""

    correct: list[int]
    classes: NDArray[np.int64]


def read(path: Path, device: str) -> Iterator[Windows]:
    """Yield the sets of a file of windows."""
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays["sets"].tolist():
            fold = arrays[f"{name}.fold"]
            yield Windows(
                name=name,
                x=torch.from_numpy(arrays[f"{name}.u"].astype(np.float32)).to(device),
                label=torch.from_numpy(arrays[f"{name}.label"].astype(np.int64)).to(device),
                person=arrays[f"{name}.person"].astype(np.int64),
                names=tuple(arrays[f"{name}.names"].tolist()),
                folds=tuple(
                    tuple(np.flatnonzero(fold == k).tolist()) for k in range(int(fold.max()) + 1)
                ),
                classes=int(arrays[f"{name}.classes"]),
            )


def trained(data: Windows, net: Network, groups: Sequence[Group], epochs: int) -> Stack:
    """Return the averaged models (G, ...) of federations that run for the same epochs.

    Copies of all clients of all groups are one stack; a client with fewer windows rests while
    the others finish their epoch.
    """
    device = data.x.device
    owner = torch.tensor([g for g, group in enumerate(groups) for _ in group.owners], device=device)
    rows = [
        np.concatenate([data.rows(person) for person in people])
        for group in groups
        for people in group.owners
    ]
    counts = torch.tensor([len(r) for r in rows], device=device)
    index = torch.zeros((len(rows), int(counts.max())), dtype=torch.int64, device=device)
    for k, r in enumerate(rows):
        index[k, : len(r)] = torch.from_numpy(r).to(device)
    rates = torch.tensor([group.rate for group in groups], device=device)[owner]
    every = torch.tensor([group.local_epochs for group in groups], device=device)[owner]
    share = (
        counts / torch.zeros(len(groups), device=device).index_add(0, owner, counts.float())[owner]
    )
    first = stacked([net.start(group.seed) for group in groups])
    model = {name: value.to(device)[owner] for name, value in first.items()}
    learned = [name for name in model if not is_moment(name)]
    speed = {name: torch.zeros_like(model[name]) for name in learned}
    rng = torch.Generator(device=device).manual_seed(groups[0].seed)
    for epoch in range(epochs):
        begun = epoch - epoch % every  # the rate is one and the same between two averages
        now = rates * 0.5 * (1 + torch.cos(math.pi * begun / epochs))
        keys = torch.rand(index.shape, generator=rng, device=device)
        keys[torch.arange(index.shape[1], device=device) >= counts[:, None]] = 2.0
        order = index.gather(1, keys.argsort(1))
        for step in range(-(-index.shape[1] // BATCH)):
            places = (step * BATCH + torch.arange(BATCH, device=device)) % counts[:, None]
            batch = order.gather(1, places)
            active = (step * BATCH < counts).float()
            _descend(data, net, model, speed, batch, now * active)
        ends = ((epoch + 1) % every == 0) | (epoch + 1 == epochs)
        if bool(ends.any()):
            _average(model, speed, owner, share, ends, len(groups))
    last = torch.zeros(len(groups), dtype=torch.int64, device=device)
    last[owner] = torch.arange(len(owner), device=device)
    return {name: value[last] for name, value in model.items()}


def _descend(
    data: Windows, net: Network, model: Stack, speed: Stack, batch: Tensor, rates: Tensor
) -> None:
    """Take one step of every model on its own batch (M, B), in place."""
    for name in speed:
        model[name].requires_grad_(True)
    moments: Stack = {}
    cuda = data.x.is_cuda
    with torch.autocast("cuda" if cuda else "cpu", dtype=torch.bfloat16, enabled=cuda):
        scores = net.scores(model, data.x[batch], moments).float()
    targets = data.label[batch]
    losses = functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
    gradients = torch.autograd.grad(losses / batch.shape[1], [model[name] for name in speed])
    moving = (rates > 0).float() * MOMENTUM
    with torch.no_grad():
        for name, gradient in zip(speed, gradients, strict=True):
            value = model[name] = model[name].detach()
            speed[name].mul_(0.9).add_(gradient).add_(value, alpha=DECAY)
            value.sub_(speed[name] * _wide(rates, value))
        for name, moment in moments.items():
            model[name].lerp_(moment.float(), _wide(moving, moment))


def _average(
    model: Stack, speed: Stack, owner: Tensor, share: Tensor, ends: Tensor, n_groups: int
) -> None:
    """Put the groups' averages in place of the models whose round ends, in place."""
    for name, value in model.items():
        zero = torch.zeros((n_groups, *value.shape[1:]), device=value.device)
        mean = zero.index_add(0, owner, value * _wide(share, value))[owner]
        where = _wide(ends, value)
        value.copy_(torch.where(where, mean, value))
        if name in speed:
            speed[name].masked_fill_(where, 0.0)


def _wide(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *([1] * (like.ndim - 1)))


@torch.no_grad()
def right(data: Windows, net: Network, models: Stack, groups: Sequence[Group]) -> list[Found]:
    """Return for every group how many windows of each of its test people are classified right."""
    found = []
    for g, group in enumerate(groups):
        one = {name: value[g : g + 1] for name, value in models.items()}
        rows = [data.rows(person) for person in group.test]
        everything = torch.from_numpy(np.concatenate(rows)).to(data.x.device)
        guesses = []
        for part in torch.split(everything, 1024):
            cuda = data.x.is_cuda
            with torch.autocast("cuda" if cuda else "cpu", dtype=torch.bfloat16, enabled=cuda):
                guesses.append(net.scores(one, data.x[part][None])[0].argmax(1))
        said, true = (part.cpu().numpy() for part in (torch.cat(guesses), data.label[everything]))
        correct, edges = said == true, np.cumsum([0, *map(len, rows)])
        parts = (true[correct], said, true)
        classes = np.stack([np.bincount(part, minlength=data.classes) for part in parts], axis=1)
        found.append(Found([int(correct[a:b].sum()) for a, b in pairwise(edges)], classes))
    return found


def outcomes(
    data: Windows, net: Network, groups: Sequence[Group], epochs: int, most_models: int
) -> list[Found]:
    """Return `right` of groups that are trained, as many at once as the models allow."""
    found, waiting = [], list(groups)
    while waiting:
        n, models = 0, 0
        while n < len(waiting) and (n == 0 or models + len(waiting[n].owners) <= most_models):
            models += len(waiting[n].owners)
            n += 1
        part, waiting = waiting[:n], waiting[n:]
        found += right(data, net, trained(data, net, part, epochs), part)
    return found


def choices(settings: Settings) -> list[tuple[float, int, int]]:
    """Return every (rate, local epochs, epochs) that is tried."""
    return list(product(settings.rates, settings.local_epochs, settings.epochs))


def left_out(people: Sequence[int], seed: int) -> tuple[int, ...]:
    """Return a fifth of the training people, at least one, drawn by the seed.

    >>> left_out(range(10), seed=0)
    (1, 7)
    """
    order = np.random.default_rng([seed, 5]).permutation(len(people))
    return tuple(sorted(people[k] for k in order[: max(1, round(len(people) / 5))]))


def tuned(data: Windows, net: Network, settings: Settings) -> dict[int, dict[str, Any]]:
    """Return for every fold the choice with the best accuracy on people left out, and that."""
    tried: dict[int, dict[tuple[float, int, int], list[int]]] = {}
    for epochs in settings.epochs:
        groups = [
            Group(
                *(tuple(p for p in rest if p not in out), out, rate, local, 100 + inner),
                *((fold, inner), settings.pooled),
            )
            for fold, rest in enumerate(rests(data))
            for inner in range(settings.inner)
            for out in (left_out(rest, 10 * fold + inner),)
            for rate, local in product(settings.rates, settings.local_epochs)
        ]
        for group, one in zip(
            groups, outcomes(data, net, groups, epochs, settings.most_models), strict=True
        ):
            choice = (group.rate, group.local_epochs, epochs)
            n = sum(len(data.rows(person)) for person in group.test)
            sums = tried.setdefault(group.tag[0], {}).setdefault(choice, [0, 0])
            sums[0] += sum(one.correct)
            sums[1] += n
    best = {}
    for fold, sums_of in tried.items():
        # The first of several equals: the fewest epochs, then the lowest rate.
        ranked = sorted(sums_of, key=lambda c: (-sums_of[c][0], c[2], c[0], c[1]))
        best[fold] = {
            "choice": ranked[0],
            "validation": sums_of[ranked[0]][0] / sums_of[ranked[0]][1],
            "tried": [[*c, round(sums_of[c][0] / sums_of[c][1], 4)] for c in ranked],
        }
    return best


def rests(data: Windows) -> list[tuple[int, ...]]:
    """Return for every fold the people who train."""
    return [tuple(p for p in range(len(data.names)) if p not in fold) for fold in data.folds]


def cell(
    data: Windows, kind: str, settings: Settings, known: dict[int, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return what a network does on a set: the choices, and every test person's counts by seed.

    Parameters
    ----------
    known
        The choices of every fold, where they need no search.
    """
    if data.x.is_cuda:
        torch.backends.cuda.matmul.allow_tf32 = True
    start = time.perf_counter()
    net = Network(kind, data.x.shape[2], data.classes, settings.depth)
    best = tuned(data, net, settings) if known is None else known
    searched = time.perf_counter() - start
    correct = {name: [0] * settings.seeds for name in data.names}
    classes = np.zeros((settings.seeds, data.classes, 3), dtype=np.int64)
    for epochs in settings.epochs:
        groups = [
            Group(rest, test, rate, local_epochs, seed, (fold, seed), settings.pooled)
            for fold, (rest, test) in enumerate(zip(rests(data), data.folds, strict=True))
            for rate, local_epochs, chosen in (best[fold]["choice"],)
            if chosen == epochs and test
            for seed in range(settings.seeds)
        ]
        found = outcomes(data, net, groups, epochs, settings.most_models)
        for group, one in zip(groups, found, strict=True):
            classes[group.tag[1]] += one.classes
            for person, count in zip(group.test, one.correct, strict=True):
                correct[data.names[person]][group.tag[1]] = count
    tested = sorted({p for fold in data.folds for p in fold})
    rounds = [-(-best[k]["choice"][2] // best[k]["choice"][1]) for k in sorted(best)]
    return {
        "set": data.name,
        "network": kind,
        "numbers": net.n_numbers,
        "rounds": rounds,
        "bytes_up": [0 if settings.pooled else n * net.n_numbers * BYTES for n in rounds],
        "folds": {str(k): value for k, value in best.items()},
        "windows": {data.names[p]: len(data.rows(p)) for p in tested},
        "correct": {data.names[p]: correct[data.names[p]] for p in tested},
        "classes": classes.tolist(),
        "settings": asdict(settings),
        "device": torch.cuda.get_device_name() if data.x.is_cuda else "cpu",
        "torch": torch.__version__,
        "search_seconds": searched,
        "seconds": time.perf_counter() - start,
    }


def chosen_of(
    results: Sequence[dict[str, Any]],
) -> dict[tuple[str, str, bool], tuple[Settings, dict[int, dict[str, Any]]]]:
    """Return the settings and choices of results, by set, network and whether data were pooled."""
    return {
        (one["set"], one["network"], settings.pooled): (
            settings,
            {int(fold): choice for fold, choice in one["folds"].items()},
        )
        for one in results
        for settings in (Settings(**one["settings"]),)
    }


def main() -> None:
    """Compute the cells that the folder does not have, as far as the time goes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("windows", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default="cnn,inception")
    parser.add_argument("--sets", default="")
    parser.add_argument("--seconds", type=float, default=math.inf)
    for name in ("rates", "local_epochs", "epochs"):
        usual = ",".join(map(str, getattr(Settings, name)))
        parser.add_argument(f"--{name.replace('_', '-')}", default=usual)
    parser.add_argument("--inner", type=int, default=Settings.inner)
    parser.add_argument("--most-models", type=int, default=Settings.most_models)
    parser.add_argument("--depth", type=int, default=Settings.depth)
    parser.add_argument("--pooled", action="store_true", help="All training windows together.")
    parser.add_argument("--tiny", action="store_true", help="A few epochs, to see that it runs.")
    parser.add_argument("--chosen", type=Path, help="A file of results: their choices again.")
    given = parser.parse_args()
    settings = Settings(
        rates=tuple(map(float, given.rates.split(","))),
        local_epochs=tuple(map(int, given.local_epochs.split(","))),
        epochs=tuple(map(int, given.epochs.split(","))),
        inner=given.inner,
        most_models=given.most_models,
        depth=given.depth,
        pooled=given.pooled,
    )
    if given.pooled:
        settings = replace(settings, local_epochs=(1,))
    if given.tiny:
        settings = replace(settings, rates=(0.05,), epochs=(1, 2), seeds=1, inner=1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = time.perf_counter()
    given.out.mkdir(parents=True, exist_ok=True)
    sets = [d for d in read(given.windows, device) if not given.sets or d.name in given.sets]
    sets.sort(key=lambda d: given.sets.find(d.name))
    chosen = {} if given.chosen is None else chosen_of(json.loads(given.chosen.read_text()))
    for kind in given.networks.split(","):
        for data in sets:
            path = given.out / f"{data.name}-{kind}{'-pooled' if given.pooled else ''}.json"
            if path.exists() or time.perf_counter() - start > given.seconds:
                continue
            found = cell(data, kind, *chosen.get((data.name, kind, given.pooled), (settings,)))
            path.write_text(json.dumps(found, indent=1) + "\n")
            share = sum(map(sum, found["correct"].values())) / settings.seeds
            accuracy = share / sum(found["windows"].values())
            print(f"{data.name} {kind}: {accuracy:.4f}, {found['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
