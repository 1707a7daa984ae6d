"""Clipping and noise on bottlenecks: its gradient, its size and its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catchment.privacy.dp import gaussian_delta
from catchment_research.prompt import PromptNoise

RNG = np.random.default_rng(0)


def test_the_gradient_through_clipping_is_autograds() -> None:
    codes, g = RNG.normal(size=(8, 5)), RNG.normal(size=(8, 5))
    guard = PromptNoise(bound=2.0)
    leaf = torch.tensor(codes, requires_grad=True)
    length = leaf.norm(dim=1, keepdim=True)
    short = leaf * torch.clamp(2.0 / length, max=1.0)
    (short * torch.tensor(g)).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    assert 0 < (length < 2).sum() < 8
    np.testing.assert_allclose(guard.guarded(codes), short.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(guard.pull_back(codes, g), leaf.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert (guard.pull_back(0.01 * codes, g) == g).all()


def test_noise_has_the_size_that_the_bound_needs() -> None:
    guard = PromptNoise(bound=0.5, multiplier=3.0)
    codes = np.zeros((400, 20))
    drawn = guard.guarded(codes)
    assert drawn.std() == pytest.approx(3.0, rel=0.05)
    assert abs(drawn.mean()) < 0.2
    assert (guard.guarded(codes) != drawn).any()


def test_epsilon_is_that_of_composed_gaussian_noise() -> None:
    guard = PromptNoise(bound=0.5, multiplier=5.0)
    epsilon = guard.epsilon(9, 1e-5)
    # Nine questions are one with a third of the noise.
    assert gaussian_delta(5.0 / 3, epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert PromptNoise(bound=1.0).epsilon(1, 1e-5) == math.inf


def test_a_bottleneck_of_zeros_stays_one() -> None:
    guard = PromptNoise(bound=1.0)
    assert (guard.guarded(np.zeros((2, 3))) == 0).all()
    assert (guard.pull_back(np.zeros((2, 3)), np.ones((2, 3))) == 1).all()


@pytest.mark.parametrize("wrong", [{"bound": 0.0}, {"bound": math.nan}, {"multiplier": -1.0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
        PromptNoise(**{"bound": 1.0, **wrong})


def test_a_long_prompt_is_not_pulled_along_itself() -> None:
    noise, codes = PromptNoise(bound=1.0), np.array([[3.0, 4.0]])
    np.testing.assert_allclose(noise.pull_back(codes, codes), 0.0, atol=1e-12)
    across = np.array([[-4.0, 3.0]])
    np.testing.assert_allclose(noise.pull_back(codes, across), across / 5)
