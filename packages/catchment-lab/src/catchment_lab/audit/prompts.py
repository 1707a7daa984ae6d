"""The signal behind one prompt: what the server of a language model can tell of a context.

A prompt P b gives b away, and b = W_out z(u) is k equations for the T I numbers of a context u. The
controller W_out is known to every client, and to the server of the federation. With no more numbers
than equations the context falls out; with more, its end does, for a reservoir forgets. The most
probable context is sought: residuals over the noise that is on b, and a prior for inputs of a known
size. Where there is no noise, what float32 leaves is narrowed down step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from catchment import Array
from catchment.privacy import PromptNoise
from catchment.privacy.dp import gaussian_multiplier
from catchment_lab.audit.differentiable_reservoir import Drive
from catchment_lab.audit.least_squares import minimise
from catchment_lab.audit.outcomes import Outcome, correlation
from catchment_lab.audit.simulated_views import World, generated

MOST_UNKNOWNS = 60
EXACT = (1e-2, 1e-4, 1e-6)  # noise assumed in turn where there is none, of the bottleneck's size


def context_of(
    code: Array,
    W_out: Array,
    drive: Drive,
    steps: int,
    *,
    noise: float = 0.0,
    input_scale: float = 1.0,
    guesses: int = 3,
) -> Array:
    """Return the most probable context (T, I) of a bottleneck (k,).

    Parameters
    ----------
    code
        (k,) as it was sent.
    W_out
        (k, F) the controller.
    drive
        Of features that are pooled.
    steps
        T, which the attacker knows.
    noise
        Standard deviation of the noise on the bottleneck; the attacker knows it, too.
    input_scale
        Size of the inputs.
    guesses
        Starting points; the best end is returned.
    """
    I = drive.features.reservoir.n_inputs
    size = max(float(np.sqrt(np.mean(code**2))), 1e-300)
    stages = (noise,) if noise > 0 else tuple(share * size for share in EXACT)
    rng = np.random.default_rng(0)
    best, least = np.zeros(steps * I), np.inf
    for guess in range(guesses):
        at = input_scale * (0.1 if guess == 0 else 1.0) * rng.normal(size=steps * I)
        cost = np.inf
        for spread in stages:
            at, cost = _most_probable(code, W_out, drive, at.reshape(steps, I), spread, input_scale)
        if cost < least:
            best, least = at, cost
    return best.reshape(steps, I)


def _most_probable(
    code: Array, W_out: Array, drive: Drive, start: Array, spread: float, input_scale: float
) -> tuple[Array, float]:
    shape, prior = start.shape, np.eye(start.size) / input_scale

    def residual(flat: Array) -> tuple[Array, Array]:
        row, by_input = drive.window(flat.reshape(shape))
        misfit = (W_out @ row[1:] - code) / spread
        return np.append(misfit, flat / input_scale), np.vstack(
            [W_out @ by_input[1:] / spread, prior]
        )

    return minimise(residual, start.ravel(), steps=100)


@dataclass(frozen=True, eq=False)
class Prompted:
    """A client that asks a language model's server about one signal, with a random controller."""

    world: World

    @cached_property
    def drive(self) -> Drive:
        features = self.world.drive.features
        return Drive(features if features.pool else replace(features, pool="last"))

    @cached_property
    def controller(self) -> Array:
        """W_out (k, F)."""
        rng = np.random.default_rng([self.world.setting.seed, 0xB0])
        F = self.drive.features.n_features
        drawn: Array = rng.normal(size=(self.world.setting.bottleneck, F))
        return drawn / float(np.sqrt(F))

    def code(self, u: Array) -> Array:
        """Return the bottleneck (k,) of a signal, as it travels: in float32."""
        b = self.controller @ self.drive.features(u)[0]
        return np.asarray(b.astype(np.float32), dtype=np.float64)

    def steps(self, unknowns: int) -> int:
        """Return the steps of a context with this many numbers, as far as signals are as long."""
        setting = self.world.setting
        least = setting.features.washout + self.drive.features.segments
        return min(max(unknowns // setting.channels, least), setting.steps)

    def attacked(self, steps: int, noise: PromptNoise | None = None) -> tuple[Array, Array]:
        """Return what the attack makes of the first client's context, and the context."""
        u = self.world.clients[0][0].u[:steps]
        code, spread = self.code(u), 0.0
        if noise is not None:
            code, spread = noise.guarded(code[None])[0], noise.spread
        size = float(np.sqrt(np.mean(u**2)))
        found = context_of(
            code, self.controller, self.drive, steps, noise=spread, input_scale=size, guesses=1
        )
        return found, u


def prompt_in_the_clear(world: World) -> Outcome:
    """A context with as many numbers as the bottleneck, and one with several times as many."""
    prompted = Prompted(world)
    short, long = prompted.steps(world.setting.bottleneck), prompted.steps(MOST_UNKNOWNS)
    found, u = prompted.attacked(short)
    error = float(np.abs(found - u).max() / np.sqrt(np.mean(u**2)))
    text = f"a context of {short} steps, to {error:.0e} of its size"
    score, word = float(error < 0.05), "exact" if error < 0.05 else "no"
    if long > short:
        found, u = prompted.attacked(long)
        fit = correlation(found[-short:], u[-short:])
        text += f"; of {long} steps the last {short}, with correlation {fit:.2f}"
        if score == 0:
            score, word = max(fit, 0.0) ** 2, f"corr {fit:.2f}"
    return Outcome(score, word, text)


def prompt_beside_a_sum(world: World) -> Outcome:
    found = prompt_in_the_clear(world)
    return replace(found, text=f"{found.text}: no sum covers it, the model must read each prompt")


def prompt_with_noise(world: World) -> Outcome:
    """The same context behind a bottleneck that was clipped and given noise of its own."""
    prompted = Prompted(world)
    steps = prompted.steps(world.setting.bottleneck)
    others = [generated(world.setting, 10**6 + k)[0].u[:steps] for k in range(20)]
    bound = float(np.median([np.linalg.norm(prompted.code(u)) for u in others]))
    multiplier = gaussian_multiplier(world.noise.epsilon, world.noise.delta)
    noise = PromptNoise(bound=bound, multiplier=multiplier)
    fits = [correlation(*prompted.attacked(steps, noise)) for _ in range(5)]
    fit = float(np.mean(fits))
    text = (
        f"correlation {fit:.2f} with a context of {steps} steps, if each prompt is clipped and has "
        f"noise of epsilon {world.noise.epsilon:g} at delta {world.noise.delta:g}; 20 questions "
        "make that "
        f"{noise.epsilon(20, world.noise.delta):.3g}"
    )
    return Outcome(max(fit, 0.0) ** 2, f"corr {fit:.2f}", text)
