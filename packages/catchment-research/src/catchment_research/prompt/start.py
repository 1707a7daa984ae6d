"""A start in closed form: W_out by federated ridge regression, before any client has taken a step.

Which bottleneck makes the language model say a given word needs no client's data: targets for all
labels are trained on public contexts alone. A regression does not hit its targets, it mixes them;
so mixtures are trained, to say the word that has the largest part in them:

    b = B'(e_y + s n),    n normal,    label: the place of the largest entry of e_y + s n

W_out is then the ridge regression of labels on features, times B: one round of exact sums
(`FederatedRidge`), under any protection, the labels inside the statistics. The model says what the
ridge readout of the same features would, as far as it can be steered at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import IntegrityError
from catchment.features import FeatureMap
from catchment.federation import Plan, Protection
from catchment.federation.learn import FederatedRidge
from catchment.readout import Readout
from catchment_research.learn.optimizers import Adam, Arrays, ServerOptimizer
from catchment_research.prompt.controller import EdgeController, Example, Projection
from catchment_research.prompt.exchange import (
    OTHER_QUESTION,
    Answer,
    LanguageLink,
    Question,
    as_tokens,
)

RULE = Adam(learning_rate=0.05, tau=1e-8)


def label_targets(
    server: LanguageLink,
    projection: Projection,
    contexts: Sequence[Sequence[int] | Integers],
    *,
    steps: int = 80,
    spread: float = 0.3,
    copies: int = 4,
    rule: ServerOptimizer = RULE,
    seed: int = 0,
) -> Array:
    """Return bottlenecks (L, k), trained so that each, and mixtures, make the model say a word.

    Parameters
    ----------
    contexts
        After which it is to be said: anything like what clients will ask about, a template or
        public text; `[()]` for none.
    steps, rule
        How long and how they are trained, from zero.
    spread
        Of what is mixed in; 0 trains each bottleneck by itself.
    copies
        Mixtures of each label in a step.

    >>> from catchment_research.prompt.exchange import LanguageServer
    >>> from catchment_research.prompt.language import SurrogateLM
    >>> P = Projection(bottleneck=4, length=2, width=16)
    >>> label_targets(LanguageServer(SurrogateLM(), P, (1, 2, 3)), P, [(5, 6)], steps=3).shape
    (3, 4)
    """
    if not contexts:
        raise ValueError("there are no contexts; pass at least one, [()] for an empty one")
    read, L = [as_tokens(context) for context in contexts], len(server.words)
    n, rng = L * copies, np.random.default_rng(seed)
    values: Arrays = (np.zeros((L, projection.bottleneck)),)
    memory = rule.start(values)
    for _ in range(steps):
        mixed = np.tile(np.eye(L), (copies, 1)) + spread * rng.normal(size=(n, L))
        asked = [read[k] for k in rng.integers(len(read), size=n)] if len(read) > 1 else read
        question = Question(mixed @ values[0], asked, n, mixed.argmax(axis=1))
        (reply,) = server.answers([question.to_bytes(projection)])
        gradients = Answer.from_bytes(reply).gradients
        if gradients is None or gradients.shape != (n, projection.bottleneck):
            raise IntegrityError(OTHER_QUESTION)
        values, memory = rule.step(values, (-mixed.T @ gradients / n,), memory)
    return values[0]


def regression(features: FeatureMap, ridge: float | Literal["gcv"], **known: Any) -> FederatedRidge:
    """Return the round whose readout tells classes by features; a constant one is the intercept."""
    settings: Any = {"ridge": ridge, "store_per_client": False, "intercept": features.constant}
    return FederatedRidge(features=features, **settings, **known)


def values_of(controller: EdgeController, readout: Readout, targets: Array) -> Arrays:
    """Return a controller's values that give the readout's mixtures of targets (L, k).

    The readout's intercept goes to the constant feature, which the controller must have then.
    """
    features, W_out = controller.features, (readout.weights @ targets).T
    if readout.intercept.any():
        if features is None or not features.constant:
            raise ValueError("the controller has no constant feature; pass features with bias=True")
        one = next(k for k, name in enumerate(features.names()) if "bias" in name)
        W_out[:, one] += readout.intercept @ targets
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
    L, held = len(targets), {}
    for name, examples in clients.items():
        if any(one.u is None for one in examples):
            raise ValueError("an example has no signal for the reservoir; pass u (steps, channels)")
        held[name] = [Recording.labeled(one.u, one.label, L) for one in examples]
    plan = Plan(algorithm=regression(controller.features, ridge), protections=protections)
    return values_of(controller, run_locally(plan, held).model.readout, targets)
