"""Options replace numbers wherever the settings have them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from reproductions.options import Options, changed, listed


@dataclass(frozen=True)
class Inner:
    rounds: int = 30
    seeds: tuple[int, ...] = (0,)
    noises: tuple[float, ...] = (0.0, 4.0)
    search_seeds: tuple[int, ...] = (1, 3)


@dataclass(frozen=True)
class Outer:
    long_rounds: int = 9
    search_rounds: int = 4
    retrainings: int = 3
    inner: Inner = Inner()


def test_numbers_are_replaced_in_all_that_settings_contain() -> None:
    new = changed(Outer(), rounds=7, seeds=3, noises=(1.0,), trials=None)
    assert (new.long_rounds, new.search_rounds, new.inner.rounds) == (7, 4, 7)
    assert new.retrainings == 3
    assert new.inner.noises == (1.0,)


def test_seeds_of_a_search_are_not_the_tables() -> None:
    assert changed(Outer(), seeds=4).inner.seeds == (0, 2, 4, 5)
    assert changed(Outer(), seeds=4).retrainings == 4


def test_what_is_missing_or_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="has no trials; leave the option out"):
        changed(Outer(), trials=3)
    with pytest.raises(ValueError, match="rounds is 0; pass 1 or more"):
        changed(Outer(), rounds=0)


def test_options_know_which_were_given() -> None:
    assert Options().given == ()
    assert set(Options(quick=True, seeds=2).given) == {"quick", "seeds"}
    assert listed(None) is None
