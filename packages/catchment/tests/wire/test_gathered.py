"""Mappings that are put together part by part: the same as plain dicts, and never copied whole."""

from __future__ import annotations

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.federation import Tally
from catchment.wire import FEW, Gathered, gathered

PARTS = st.lists(st.dictionaries(st.integers(0, 3000), st.integers(), max_size=300), max_size=12)


@settings(max_examples=40, deadline=None)
@given(parts=PARTS)
def test_it_holds_what_plain_dicts_would(parts: list[dict[int, int]]) -> None:
    held, plain, before = gathered({}, {}), dict[int, int](), []
    for part in parts:
        held, plain = gathered(held, part), {**plain, **part}
        before.append((held, plain))
    for found, expected in before:
        assert dict(found) == expected
        assert found == expected
        assert len(found) == len(expected)
        assert all(found[key] == value for key, value in expected.items())
        assert -1 not in found
        assert pickle.loads(pickle.dumps(found)) == expected


def test_entries_are_copied_a_few_times_however_many_parts_come() -> None:
    n_copied, held = 0, gathered({}, dict.fromkeys(range(FEW + 1), 0))
    for block in range(1, 400):
        new = {1000 * block + k: k for k in range(256)}
        before = set(map(id, held._parts)) if isinstance(held, Gathered) else set()
        held = gathered(held, new)
        assert isinstance(held, Gathered)
        n_copied += sum(len(part) for part in held._parts if id(part) not in before)
    assert len(held) == FEW + 1 + 399 * 256
    assert n_copied < 12 * len(held)  # plain dicts would copy each 200 times


def test_a_tally_of_many_clients_keeps_each() -> None:
    total = Tally.of(1, "c0")
    for k in range(1, 2000):
        total = total + Tally.of(1, f"c{k}")
    assert (total.total, len(total.by_client)) == (2000, 2000)
    assert isinstance(total.by_client, Gathered)
    assert total.by_client["c77"] == 1
