"""What a block of clients says of itself travels in columns, and comes out as it went in."""

import pickle
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from catchment.federation import FEWEST, Claim, Limits, Screen
from catchment.federation.runs import Entries, Entry

DIRECTIONS: tuple[Literal["down", "up"], ...] = ("down", "up")
ENTRIES = st.builds(
    Entry,
    st.integers(0, 2),
    st.text(max_size=3),
    st.sampled_from(DIRECTIONS),
    st.sampled_from(["sum", "mean"]),
    st.lists(st.lists(st.integers(0, 3), max_size=2).map(tuple), max_size=2).map(tuple),
    st.integers(0, 2**40),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.sampled_from([None, 0.0, -0.0, 1.5]),
)


@given(st.lists(ENTRIES))
def test_messages_in_columns_are_the_same_messages(entries: list[Entry]) -> None:
    again = pickle.loads(pickle.dumps(Entries.of(entries)))
    assert list(map(repr, again)) == list(map(repr, entries))


def test_messages_that_differ_in_client_and_hash_are_short() -> None:
    shapes = ((101,), (5151,), (101, 6))
    many = [Entry(0, f"client-{k}", "up", "sum", shapes, 9, f"{k:064x}") for k in range(256)]
    assert len(pickle.dumps(Entries.of(many))) < 256 * 80


SIZES = st.sampled_from([0.0, 1.0, 2.0, 30.0, 4000.0])
CLAIMS = st.builds(Claim, SIZES, SIZES)
PLAIN = st.builds(Claim, st.sampled_from([0.0, 1.0, 2.0, 30.0]), st.just(1.0))


def taken(screen: Screen, names: list[str], claims: list[Claim]) -> list[tuple[str, Claim]]:
    return [
        one
        for name, claim in zip(names, claims, strict=True)
        for one in screen.take(name, claim, claim)
    ]


@given(st.lists(st.lists(PLAIN, max_size=8) | st.lists(CLAIMS, max_size=4), max_size=5))
def test_blocks_pass_together_where_each_client_passes_at_once(blocks: list[list[Claim]]) -> None:
    limits = Limits(max_rows=5000, over_median=10.0)
    at_once, by_block = (Screen(limits, 5, lambda *_: None) for _ in range(2))
    for n, block in enumerate(blocks):
        names = [f"{n}-{k % 3}-{k}" for k in range(len(block))]
        before = by_block.mark()
        sizes = np.array([(one.rows, one.weight) for one in block]).reshape(-1, 2)
        if not by_block.pass_together(names, sizes):
            # One by one, some are refused or kept back; what is known before is not changed.
            assert by_block.mark() == before
            passed = taken(at_once, names, block)
            assert len(passed) < len(block) or before[0] < FEWEST
            return
        passed = taken(at_once, names, block)
        assert [name for name, _ in passed] == names
        assert at_once.mark() == by_block.mark()
