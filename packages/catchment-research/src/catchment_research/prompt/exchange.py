"""What crosses between a client and the server of the language model, byte by byte.

A client sends bottlenecks b (or whole prompts, where P is trained) and the tokens of the contexts;
the server makes p = p0 + P b, runs the model, and returns scores and gradients, pulled back through
P. Labels stay with the client unless it tells them; the server then returns gradients for all label
words, L - 1 times as many numbers. Rows that are the same for all examples are sent once.

Answers of several tokens cross as their tokens. A client that keeps its label asks about all
answers of an example and uses the one that only it knows is right; one that tells asks about the
right one alone, and so does one whose examples have only one answer: the server then knows it.

The server sees every prompt and every context, and a prompt gives a short signal away
(`catchment_lab.audit`). No secure aggregation can help: the model must read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import Protocol, TypeVar, final

import numpy as np

from catchment import Array, Integers
from catchment_research.prompt.controller import Projection
from catchment_research.prompt.language import Answers, FrozenLM
from catchment_research.prompt.questions import Answer, Question, said_to_bytes

T = TypeVar("T")


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
        Tokens of the label words; none where clients name whole answers.

    >>> from catchment_research.prompt.questions import Answer, Question
    >>> from catchment_research.prompt.surrogate import SurrogateLM
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
        if len(words) and len(set(words)) < max(2, len(words)):
            raise ValueError(f"the label words are {list(words)}; pass 2 or more different tokens")
        known = (0, *words, *projection.words)
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
        kinds = [_kind(q) for q in questions]
        replies = [b""] * len(questions)
        for kind in sorted(set(kinds)):
            members = [k for k, other in enumerate(kinds) if other == kind]
            for k, reply in zip(members, self._ask([questions[k] for k in members]), strict=True):
                replies[k] = reply
        self._note(questions, messages, replies)
        return replies

    def _ask(self, questions: Sequence[Question]) -> list[bytes]:
        """Return the answers to questions of one kind."""
        first = questions[0]
        prompts = np.concatenate([self._prompts(q) for q in questions])
        contexts = [c for q in questions for c in _repeated(q.contexts, q.n_examples)]
        sizes = [q.n_examples for q in questions]
        if first.most:
            said = self.model.continued(prompts, contexts, first.most, first.end)
            ends = np.cumsum([0, *sizes])
            return [said_to_bytes(said[a:b]) for a, b in pairwise(ends)]
        asked: Sequence[int] | Answers = self.words
        if first.choices:
            counts = np.concatenate([q.counts for q in questions])
            rows = np.repeat(np.arange(len(prompts)), counts)
            prompts, contexts = prompts[rows], [contexts[row] for row in rows]
            sizes = [int(q.counts.sum()) for q in questions]
            each = [_repeated(q.choices, q.n_examples) for q in questions]
            asked = Answers([answer for of in each for one in of for answer in one])
        cuts = np.cumsum(sizes)[:-1]
        if not first.gradient:
            scores = self.model.scores(prompts, contexts, asked)
            return [_answer(q, part).to_bytes() for q, part in _with(questions, scores, cuts)]
        told = [q.labels for q in questions if q.labels is not None]
        labels = np.concatenate(told) if told else None
        slopes = self.model.slopes(prompts, contexts, asked, labels)
        gradients = slopes.gradients
        if first.prompts.ndim == 2:
            gradients = self.projection.pull_back(gradients)
        split = zip(_with(questions, slopes.values, cuts), np.split(gradients, cuts), strict=True)
        return [_answer(q, values, g).to_bytes() for (q, values), g in split]

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


def _kind(q: Question) -> tuple[bool, bool, int, bool, int, int]:
    """Return what questions must have in common to be asked at once."""
    end = -1 if q.end is None else q.end
    return q.gradient, q.labels is not None, q.prompts.ndim, bool(q.choices), q.most, end


def _with(
    questions: Sequence[Question], values: Array, cuts: Integers
) -> list[tuple[Question, Array]]:
    return list(zip(questions, np.split(values, cuts), strict=True))


def _answer(question: Question, values: Array, gradients: Array | None = None) -> Answer:
    if question.choices:
        return Answer(values[:, 0], None if gradients is None else gradients[:, 0])
    if question.labels is None or gradients is None:
        return Answer(values, gradients)
    of_losses = gradients[:, 0]
    if len(question.prompts) == 1:
        of_losses = of_losses.sum(axis=0, keepdims=True)
    return Answer(values[:, 0], of_losses)


def _repeated(rows: Sequence[T], n: int) -> Sequence[T]:
    return rows if len(rows) == n else [rows[0]] * n
