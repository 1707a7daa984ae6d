"""What crosses between a client and the server of the language model, byte by byte.

A client sends bottlenecks b (or whole prompts, where P is trained) and the tokens of the contexts;
the server makes p = p0 + P b, runs the model, and returns scores and gradients, pulled back through
P. Labels stay with the client unless it tells them; the server then returns gradients for all label
words, L - 1 times as many numbers. Rows that are the same for all examples are sent once.

The server sees every prompt and every context, and a prompt gives a short signal away
(`catchment.privacy.audit.prompts`). No secure sum can help: the model must read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers
from catchment.errors import IntegrityError
from catchment.prompt.controller import Projection
from catchment.prompt.language import FrozenLM
from catchment.wire import Fact, Parts

MOST_EXAMPLES = 1 << 16
EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Question:
    """Prompts, contexts and perhaps labels of n examples.

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
    """

    prompts: Array
    contexts: Sequence[Integers]
    n_examples: int
    labels: Integers | None = None
    gradient: bool = True

    def to_bytes(self, projection: Projection) -> bytes:
        """Return the message; numbers travel as float32, tokens as 32 bits."""
        lengths = np.array([len(context) for context in self.contexts], dtype=np.uint32)
        tokens = np.concatenate([EMPTY, *self.contexts]).astype(np.uint32)
        told = () if self.labels is None else (self.labels.astype(np.uint32),)
        about: dict[str, Fact] = {
            "projection": projection.fingerprint[:16],
            "examples": self.n_examples,
            "gradient": self.gradient,
        }
        sent = self.prompts.astype(np.float32)
        return Parts("question", about, (sent, tokens, lengths, *told)).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes, projection: Projection, n_words: int) -> Question:
        """Return the question of a message; IntegrityError if it cannot be one."""
        parts = Parts.from_bytes(message)
        n, wanted = parts.facts.get("examples"), parts.facts.get("gradient")
        if parts.kind != "question" or len(parts.arrays) not in (3, 4):
            raise IntegrityError(f"expected a question, got {parts.kind!r}")
        if parts.facts.get("projection") != projection.fingerprint[:16]:
            raise IntegrityError("the client's prompts are made with another projection")
        if type(n) is not int or not 1 <= n <= MOST_EXAMPLES or type(wanted) is not bool:
            raise IntegrityError(f"a question is about 1 to {MOST_EXAMPLES} examples, not {n!r}")
        prompts, tokens, lengths, *told = parts.arrays
        whole = (projection.length, projection.width)
        if prompts.shape[1:] not in ((projection.bottleneck,), whole) or len(prompts) not in (1, n):
            raise IntegrityError(f"prompts came with shape {prompts.shape} for {n} examples")
        if not np.isfinite(prompts).all() or prompts.dtype != np.float32:
            raise IntegrityError("a prompt is not made of finite numbers in float32")
        flat = lengths.ndim == tokens.ndim == 1 and lengths.dtype == tokens.dtype == np.uint32
        if not flat or len(lengths) not in (1, n) or lengths.sum(dtype=np.int64) != len(tokens):
            raise IntegrityError("the contexts do not fit their lengths")
        whole_numbers = not told or (told[0].shape == (n,) and told[0].dtype == np.uint32)
        if not whole_numbers or (told and told[0].max() >= n_words):
            raise IntegrityError(f"labels came that are not one of {n_words} for each of {n}")
        labels = told[0].astype(np.int64) if told else None
        ends = np.cumsum(lengths.astype(np.int64))[:-1]
        contexts = np.split(tokens.astype(np.int64), ends)
        return cls(prompts.astype(np.float64), contexts, n, labels, wanted)


@dataclass(frozen=True, eq=False)
class Answer:
    """Scores (n, L - 1), or losses (n,) where labels were told, and gradients if wanted.

    Gradients (n, L - 1, k), or (n, L - 1, m, d) of whole prompts; of losses (n, k) or (n, m, d),
    and summed over the examples if they share one prompt.
    """

    values: Array
    gradients: Array | None = None

    def to_bytes(self) -> bytes:
        sent = (self.values,) if self.gradients is None else (self.values, self.gradients)
        return Parts("answer", {}, tuple(array.astype(np.float32) for array in sent)).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes) -> Answer:
        """Return the answer of a message; IntegrityError if it is not finite."""
        parts = Parts.from_bytes(message)
        if parts.kind != "answer" or len(parts.arrays) not in (1, 2):
            raise IntegrityError(f"expected an answer, got {parts.kind!r}")
        if not all(np.isfinite(array).all() for array in parts.arrays):
            raise IntegrityError("the language model answered with numbers that are not finite")
        return cls(*(array.astype(np.float64) for array in parts.arrays))


@dataclass(frozen=True)
class Traffic:
    """Messages, examples and bytes that crossed; adds.

    >>> Traffic(1, 8, 100, 200) + Traffic(1, 8, 100, 200)
    Traffic(messages=2, examples=16, bytes_up=200, bytes_down=400)
    """

    messages: int = 0
    examples: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.messages + other.messages,
            self.examples + other.examples,
            self.bytes_up + other.bytes_up,
            self.bytes_down + other.bytes_down,
        )


class LanguageLink(Protocol):
    """A way to the language model: the server itself, or a connection to it."""

    @property
    def words(self) -> tuple[int, ...]:
        """Tokens of the label words."""

    def identity(self) -> str:
        """Return what is asked: model, projection and label words."""

    def answers(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return the answers to questions of several clients, all asked at once."""


