"""Images pixel by pixel, in order and permuted: diagonal reservoirs, one readout in closed form.

An image is a series of its pixels, less their mean and times 8, and one blank step at the end. The
order "permuted" has one permutation for all images. Options and ridges are chosen by training
images that nobody trained on: those of every sixth writer where images have writers, else every
sixth image. The test images choose nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Integers, Recording
from catchment.features import FeatureMap
from catchment.readout import Readout, accumulate, scale_of, solve_readout
from catchment.wire import replace_file
from reproductions.arena import macro_f1
from reproductions.data.values import Bytes, Images
from reproductions.map_values import counted
from reproductions.study import environment

ORDERS = ("in order", "permuted")
STATES, COSINES = "states at the end", "random cosines of states at the end"
Option = tuple[float, float, float]  # memory from and to, and how narrow the cosines' kernel is
Counts = tuple[tuple[int, ...], ...]  # of every class, as `class_counts` has them
LONG = ((300.0, 1000.0), (1000.0, 3000.0), (3000.0, 10_000.0))
OPTIONS: dict[str, tuple[Option, ...]] = {
    STATES: tuple((*memory, 1.0) for memory in LONG),
    COSINES: tuple((*memory, narrow) for memory in LONG[1:] for narrow in (1.0, 1.5, 2.25)),
}
WIDTHS = {STATES: (1600,), COSINES: (1000, 4000, 8000)}
SEARCHED, SEARCH_SEED = 2000, 9  # features and seed of the maps that options are chosen with
N_STATES = 1600  # whose cosines are taken
RIDGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # times the number of images
HELD_OUT = 6  # one in so many writers, or images
LARGEST = 8.0  # of a pixel, about: what a diagonal reservoir takes in
BY_CLIENTS = 1000  # cosines of the model that writers make together
NARROWEST = 10.0  # of the kernels that cosines have
MEASURED = 500  # images whose states say how far images are apart


@dataclass(frozen=True, kw_only=True)
class PixelCell:
    """One map with one seed; a search has shares right for every option, and no test.

    `classes` counts the test's answers by class; cells of earlier runs have none.
    """

    data: str
    order: str
    contender: str
    width: int
    seed: int
    option: Option
    held_out: float
    ridge: float
    test: float | None = None
    seconds: float = 0.0
    classes: Counts = ()

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1 on the test images, NaN if it was not counted."""
        return macro_f1(self.classes) if self.classes else float("nan")


@dataclass(frozen=True, kw_only=True)
class Together:
    """What clients sent for one readout, and whether it is that of all images in one place."""

    data: str
    order: str
    clients: int
    rounds: int
    bytes_up: int
    same: bool
    test: float
    classes: Counts = ()


@dataclass(frozen=True)
class PixelResult:
    """All cells so far, and how it was run."""

    cells: tuple[PixelCell, ...] = ()
    together: tuple[Together, ...] = ()
    images: dict[str, tuple[int, int]] = field(default_factory=dict)
    device: str = ""
    quick: bool = False
    environment: dict[str, Any] = field(default_factory=environment)

    def of(self, data: str, order: str, contender: str) -> tuple[PixelCell, ...]:
        named = (data, order, contender)
        return tuple(c for c in self.cells if (c.data, c.order, c.contender) == named)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def load_pixels(path: Path) -> PixelResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        PixelCell(**{**one, "option": tuple(one["option"]), "classes": _counts(one)})
        for one in content["cells"]
    ]
    images = {name: (pair[0], pair[1]) for name, pair in content["images"].items()}
    together = tuple(Together(**{**one, "classes": _counts(one)}) for one in content["together"])
    return PixelResult(**{**content, "cells": tuple(cells), "together": together, "images": images})


def _counts(content: dict[str, Any]) -> Counts:
    return tuple(map(tuple, content.get("classes", ())))


