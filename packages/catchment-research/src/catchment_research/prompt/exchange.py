"""What crosses between a client and the server of the language model, byte by byte.

A question is a message of the wire format about prompts and contexts. It asks one of three things:
the scores of label words, the log-likelihoods of given answers, or what the model would say by
itself.

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
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import pairwise
from operator import add
from threading import Lock
from typing import Any, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.errors import IntegrityError
from catchment.wire import Fact, Message
from catchment_research.prompt.controller import Projection
from catchment_research.prompt.language import Answers, FrozenLM

T = TypeVar("T")
MOST_EXAMPLES = 1 << 16
MOST_TOKENS = 1 << 12  # that are said at once
EMPTY = np.zeros(0, dtype=np.int64)
OTHER_QUESTION = "the language model's server answered another question"
Choices = Sequence[Integers]  # answers of one example


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
        return Traffic(*map(add, astuple(self), astuple(other)))


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

    >>> from catchment_research.prompt.exchange import Answer, Question
    >>> from catchment_research.prompt.language import SurrogateLM
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
            parts = zip(questions, np.split(scores, cuts), strict=True)
            return [_answer(q, part).to_bytes() for q, part in parts]
        told = [q.labels for q in questions if q.labels is not None]
        labels = np.concatenate(told) if told else None
        slopes = self.model.slopes(prompts, contexts, asked, labels)
        gradients = slopes.gradients
        if first.prompts.ndim == 2:
            gradients = self.projection.pull_back(gradients)
        apart = np.split(slopes.values, cuts), np.split(gradients, cuts)
        return [_answer(*one).to_bytes() for one in zip(questions, *apart, strict=True)]

    def _prompts(self, question: Question) -> Array:
        made = question.prompts
        whole = (self.projection.prompts(made) if made.ndim == 2 else made) + self._base
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
