"""Questions to a language model's server, and its answers, as messages of the wire format.

A question is about prompts and contexts, and asks one of three things: the scores of label words,
the log-likelihoods of given answers, or what the model would say by itself. Rows that are the same
for all examples are sent once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.errors import IntegrityError
from catchment.wire import Fact, Message
from catchment_research.prompt.controller import Projection

MOST_EXAMPLES = 1 << 16
MOST_TOKENS = 1 << 12  # that are said at once
EMPTY = np.zeros(0, dtype=np.int64)
OTHER_QUESTION = "the language model's server answered another question"
Choices = Sequence[Integers]  # answers of one example


@dataclass(frozen=True, eq=False)
class Question:
    """Prompts, contexts and perhaps labels or answers of n examples.

    Parameters
    ----------
    prompts
        (n, k) bottlenecks or (n, m, d) prompts without p0; one row if it is everyone's.
    contexts
        n arrays of tokens, or one for all.
    labels
        (n,) which word is right, if the server is to know.
    gradient
        Whether gradients are wanted.
    choices
        Answers whose log-likelihoods are asked for, of each of n examples, or one list for all;
        label words are asked about if there are none.
    most, end
        Tokens that the model is to say by itself, if any, and the one it stops after.
    """

    prompts: Array
    contexts: Sequence[Integers]
    n_examples: int
    labels: Integers | None = None
    gradient: bool = True
    choices: Sequence[Choices] = ()
    most: int = 0
    end: int | None = None

    @property
    def counts(self) -> Integers:
        """(n,) answers of each example."""
        found = np.array([len(one) for one in self.choices], dtype=np.int64)
        return found if len(found) == self.n_examples else np.repeat(found, self.n_examples)

    def to_bytes(self, projection: Projection) -> bytes:
        """Return the message; numbers travel as float32, tokens as 32 bits."""
        about: dict[str, Fact] = {
            "projection": projection.fingerprint[:16],
            "examples": self.n_examples,
            "gradient": self.gradient,
        }
        if self.most:
            about |= {"most": self.most} | ({} if self.end is None else {"end": self.end})
        sent: tuple[NDArray[np.generic], ...] = (
            self.prompts.astype(np.float32),
            *_flat(self.contexts),
        )
        if self.labels is not None:
            sent = (*sent, self.labels.astype(np.uint32))
        if self.choices:
            counts = np.array([len(one) for one in self.choices], dtype=np.uint32)
            sent = (*sent, *_flat([answer for one in self.choices for answer in one]), counts)
        return Message("question", about, sent).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes, projection: Projection, n_words: int) -> Question:
        """Return the question of a message; IntegrityError if it cannot be one."""
        parts = Message.from_bytes(message)
        n, wanted = parts.facts.get("examples"), parts.facts.get("gradient")
        if parts.kind != "question" or len(parts.arrays) not in (3, 4, 6):
            raise IntegrityError(f"expected a question, got {parts.kind!r}")
        if parts.facts.get("projection") != projection.fingerprint[:16]:
            raise IntegrityError("the client's prompts are made with another projection")
        if type(n) is not int or not 1 <= n <= MOST_EXAMPLES or type(wanted) is not bool:
            raise IntegrityError(f"a question is about 1 to {MOST_EXAMPLES} examples, not {n!r}")
        prompts, tokens, lengths, *told = parts.arrays
        _check_prompts(prompts, n, projection)
        contexts = _unflat(tokens, lengths, "contexts")
        if len(contexts) not in (1, n):
            raise IntegrityError("the contexts do not fit their lengths")
        labels = _labels(told[0], n, n_words) if len(told) == 1 else None
        choices = _choices(told[0], told[1], told[2], n) if len(told) == 3 else ()
        most, end = _saying(parts)
        if n_words < 2 and not choices and not most:
            raise IntegrityError("the server has no label words; ask about answers")
        return cls(prompts.astype(np.float64), contexts, n, labels, wanted, choices, most, end)


@dataclass(frozen=True, eq=False)
class Answer:
    """Scores (n, L - 1), or losses (n,) where labels were told, and gradients if wanted.

    Gradients (n, L - 1, k), or (n, L - 1, m, d) of whole prompts; of losses (n, k) or (n, m, d),
    and summed over the examples if they share one prompt. Of A answers, those of all examples one
    after the other: log-likelihoods (A,), gradients (A, k) or (A, m, d). Of what the model said:
    all tokens one after the other, and how many are each example's.
    """

    values: Array
    gradients: Array | None = None

    def to_bytes(self) -> bytes:
        sent = (self.values,) if self.gradients is None else (self.values, self.gradients)
        return Message("answer", {}, tuple(array.astype(np.float32) for array in sent)).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes) -> Answer:
        """Return the answer of a message; IntegrityError if it is not finite."""
        parts = Message.from_bytes(message)
        if parts.kind != "answer" or len(parts.arrays) not in (1, 2):
            raise IntegrityError(f"expected an answer, got {parts.kind!r}")
        if not all(np.isfinite(array).all() for array in parts.arrays):
            raise IntegrityError("the language model answered with numbers that are not finite")
        return cls(*(array.astype(np.float64) for array in parts.arrays))


def said_to_bytes(said: Sequence[Integers]) -> bytes:
    """Return a message with what a model said of each example."""
    return Message("said", {}, _flat(said)).to_bytes()


def said_from_bytes(message: bytes, n: int, most: int) -> list[Integers]:
    """Return what a model said of n examples, each at most so many tokens.

    IntegrityError if the message is another.

    >>> said_from_bytes(said_to_bytes([np.array([3, 4]), np.array([5])]), 2, most=8)
    [array([3, 4]), array([5])]
    """
    parts = Message.from_bytes(message)
    if parts.kind != "said" or len(parts.arrays) != 2 or parts.arrays[1].shape != (n,):
        raise IntegrityError(f"expected what was said of {n} examples, got {parts.kind!r}")
    said = _unflat(parts.arrays[0], parts.arrays[1], "words said")
    if max(map(len, said)) > most:
        raise IntegrityError(f"{max(map(len, said))} tokens were said, {most} were asked for")
    return said


def _flat(rows: Sequence[Integers]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the tokens of rows one after the other, and how many are each row's."""
    lengths = np.array([len(row) for row in rows], dtype=np.uint32)
    return np.concatenate([EMPTY, *rows]).astype(np.uint32), lengths