@dataclass(frozen=True, eq=False)
class Series:
    """Images of one order as recordings: those to fit, those held out, and those to test."""

    fit: list[Recording]
    held_out: list[Recording]
    test: list[Recording]
    clients: dict[str, list[Recording]]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, images: Images, order: str) -> Series:
        n_pixels, mean = images.train[0].size, float(images.train.mean())
        places = np.arange(n_pixels)
        if order == "permuted":
            places = np.random.default_rng(0).permutation(n_pixels)

        def recordings(some: Bytes, labels: Bytes) -> list[Recording]:
            u = np.zeros((len(some), n_pixels + 1, 1))
            u[:, :-1, 0] = (some.reshape(len(some), -1)[:, places] - mean) * (LARGEST / 255)
            labeled, n_classes = Recording.labeled, len(images.classes)
            return [labeled(x, int(k), n_classes) for x, k in zip(u, labels, strict=True)]

        train = recordings(images.train, images.train_labels)
        positions = images.positions
        aside = np.arange(len(train)) % HELD_OUT == 0
        if positions:
            aside[:] = False
            aside[np.concatenate(list(positions.values())[::HELD_OUT])] = True
        return cls(
            [train[k] for k in np.flatnonzero(~aside)],
            [train[k] for k in np.flatnonzero(aside)],
            recordings(images.test, images.test_labels),
            {name: [train[k] for k in some] for name, some in positions.items()},
            images.classes,
        )

    @lru_cache(maxsize=8)  # noqa: B019  # a series lives as long as its study
    def apart(self, states: FeatureMap) -> float:
        """Return the root of the mean squared distance of states between images."""
        rows = states.build(1, per_step=False).rows([one.u for one in self.fit[:MEASURED]])
        return float(np.sqrt(2.0 * np.concatenate(rows).var(axis=0).sum()))


def map_of(contender: str, width: int, seed: int, option: Option, series: Series) -> FeatureMap:
    """Return a map with so many columns, or a few more: the inputs' own."""
    low, high, narrow = option
    n_states, last = width if contender == STATES else N_STATES, series.fit[0].n_steps - 1
    built: FeatureMap = ct.DiagonalReservoir(
        n_states, seed, "none", memory=(low, high), pool=None, washout=last, bits=20
    )
    if contender == COSINES:
        scale = min(NARROWEST, narrow / series.apart(built))
        built = ct.RandomFourierFeatures(built, width, seed, scale)
    return built.build(1, per_step=False, classes=True)


def named(
    features: FeatureMap, readouts: Sequence[Readout], some: list[Recording], device: str | None
) -> Integers:
    """Return the class (n, R) that each readout names for each of some recordings."""
    many = Readout(
        np.hstack([one.weights for one in readouts]),
        np.concatenate([one.intercept for one in readouts]),
    )
    said = ct.Model(features, many).predict([one.u for one in some], device=device)
    scores = np.concatenate(said).reshape(len(some), len(readouts), -1)
    best: Integers = scores.argmax(axis=2)
    return best


def true(some: list[Recording]) -> Integers:
    """Return the class (n,) of each of some recordings."""
    return np.array([np.argmax(one.y) for one in some if one.y is not None])


def tested(
    features: FeatureMap, readout: Readout, series: Series, device: str | None
) -> tuple[float, Counts]:
    """Return the share of test images that are named rightly, and the counts of every class."""
    said, label = named(features, [readout], series.test, device)[:, 0], true(series.test)
    return float((said == label).mean()), counted(label, said)


def measured(cell: PixelCell, series: Series, device: str | None, *, test: bool) -> PixelCell:
    """Return a cell with the ridge that held-out images choose, and tested with it if asked."""
    start = time.perf_counter()
    features = map_of(cell.contender, cell.width, cell.seed, cell.option, series)
    total = accumulate(features, series.fit, classes=True, device=device)
    scale = scale_of(total, features.standardize)
    readouts = [solve_readout(total.floats, r * total.weight, scale=scale) for r in RIDGES]
    said = named(features, readouts, series.held_out, device)
    right: Array = (said == true(series.held_out)[:, None]).mean(axis=0)
    best = int(np.flatnonzero(right == right.max())[-1])
    cell = replace(cell, ridge=RIDGES[best], held_out=float(right[best]))
    if test:
        total = total + accumulate(features, series.held_out, classes=True, device=device)
        share, classes = tested(features, _solved(features, total, cell.ridge), series, device)
        cell = replace(cell, test=share, classes=classes)
    return replace(cell, seconds=time.perf_counter() - start)


def counted_again(cell: PixelCell, series: Series, device: str | None) -> PixelCell:
    """Return a cell tested with the option and the ridge that it has, for what was not counted."""
    features = map_of(cell.contender, cell.width, cell.seed, cell.option, series)
    total = accumulate(features, [*series.fit, *series.held_out], classes=True, device=device)
    share, classes = tested(features, _solved(features, total, cell.ridge), series, device)
    return replace(cell, test=share, classes=classes)


def _solved(features: FeatureMap, total: ct.RidgeStatistics, ridge: float) -> Readout:
    scale = scale_of(total, features.standardize)
    return solve_readout(total, ridge * total.weight, scale=scale)


