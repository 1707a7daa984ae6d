"""C2: a server that shows two sets of clients, with colluders, opens nobody below the bound.

The attack is real: with the rule on thresholds taken out the same code opens the victim.
"""

from __future__ import annotations

import numpy as np
import pytest

from catchment.errors import RuleError, TooFewClientsError
from catchment.privacy.secure_aggregation import check_share, check_threshold, threshold
from tests.security.fleet import Fleet, RefusedError
from tests.security.liars import SplitView


def attacked(fleet: Fleet, n_bad: int) -> tuple[SplitView, bool, np.ndarray]:
    """Return the attack, whether the victim's numbers came out, and what came out."""
    attack = SplitView(fleet, bad=range(1, 1 + n_bad))
    exchange, uploads = attack.run(RefusedError)
    _, t = fleet.masking.degree(len(fleet.vectors))
    if min(len(attack.own), len(attack.key)) < t:
        return attack, False, np.zeros(0)
    found = attack.opened(exchange, uploads, t)
    return attack, bool(np.allclose(found, fleet.vectors["c000"], rtol=1e-9)), found


@pytest.mark.parametrize("n_bad", [0, 1, 2, 3])
def test_at_and_below_the_bound_nobody_is_opened(n_bad: int) -> None:
    fleet = Fleet.drawn(12, min_clients=10, corrupt=0.25)  # 3 of 12; t is 8
    attack, opened, _ = attacked(fleet, n_bad)
    assert not opened
    assert min(len(attack.own), len(attack.key)) < 8
    assert any("agree on the sealed set" in reason for reason in attack.refusals)


def test_without_the_rule_four_colluders_open_the_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet.drawn(12, min_clients=10, corrupt=0.34, shares_needed=8)  # 4 of 12
    with pytest.raises(TooFewClientsError, match="8 shares of 12 open a secret, and 4 holders"):
        fleet.run()
    module = "catchment.privacy.secure_aggregation.client.check_threshold"
    monkeypatch.setattr(module, lambda *_: None)
    _, opened, found = attacked(fleet, 4)
    assert opened
    np.testing.assert_allclose(found, fleet.vectors["c000"], rtol=1e-12)


def test_the_threshold_follows_the_bound() -> None:
    fleet = Fleet.drawn(12, min_clients=10, corrupt=0.34)
    assert fleet.masking.degree(12) == (11, 9)
    attack, opened, _ = attacked(fleet, 4)
    assert not opened
    assert min(len(attack.own), len(attack.key)) < 9


@pytest.mark.parametrize("n_holders", range(3, 60))
def test_no_split_of_honest_holders_gives_both_secrets(n_holders: int) -> None:
    for n_corrupt in range(n_holders - 1):
        t = threshold(n_holders, n_corrupt)
        honest = n_holders - n_corrupt
        both = any(min(a, honest - a) + n_corrupt >= t for a in range(honest + 1))
        assert not both
        check_threshold(t, n_holders, n_corrupt)
        if t - 1 >= (n_holders + 1) // 2 and 2 * (t - 1) <= n_holders + n_corrupt:
            with pytest.raises(RuleError):
                check_threshold(t - 1, n_holders, n_corrupt)


def test_a_small_cohort_of_many_registered_clients_is_refused() -> None:
    """40 registered, 12 asked: the server could have chosen its four colluders."""
    fleet = Fleet.drawn(40, min_clients=10)
    asked = sorted(fleet.vectors)[:12]
    fleet.vectors = {name: fleet.vectors[name] for name in asked}
    with pytest.raises(TooFewClientsError, match="12 of 40 registered clients"):
        fleet.run()
    check_share(20, 40, 0.5)
    # And where it is allowed, all the corrupt ones of the 40 count.
    few = Fleet.drawn(40, min_clients=10, min_share=0.3)
    assert few.masking.degree(12) == (11, 11)


def test_those_who_test_a_model_may_be_few() -> None:
    masking = Fleet.drawn(40, min_clients=10).masking
    assert masking.exact().min_share == masking.min_share == 0.5
    assert masking.exact(of_few=True).min_share == 0
    assert masking.exact(of_few=True).degree(12) == (11, 8)
