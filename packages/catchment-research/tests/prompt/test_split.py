"""Split training: against autograd on the pooled data, under protections, and byte by byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from catchment import Array
from catchment.engine import run_locally
from catchment.errors import FederationError, IntegrityError
from catchment.federation import Plan, RoundContext
from catchment.privacy import Clip, GaussianNoise, SecureAggregation, generate_keys
from catchment_research.learn import Adam, Mean
from catchment_research.prompt import (
    Answer,
    EdgeController,
    Example,
    LanguageServer,
    PromptNoise,
    Question,
)
from reproductions.prompt_runs import Float32
from tests.prompt.world import MODEL, PROJECTION, WORDS, clients, features, training, waves

RATE = 0.3


def pooled_step(
    examples: list[Example], controller: EdgeController
) -> tuple[tuple[Array, ...], float]:
    """Return one step on all examples and the loss before it, the whole chain in torch."""
    leaves = [torch.tensor(v, requires_grad=True) for v in controller.start()]
    matrix = leaves[1] if controller.train_projection else torch.tensor(PROJECTION.matrix)
    E, q, M = (torch.tensor(a) for a in (MODEL.embeddings, MODEL._question, MODEL._mixing))
    base = E[list(PROJECTION.first_words(40))]
    total = torch.zeros((), dtype=torch.float64)
    for z, example in zip(controller.rows(examples), examples, strict=True):
        prompt = base + (matrix @ (leaves[0] @ torch.tensor(z))).reshape(3, 12)
        x = torch.cat([prompt, E[torch.tensor(np.asarray(example.context))]])
        a = torch.softmax(x @ q / 12**0.5, dim=0)
        logits = E[list(WORDS)] @ torch.tanh(M @ (a @ x))
        total = total - torch.log_softmax(logits, dim=0)[example.label]
    (total / len(examples)).backward()  # type: ignore[no-untyped-call]
    moved = tuple(
        (leaf - RATE * leaf.grad).detach().numpy() for leaf in leaves if leaf.grad is not None
    )
    return moved, total.item() / len(examples)


@pytest.mark.parametrize("tell_labels", [False, True])
@pytest.mark.parametrize("kind", ["reservoir", "constant", "projection"])
def test_one_full_step_of_all_clients_is_one_step_on_pooled_data(
    tell_labels: bool, kind: str
) -> None:
    controller = EdgeController(
        projection=PROJECTION,
        features=None if kind == "constant" else features(),
        train_projection=kind == "projection",
    )
    algorithm = training(
        controller=controller,
        local=Mean(learning_rate=RATE),
        batch_size=100,
        tell_labels=tell_labels,
    )
    result = run_locally(Plan(algorithm=algorithm), clients())
    state, every = result.state, [e for held in clients().values() for e in held]
    truth, loss = pooled_step(every, controller)
    assert len(truth) == len(state.values) == 1 + (kind == "projection")
    for ours, theirs in zip(state.values, truth, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    figures = result.records[0].figures
    assert figures["training loss"] == pytest.approx(loss, rel=1e-5)
    if tell_labels:  # the client does not learn what the model would have said
        assert "training accuracy" not in figures
    else:
        first = algorithm.result(algorithm.start()).accuracy(every)
        assert figures["training accuracy"] == pytest.approx(first)


def test_training_learns_to_name_signals() -> None:
    algorithm = training(epochs=4, local=Adam(learning_rate=0.03, tau=1e-8))
    result = run_locally(Plan(algorithm=algorithm, rounds=8), clients(n=60))
    test = waves(150, seed=99)
    assert algorithm.result(algorithm.start()).accuracy(test) < 0.5
    assert result.result.accuracy(test) > 0.9
    losses = [record.figures["training loss"] for record in result.records]
    assert losses[-1] < 0.5 * losses[0]
    chances = result.result.chances(test)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    # A prompt that is everyone's cannot know the signal.
    blind = replace(algorithm, controller=EdgeController(projection=PROJECTION))
    assert run_locally(Plan(algorithm=blind, rounds=8), clients(n=60)).result.accuracy(test) < 0.6


def test_clients_served_together_or_alone_come_to_the_same_bits() -> None:
    together, alone = training(at_once=32, epochs=2), training(at_once=1, epochs=2)
    one, other = (
        run_locally(Plan(algorithm=a, rounds=2), clients()).state for a in (together, alone)
    )
    assert one.values[0].tobytes() == other.values[0].tobytes()


def test_steps_and_traffic_are_counted() -> None:
    algorithm = training(epochs=2, batch_size=8)
    run_locally(Plan(algorithm=algorithm, rounds=3), {"a": waves(20, 1), "b": waves(9, 2)})
    seen = algorithm.server.traffic["training"]  # type: ignore[attr-defined]
    assert seen.messages == 3 * 2 * (3 + 2)
    assert seen.examples == 3 * 2 * 29
    short = training(epochs=2, batch_size=8, max_steps=2)
    run_locally(Plan(algorithm=short), {"a": waves(20, 1)})
    assert short.server.traffic["training"].examples == 16  # type: ignore[attr-defined]


def test_a_constant_prompt_and_told_labels_cost_a_few_numbers_per_step() -> None:
    constant = EdgeController(projection=PROJECTION)
    kept, told = (training(controller=constant, tell_labels=told) for told in (False, True))
    held = [replace(e, context=(1, 2)) for e in waves(16, 1)]
    for algorithm in (kept, told):
        run_locally(Plan(algorithm=algorithm), {"a": held})
    a, b = (x.server.traffic["training"] for x in (kept, told))  # type: ignore[attr-defined]
    assert a.bytes_down - b.bytes_down == pytest.approx(4 * (16 * 2 * 6 - 6 + 16), abs=30)
    assert a.bytes_up < 400


def test_float32_uploads_and_secure_aggregation_give_the_same_controller() -> None:
    algorithm = training(epochs=2)
    plain = run_locally(Plan(algorithm=algorithm, rounds=2), clients())
    half = run_locally(Plan(algorithm=algorithm, rounds=2, protections=(Float32(),)), clients())
    identities = generate_keys(clients())
    memories = identities.memories
    secure = SecureAggregation(identities=identities, min_clients=3)
    hidden = run_locally(
        Plan(algorithm=algorithm, rounds=2, protections=(secure,)), clients(), memories=memories
    )
    np.testing.assert_allclose(half.state.values[0], plain.state.values[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(hidden.state.values[0], plain.state.values[0], rtol=1e-9, atol=1e-9)
    assert half.records[0].bytes_up < 0.7 * plain.records[0].bytes_up


def test_clipping_and_noise_protect_the_controller_too() -> None:
    noise = GaussianNoise(
        epsilon=8.0,
        delta=1e-5,
        clip=Clip(bound=0.5),
        min_clients=3,
        small_cohort=True,
        releases=2,
    )
    algorithm = training()
    noisy = run_locally(Plan(algorithm=algorithm, rounds=2, protections=(noise,)), clients())
    state = noisy.state
    assert np.isfinite(state.values[0]).all()
    assert set(noisy.records[0].figures) == {"weight norm"}
    plain = run_locally(Plan(algorithm=algorithm, rounds=2), clients()).state
    assert (state.values[0] != plain.values[0]).any()


def test_a_guard_bounds_and_blurs_every_bottleneck_that_leaves() -> None:
    seen: list[Array] = []

    class Listening:
        """A link that reads along."""

        def __init__(self) -> None:
            self.inner = LanguageServer(MODEL, PROJECTION, WORDS)
            self.words = self.inner.words

        def identity(self) -> str:
            return self.inner.identity()

        def answers(self, messages: list[bytes]) -> list[bytes]:
            for message in messages:
                seen.append(Question.from_bytes(message, PROJECTION, len(WORDS)).prompts)
            return self.inner.answers(messages)

    for multiplier in (0.0, 0.5):
        seen.clear()
        guard = PromptNoise(bound=0.05, multiplier=multiplier)
        algorithm = training(server=Listening(), guard=guard, epochs=6)
        run_locally(Plan(algorithm=algorithm, rounds=2), clients())
        lengths = np.linalg.norm(np.concatenate(seen), axis=1)
        if multiplier == 0:
            assert lengths.max() <= 0.05 * (1 + 1e-6)
            assert lengths.max() > 0.049
        else:
            # Six numbers with noise of 0.05 each.
            assert 0.09 < np.sqrt(np.mean(lengths**2)) < 0.16


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"at_once": 0}, "at_once is 0"),
    ],
)
def test_settings_are_checked(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        training(**wrong)


def test_values_and_guards_must_fit_the_controller() -> None:
    with pytest.raises(IntegrityError, match="came, the controller has"):
        training(initial=(np.zeros((2, 2)),))
    with pytest.raises(IntegrityError, match="not finite"):
        training(initial=(np.full((6, 17), np.nan),))
    trained = EdgeController(projection=PROJECTION, features=features(), train_projection=True)
    with pytest.raises(ValueError, match="a guard bounds bottlenecks"):
        training(controller=trained, guard=PromptNoise(bound=1.0))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([], "there are no examples"),
        ([Example(3, np.zeros((4, 1)))], "labels go from 3 to 3 for 3 label words"),
        ([Example(-1, np.zeros((4, 1)))], "labels go from -1"),
        ([Example(0, np.zeros((4, 1)), (99,))], "the model knows 0 to 39"),
        ([Example(0, np.zeros((4, 2)))], "columns"),
    ],
)
def test_a_client_with_unusable_examples_says_so(held: list[Example], said: str) -> None:
    with pytest.raises(FederationError, match=said):
        run_locally(Plan(algorithm=training()), {"a": held})


def test_answers_to_another_question_are_refused() -> None:
    class Forgetful:
        """A server that mixes its answers up."""

        words = WORDS

        def identity(self) -> str:
            return "forgetful"

        def answers(self, messages: list[bytes]) -> list[bytes]:
            return [Answer(np.zeros((1, 2)), np.zeros((1, 2, 6))).to_bytes() for _ in messages]

    with pytest.raises(FederationError, match="answered another question"):
        run_locally(Plan(algorithm=training(server=Forgetful())), {"a": waves(5, 1)})


def test_values_of_another_controller_are_refused() -> None:
    algorithm, context = training(), RoundContext(0, ("a",), client="a")
    other = training(controller=EdgeController(projection=PROJECTION))
    with pytest.raises(IntegrityError):
        algorithm.client_update(
            other.broadcast(other.start(), context), lambda: waves(5, 1), context
        )


def test_a_guarded_training_sends_no_loss() -> None:
    guard = PromptNoise(bound=1.0)
    result = run_locally(Plan(algorithm=training(guard=guard)), clients())
    assert set(result.records[0].figures) == {"weight norm"}
