"""The stand-in model: exact gradients, and answers that depend on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from scipy.special import softmax as chances

from catchment import Array
from catchment_research.prompt import SurrogateLM, losses, softmax

WORDS = (5, 9, 23, 1)
MODEL = SurrogateLM(width=7, vocabulary=30, seed=1)
RNG = np.random.default_rng(0)
PROMPTS = RNG.normal(size=(3, 2, 7))
CONTEXTS = [RNG.integers(0, 30, size=n) for n in (4, 0, 9)]


def test_gradients_are_numeric_ones() -> None:
    found = MODEL.slopes(PROMPTS, CONTEXTS, WORDS)
    np.testing.assert_array_equal(found.values, MODEL.scores(PROMPTS, CONTEXTS, WORDS))
    for k, context in enumerate(CONTEXTS):
        for row in range(3):

            def score(flat: Array, row: int = row, context: Array = context) -> float:  # type: ignore[assignment]
                return float(MODEL.scores(flat.reshape(1, 2, 7), [context], WORDS)[0, row])  # type: ignore[list-item]

            numeric = approx_fprime(PROMPTS[k].ravel(), score, 1e-7)
            np.testing.assert_allclose(found.gradients[k, row].ravel(), numeric, atol=2e-7)


def test_told_labels_give_the_gradient_that_clients_work_out() -> None:
    labels = np.array([3, 0, 1])
    kept, told = (MODEL.slopes(PROMPTS, CONTEXTS, WORDS, y) for y in (None, labels))
    loss, slope = losses(kept.values, labels)
    np.testing.assert_allclose(told.values[:, 0], loss, rtol=1e-12)
    worked_out = np.einsum("nl,nlmd->nmd", slope, kept.gradients)
    np.testing.assert_allclose(told.gradients[:, 0], worked_out, atol=1e-14)


def test_an_answer_does_not_depend_on_what_else_is_asked() -> None:
    together = MODEL.slopes(PROMPTS, CONTEXTS, WORDS)
    for k in range(3):
        alone = MODEL.slopes(PROMPTS[k : k + 1], CONTEXTS[k : k + 1], WORDS)
        assert (alone.values[0] == together.values[k]).all()
        assert (alone.gradients[0] == together.gradients[k]).all()


def test_losses_are_those_of_scipy() -> None:
    scores, labels = 5 * RNG.normal(size=(6, 3)), np.array([0, 1, 2, 3, 0, 1])
    logits = np.column_stack([np.zeros(6), scores])
    np.testing.assert_allclose(softmax(scores), chances(logits, axis=1), rtol=1e-12)
    loss, slope = losses(scores, labels)
    np.testing.assert_allclose(loss, -log_softmax(logits, axis=1)[np.arange(6), labels], rtol=1e-12)

    def loss_of(row: Array) -> float:
        return float(losses(row[None], labels[2:3])[0][0])

    numeric = approx_fprime(scores[2], loss_of, 1e-7)
    np.testing.assert_allclose(slope[2], numeric, atol=1e-6)


def test_seeds_make_models() -> None:
    other = SurrogateLM(width=7, vocabulary=30, seed=2)
    assert other.identity() != MODEL.identity()
    assert (other.embeddings != MODEL.embeddings).any()
    assert SurrogateLM(width=7, vocabulary=30, seed=1).embeddings.tobytes() == (
        MODEL.embeddings.tobytes()
    )
    assert MODEL.spread == pytest.approx(3**-0.5, rel=0.1)
    with pytest.raises(ValueError, match="width is 0"):
        SurrogateLM(width=0)
