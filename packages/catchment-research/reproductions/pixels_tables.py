"""The study of images pixel by pixel as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reproductions.arena import macro_f1
from reproductions.pixels import (
    COSINES,
    N_STATES,
    ORDERS,
    SEARCH_SEED,
    STATES,
    PixelCell,
    PixelResult,
    chosen,
)

TITLES = {"mnist_writers": "MNIST", "fashion_mnist": "Fashion-MNIST"}
# ParalESN (Pinna et al., ICML 2026), as a page of results has it; not read in the paper itself.
PUBLISHED = {("mnist_writers", "in order"): 97.2, ("mnist_writers", "permuted"): 96.9}


def described(contender: str, option: tuple[float, float, float]) -> str:
    """Return an option in words."""
    low, high, narrow = option
    more = f", narrowness {narrow:g}" if contender == COSINES else ""
    return f"memory {low:g} to {high:g}{more}"


def by_width(cells: tuple[PixelCell, ...]) -> dict[int, list[PixelCell]]:
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
    yield (
        f"`python -m reproductions pixels`, {result.device}, numpy {about['numpy']}. An image "
        "is a series of its pixels, row after row (*in order*) or in one random order for all "
        "(*permuted*), and one blank step. The map is a linear `DiagonalReservoir`: its "
        f"states after the last step, or random cosines (`RandomFourierFeatures`) of {N_STATES} "
        "such states, whose kernel is the narrower, the larger the narrowness. "
        "Nothing but the readout is trained, by one "
        f"solution in closed form. Memory and narrowness are chosen with seed {SEARCH_SEED} by "
        "training images that nobody trained on (every sixth writer's of MNIST, every sixth of "
        "Fashion-MNIST), the ridge by the same images for every map; then all training images "
        "train. Per cent right, mean ± deviation over seeds. Macro-F1 is of the test images; the "
        "maps were tested a second time to count it, with the options and ridges that they had, "
        "and named as many rightly to the last image.\n"
    )
    yield (
        "These states are linear in the pixels and forget few of them, so that their cosines are "
        "near to a kernel of the pixels, whatever their order: what is shown is that a reservoir "
        "keeps 784 steps, and how far one closed form gets. A narrowness of 1 is the least that "
        "was tried.\n"
    )
    yield (
        "**What was looked at before**: kernels of states with the memories tried, trained on "
        "2 000 images of MNIST, were compared on the first 1 000 of its test images with the "
        "kernel of pixels: the list of memories is from there. Widths of 8 000 took the place of "
        "16 000, which did not end in their time, after test figures of 1 000 and 4 000 in order "
        "had been seen. Two maps of mixed states that were to be tried too never ran.\n"
    )
    for data, (n_train, n_test) in result.images.items():
        yield f"## {TITLES.get(data, data)}: {n_train} images train, {n_test} test\n"
        yield "| order | map | columns | held out | test | macro-F1 | seeds | option |"
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
            f"{same} all images in one place: {100 * one.test:.2f} % right, macro-F1 "
            f"{macro_f1(one.classes):.3f}.\n"
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
    for contender in (STATES, COSINES):
        for width, same in by_width(result.of(data, order, contender)).items():
            values = [
                order,
                contender,
                str(width),
                spread([cell.held_out for cell in same]),
                spread([cell.test for cell in same if cell.test is not None]),
                f"{np.mean([cell.macro_f1 for cell in same]):.3f}",
                str(len(same)),
                described(contender, same[0].option),
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
