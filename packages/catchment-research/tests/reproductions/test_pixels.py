"""Images pixel by pixel: who is held out, what is kept, and what the page says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from reproductions.pixels import (
    COSINES,
    ORDERS,
    SEARCH_SEED,
    STATES,
    WIDTHS,
    PixelResult,
    Series,
    chosen,
    counted_again,
    load_pixels,
    pixels,
    synthetic,
)
from reproductions.pixels_tables import PUBLISHED, by_width, markdown

ROOT = Path(__file__).parents[4]
SMALL = dict.fromkeys(WIDTHS, (20,))


def test_nobody_held_out_trains_and_orders_have_the_same_pixels() -> None:
    images = synthetic()
    plain, permuted = (Series.of(images, order) for order in ORDERS)
    for some, others in ((plain.fit, permuted.fit), (plain.test, permuted.test)):
        for one, other in zip(some, others, strict=True):
            assert (one.u[:-1] != other.u[:-1]).any()
            np.testing.assert_array_equal(np.sort(one.u, axis=0), np.sort(other.u, axis=0))
            assert one.u[-1] == 0.0
    assert len(plain.fit) + len(plain.held_out) == len(images.train)
    for recordings in plain.clients.values():
        aside = [any(one is other for other in plain.held_out) for one in recordings]
        assert len(set(aside)) == 1


def test_clients_make_the_readout_of_all_images_and_what_is_there_is_kept(tmp_path: Path) -> None:
    kept: list[PixelResult] = []
    options = {"orders": ORDERS[1:], "seeds": 2, "widths": SMALL, "searched": 20, "by_clients": 20}
    result = pixels([synthetic()], **options, kept=kept.append)  # type: ignore[arg-type]
    assert [(one.clients, one.rounds, one.same) for one in result.together] == [(13, 1, True)]
    for contender in WIDTHS:
        cells = result.of("synthetic", "permuted", contender)
        tried = [cell for cell in cells if cell.test is None]
        assert {cell.seed for cell in tried} == {SEARCH_SEED}
        best = max(cell.held_out for cell in tried)
        assert next(c for c in tried if c.option == chosen(cells)).held_out == best
        assert [c.seed for c in by_width(cells)[20]] == [0, 1]
        right = [c.test for c in cells if c.test is not None]
        assert min(right) > 0.5  # of three classes
    series = Series.of(synthetic(), "permuted")
    one = result.of("synthetic", "permuted", COSINES)[-1]
    assert counted_again(replace(one, test=None, classes=()), series, None) == one
    right, said, are = np.sum(one.classes, axis=0)
    assert (one.test, said) == (right / are, len(series.test))
    assert (
        result.together[0].classes
        == counted_again(
            by_width(result.of("synthetic", "permuted", COSINES))[20][0], series, None
        ).classes
    )
    kept[2].save(tmp_path / "pixels.json")
    calls: list[str] = []
    again = pixels(
        [synthetic()],
        **options,  # type: ignore[arg-type]
        earlier=load_pixels(tmp_path / "pixels.json"),
        began=calls.append,
    )
    assert len(calls) == len(result.cells) + len(result.together) - 3
    first, second = ([replace(c, seconds=0.0) for c in r.cells] for r in (result, again))
    assert first == second


def test_the_page_says_what_was_measured() -> None:
    result = load_pixels(ROOT / "results" / "pixels.json")
    assert (ROOT / "results" / "pixels.md").read_text("utf-8") == markdown(result) + "\n"
    assert all(one.same and one.clients == 539 and one.rounds == 1 for one in result.together)
    for (data, order), published in PUBLISHED.items():
        states = by_width(result.of(data, order, STATES))[1600]
        cosines = by_width(result.of(data, order, COSINES))
        assert [len(cells) for cells in cosines.values()] == [3, 3, 3]
        assert all(c.test is not None and 100 * c.test > published for c in cosines[8000])
        assert max(c.test or 0 for c in states) < 0.87
    guide = (ROOT / "docs" / "research" / "unseen.md").read_text("utf-8")
    for order in ORDERS:
        cells = by_width(result.of("mnist_writers", order, COSINES))[8000]
        share = 100 * np.mean([c.test for c in cells if c.test is not None])
        assert f"{share:.2f} % {order}" in guide
        assert f"macro-F1 {np.mean([c.macro_f1 for c in cells]):.3f} in" in guide
