"""A client left out again: the factors of the others, merged anew."""

from __future__ import annotations

from catchment.federation.learn import ALL, Unlearned, certified
from catchment.federation.runs import Described, WithoutClient, refuse_sum
from catchment.readout import Model
from catchment.wire import Parts
from catchment_research.factors.ridge import FactoredRidge, FactoredState


def unlearn_factors(
    algorithm: FactoredRidge, state: FactoredState, client: str
) -> Unlearned[FactoredState]:
    """Return the state of a ridge from QR factors without a client: the others, merged anew."""
    rest = algorithm.without(state, client)
    removed = state.by_client[client]
    assert state.total is not None
    assert rest.total is not None
    about = (removed.fingerprint, removed.n_rows)
    certificate = certified(client, ALL, state.total, rest.total, removed, "summed-anew", *about)
    return Unlearned(rest, certificate)


def without_client(told: Described, model: Model, parts: Parts, client: str) -> WithoutClient:
    """Return the model of a run without a client, from the run's last state."""
    known = {**told.settings, "features": model.features, "classes": model.classes}
    ridge = FactoredRidge(**known)
    merged = ridge.load_state(parts)
    refuse_sum(merged.by_client, client, groups=bool(merged.by_group))
    gone = unlearn_factors(ridge, merged, client)
    return WithoutClient(ridge.result(gone.state), gone.certificate)
