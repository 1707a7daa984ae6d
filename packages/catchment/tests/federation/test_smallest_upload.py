"""Smaller uploads of statistics in fixed point: the same integers, whatever was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import EchoState, Recording
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.engine import run_locally
from catchment.errors import IntegrityError, UploadError
from catchment.federation import LowRankUpload, Plan, RoundContext
from catchment.federation.learn import FederatedRidge, unlearn
from catchment.federation.runs import Entry, Keeper
from catchment.readout import FixedPoint, RidgeStatistics, independent_rows, whole_gram
from catchment.wire import Message, serialize

pytestmark = pytest.mark.processor

TURN = RoundContext(0, (), client="a")
MAP = EchoState(60, seed=1, pool="mean_std").build(6, per_step=False, classes=True)


def whole_rows(seed: int, n: int, F: int, bits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    rng = np.random.default_rng(seed)
    return rng.integers(-(2**bits), 2**bits + 1, size=(n, F))


def in_fixed_point(
    seed: int, n: int, F: int, bits: int, *, classes: bool = True, dead: int = 0
) -> RidgeStatistics:
    k = whole_rows(seed, n, F, bits)
    k[:, :dead] = 0
    y = np.eye(2)[k[:, -1] % 2] if classes else np.random.default_rng(seed).normal(size=(n, 2))
    grid = FixedPoint.from_digits(bits, np.full(F, bits), classes=classes)
    return RidgeStatistics.from_states(k / 2.0**bits, y, fixed=grid, fingerprint="f")


def there_and_back(s: RidgeStatistics) -> tuple[Message, RidgeStatistics]:
    sent = Message.from_bytes(serialize(LowRankUpload().on_client(s, TURN)).to_bytes())
    read = LowRankUpload().read_update(
        sent, TURN, lambda parts, context: RidgeStatistics.from_message(parts)
    )
    assert isinstance(read, RidgeStatistics)
    return sent, read


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 40),
    st.integers(1, 40),
    st.sampled_from([1, 6, 8, 16, 20, 24, 26]),
)
def test_a_gram_matrix_is_made_of_some_of_its_rows_to_the_last_digit(
    seed: int, n: int, F: int, bits: int
) -> None:
    """Against Python's integers, which are exact at any size."""
    z = whole_rows(seed, n, F, bits).astype(object)
    z[:, :1] = 0
    z[:, F // 2 :] = z[:, F // 2 : F // 2 + 1]  # columns that repeat each other
    G = (z.T @ z).astype(np.int64) if n else np.zeros((F, F), np.int64)
    packed = G[np.triu_indices(F)]
    pivots, entries = independent_rows(packed, F, min(n, F))
    assert len(pivots) == (np.linalg.matrix_rank(z.astype(float)) if n else 0)
    np.testing.assert_array_equal(whole_gram(pivots, entries, F, n << 2 * bits), packed)


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize("n", [0, 1, 7, 25, 38])
def test_what_the_server_reads_is_what_the_client_has_bit_for_bit(
    n: int, bits: int, classes: bool
) -> None:
    s = in_fixed_point(n, n, 40, bits, classes=classes, dead=2)
    sent, read = there_and_back(s)
    assert read == s
    assert read.digest() == s.digest()
    assert read.parts().to_bytes() == s.parts().to_bytes()
    low = sent.kind == "low-rank-statistics"
    assert low == (n < 30)
    if low and n:
        assert len(sent.to_bytes()) < len(s.parts().to_bytes())


def test_a_client_with_many_rows_sends_its_statistics_as_they_are() -> None:
    s = in_fixed_point(0, 50, 30, 8)
    assert LowRankUpload().on_client(s, TURN) is s


def test_what_is_not_in_fixed_point_is_sent_as_it_is() -> None:
    s = RidgeStatistics.from_states(np.ones((3, 9)), np.ones((3, 1)))
    assert LowRankUpload().on_client(s, TURN) is s
    other = s.solve(1.0)
    assert LowRankUpload().on_client(other, TURN) is other


class Noted(Keeper[Any]):
    """A keeper of nothing but the kinds of messages."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}

    def note(self, entry: Entry) -> None:
        if entry.direction == "up":
            self.kinds[entry.client] = entry.purpose


def users() -> dict[str, list[Recording]]:
    made = synthetic_wearables(n_users=4, windows_per_user=24, steps=40)
    first = min(made)
    return {**made, first: list(made[first]) * 8}


def test_a_federation_with_smaller_uploads_has_the_same_digest_and_model() -> None:
    """Three clients have fewer rows than features, one has more."""
    ridge = FederatedRidge(features=MAP, classes=ACTIVITIES)
    plain = run_locally(Plan(algorithm=ridge), users())
    noted = Noted()
    plan = Plan(algorithm=ridge, protections=(LowRankUpload(),))
    small = run_locally(plan, users(), keeper=noted)
    assert sorted(noted.kinds.values()) == ["low-rank-statistics"] * 3 + ["ridge-statistics"]
    assert small.records[0].bytes_up < plain.records[0].bytes_up
    assert plain.state.total is not None
    assert small.state.total == plain.state.total
    assert small.state.total.digest() == plain.state.total.digest()
    assert small.model.readout.weights.tobytes() == plain.model.readout.weights.tobytes()


def test_unlearning_a_client_whose_upload_was_small_is_an_equality() -> None:
    everyone = users()
    gone = max(everyone)
    ridge = FederatedRidge(features=MAP, classes=ACTIVITIES, ridge=1.0)
    plan = Plan(algorithm=ridge, protections=(LowRankUpload(),))
    after = unlearn(ridge, run_locally(plan, everyone).state, gone).state
    rest = {name: held for name, held in everyone.items() if name != gone}
    never = run_locally(Plan(algorithm=ridge), rest).state
    assert after.total == never.total


def damaged(parts: Message, place: int, array: np.ndarray[Any, Any]) -> Message:
    arrays = list(parts.arrays)
    arrays[place] = array
    return replace(parts, arrays=tuple(arrays))


def test_malformed_low_rank_uploads_are_refused() -> None:
    sent, _ = there_and_back(in_fixed_point(1, 7, 40, 8))
    read = LowRankUpload().read_update
    pivots, rows = sent.arrays[-1], sent.arrays[3]

    def inner(parts: Message, context: RoundContext) -> RidgeStatistics:
        return RidgeStatistics.from_message(parts)

    twice = pivots.copy()
    twice[1] = twice[0]
    for place, array in (
        (-1, twice),
        (-1, pivots + np.uint32(100)),
        (-1, pivots.astype(np.float64)),
        (-1, pivots[:-1]),
        (3, rows[:, :-1]),
        (3, rows.astype(np.float64)),
        (0, np.array([7.0, -1.0])),
        (0, np.zeros(3)),
    ):
        with pytest.raises(IntegrityError):
            read(damaged(sent, place, array), TURN, inner)
    for wrong, code in ((np.zeros_like(rows), "moments"), (rows + 2**62, "range")):
        with pytest.raises(UploadError) as refused:
            read(damaged(sent, 3, wrong), TURN, inner)
        assert refused.value.code == code


def test_low_rank_uploads_that_no_data_can_have_are_refused_like_others() -> None:
    """A negative square among the rows that came: the plan's own checks see it."""
    ridge = FederatedRidge(features=MAP, classes=ACTIVITIES)
    held = users()[max(users())]
    upload = ridge.client_update(Message("nothing"), lambda: held, TURN)
    sent = serialize(LowRankUpload().on_client(upload, TURN))
    rows = sent.arrays[3].copy()
    rows[0, 0] = -rows[0, 0] - 1
    with pytest.raises(UploadError) as refused:
        LowRankUpload().read_update(damaged(sent, 3, rows), TURN, ridge.read_update)
    assert refused.value.code in ("moments", "bound")
