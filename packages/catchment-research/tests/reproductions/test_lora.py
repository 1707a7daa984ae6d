"""Federated adapters against weights merged by hand and gradients from elsewhere."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from catchment.engine import run_locally  # noqa: E402
from catchment.errors import UploadError  # noqa: E402
from catchment.federation import Plan, RoundContext  # noqa: E402
from catchment_research.learn import Adam, TrainedSum  # noqa: E402
from catchment_research.partial import LocalSteps  # noqa: E402
from catchment_research.prompt import Example, TransformersLM  # noqa: E402
from reproductions.lora import Adapted, AdapterTraining, Lora, SoftPrompt  # noqa: E402
from tests.prompt.tiny import tiny_model  # noqa: E402

WORDS = (13, 14)
RANK = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TransformersLM:
    return TransformersLM.load(tiny_model(tmp_path_factory.mktemp("models") / "tiny"), device="cpu")


def examples(n: int, seed: int) -> list[Example]:
    """Return reviews of unequal length in which one word tells the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    return [
        Example(
            int(y), context=[8, 1, *rng.integers(10, 12, size=rng.integers(1, 5)), 15 + y, 9, 1]
        )
        for y in labels
    ]


def lora(model: TransformersLM, **settings: object) -> AdapterTraining:
    steps = LocalSteps(optimizer="adam", learning_rate=0.02, batch_size=8)
    given = {"language": model, "words": WORDS, "adapter": Lora(rank=RANK, alpha=6), "steps": steps}
    return AdapterTraining(**{**given, **settings})  # type: ignore[arg-type]


def test_adapters_are_the_merged_weights(model: TransformersLM) -> None:
    training = lora(model)
    rng = np.random.default_rng(1)
    start = training.start()
    values = tuple(0.3 * rng.normal(size=value.shape) for value in start.values)
    merged = deepcopy(model.model)
    names = [
        f"model.layers.{layer}.self_attn.{part}.weight"
        for layer in range(2)
        for part in ("q_proj", "v_proj")
    ]
    weights = merged.state_dict()
    for name, A, B in zip(names, values[0::2], values[1::2], strict=True):
        weights[name] += torch.from_numpy(B @ A * 6 / RANK).float()
    merged.load_state_dict(weights)
    held = examples(9, 2)
    contexts = [np.asarray(e.context) for e in held]
    scores = TransformersLM(merged).scores(np.zeros((9, 0, model.width)), contexts, WORDS)
    guesses = training.result(Adapted(values)).guesses(held)
    np.testing.assert_array_equal(guesses, (scores[:, 0] > 0).astype(int))
    assert len(set(guesses)) == 2 or abs(scores).min() > 0


def test_numbers_trained_are_counted_by_rank(model: TransformersLM) -> None:
    # Queries are 16 x 16, values 8 x 16; each adapter has rank (inputs + outputs) numbers.
    assert lora(model).n_trained == 2 * RANK * ((16 + 16) + (16 + 8))
    prompt = lora(model, adapter=SoftPrompt(words=(3, 4, 5)))
    assert prompt.n_trained == 3 * 16


def test_at_the_start_nothing_is_changed(model: TransformersLM) -> None:
    training, held = lora(model), examples(12, 3)
    contexts = [np.asarray(e.context) for e in held]
    scores = model.scores(np.zeros((12, 0, model.width)), contexts, WORDS)
    np.testing.assert_array_equal(
        training.result(training.start()).guesses(held), (scores[:, 0] > 0).astype(int)
    )
    again = lora(model).start()
    for ours, theirs in zip(training.start().values, again.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_step_of_a_soft_prompt_is_the_mean_gradient(model: TransformersLM) -> None:
    """The split exchange works out the same gradient in another way."""
    words = (3, 4, 5)
    steps = LocalSteps(learning_rate=1.0, batch_size=16, max_steps=1)
    training = lora(model, adapter=SoftPrompt(words=words), steps=steps)
    held = examples(10, 4)
    moved = training.client_update(
        training.broadcast(training.start(), RoundContext(0, ("a",))),
        lambda: held,
        RoundContext(0, ("a",)),
    )
    prompts = np.repeat(model.embed(words)[None], 10, axis=0)
    labels = np.array([e.label for e in held])
    slopes = model.slopes(prompts, [np.asarray(e.context) for e in held], WORDS, labels)
    np.testing.assert_allclose(
        moved.mean()[0], -slopes.gradients[:, 0].mean(axis=0), rtol=1e-3, atol=1e-6
    )


@pytest.mark.parametrize("adapter", [Lora(rank=RANK, alpha=6), SoftPrompt(words=(3, 4, 5))])
def test_clients_learn_together_and_leave_the_model_alone(
    model: TransformersLM, adapter: Lora | SoftPrompt
) -> None:
    before = model.identity()
    training = lora(model, adapter=adapter)
    sets = [examples(40, 5), examples(24, 6), examples(60, 7)]
    if isinstance(adapter, SoftPrompt):
        # A prompt in front of a random model can say one word louder, and not much else.
        guess = training.result(training.start()).guesses(sets[2])
        rarer = int(guess.mean() < 0.5)
        sets = [[replace(e, label=rarer) for e in held] for held in sets]
    clients, test = {"a": sets[0], "b": sets[1]}, sets[2]
    plan = Plan(algorithm=training, rounds=8)
    result = run_locally(plan, clients)
    first, last = (training.result(s).accuracy(test) for s in (training.start(), result.state))
    assert last > (0.9 if isinstance(adapter, Lora) else first)
    assert first < 0.9
    assert replace(model).identity() == before
    kept = training.load_state(training.save_state(result.state))
    for ours, theirs in zip(kept.values, result.state.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    halved = 4 * training.n_trained
    assert halved < result.records[0].bytes_up / 2 < halved + 4000


def test_one_step_per_round_is_pooled_descent(model: TransformersLM) -> None:
    """Weighted by examples, the mean of clients' gradients is the gradient of their union."""
    steps = LocalSteps(learning_rate=1.0, batch_size=64, max_steps=1)
    training = lora(model, adapter=SoftPrompt(words=(3, 4)), steps=steps, optimizer=Adam())
    parts = {"a": examples(12, 8), "b": examples(30, 9)}
    apart = run_locally(Plan(algorithm=training), parts).state.values[0]
    pooled = run_locally(Plan(algorithm=training), {"all": parts["a"] + parts["b"]}).state.values[0]
    np.testing.assert_allclose(apart, pooled, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_is_refused(model: TransformersLM) -> None:
    with pytest.raises(ValueError, match="rank 0"):
        Lora(rank=0)
    with pytest.raises(ValueError, match="trains nothing"):
        SoftPrompt(words=())
    training = lora(model)
    with pytest.raises(ValueError, match="no examples"):
        training.client_update(
            training.broadcast(training.start(), RoundContext(0, ("a",))),
            list,
            RoundContext(0, ("a",)),
        )
    wrong = TrainedSum.of(tuple(np.zeros(2) for _ in training.start().values), 1.0)
    with pytest.raises(UploadError, match="shape"):
        training.read_update(wrong.parts(), RoundContext(0, ("a",)))


def test_models_fit_the_folder_they_came_from(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    loaded = TransformersLM.load(folder, device="cpu")
    assert loaded.label_words([" good", " bad"], after=":") == WORDS
