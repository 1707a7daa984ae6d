from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.data import (
    Clients,
    Recording,
    cohorts,
    contiguous,
    iid,
    label_skew,
    split,
)

Split = Callable[[list[Recording], int], dict[str, list[Recording]]]


def numbered(n: int, n_classes: int = 3) -> list[Recording]:
    """Return sequences whose only input is their number."""
    return [Recording.labeled([float(i)], i % n_classes, n_classes) for i in range(n)]


def numbers(clients: dict[str, list[Recording]]) -> list[list[int]]:
    return [[int(s.u[0, 0]) for s in part] for part in clients.values()]


def label_spread(clients: dict[str, list[Recording]]) -> float:
    """Return the mean deviation of the clients' class shares from the overall ones."""
    shares = np.array([np.array([s.y for s in part]).mean(axis=0) for part in clients.values()])
    return float(np.abs(shares - 1 / 3).mean())


@given(
    n=st.integers(1, 60),
    data=st.data(),
    seed=st.integers(0, 2**40),
    alpha=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
)
def test_every_sequence_lands_in_exactly_one_client_and_none_is_empty(
    n: int, data: st.DataObject, seed: int, alpha: float
) -> None:
    n_clients = data.draw(st.integers(1, n))
    splits: list[Split] = [
        partial(iid, seed=seed),
        partial(label_skew, alpha=alpha, seed=seed),
    ]
    for deal in splits:
        clients = deal(numbered(n), n_clients)
        assert list(clients) == [f"client-{k:03d}" for k in range(n_clients)]
        groups = numbers(clients)
        assert all(groups)
        assert all(group == sorted(group) for group in groups)
        assert sorted(chain.from_iterable(groups)) == list(range(n))
        assert numbers(deal(numbered(n), n_clients)) == groups


@pytest.mark.parametrize("split", [iid, label_skew])
def test_seeds_give_different_splits(split: Callable[..., dict[str, list[Recording]]]) -> None:
    assert numbers(split(numbered(60), 4, seed=0)) != numbers(split(numbered(60), 4, seed=1))


@pytest.mark.parametrize("split", [iid, label_skew])
@pytest.mark.parametrize("n_clients", [0, -1, 4])
def test_too_many_or_no_clients_are_refused(
    split: Callable[..., dict[str, list[Recording]]], n_clients: int
) -> None:
    with pytest.raises(ValueError, match=f"cannot make {n_clients} clients of 3 sequences"):
        split(numbered(3), n_clients)


def test_iid_sizes_differ_by_one_at_most() -> None:
    sizes = [len(part) for part in iid(numbered(23), 5).values()]
    assert sorted(sizes) == [4, 4, 5, 5, 5]


def test_a_small_alpha_skews_labels() -> None:
    data = numbered(600)
    assert label_spread(label_skew(data, 6, alpha=0.1)) > 0.2
    assert label_spread(label_skew(data, 6, alpha=1000.0)) < 0.05


def test_label_skew_needs_classes() -> None:
    with pytest.raises(ValueError, match="no target"):
        label_skew([Recording(np.zeros(3))], 1)
    with pytest.raises(ValueError, match="no one-hot class"):
        label_skew([Recording(np.zeros(3), np.zeros(3))], 1)
    with pytest.raises(ValueError, match="no one-hot class"):
        label_skew([Recording(np.zeros(3), np.full(2, np.nan))], 1)


def test_label_skew_takes_the_most_frequent_step_label() -> None:
    y = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [np.nan, np.nan]])
    mostly_one = Recording(np.zeros(4), y)
    zero = Recording.labeled(np.zeros(4), 0, 2)
    # With a tiny alpha a class goes to one client as a whole, and with this seed to different ones.
    clients = label_skew([mostly_one] * 5 + [zero] * 5, 2, alpha=1e-3, seed=2)
    assert [{id(s) for s in part} for part in clients.values()] in (
        [{id(mostly_one)}, {id(zero)}],
        [{id(zero)}, {id(mostly_one)}],
    )


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha is"):
        label_skew(numbered(3), 2, alpha=alpha)


@given(n_steps=st.integers(1, 40), data=st.data())
def test_contiguous_blocks_join_to_the_sequence(n_steps: int, data: st.DataObject) -> None:
    n_clients = data.draw(st.integers(1, n_steps))
    u = np.arange(2.0 * n_steps).reshape(n_steps, 2)
    whole = Recording(u, u[:, :1], weight=2.0)
    parts = [part for (part,) in contiguous(whole, n_clients).values()]
    np.testing.assert_array_equal(np.concatenate([part.u for part in parts]), u)
    targets = [part.y for part in parts if part.y is not None]
    np.testing.assert_array_equal(np.concatenate(targets), u[:, :1])
    assert {part.weight for part in parts} == {2.0}
    assert max(part.n_steps for part in parts) - min(part.n_steps for part in parts) <= 1