def _unflat(tokens: NDArray[np.generic], lengths: NDArray[np.generic], what: str) -> list[Integers]:
    flat = lengths.ndim == tokens.ndim == 1 and lengths.dtype == tokens.dtype == np.uint32
    if not flat or not len(lengths) or lengths.astype(np.int64).sum() != len(tokens):
        raise IntegrityError(f"the {what} do not fit their lengths")
    ends = np.cumsum(lengths.astype(np.int64))[:-1]
    return np.split(tokens.astype(np.int64), ends)


def _check_prompts(prompts: NDArray[Any], n: int, projection: Projection) -> None:
    whole = (projection.length, projection.width)
    if prompts.shape[1:] not in ((projection.bottleneck,), whole) or len(prompts) not in (1, n):
        raise IntegrityError(f"prompts came with shape {prompts.shape} for {n} examples")
    if prompts.dtype != np.float32 or not np.isfinite(prompts).all():
        raise IntegrityError("a prompt is not made of finite numbers in float32")


def _labels(told: NDArray[np.generic], n: int, n_words: int) -> Integers:
    fits = told.shape == (n,) and told.dtype == np.uint32
    labels = told.astype(np.int64) if fits else EMPTY
    if not fits or labels.max() >= n_words:
        raise IntegrityError(f"labels came that are not one of {n_words} for each of {n}")
    return labels


def _choices(
    tokens: NDArray[np.generic],
    lengths: NDArray[np.generic],
    counts: NDArray[np.generic],
    n: int,
) -> list[list[Integers]]:
    """Return the answers of each example, or one list for all."""
    answers = _unflat(tokens, lengths, "answers")
    whole = counts.dtype == np.uint32 and counts.ndim == 1 and len(counts) in (1, n)
    each = counts.astype(np.int64) if whole else EMPTY
    if each.sum() != len(answers) or min(map(len, answers)) < 1 or each.min() < 1:
        raise IntegrityError("the answers do not fit the examples")
    if each.sum() * (n if len(each) == 1 else 1) > MOST_EXAMPLES:
        raise IntegrityError(f"a question is about at most {MOST_EXAMPLES} answers")
    firsts = np.concatenate([[0], np.cumsum(each)])
    return [answers[a:b] for a, b in pairwise(firsts)]


def _saying(parts: Message) -> tuple[int, int | None]:
    """Return how many tokens are to be said, and after which one to stop."""
    most, end = parts.facts.get("most", 0), parts.facts.get("end")
    if type(most) is not int or not 0 <= most <= MOST_TOKENS:
        raise IntegrityError(f"a model says at most {MOST_TOKENS} tokens, not {most!r}")
    if end is not None and type(end) is not int:
        raise IntegrityError(f"the last token is {end!r}; it must be an integer")
    return most, end


def as_tokens(context: Sequence[int] | NDArray[np.int64]) -> Integers:
    """Return a context as an array of tokens; ValueError if it is not a row of integers.

    >>> as_tokens([3, 4])
    array([3, 4])
    """
    tokens = np.asarray(context, dtype=np.int64) if len(context) else EMPTY
    if tokens.ndim != 1 or (tokens < 0).any():
        raise ValueError(f"a context of shape {tokens.shape} is not a row of tokens")
    return tokens
