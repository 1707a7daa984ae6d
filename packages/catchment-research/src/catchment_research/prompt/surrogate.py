"""A stand-in for a language model, small enough to be followed by hand: for teaching and tests.

It looks at all positions at once, weighs them by how well they answer a fixed question q, mixes the
weighted mean, and scores words by how well they fit the mixture:

    a = softmax(x q / sqrt d),    c = sum_t a_t x_t,    h = tanh(M c),    logit_w = e_w h

with x the prompt vectors followed by the embeddings of the context. The gradient is exact:

    d(v c)/dx_t = a_t (v + (v (x_t - c)) q / sqrt d),    v = M'((1 - h^2) e_w)

An answer's tokens are scored one after the other, each among all words; the gradients add.

It knows no language, and nothing measured with it says anything about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import Ge

from catchment import Array, Integers
from catchment.arrays import PositiveInt, check_fields
from catchment.features.echo_state import Purpose, Words, uniform
from catchment_research.prompt.language import (
    Answers,
    Asked,
    Slopes,
    check_question,
    check_read,
    losses,
)


@dataclass(frozen=True, kw_only=True)
class SurrogateLM:
    """A tiny differentiable model of words, made from a seed.

    >>> model = SurrogateLM(width=8, vocabulary=50, seed=1)
    >>> context = [np.array([3, 4, 5])]
    >>> model.scores(np.zeros((1, 2, 8)), context, (10, 20, 30)).shape
    (1, 2)
    >>> model.slopes(np.zeros((1, 2, 8)), context, (10, 20, 30)).gradients.shape
    (1, 2, 2, 8)
    """

    width: PositiveInt = 16
    vocabulary: Annotated[int, Ge(2)] = 64
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)

    def identity(self) -> str:
        return f"surrogate {self.width} {self.vocabulary} {self.seed}"

    @property
    def spread(self) -> float:
        return float(np.sqrt(np.mean(self.embeddings**2)))

    @cached_property
    def embeddings(self) -> Array:
        """(V, d) numbers between -1 and 1."""
        return self._drawn(2, self.vocabulary * self.width).reshape(-1, self.width)

    @cached_property
    def _question(self) -> Array:
        return self._drawn(3, self.width)

    @cached_property
    def _mixing(self) -> Array:
        drawn = self._drawn(4, self.width**2).reshape(self.width, self.width)
        return drawn * float(np.sqrt(3.0 / self.width))

    def _drawn(self, layer: int, n: int) -> Array:
        return uniform(Words(seed=self.seed, layer=layer, purpose=Purpose.PROMPT), n, -1.0, 1.0)

    def embed(self, tokens: Sequence[int] | Integers) -> Array:
        return np.asarray(self.embeddings[np.asarray(tokens, dtype=np.int64)])

    def scores(self, prompts: Array, contexts: Sequence[Integers], words: Asked) -> Array:
        check_question(prompts, contexts, words, self)
        if isinstance(words, Answers):
            return self._answered(prompts, contexts, words).values
        apart = self._apart(words)
        # One example at a time: what an answer is must not depend on what else is asked.
        return np.stack(
            [apart @ self._read(p, c)[3] for p, c in zip(prompts, contexts, strict=True)]
        )

    def slopes(
        self,
        prompts: Array,
        contexts: Sequence[Integers],
        words: Asked,
        labels: Integers | None = None,
    ) -> Slopes:
        check_question(prompts, contexts, words, self)
        if isinstance(words, Answers):
            return self._answered(prompts, contexts, words)
        apart = self._apart(words)
        values, gradients = [], []
        for k, (prompt, context) in enumerate(zip(prompts, contexts, strict=True)):
            read = self._read(prompt, context)
            score, directions = apart @ read[3], apart
            if labels is not None:
                score, slope = losses(score[None], labels[k : k + 1])
                directions = slope @ apart
            values.append(score)
            gradients.append(self._pulled_back(directions, len(prompt), *read))
        return Slopes(np.stack(values), np.stack(gradients))

    def continued(
        self, prompts: Array, contexts: Sequence[Integers], most: int, end: int | None = None
    ) -> list[Integers]:
        check_read(prompts, contexts, self)
        found = []
        for prompt, context in zip(prompts, contexts, strict=True):
            said: list[int] = []
            while len(said) < most and (not said or said[-1] != end):
                h = self._read(prompt, np.append(context, said).astype(np.int64))[3]
                said.append(int((self.embeddings @ h).argmax()))
            found.append(np.array(said, dtype=np.int64))
        return found

    def _answered(self, prompts: Array, contexts: Sequence[Integers], answers: Answers) -> Slopes:
        """Return log-likelihoods (n, 1) of answers, and their gradients (n, 1, m, d)."""
        values, gradients = (
            np.zeros((len(prompts), 1)),
            np.zeros((len(prompts), 1, *prompts.shape[1:])),
        )
        for k, (prompt, context) in enumerate(zip(prompts, contexts, strict=True)):
            for j, token in enumerate(answers.tokens[k]):
                read = self._read(prompt, np.concatenate([context, answers.tokens[k][:j]]))
                logits = self.embeddings @ read[3]
                e = np.exp(logits - logits.max())
                q = e / e.sum()
                values[k] += np.log(q[token])
                direction = self.embeddings[token] - q @ self.embeddings
                gradients[k] += self._pulled_back(direction[None], len(prompt), *read)
        return Slopes(values, gradients)

    def _pulled_back(
        self, directions: Array, m: int, x: Array, a: Array, c: Array, h: Array
    ) -> Array:
        """Return the gradients (R, m, d) of directions (R, d) of h, of the first m positions."""
        v = (directions * (1 - h**2)) @ self._mixing
        toward = (v @ (x[:m] - c).T)[:, :, None] * (self._question / self.width**0.5)
        return np.asarray(a[:m, None] * (v[:, None, :] + toward))

    def _apart(self, words: Sequence[int]) -> Array:
        """Return the label words' embeddings (L - 1, d), less that of the first."""
        e = self.embed(words)
        return np.asarray(e[1:] - e[0])

    def _read(self, prompt: Array, context: Integers) -> tuple[Array, Array, Array, Array]:
        """Return positions x (T, d), their weights a (T,), their mean c (d,) and h (d,)."""
        x = np.concatenate([prompt, self.embed(context)])
        s = x @ self._question / self.width**0.5
        a = np.exp(s - s.max())
        a /= a.sum()
        c = a @ x
        return x, a, c, np.tanh(self._mixing @ c)
