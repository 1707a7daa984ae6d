"""Controllers: their gradients against somebody else's, and what the seed fixes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from catchment import Array, Reservoir
from catchment.features import EchoState
from catchment_research.prompt import EdgeController, Example, Projection

P = Projection(bottleneck=3, length=2, width=5, seed=4, scale=0.5)
RNG = np.random.default_rng(0)


def features(**settings: object) -> EchoState:
    reservoir = Reservoir(units=6, inputs=2, seed=1)
    return EchoState.of(reservoir, **{"pool": "last", "bias": True, **settings})  # type: ignore[arg-type]


def random_values(controller: EdgeController) -> tuple[Array, ...]:
    return tuple(RNG.normal(size=shape) for shape in controller.shapes)


@pytest.mark.parametrize("train_projection", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_the_gradient_is_autograds(train_projection: bool, constant: bool) -> None:
    controller = EdgeController(
        projection=P,
        features=None if constant else features(),
        train_projection=train_projection,
    )
    z = controller.rows([Example(0, RNG.normal(size=(7, 2))) for _ in range(4)])
    values, g = random_values(controller), RNG.normal(size=(4, 2, 5))
    ours = controller.gradient(values, z, g)
    leaves = [torch.tensor(value, requires_grad=True) for value in values]
    matrix = leaves[1] if train_projection else torch.tensor(P.matrix)
    prompts = (matrix @ (leaves[0] @ torch.tensor(z).T)).T.reshape(4, 2, 5)
    (prompts * torch.tensor(g)).sum().backward()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(controller.prompts(values, z), prompts.detach().numpy(), rtol=1e-12)
    for a, leaf in zip(ours, leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(a, leaf.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_a_gradient_of_bottlenecks_is_that_of_prompts_pulled_back() -> None:
    controller = EdgeController(projection=P, features=features())
    z, g = RNG.normal(size=(4, 9)), RNG.normal(size=(4, 2, 5))
    values = random_values(controller)
    (whole,) = controller.gradient(values, z, g)
    (pulled,) = controller.gradient(values, z, P.pull_back(g))
    np.testing.assert_allclose(whole, pulled, rtol=1e-12)


def test_without_a_reservoir_every_example_has_the_same_prompt() -> None:
    controller = EdgeController(projection=P)
    values = random_values(controller)
    made = controller.prompts(values, controller.rows([Example(0), Example(1), Example(1)]))
    assert (made == made[0]).all()
    np.testing.assert_allclose(made[0].ravel(), P.matrix @ values[0][:, 0])
    assert controller.n_trained == P.bottleneck


def test_rows_are_the_features_of_signals() -> None:
    controller = EdgeController(projection=P, features=features())
    signals = [RNG.normal(size=(n, 2)) for n in (3, 8)]
    z = controller.rows([Example(0, u) for u in signals])
    np.testing.assert_array_equal(z, np.concatenate([features()(u) for u in signals]))
    assert controller.rows([]).shape == (0, 9)


def test_prepared_examples_are_read_once_and_by_their_own_controller_only() -> None:
    controller = EdgeController(projection=P, features=features())
    examples = [Example(1, RNG.normal(size=(5, 2)), (3,)) for _ in range(3)]
    ready = controller.prepared(examples)
    np.testing.assert_array_equal(controller.rows(ready), controller.rows(examples))
    assert [(e.label, tuple(e.context)) for e in ready] == [(1, (3,))] * 3
    # With no signal left, what was prepared must do; beside others it is computed anew.
    without = [replace(e, u=None) for e in ready]
    np.testing.assert_array_equal(controller.rows(without), controller.rows(examples))
    np.testing.assert_array_equal(
        controller.rows([ready[0], examples[1]]), controller.rows(examples[:2])
    )
    other = EdgeController(projection=P, features=features(pool="mean"))
    with pytest.raises(ValueError, match="prepared by other features"):
        other.rows(ready)
    assert EdgeController(projection=P).prepared(examples) == examples


def test_the_seed_gives_the_same_bits_everywhere() -> None:
    matrix = Projection(bottleneck=7, length=3, width=11, seed=5).matrix
    # The signs of the raw words of numpy's Philox, whose bits are the same on every machine.
    raw = np.random.Philox(key=np.array([5, 8], dtype=np.uint64)).random_raw(33 * 7)
    np.testing.assert_array_equal(matrix, np.where(raw >= 2**63, 1.0, -1.0).reshape(33, 7))
    others = [Projection(bottleneck=7, length=3, width=11, seed=s).matrix for s in (5, 6)]
    assert (others[0] == matrix).all()
    assert 0.3 < (others[1] == matrix).mean() < 0.7


def test_prompts_begin_with_given_words_or_such_as_the_seed_picks() -> None:
    given = Projection(bottleneck=2, length=2, width=5, words=(3, np.int64(4)))  # type: ignore[arg-type]
    assert given.first_words(50) == (3, 4)
    drawn = [Projection(bottleneck=2, length=40, width=5, seed=s).first_words(50) for s in (1, 2)]
    assert drawn[0] != drawn[1]
    assert len(set(drawn[0])) > 10
    assert all(0 <= word < 50 for word in drawn[0])


def test_fingerprints_tell_projections_apart() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"seed": 1},
        {"scale": 2.0},
        {"bottleneck": 4},
        {"words": (1, 2)},
        {"words": (2, 1)},
    ]
    made = [
        Projection(**{"bottleneck": 3, "length": 2, "width": 5, **changed})  # type: ignore[arg-type]
        for changed in settings
    ]
    assert len({projection.fingerprint for projection in made}) == len(made)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bottleneck": 0}, "bottleneck is 0"),
        ({"length": 0}, "length is 0"),
        ({"width": -1}, "width is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": np.inf}, "scale is inf"),
        ({"words": (1,)}, "1 words begin a prompt of 2"),
    ],
)
def test_settings_are_checked(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Projection(**{"bottleneck": 3, "length": 2, "width": 5, **wrong})  # type: ignore[arg-type]


def test_signals_are_checked() -> None:
    controller = EdgeController(projection=P, features=features())
    with pytest.raises(ValueError, match="no signal"):
        controller.rows([Example(0)])
    with pytest.raises(ValueError, match="not finite"):
        controller.rows([Example(0, np.full((3, 2), np.nan))])
    with pytest.raises(ValueError, match="columns"):
        controller.rows([Example(0, np.zeros((3, 1)))])
    with pytest.raises(ValueError, match="pass a pool"):
        EdgeController(projection=P, features=features(pool=None))
