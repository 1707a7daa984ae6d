"""What is normal, without a client: its sums and its counts are taken off.

The sum without a client is the sum as if it had never been there, and so is what is normal. The
threshold is not quite: the others counted their scores by a model that the client was part of. One
more round, of counts alone, makes it so, too, and nobody has to send its sums again:

    run_locally(Plan(algorithm=algorithm), others, onto=without.state)
"""

from __future__ import annotations

from dataclasses import replace

from catchment.errors import FederationError
from catchment.federation.learn.normal import FederatedNormal, NormalState
from catchment.federation.learn.ridge import RidgeState
from catchment.federation.learn.unlearning import Unlearned, summed, without_client

REMAINS = (
    "the threshold: the others counted their scores by the model that the client was part of; "
    "another round of counts would set it anew"
)


def unlearn_normal(
    algorithm: FederatedNormal, state: NormalState, client: str
) -> Unlearned[NormalState]:
    """Return the state without a client, what is normal as if it had never been there.

    Parameters
    ----------
    algorithm
        The one that made the state, with `keep_clients=True`.
    state
        Of the server, after both rounds or the first.
    client
        Whose sums and counts are to go.

    >>> import numpy as np
    >>> from catchment import NVAR, Plan, Recording, federate
    >>> rng = np.random.default_rng(0)
    >>> clients = {name: [Recording(rng.normal(size=(400, 1)))] for name in ("a", "b", "c")}
    >>> features = NVAR(delays=2, order=1).build(1, per_step=True)
    >>> algorithm = FederatedNormal(features=features)
    >>> state = federate(Plan(algorithm=algorithm, rounds=2), clients).state
    >>> rest = unlearn_normal(algorithm, state, "b")
    >>> rest.certificate.n_rows, sorted(rest.state.by_client), rest.state.counts.n_values
    (300, ['a', 'c'], array([200]))
    """
    sums = without_client(RidgeState(state.total, state.by_client), client)
    counts = {name: own for name, own in state.counts_by_client.items() if name != client}
    if state.counts is not None and not counts:
        raise FederationError(f"only {client} has set the threshold; run the plan without it")
    after = NormalState(
        sums.state.total,
        sums.state.by_client,
        None if state.counts is None else summed(counts),
        counts,
    )
    remains = REMAINS if state.counts is not None else ""
    return Unlearned(algorithm.solved(after), replace(sums.certificate, remains=remains))
