"""The start in closed form: against scikit-learn's ridge, and worth more than none."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from tests.prompt.world import MODEL, PROJECTION, WORDS, clients, features, training, waves

from catchment.prompt.controller import EdgeController, Example
from catchment.prompt.exchange import LanguageServer
from catchment.prompt.split import Controlled
from catchment.prompt.start import closed_form_start, label_directions, ridge_data, values_of
from catchment.readout.linear import Readout

CONTEXTS = [tuple(e.context) for e in waves(10, 5)]
CONTROLLER = EdgeController(projection=PROJECTION, features=features())


def test_a_step_in_a_words_direction_makes_it_likelier() -> None:
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    directions = label_directions(server, PROJECTION, CONTEXTS)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    contexts = [np.array(context) for context in CONTEXTS]
    for label, direction in enumerate(directions):
        p = np.repeat(PROJECTION.prompts(np.stack([0 * direction, 0.1 * direction])), 10, axis=0)
        scores = MODEL.scores(p, contexts * 2, WORDS).reshape(2, 10, 2).mean(axis=1)
        logits = np.column_stack([np.zeros(2), scores])
        gain = (logits - logits.mean(axis=1, keepdims=True))[:, label]
        assert gain[1] > gain[0]


def test_bottlenecks_are_those_of_scikit_learns_ridge() -> None:
    targets = np.random.default_rng(0).normal(size=(3, 6))
    (W_out,) = closed_form_start(CONTROLLER, clients(), targets, ridge=0.1)
    held = [e for each in clients().values() for e in each]
    z, y = CONTROLLER.rows(held), np.array([targets[e.label] for e in held])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
    np.testing.assert_allclose(z @ W_out.T, theirs.predict(z), rtol=1e-7, atol=1e-9)


def test_the_start_names_signals_before_any_step() -> None:
    algorithm = training()
    directions = label_directions(algorithm.server, PROJECTION, CONTEXTS)
    values = closed_form_start(CONTROLLER, clients(n=60), directions, length=2.0)
    test = waves(150, seed=99)
    assert algorithm.accuracy(Controlled(values), test) > (
        algorithm.accuracy(algorithm.start(), test) + 0.2
    )
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
    with pytest.raises(ValueError, match="no signal"):
        ridge_data([Example(0)], np.eye(3))
    bare = EdgeController(
        projection=PROJECTION, features=type(features())(features().reservoir, pool="last")
    )
    with pytest.raises(ValueError, match="bias=True"):
        values_of(bare, Readout(np.zeros((16, 6)), np.zeros(6)))
