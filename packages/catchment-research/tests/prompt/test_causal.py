"""Language models of transformers: padding, positions and gradients, against the model itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from catchment import Array, Integers  # noqa: E402
from catchment_research.prompt import TransformersLM, losses  # noqa: E402
from reproductions.places import find_model  # noqa: E402

WORDS = (7, 11, 30)
RNG = np.random.default_rng(3)
CONTEXTS = [RNG.integers(0, 40, size=n) for n in (5, 1, 9, 3, 9, 0)]


@cache
def llama() -> TransformersLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return TransformersLM(transformers.LlamaForCausalLM(config), batch_size=4)


@cache
def gpt2() -> TransformersLM:
    """A model with learned positions, which shows when they are counted wrongly."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.3
    )
    return TransformersLM(transformers.GPT2LMHeadModel(config), batch_size=4)


@cache
def stories() -> TransformersLM:
    folder = find_model("stories260k")
    if folder is None:
        pytest.skip("the model stories260k is not on this machine")
    return TransformersLM.load(folder, device="cpu")


MODELS = pytest.mark.parametrize("model", [llama, gpt2, stories], ids=lambda make: make.__name__)


def own_scores(lm: TransformersLM, tokens: Integers) -> Array:
    """Return what the model itself says of one unpadded text."""
    with torch.no_grad():
        logits = lm.model(torch.tensor(tokens)[None]).logits[0, -1, list(WORDS)].double().numpy()
    return np.asarray(logits[1:] - logits[0])


@MODELS
def test_prompts_made_of_words_score_as_the_words_do(model: Any) -> None:
    lm = model()
    said = [RNG.integers(0, 40, size=3) for _ in CONTEXTS]
    prompts = np.stack([lm.embed(tokens) for tokens in said])
    found = lm.scores(prompts, CONTEXTS, WORDS)
    truth = [own_scores(lm, np.concatenate(pair)) for pair in zip(said, CONTEXTS, strict=True)]
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)


@MODELS
def test_without_a_prompt_the_context_stands_alone(model: Any) -> None:
    lm = model()
    contexts = [context for context in CONTEXTS if len(context)]
    found = lm.scores(np.zeros((len(contexts), 0, lm.width)), contexts, WORDS)
    truth = [own_scores(lm, context) for context in contexts]
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)


@MODELS
def test_gradients_are_those_of_the_model_row_by_row(model: Any) -> None:
    lm = model()
    prompts = lm.spread * RNG.normal(size=(len(CONTEXTS), 2, lm.width))
    found = lm.slopes(prompts, CONTEXTS, WORDS)
    table = lm.model.get_input_embeddings().weight
    for k, context in enumerate(CONTEXTS):
        leaf = torch.tensor(prompts[k], dtype=torch.float32, requires_grad=True)
        x = torch.cat([leaf, table[torch.tensor(context, dtype=torch.long)]])[None]
        logits = lm.model(inputs_embeds=x).logits[0, -1]
        for row, word in enumerate(WORDS[1:]):
            score = logits[word] - logits[WORDS[0]]
            (slope,) = torch.autograd.grad(score, leaf, retain_graph=True)
            assert found.values[k, row] == pytest.approx(score.item(), rel=1e-4, abs=1e-5)
            size = float(slope.abs().max())
            np.testing.assert_allclose(
                found.gradients[k, row], slope.numpy(), rtol=1e-3, atol=1e-4 * size
            )


