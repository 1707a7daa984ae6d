"""The study of images pixel by pixel as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reproductions.pixels import (
    COSINES,
    MIXED,
    N_STATES,
    ORDERS,
    POOLED,
    SEARCH_SEED,
    STATES,
    PixelCell,
    PixelResult,
    chosen,
)

TITLES = {"mnist_writers": "MNIST", "fashion_mnist": "Fashion-MNIST"}
# ParalESN (Pinna et al., ICML 2026), as a page of results has it; not read in the paper itself.
PUBLISHED = {("mnist_writers", "in order"): 97.2, ("mnist_writers", "permuted"): 96.9}
NUMBERS = {MIXED: "gain", POOLED: "gain", COSINES: "narrowness"}


def described(contender: str, option: tuple[float, float, float]) -> str:
    """Return an option in words."""
    low, high, number = option
    more = f", {NUMBERS[contender]} {number:g}" if contender in NUMBERS else ""
    return f"memory {low:g} to {high:g}{more}"


def tested(cells: tuple[PixelCell, ...]) -> dict[int, list[PixelCell]]:
    """Return cells with a test by their width."""
    found: dict[int, list[PixelCell]] = {}
    for cell in cells:
        if cell.test is not None and cell.option == chosen(cells):
            found.setdefault(cell.width, []).append(cell)
    return {width: found[width] for width in sorted(found)}


def spread(values: list[float]) -> str:
    """Return mean and deviation (n - 1) of shares in per cent.

    >>> spread([0.5, 0.52])
    '51.00 ± 1.41'
    """
    shares = 100 * np.array(values)
    more = f" ± {shares.std(ddof=1):.2f}" if len(shares) > 1 else ""
    return f"{shares.mean():.2f}{more}"


def markdown(result: PixelResult) -> str:
    """Return the tables."""
    return "\n".join(_lines(result))


def _lines(result: PixelResult) -> Iterator[str]:
    about = result.environment
    yield "# Images pixel by pixel (`pixels`)\n"
    where = result.device if result.device == "CPU" else f"{result.device}, the CPU's bits"
    yield (
        f"`python -m reproductions pixels`, {where}, numpy {about['numpy']}. An image is a series "
        "of its pixels, row after row (*in order*) or in one random order for all (*permuted*), "
        "and one blank step. The map is a `DiagonalReservoir`: its states after the last step, "
        "mixtures of three of them, the mean and deviation of mixtures over all steps, or random "
        f"cosines of {N_STATES} states after the last step (`RandomFourier`). Nothing but the "
        "readout is trained, by one solution in closed form. Memory, gain or kernel are chosen "
        f"with seed {SEARCH_SEED} by training images that nobody trained on (every sixth writer's "
        "of MNIST, every sixth of Fashion-MNIST), the ridge by the same images for every map; "
        "then all training images train. Per cent right, mean ± deviation over seeds.\n"
    )
    for data, (n_train, n_test) in result.images.items():
        yield f"## {TITLES.get(data, data)}: {n_train} images train, {n_test} test\n"
        yield "| order | map | columns | held out | test | seeds | option | s a model |"
        yield "|---|---|---|---|---|---|---|---|"
        for order in ORDERS:
            yield from _rows(result, data, order)
        yield ""
        if data == "mnist_writers":
            yield (
                "ParalESN (Pinna et al., ICML 2026) is a stack of diagonal reservoirs; its figures "
                "are as a page of results has them, not read in the paper itself. The images and "
                "their split are the same; the permutation, and what was chosen how, need not be.\n"
            )
        elif data == "fashion_mnist":
            yield (
                "These are other images than MNIST, a part of them with a split of its own: no "
                "published figure stands beside them.\n"
            )
    for one in result.together:
        same = "the same numbers as" if one.same else "**not** the same numbers as"
        yield (
            f"{TITLES.get(one.data, one.data)}, {one.order}: {one.clients} writers as clients, "
            f"{one.rounds} round, {one.bytes_up / 1e6:.0f} MB up from all of them, gives "
            f"{same} all images in one place: {100 * one.test:.2f} % right.\n"
        )
    yield "## What was tried on held-out images\n"
    yield "| images | order | map | option | held out |"
    yield "|---|---|---|---|---|"
    for cell in result.cells:
        if cell.test is None:
            option = described(cell.contender, cell.option)
            title = TITLES.get(cell.data, cell.data)
            share = f"{100 * cell.held_out:.2f}"
            yield f"| {title} | {cell.order} | {cell.contender} | {option} | {share} |"


def _rows(result: PixelResult, data: str, order: str) -> Iterator[str]:
    for contender in (STATES, MIXED, POOLED, COSINES):
        for width, same in tested(result.of(data, order, contender)).items():
            values = [
                order,
                contender,
                str(width),
                spread([cell.held_out for cell in same]),
                spread([cell.test for cell in same if cell.test is not None]),
                str(len(same)),
                described(contender, same[0].option),
                f"{np.median([cell.seconds for cell in same]):.0f}",
            ]
            yield "| " + " | ".join(values) + " |"
    if (data, order) in PUBLISHED:
        published = PUBLISHED[data, order]
        yield f"| {order} | ParalESN (as quoted) | | | {published:.1f} | | | |"


def write(result: PixelResult, folder: Path) -> list[Path]:
    """Write the result as JSON and as a page."""
    stem = "pixels-quick" if result.quick else "pixels"
    data, page = (folder / f"{stem}.{end}" for end in ("json", "md"))
    result.save(data)
    page.write_text(markdown(result) + "\n", encoding="utf-8")
    return [data, page]