def test_contiguous_refuses_what_it_cannot_cut() -> None:
    with pytest.raises(ValueError, match="only targets per step can be cut"):
        contiguous(Recording.labeled(np.zeros(6), 0, 2), 2)
    with pytest.raises(ValueError, match="cannot make 7 clients of 6 steps"):
        contiguous(Recording(np.zeros(6)), 7)


@given(
    n=st.integers(3, 40),
    validation=st.sampled_from([0, 1, 0.0, 0.1, 0.3]),
    test=st.sampled_from([0, 1, 0.0, 0.1, 0.3]),
    seed=st.none() | st.integers(0, 100),
)
def test_each_client_is_in_one_cohort(
    n: int, validation: float, test: float, seed: int | None
) -> None:
    names = [f"s{i}" for i in range(n)]
    split = cohorts(names, validation=validation, test=test, seed=seed)
    train, held_out, last = split
    assert sorted(train + held_out + last) == sorted(names)
    assert split == cohorts(names, validation=validation, test=test, seed=seed)
    assert bool(held_out) == (validation > 0)
    assert bool(last) == (test > 0)
    assert train


def test_cohorts_by_count_and_share() -> None:
    names = [f"s{i}" for i in range(15)]
    by_count = cohorts(names, validation=3, test=3, seed=1)
    assert [len(part) for part in by_count] == [9, 3, 3]
    by_share = cohorts(names, validation=0.2, test=0.2, seed=1)
    assert by_share == by_count
    assert cohorts(names, validation=3, test=3, seed=2) != by_count
    found = cohorts(dict.fromkeys("abc"), validation=0, test=1, seed=None)
    assert found == (("a", "b"), (), ("c",))


def test_cohorts_refuse_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="leave none of 2"):
        cohorts(["a", "b"], validation=1, test=1)
    with pytest.raises(ValueError, match=r"test is 1\.0"):
        cohorts(["a", "b"], test=1.0)
    with pytest.raises(ValueError, match="validation is -1"):
        cohorts(["a", "b"], validation=-1)
    with pytest.raises(ValueError, match="twice"):
        cohorts(["a", "b", "a"])


def test_only_names_a_client_that_is_not_there() -> None:
    clients = Clients(iid(numbered(4), 2))
    assert list(clients.only(["client-001"])) == ["client-001"]
    with pytest.raises(ValueError, match="no client 'zoe'; the clients are client-000, client-001"):
        clients.only(["zoe"])


def people(n: int) -> Clients:
    held = {f"p{k}": [Recording(np.zeros((2, 1)), channels=("x",))] for k in range(n)}
    return Clients(held, classes=("sit", "walk"))


@given(n=st.integers(2, 40), test=st.sampled_from([1, 0.1, 0.25, 0.4]), seed=st.integers(0, 2**40))
def test_split_puts_whole_clients_on_one_side_and_keeps_what_they_share(
    n: int, test: float, seed: int
) -> None:
    everybody = people(n)
    train, held_out = split(everybody, test=test, seed=seed)
    assert not set(train) & set(held_out)
    assert sorted([*train, *held_out]) == sorted(everybody)
    assert set(held_out) == set(cohorts(everybody, validation=0, test=test, seed=seed)[2])
    for part in (train, held_out):
        assert part.classes == ("sit", "walk")
        assert part.channels == ("x",)
        assert list(part) == [name for name in everybody if name in part]
        assert all(part[name] is everybody[name] for name in part)


def test_split_into_three_and_of_a_plain_mapping() -> None:
    parts = split(dict(people(10)), test=0.2, validation=3)
    assert [len(part) for part in parts] == [5, 3, 2]
    assert all(isinstance(part, Clients) and part.channels == ("x",) for part in parts)
    train, validation, test = split(people(4), test=1, validation=0)
    assert (len(train), len(validation), len(test)) == (3, 0, 1)
    with pytest.raises(ValueError, match="leave none of 2 for training"):
        split(people(2), test=2)


def test_clients_are_a_mapping_of_recordings_with_one_set_of_channels() -> None:
    everybody = people(3)
    assert everybody["p1"][0].n_steps == 2
    assert len(everybody) == 3
    assert "p9" not in everybody
    with pytest.raises(ValueError, match="there is no client 'p9'"):
        everybody.only(["p9"])
    with pytest.raises(ValueError, match=r"client 'b' has the channels \('y',\), others \('x',\)"):
        Clients(
            {name: [Recording(np.zeros(1), channels=(c,))] for name, c in (("a", "x"), ("b", "y"))}
        )
    bare = Clients({"a": [Recording(np.zeros(1))], "b": [Recording(np.zeros(1), channels=("y",))]})
    assert bare.channels == ("y",)


def test_blocks_of_a_recording_keep_their_times_and_names() -> None:
    whole = Recording(np.arange(5.0), times=np.arange(5.0) / 2, channels=("x",))
    blocks = contiguous(whole, 2)
    assert [part[0].times.tolist() for part in blocks.values() if part[0].times is not None] == [
        [0.0, 0.5, 1.0],
        [1.5, 2.0],
    ]
    assert {part[0].channels for part in blocks.values()} == {("x",)}