@final
class LanguageServer:
    """A frozen language model that answers questions, and counts what crosses.

    Parameters
    ----------
    model
        The language model.
    projection
        P and p0, which prompts are made with.
    words
        Tokens of the label words.

    >>> from catchment.prompt.surrogate import SurrogateLM
    >>> P = Projection(bottleneck=2, length=3, width=8, seed=1)
    >>> server = LanguageServer(SurrogateLM(width=8), P, (5, 9))
    >>> question = Question(np.zeros((1, 2)), [np.array([3, 4])], 1)
    >>> answer = Answer.from_bytes(server.answers([question.to_bytes(P)])[0])
    >>> answer.values.shape, answer.gradients.shape
    ((1, 1), (1, 1, 2))
    >>> server.traffic["training"].examples
    1
    """

    def __init__(self, model: FrozenLM, projection: Projection, words: Sequence[int]) -> None:
        if projection.width != model.width:
            raise ValueError(
                f"prompts have width {projection.width}, the model's embeddings {model.width}; "
                f"pass width={model.width}"
            )
        if len(set(words)) < max(2, len(words)):
            raise ValueError(f"the label words are {list(words)}; pass 2 or more different tokens")
        known = (*words, *projection.words)
        if min(known) < 0 or max(known) >= model.vocabulary:
            raise ValueError(f"a word is not among the {model.vocabulary} tokens of the model")
        self.model = model
        self.projection = projection
        self.words = tuple(int(word) for word in words)
        self._traffic: dict[str, Traffic] = {}
        self._lock = Lock()

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """What crossed so far, by purpose: "training", and "asking" where no gradient was wanted.

        The difference of two readings is what crossed between them.
        """
        return dict(self._traffic)

    def __reduce__(self) -> tuple[type[LanguageServer], tuple[FrozenLM, Projection, Sequence[int]]]:
        # A copy in another process counts for itself.
        return LanguageServer, (self.model, self.projection, self.words)

    def identity(self) -> str:
        return f"{self.model.identity()} {self.projection.fingerprint} {list(self.words)}"

    @cached_property
    def _base(self) -> Array:
        """p0 (m, d)."""
        return self.model.embed(self.projection.first_words(self.model.vocabulary))

    def answers(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return the answers to questions of several clients, all asked of the model at once."""
        questions = [
            Question.from_bytes(message, self.projection, len(self.words)) for message in messages
        ]
        kinds = [(q.gradient, q.labels is not None, q.prompts.ndim) for q in questions]
        replies = [b""] * len(questions)
        for kind in sorted(set(kinds)):
            members = [k for k, other in enumerate(kinds) if other == kind]
            for k, answer in zip(members, self._ask([questions[k] for k in members]), strict=True):
                replies[k] = answer.to_bytes()
        self._note(questions, messages, replies)
        return replies

    def _ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions of one kind."""
        prompts = np.concatenate([self._prompts(q) for q in questions])
        contexts = [c for q in questions for c in _repeated(q.contexts, q.n_examples)]
        ends = np.cumsum([q.n_examples for q in questions])[:-1]
        if not questions[0].gradient:
            scores = self.model.scores(prompts, contexts, self.words)
            return [Answer(part) for part in np.split(scores, ends)]
        told = [q.labels for q in questions if q.labels is not None]
        labels = np.concatenate(told) if told else None
        slopes = self.model.slopes(prompts, contexts, self.words, labels)
        gradients = slopes.gradients
        if questions[0].prompts.ndim == 2:
            gradients = self.projection.pull_back(gradients)
        split = zip(
            questions, np.split(slopes.values, ends), np.split(gradients, ends), strict=True
        )
        return [_answer(q, values, g) for q, values, g in split]

    def _prompts(self, question: Question) -> Array:
        sent = question.prompts
        made = self.projection.prompts(sent) if sent.ndim == 2 else sent
        whole = made + self._base
        return np.broadcast_to(whole, (question.n_examples, *whole.shape[1:]))

    def _note(
        self, questions: Sequence[Question], messages: Sequence[bytes], replies: Sequence[bytes]
    ) -> None:
        with self._lock:
            for question, up, down in zip(questions, messages, replies, strict=True):
                purpose = "training" if question.gradient else "asking"
                crossed = Traffic(1, question.n_examples, len(up), len(down))
                self._traffic[purpose] = self._traffic.get(purpose, Traffic()) + crossed


def _answer(question: Question, values: Array, gradients: Array) -> Answer:
    if question.labels is None:
        return Answer(values, gradients)
    of_losses = gradients[:, 0]
    if len(question.prompts) == 1:
        of_losses = of_losses.sum(axis=0, keepdims=True)
    return Answer(values[:, 0], of_losses)


def _repeated(contexts: Sequence[Integers], n: int) -> Sequence[Integers]:
    return contexts if len(contexts) == n else [contexts[0]] * n


def as_tokens(context: Sequence[int] | NDArray[np.int64]) -> Integers:
    """Return a context as an array of tokens; ValueError if it is not a row of whole numbers.

    >>> as_tokens([3, 4])
    array([3, 4])
    """
    tokens = np.asarray(context, dtype=np.int64) if len(context) else EMPTY
    if tokens.ndim != 1 or (tokens < 0).any():
        raise ValueError(f"a context of shape {tokens.shape} is not a row of tokens")
    return tokens
