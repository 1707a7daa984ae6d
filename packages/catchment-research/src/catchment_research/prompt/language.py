"""A language model that nobody trains: what is asked of it, and where its files lie.

A model reads m prompt vectors and then the tokens of a context, and gives each of L label words a
score, its logit at the last position. The chance of a label is the softmax of the scores over the
label words, so only differences of scores matter:

    s_l = logit_l - logit_0,    loss = log(sum_l exp s_l) - s_y,
    dloss/dp = sum_l (q_l - [l = y]) ds_l/dp

with q the softmax. Whoever knows the L - 1 gradients ds_l/dp can work out the gradient of the loss
for every label y; that is how labels stay with the client.

An answer may also be any sequence of tokens. Its score is then its log-likelihood in the whole
vocabulary, each token after the prompt, the context and the tokens before it:

    s = sum_j log softmax(logits after p, c, a_1 .. a_j-1)[a_j]

`SurrogateLM` is a stand-in for a language model, small enough to be followed by hand, for teaching
and tests. It knows no language, and nothing measured with it says anything about one. It looks at
all positions at once, weighs them by how well they answer a fixed question q, mixes the weighted
mean, and scores words by how well they fit the mixture:

    a = softmax(x q / sqrt d),    c = sum_t a_t x_t,    h = tanh(M c),    logit_w = e_w h

with x the prompt vectors followed by the embeddings of the context. The gradient is exact:

    d(v c)/dx_t = a_t (v + (v (x_t - c)) q / sqrt d),    v = M'((1 - h^2) e_w)

An answer's tokens are scored one after the other, each among all words; the gradients add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Ge

from catchment import Array, Integers
from catchment.arrays import PositiveInt, check_fields
from catchment.data import MODELS_ENVIRONMENT, model_directories
from catchment.errors import MissingDataError
from catchment.features.echo_state import Purpose, Words, uniform


@dataclass(frozen=True, eq=False)
class Answers:
    """Tokens that a model might go on with, n sequences of any lengths above 0."""

    tokens: Sequence[Integers]

    def __post_init__(self) -> None:
        if any(len(answer) == 0 for answer in self.tokens):
            raise ValueError("an answer has no tokens; pass at least one")


Asked = Sequence[int] | Answers


@dataclass(frozen=True, eq=False)
class Slopes:
    """Scores (n, L - 1) of label words against the first, and their gradients (n, L - 1, m, d).

    Where labels were told: losses (n, 1), and gradients (n, 1, m, d) of the losses. Of answers:
    log-likelihoods (n, 1), and gradients (n, 1, m, d).
    """

    values: Array
    gradients: Array


class FrozenLM(Protocol):
    """A causal language model whose weights never change."""

    @property
    def width(self) -> int:
        """Numbers in an embedding."""

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows."""

    @property
    def spread(self) -> float:
        """Root mean square of the numbers in its embeddings."""

    def identity(self) -> str:
        """Return the same text for the same model on every machine."""

    def embed(self, tokens: Sequence[int] | Integers) -> Array:
        """Return the embeddings (n, d) of tokens."""

    def scores(self, prompts: Array, contexts: Sequence[Integers], words: Asked) -> Array:
        """Return the scores (n, L - 1) of label words against the first of them.

        Of answers, one for each example: their log-likelihoods (n, 1).

        Parameters
        ----------
        prompts
            (n, m, d) vectors before the context; m may be 0.
        contexts
            n arrays of tokens, of any lengths.
        words
            L tokens, the label words; or n answers.
        """

    def slopes(
        self,
        prompts: Array,
        contexts: Sequence[Integers],
        words: Asked,
        labels: Integers | None = None,
    ) -> Slopes:
        """Return the scores and their gradients with respect to prompts; or those of the losses.

        Parameters
        ----------
        labels
            (n,) which word is right; the losses' gradients are returned if it is told. Answers
            have none.
        """

    def continued(
        self, prompts: Array, contexts: Sequence[Integers], most: int, end: int | None = None
    ) -> list[Integers]:
        """Return what the model goes on with, always by the likeliest token.

        Parameters
        ----------
        most
            Tokens of each, at most.
        end
            A token after which nothing more is said; it is the last one returned.
        """


