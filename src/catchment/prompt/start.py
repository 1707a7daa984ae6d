"""A start in closed form: W_out by federated ridge regression, before any gradient step.

At b = 0 the language model's server tells in which direction the bottleneck has to go for each
label word to gain on the others: the gradient of its logit, less the mean of all words' gradients.
A label's target is a step of given length in its direction, and W_out is the ridge regression of
targets on features. One question and one round of exact sums (`FederatedRidge`), under any
protection; the labels stay with the clients, inside the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.sequence import Sequence as Recorded
from catchment.engine.local import fit
from catchment.federation.optimisers import Arrays
from catchment.federation.plan import Plan, Protection
from catchment.federation.ridge import FederatedRidge
from catchment.prompt.controller import EdgeController, Example, Projection
from catchment.prompt.exchange import Answer, LanguageLink, Question, as_tokens
from catchment.readout.linear import Readout


def label_directions(
    server: LanguageLink, projection: Projection, contexts: Sequence[Sequence[int] | Integers]
) -> Array:
    """Return the directions (L, k) of length 1 in which each label word gains on the others.

    Parameters
    ----------
    server
        Is asked one question.
    contexts
        Over which the gradients at b = 0 are averaged: anything like what clients will ask about,
        public text or a template, `[()]` for none.

    >>> from catchment.prompt.exchange import LanguageServer
    >>> from catchment.prompt.surrogate import SurrogateLM
    >>> P = Projection(bottleneck=4, length=2, width=16)
    >>> label_directions(LanguageServer(SurrogateLM(), P, (1, 2, 3)), P, [(5, 6)]).shape
    (3, 4)
    """
    read = [as_tokens(context) for context in contexts]
    question = Question(np.zeros((1, projection.bottleneck)), read, len(read))
    (reply,) = server.answers([question.to_bytes(projection)])
    gradients = Answer.from_bytes(reply).gradients
    if gradients is None:
        raise ValueError("the language model's server sent no gradients")
    against_first = gradients.mean(axis=0)
    toward = np.concatenate([np.zeros((1, projection.bottleneck)), against_first])
    toward -= toward.mean(axis=0)
    return np.asarray(toward / np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-300))


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
    directions: Array,
    *,
    length: float = 1.0,
    ridge: float = 1e-3,
    protections: tuple[Protection, ...] = (),
) -> Arrays:
    """Return values from one round of federated ridge regression, for `PromptTraining.initial`.

    Parameters
    ----------
    clients
        Examples by client.
    directions
        (L, k) as `label_directions` returns them.
    length
        Of the step that a label's target is.
    """
    if controller.features is None:
        raise ValueError("a constant prompt has nothing to regress on; begin at zero")
    algorithm = FederatedRidge(features=controller.features, ridge=ridge, keep_clients=False)
    plan = Plan(algorithm=algorithm, protections=protections)
    targets = length * directions
    result = fit(plan, {name: ridge_data(held, targets) for name, held in clients.items()})
    readout = result.state.readout
    if readout is None:
        raise ValueError("no client sent statistics")
    return values_of(controller, readout)


def _constant(controller: EdgeController) -> str:
    """Return the name of the constant feature."""
    assert controller.features is not None
    return next(name for name in controller.features.names() if "bias" in name)