def together(cell: PixelCell, series: Series, device: str | None) -> Together:
    """Return what the clients' one upload gives, beside all their images in one place."""
    features = map_of(cell.contender, cell.width, cell.seed, cell.option, series)
    pooled = accumulate(features, [*series.fit, *series.held_out], classes=True, device=device)
    readout = _solved(features, pooled, cell.ridge)
    run = ct.federate(
        ct.Pipeline(ct.Preprocessing(scale="none"), features),
        series.clients,
        ridge=cell.ridge * pooled.weight,
        classes=series.classes,
        upload="statistics",
    )
    mine = run.model.readout
    share, classes = tested(features, mine, series, device)
    return Together(
        data=cell.data,
        order=cell.order,
        clients=len(series.clients),
        rounds=len(run.records),
        bytes_up=sum(record.bytes_up for record in run.records),
        same=bool(np.array_equal(mine.weights, readout.weights)),
        test=share,
        classes=classes,
    )


def pixels(
    sets: Sequence[Images],
    *,
    orders: Sequence[str] = ORDERS,
    seeds: int = 3,
    widths: dict[str, tuple[int, ...]] = WIDTHS,
    searched: int = SEARCHED,
    by_clients: int = BY_CLIENTS,
    device: str | None = None,
    quick: bool = False,
    earlier: PixelResult | None = None,
    kept: Callable[[PixelResult], object] = lambda result: None,
    began: Callable[[str], object] = lambda text: None,
) -> PixelResult:
    """Return the cells of all maps, those of an earlier result as they are.

    Parameters
    ----------
    searched
        Columns of the maps that options are chosen with.
    by_clients
        Columns of the model that clients make together, where images have clients.
    kept
        Called with the result so far after each cell.
    began
        Called with a line of text as each cell ends.
    """
    result = earlier or PixelResult(quick=quick)
    for images in sets:
        sizes = {**result.images, images.name: (len(images.train), len(images.test))}
        result = replace(result, images=sizes, device=device_name(device))
        for order in orders:
            series = Series.of(images, order)
            for contender, columns in widths.items():
                empty = PixelCell(
                    data=images.name,
                    order=order,
                    contender=contender,
                    width=searched,
                    seed=SEARCH_SEED,
                    option=OPTIONS[contender][0],
                    held_out=0.0,
                    ridge=0.0,
                )
                named = (images.name, order, contender)
                while (cell := _missing(result.of(*named), empty, columns, seeds)) is not None:
                    found = measured(cell, series, device, test=cell.seed != SEARCH_SEED)
                    result = replace(result, cells=(*result.cells, found))
                    began(f"{found}")
                    kept(result)
            done = [one for one in result.together if (one.data, one.order) == (images.name, order)]
            if series.clients and not done:
                cells = result.of(images.name, order, COSINES)
                first = next(c for c in cells if (c.width, c.seed) == (by_clients, 0))
                federated = together(first, series, device)
                result = replace(result, together=(*result.together, federated))
                began(f"{federated}")
                kept(result)
    return result


def _missing(
    done: Sequence[PixelCell], empty: PixelCell, columns: Sequence[int], seeds: int
) -> PixelCell | None:
    """Return what is to be measured next of a map: first its options, then its widths."""
    known = {(cell.width, cell.seed, cell.option) for cell in done}
    for option in OPTIONS[empty.contender]:
        if (empty.width, SEARCH_SEED, option) not in known:
            return replace(empty, option=option)
    best = chosen(done)
    for width in columns:
        for seed in range(seeds):
            if (width, seed, best) not in known:
                return replace(empty, width=width, seed=seed, option=best)
    return None


def device_name(device: str | None) -> str:
    """Return what a device calls itself, for the page.

    >>> device_name(None)
    'CPU'
    """
    if device != "cuda":
        return device or "CPU"
    import torch

    return str(torch.cuda.get_device_name())


def chosen(cells: Sequence[PixelCell]) -> Option:
    """Return the option that is best on held-out images, of those tried alike the first."""
    return max((c for c in cells if c.test is None), key=lambda c: c.held_out).option


def synthetic(n: int = 120) -> Images:
    """Return small images of three classes, by 13 writers: another third of each is bright."""
    labels = (np.arange(n) % 3).astype(np.uint8)
    images = np.random.default_rng(0).integers(0, 120, size=(n, 6, 6), dtype=np.uint8)
    images += 60 * (np.arange(6) // 2 == labels[:, None])[:, :, None].astype(np.uint8)
    test, train = slice(0, n // 4), slice(n // 4, n)
    return Images(
        name="synthetic",
        train=images[train],
        train_labels=labels[train],
        test=images[test],
        test_labels=labels[test],
        classes=("top", "middle", "bottom"),
        train_clients=tuple(f"writer {k % 13:02d}" for k in range(n - n // 4)),
    )
