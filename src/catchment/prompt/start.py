"""A start in closed form: W_out by federated ridge regression, before any client has taken a step.

Which bottleneck makes the language model say a given word needs no client's data: one for each
label is trained on public contexts alone, a few questions of L prompts. These are targets, and
W_out is the ridge regression of targets on features: one round of exact sums (`FederatedRidge`),
under any protection, the labels inside the statistics. Where a prompt is all that the model has to
go by, as for signals, this is most of what training reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.sequence import Sequence as Recorded
from catchment.engine.local import fit
from catchment.errors import IntegrityError
from catchment.federation.optimisers import Adam, Arrays, ServerOptimiser
from catchment.federation.plan import Plan, Protection
from catchment.federation.ridge import FederatedRidge
from catchment.prompt.controller import EdgeController, Example, Projection
from catchment.prompt.exchange import Answer, LanguageLink, Question, as_tokens
from catchment.readout.linear import Readout

RULE = Adam(learning_rate=0.02, tau=1e-8)


def label_targets(
    server: LanguageLink,
    projection: Projection,
    contexts: Sequence[Sequence[int] | Integers],
    *,
    steps: int = 30,
    rule: ServerOptimiser = RULE,
) -> Array:
    """Return bottlenecks (L, k), each trained to make the model say one label word.

    Parameters
    ----------
    contexts
        After which it is to be said: anything like what clients will ask about, a template or
        public text; `[()]` for none.
    steps, rule
        How long and how each bottleneck is trained, from zero. One that is trained for long says
        its word for certain, and mixtures of such need not mean anything.

    >>> from catchment.prompt.exchange import LanguageServer
    >>> from catchment.prompt.surrogate import SurrogateLM
    >>> P = Projection(bottleneck=4, length=2, width=16)
    >>> label_targets(LanguageServer(SurrogateLM(), P, (1, 2, 3)), P, [(5, 6)]).shape
    (3, 4)
    """
    if not contexts:
        raise ValueError("there are no contexts; pass at least one, [()] for an empty one")
    L, n = len(server.words), len(contexts)
    every = [as_tokens(context) for _ in range(L) for context in contexts]
    labels = np.repeat(np.arange(L), n)
    values: Arrays = (np.zeros((L, projection.bottleneck)),)
    memory = rule.start(values)
    for _ in range(steps):
        question = Question(np.repeat(values[0], n, axis=0), every, L * n, labels)
        (reply,) = server.answers([question.to_bytes(projection)])
        gradients = Answer.from_bytes(reply).gradients
        if gradients is None or gradients.shape != (L * n, projection.bottleneck):
            raise IntegrityError("the language model's server answered another question")
        mean = gradients.reshape(L, n, -1).mean(axis=1)
        values, memory = rule.step(values, (-mean,), memory)
    return values[0]


def ridge_data(examples: Sequence[Example], targets: Array) -> list[Recorded]:
    """Return a client's examples for ridge regression; each has its label's target (k,).

    >>> rows = ridge_data([Example(1, np.zeros((4, 2)))], np.eye(3))
    >>> rows[0].y
    array([0., 1., 0.])
    """
    rows = []
    for example in examples:
        if example.u is None:
            raise ValueError("an example has no signal for the reservoir; pass u (steps, channels)")
        rows.append(Recorded(example.u, targets[example.label], per_step=False))
    return rows


def values_of(controller: EdgeController, readout: Readout) -> Arrays:
    """Return a controller's values that give the readout's outputs as bottlenecks.

    The readout's intercept goes to the constant feature, which the controller must have.
    """
    features = controller.features
    if features is None or not features.bias:
        raise ValueError("the controller has no constant feature; pass features with bias=True")
    W_out = readout.weights.T.copy()
    W_out[:, features.names().index(_constant(controller))] += readout.intercept
    return (W_out, *controller.start()[1:])


def closed_form_start(
    controller: EdgeController,
    clients: Mapping[str, Sequence[Example]],
    targets: Array,
    *,
    ridge: float = 0.1,
    protections: tuple[Protection, ...] = (),
) -> Arrays:
    """Return values from one round of federated ridge regression, for `PromptTraining.initial`.

    Parameters
    ----------
    clients
        Examples by client.
    targets
        (L, k) as `label_targets` returns them.
    """
    if controller.features is None:
        raise ValueError("a constant prompt has nothing to regress on; begin at zero")
    algorithm = FederatedRidge(features=controller.features, ridge=ridge, keep_clients=False)
    plan = Plan(algorithm=algorithm, protections=protections)
    result = fit(plan, {name: ridge_data(held, targets) for name, held in clients.items()})
    readout = result.state.readout
    if readout is None:
        raise ValueError("no client sent statistics")
    return values_of(controller, readout)


def _constant(controller: EdgeController) -> str:
    """Return the name of the constant feature."""
    assert controller.features is not None
    return next(name for name in controller.features.names() if "bias" in name)