def test_gradients_are_numeric_ones() -> None:
    # In double precision, which GPT-2 keeps to the end and Llama's normalization does not.
    torch.manual_seed(1)
    lm = TransformersLM(transformers.GPT2LMHeadModel(gpt2().model.config).double(), batch_size=8)
    prompts, contexts = RNG.normal(size=(2, 2, 16)), [CONTEXTS[0], CONTEXTS[3]]
    found = lm.slopes(prompts, contexts, WORDS).gradients
    for place in [(0, 0, 3), (0, 1, 15), (1, 0, 0), (1, 1, 7)]:
        moved = []
        for step in (1e-5, -1e-5):
            at = prompts.copy()
            at[place] += step
            moved.append(lm.scores(at, contexts, WORDS)[place[0]])
        numeric = (moved[0] - moved[1]) / 2e-5
        np.testing.assert_allclose(found[place[0], :, place[1], place[2]], numeric, rtol=1e-5)


@MODELS
def test_told_labels_give_the_gradient_that_clients_work_out(model: Any) -> None:
    lm = model()
    prompts = lm.spread * RNG.normal(size=(len(CONTEXTS), 2, lm.width))
    labels = np.array([0, 1, 2, 0, 1, 2])
    kept = lm.slopes(prompts, CONTEXTS, WORDS)
    told = lm.slopes(prompts, CONTEXTS, WORDS, labels)
    loss, slope = losses(kept.values, labels)
    np.testing.assert_allclose(told.values[:, 0], loss, rtol=1e-4, atol=1e-5)
    worked_out = np.einsum("nl,nlmd->nmd", slope, kept.gradients)
    np.testing.assert_allclose(told.gradients[:, 0], worked_out, rtol=1e-3, atol=1e-4)


def test_the_size_of_batches_changes_nothing() -> None:
    lm, prompts = llama(), RNG.normal(size=(6, 2, 16))
    one = TransformersLM(lm.model, batch_size=1).slopes(prompts, CONTEXTS, WORDS)
    all_ = TransformersLM(lm.model, batch_size=100).slopes(prompts, CONTEXTS, WORDS)
    np.testing.assert_allclose(one.values, all_.values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.gradients, all_.gradients, rtol=1e-3, atol=1e-5)


def test_weights_are_frozen_and_known_by_their_bits() -> None:
    lm = llama()
    before = lm.identity()
    lm.slopes(np.zeros((1, 2, 16)), [CONTEXTS[0]], WORDS)
    assert not any(p.requires_grad or p.grad is not None for p in lm.model.parameters())
    assert TransformersLM(lm.model).identity() == before != gpt2().identity()


def test_words_and_texts_become_tokens() -> None:
    lm = stories()
    text = "Once upon a time"
    assert lm.tokenizer.decode(lm.tokens(text)).strip() == text
    found = lm.label_words((" he", " she"), after="then")
    assert [lm.tokenizer.decode([token]).strip() for token in found] == ["he", "she"]
    with pytest.raises(ValueError, match="choose words that differ"):
        lm.label_words((" the", " the"))
    with pytest.raises(ValueError, match="add a space"):
        lm.label_words(("", " the"))
    with pytest.raises(ValueError, match="without a tokenizer"):
        llama().tokens("a")


@pytest.mark.parametrize(
    ("prompts", "contexts", "words", "said"),
    [
        (np.zeros((1, 2, 5)), [np.array([1])], WORDS, r"pass \(1, vectors, 16\)"),
        (np.zeros((2, 2, 16)), [np.array([1])], WORDS, "for 1 contexts"),
        (np.zeros((0, 2, 16)), [], WORDS, "nothing to ask"),
        (np.zeros((1, 0, 16)), [np.array([], dtype=np.int64)], WORDS, "neither a prompt"),
        (np.zeros((1, 2, 16)), [np.array([40])], WORDS, "the model knows 0 to 39"),
        (np.zeros((1, 2, 16)), [np.array([-1])], WORDS, "the model knows 0 to 39"),
        (np.zeros((1, 2, 16)), [np.array([1])], (3, 3), "2 or more different"),
        (np.zeros((1, 2, 16)), [np.array([1])], (3,), "2 or more different"),
    ],
)
def test_questions_are_checked(
    prompts: Array, contexts: list[Integers], words: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        llama().scores(prompts, contexts, words)
