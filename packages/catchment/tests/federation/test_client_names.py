"""Names of clients are checked together as they are one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.federation import check_client_names

NAMES = st.text(st.sampled_from("ab ./\\\n\t\u00a0\u2003é\x1f"), max_size=4)


def is_refused(names: list[object]) -> bool:
    try:
        check_client_names(names)
    except ValueError:
        return True
    return False


@given(st.lists(NAMES, max_size=5))
def test_names_together_are_refused_where_one_of_them_is(names: list[object]) -> None:
    assert is_refused(names) == any(is_refused([name, "a/b"]) for name in names)


@pytest.mark.parametrize("name", ["", " a", "a ", ".", "..", "a\nb", "a" * 201, 3, None, "../a"])
def test_a_name_is_refused_among_others(name: object) -> None:
    assert is_refused(["ann", name, "bob"])
