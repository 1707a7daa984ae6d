"""The signal behind a prompt: found where it can be, and not behind enough noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.prompts import context_of
from catchment import Array, Reservoir
from catchment.engine import run_locally
from catchment.features import EchoState
from catchment.federation import Plan
from catchment_lab.audit import Drive, correlation
from catchment_research.learn import Mean
from catchment_research.prompt import (
    EdgeController,
    Example,
    LanguageServer,
    PromptNoise,
    PromptTraining,
    Question,
    losses,
)
from tests.prompt.world import MODEL, PROJECTION, WORDS


def features(inputs: int = 1, leak_rate: float = 1.0) -> EchoState:
    recipe = Reservoir(units=50, inputs=inputs, leak_rate=leak_rate, seed=1)
    return EchoState.of(recipe, bias=True, pool="last")


def world(inputs: int, steps: int, k: int, seed: int) -> tuple[EchoState, Array, Array]:
    rng = np.random.default_rng(seed)
    F = features(inputs)
    W_out = rng.normal(size=(k, F.n_features)) / F.n_features**0.5
    return F, W_out, 0.7 * rng.normal(size=(steps, inputs))


@pytest.mark.parametrize(("inputs", "steps"), [(1, 1), (1, 4), (1, 8), (3, 4)])
def test_a_short_context_falls_out_of_its_bottleneck(inputs: int, steps: int) -> None:
    F, W_out, u = world(inputs, steps, 16, seed=steps)
    code = (W_out @ F(u)[0]).astype(np.float32).astype(np.float64)
    found = context_of(code, W_out, Drive(F), steps)
    np.testing.assert_allclose(found, u, atol=1e-3)


def test_of_a_long_context_the_end_is_found() -> None:
    F, W_out, u = world(1, 24, 8, seed=3)
    found = context_of(W_out @ F(u)[0], W_out, Drive(F), 24, input_scale=0.7, guesses=1)
    assert correlation(found[-4:], u[-4:]) > 0.9
    assert abs(correlation(found[:12], u[:12])) < 0.8


def test_noise_hides_the_context() -> None:
    F, W_out, u = world(1, 6, 16, seed=5)
    code = W_out @ F(u)[0]
    errors = []
    for multiplier in (1e-4, 5.0):
        noise = PromptNoise(bound=float(np.linalg.norm(code)), multiplier=multiplier)
        found = context_of(
            noise.guarded(code[None])[0],
            W_out,
            Drive(F),
            6,
            noise=noise.spread,
            input_scale=0.7,
            guesses=1,
        )
        errors.append(float(np.sqrt(np.mean((found - u) ** 2) / np.mean(u**2))))
    assert errors[0] < 0.05
    # Nothing but the prior is left: guessing zero would have an error of 1.
    assert errors[1] > 0.7


def test_the_language_models_server_reads_a_client_of_a_real_run() -> None:
    """Everything the attack needs is what a server keeps: the questions, and the controller."""
    heard: list[bytes] = []

    class Curious:
        """A server that answers as agreed and keeps what it was asked."""

        def __init__(self) -> None:
            self.inner = LanguageServer(MODEL, PROJECTION, WORDS)
            self.words = self.inner.words

        def identity(self) -> str:
            return self.inner.identity()

        def answers(self, messages: Sequence[bytes]) -> list[bytes]:
            heard.extend(messages)
            return self.inner.answers(messages)

    rng = np.random.default_rng(2)
    F = features()
    controller = EdgeController(projection=PROJECTION, features=F)
    start = (rng.normal(size=controller.shapes[0]) / F.n_features**0.5,)
    training = PromptTraining(
        controller=controller, server=Curious(), initial=start, batch_size=1, max_steps=1
    )
    u = 0.7 * rng.normal(size=(5, 1))
    run_locally(Plan(algorithm=training), {"somebody": [Example(1, u)]})
    sent = Question.from_bytes(heard[0], PROJECTION, len(WORDS)).prompts[0]
    told = start[0].astype(np.float32).astype(np.float64)
    found = context_of(sent, told, Drive(F), 5, input_scale=0.7)
    np.testing.assert_allclose(found, u, atol=1e-2)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_change_of_one_example_tells_its_label_to_the_models_server(label: int) -> None:
    """The server knows the answer it gave; only one label makes a client move as it did."""
    F = features()
    controller = EdgeController(projection=PROJECTION, features=F)
    server = LanguageServer(MODEL, PROJECTION, WORDS)
    training = PromptTraining(controller=controller, server=server, local=Mean(learning_rate=0.1))
    u = np.random.default_rng(4).normal(size=(5, 1))
    (W_out,) = run_locally(Plan(algorithm=training), {"somebody": [Example(label, u)]}).state.values
    p0 = MODEL.embed(PROJECTION.first_words(MODEL.vocabulary))[None]
    known = MODEL.slopes(p0, [np.zeros(0, dtype=np.int64)], WORDS)
    moved = W_out[:, 0] / np.linalg.norm(W_out[:, 0])  # the constant's column: a step against dL/db
    fits = []
    for guess in range(3):
        _, slope = losses(known.values, np.array([guess]))
        step = -PROJECTION.pull_back(np.einsum("nl,nlmd->nmd", slope, known.gradients))[0]
        fits.append(float(moved @ step / np.linalg.norm(step)))
    assert int(np.argmax(fits)) == label
    assert fits[label] > 0.999
