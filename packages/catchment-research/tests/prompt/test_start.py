"""The start in closed form: against scikit-learn's ridge, and worth more than none."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment.readout import Readout
from catchment_research.prompt import (
    Controlled,
    EdgeController,
    Example,
    LanguageServer,
    closed_form_start,
    label_targets,
    softmax,
    values_of,
)
from tests.prompt.world import MODEL, PROJECTION, WORDS, clients, features, training, waves

CONTEXTS = [tuple(e.context) for e in waves(10, 5)]
CONTROLLER = EdgeController(projection=PROJECTION, features=features())


def test_a_target_makes_the_model_say_its_word() -> None:
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    targets = label_targets(server, PROJECTION, CONTEXTS, steps=100, spread=0.0)
    p0 = MODEL.embed(PROJECTION.first_words(40))
    contexts = [np.array(context) for context in CONTEXTS]
    before = softmax(MODEL.scores(np.repeat(p0[None], 10, axis=0), contexts, WORDS))
    for label, p in enumerate(PROJECTION.prompts(targets) + p0):
        chance = softmax(MODEL.scores(np.repeat(p[None], 10, axis=0), contexts, WORDS))[:, label]
        assert (chance > before[:, label]).all()
        assert chance.mean() > 0.8
    assert server.traffic["training"].messages == 100
    assert (label_targets(server, PROJECTION, CONTEXTS, steps=0) == 0).all()


def test_mixtures_say_the_word_with_the_largest_part() -> None:
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    rng = np.random.default_rng(8)
    parts = np.eye(3)[rng.integers(3, size=200)] + 0.3 * rng.normal(size=(200, 3))
    p0 = MODEL.embed(PROJECTION.first_words(40))
    right = []
    for spread in (0.0, 0.3):
        targets = label_targets(server, PROJECTION, CONTEXTS, spread=spread, steps=200)
        prompts = PROJECTION.prompts(parts @ targets) + p0
        contexts = [np.array(CONTEXTS[k % 10]) for k in range(200)]
        chances = softmax(MODEL.scores(prompts, contexts, WORDS))
        right.append(float((chances.argmax(axis=1) == parts.argmax(axis=1)).mean()))
    assert right[1] > max(right[0], 0.85)


def test_bottlenecks_are_those_of_scikit_learns_ridge() -> None:
    targets = np.random.default_rng(0).normal(size=(3, 6))
    (W_out,) = closed_form_start(CONTROLLER, clients(), targets, ridge=0.1)
    held = [e for each in clients().values() for e in each]
    z, y = CONTROLLER.rows(held), np.array([targets[e.label] for e in held])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
    np.testing.assert_allclose(z @ W_out.T, theirs.predict(z), rtol=1e-7, atol=1e-9)


def test_the_start_names_signals_before_any_step() -> None:
    algorithm = training()
    targets = label_targets(algorithm.server, PROJECTION, CONTEXTS)
    values = closed_form_start(CONTROLLER, clients(n=60), targets)
    test = waves(150, seed=99)
    assert algorithm.result(algorithm.start()).accuracy(test) < 0.5
    assert algorithm.result(Controlled(values)).accuracy(test) > 0.85
    begun = training(initial=values)
    assert (begun.start().values[0] == values[0]).all()


def test_the_projection_keeps_its_own_start() -> None:
    trained = EdgeController(projection=PROJECTION, features=features(), train_projection=True)
    values = closed_form_start(trained, clients(), np.eye(3, 6))
    assert tuple(value.shape for value in values) == trained.shapes
    assert (values[1] == PROJECTION.matrix).all()


def test_what_cannot_be_regressed_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to regress on"):
        closed_form_start(EdgeController(projection=PROJECTION), clients(), np.eye(3, 6))
    with pytest.raises(ValueError, match="there are no contexts"):
        label_targets(LanguageServer(MODEL, PROJECTION, WORDS), PROJECTION, [])
    with pytest.raises(ValueError, match="no signal"):
        closed_form_start(CONTROLLER, {"a": [Example(0)]}, np.eye(3, 6))
    bare = EdgeController(
        projection=PROJECTION, features=features().of(features().reservoir, pool="last")
    )
    with pytest.raises(ValueError, match="bias=True"):
        values_of(bare, Readout(np.zeros((15, 3)), np.ones(3)), np.eye(3, 6))