def softmax(scores: Array) -> Array:
    """Return the chances (n, L) of labels from scores (n, L - 1) against the first label.

    >>> softmax(np.log([[3.0]]))
    array([[0.25, 0.75]])
    """
    s = np.concatenate([np.zeros((len(scores), 1)), scores], axis=1)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def losses(scores: Array, labels: Integers) -> tuple[Array, Array]:
    """Return the losses (n,), and their gradients (n, L - 1) with respect to the scores.

    >>> loss, slope = losses(np.zeros((1, 1)), np.array([1]))
    >>> loss.round(4), slope
    (array([0.6931]), array([[-0.5]]))
    """
    q = softmax(scores)
    rows = np.arange(len(labels))
    loss = -np.log(np.maximum(q[rows, labels], 1e-300))
    q[rows, labels] -= 1.0
    return loss, q[:, 1:]


def check_question(
    prompts: Array, contexts: Sequence[Integers], words: Asked, model: FrozenLM
) -> None:
    """Raise ValueError if a model cannot be asked this."""
    check_read(prompts, contexts, model)
    if isinstance(words, Answers):
        if len(words.tokens) != len(contexts):
            raise ValueError(
                f"{len(words.tokens)} answers came for {len(contexts)} contexts; pass one each"
            )
        check_tokens(words.tokens, model)
        return
    if len(set(words)) < max(2, len(words)):
        raise ValueError(f"the label words are tokens {list(words)}; pass 2 or more different ones")
    check_tokens([np.asarray(words)], model)


def check_read(prompts: Array, contexts: Sequence[Integers], model: FrozenLM) -> None:
    """Raise ValueError if a model cannot read these prompts and contexts."""
    if prompts.ndim != 3 or prompts.shape[2] != model.width or len(prompts) != len(contexts):
        raise ValueError(
            f"prompts have shape {prompts.shape} for {len(contexts)} contexts; pass "
            f"({len(contexts)}, vectors, {model.width})"
        )
    if len(contexts) == 0:
        raise ValueError("there is nothing to ask; pass at least one prompt")
    if prompts.shape[1] == 0 and any(len(context) == 0 for context in contexts):
        raise ValueError("there is neither a prompt nor a context; pass at least one vector")
    check_tokens(contexts, model)


def check_tokens(tokens: Sequence[Integers], model: FrozenLM) -> None:
    """Raise ValueError if a model does not know all tokens."""
    known = np.concatenate([np.zeros(1, dtype=np.int64), *tokens])
    if known.min() < 0 or known.max() >= model.vocabulary:
        raise ValueError(
            f"tokens go from {known.min():.0f} to {known.max():.0f}, the model knows 0 to "
            f"{model.vocabulary - 1}"
        )


def is_model(folder: Path) -> bool:
    """Return whether a folder has a configuration and weights.

    >>> is_model(Path("no/such/place"))
    False
    """
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def find_model(name: str | Path, *, directory: Path | str | None = None) -> Path | None:
    """Return the folder of a model, or None.

    Parameters
    ----------
    name
        A folder, or the name of one in a directory of models.
    directory
        Look only here, instead of the usual directories.

    >>> find_model("stories260k", directory="no/such/place") is None
    True
    """
    folders = (Path(name), *(root / name for root in model_directories(directory)))
    return next((folder for folder in folders if is_model(folder)), None)


def locate_model(name: str | Path, *, directory: Path | str | None = None) -> Path:
    """Return the folder of a model; if there is none, MissingDataError says where to put it.

    >>> locate_model("gpt-9", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: the language model 'gpt-9' is not in no/such/place; ...
    """
    found = find_model(name, directory=directory)
    if found is not None:
        return found
    roots = model_directories(directory)
    raise MissingDataError(
        f"the language model {str(name)!r} is not in {', '.join(map(str, roots))}; put its folder "
        f"(config.json, tokenizer.json, *.safetensors) there, or name its directory in "
        f"${MODELS_ENVIRONMENT}"
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
        values = np.zeros((len(prompts), 1))
        gradients = np.zeros((len(prompts), 1, *prompts.shape[1:]))
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
