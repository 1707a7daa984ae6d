"""A trained controller in use: the likeliest word or answer, and what the model says by itself.

What a client makes of its examples, and how it asks about them, is the same while it trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from catchment import Array, Integers
from catchment.errors import IntegrityError
from catchment_research.learn.optimizers import Arrays
from catchment_research.prompt.controller import Example
from catchment_research.prompt.language import softmax
from catchment_research.prompt.questions import (
    OTHER_QUESTION,
    Answer,
    Question,
    as_tokens,
    said_from_bytes,
)

if TYPE_CHECKING:
    from catchment_research.prompt.split import PromptTraining

ASKED_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Prompter:
    """A trained controller in front of the language model's server."""

    training: PromptTraining
    values: Arrays

    def chances(self, examples: Sequence[Example]) -> Array:
        """Return the chances (n, L) of the label words, asked of the language model's server.

        Of choices, their chances against each other; all examples must have equally many.
        """
        if self.training.loss == "words":
            owned = Owned.of(self.training, examples)
            asked = [question_about(self, owned, rows) for rows in _parts(owned.n)]
            n_scores = len(self.training.server.words) - 1
            return np.concatenate([softmax(self._values(q, q.n_examples, n_scores)) for q in asked])
        found = self.likelihoods(examples)
        if len({len(one) for one in found}) > 1:
            raise ValueError("examples have different numbers of choices; use `likelihoods`")
        scores = np.stack(found)
        return softmax(scores[:, 1:] - scores[:, :1])

    def likelihoods(self, examples: Sequence[Example], *, per_token: bool = False) -> list[Array]:
        """Return the log-likelihoods of each example's choices.

        Parameters
        ----------
        per_token
            Whether each is divided by its number of tokens; the sum favors short answers.
        """
        owned = Owned.of(replace(self.training, loss="answers"), examples)
        found = []
        for rows in _parts(owned.n, max(map(len, owned.choices))):
            question = question_about(self, owned, rows, choices=True)
            values = self._values(question, int(question.counts.sum()))
            found += np.split(values, np.cumsum(question.counts)[:-1])
        if not per_token:
            return found
        lengths = [np.array([len(answer) for answer in one]) for one in owned.choices]
        return [np.asarray(s / n) for s, n in zip(found, lengths, strict=True)]

    def says(
        self, examples: Sequence[Example], *, most: int = 16, end: int | None = None
    ) -> list[Integers]:
        """Return the tokens that the language model says by itself, always the likeliest one.

        Parameters
        ----------
        most
            Tokens, at most.
        end
            A token after which it says no more; it is the last one returned.
        """
        if most < 1:
            raise ValueError(f"most is {most}; pass at least 1")
        owned = Owned.of(self.training, examples)
        found = []
        for rows in _parts(owned.n):
            question = replace(question_about(self, owned, rows), most=most, end=end)
            found += said_from_bytes(self._ask(question), len(rows), most)
        return found

    def guesses(self, examples: Sequence[Example], *, per_token: bool = False) -> Integers:
        """Return the label (n,) of the likeliest label word, or choice, of each example."""
        if self.training.loss == "words":
            return np.asarray(self.chances(examples).argmax(axis=1))
        likely = self.likelihoods(examples, per_token=per_token)
        return np.array([int(one.argmax()) for one in likely], dtype=np.int64)

    def accuracy(self, examples: Sequence[Example], *, per_token: bool = False) -> float:
        """Return the share of examples whose label word, or right choice, is the likeliest."""
        labels = np.array([example.label for example in examples])
        return float((self.guesses(examples, per_token=per_token) == labels).mean())

    def _values(self, question: Question, *shape: int) -> Array:
        """Return the scores or log-likelihoods that are answered, in the shape asked for."""
        values = Answer.from_bytes(self._ask(question)).values
        if values.shape != shape:
            raise IntegrityError(OTHER_QUESTION)
        return values

    def _ask(self, question: Question) -> bytes:
        (reply,) = self.training.server.answers(
            [question.to_bytes(self.training.controller.projection)]
        )
        return reply


def _parts(n: int, each: int = 1) -> list[Integers]:
    """Return the rows of n examples that are asked about at once, with this many answers each."""
    size = max(1, ASKED_AT_ONCE // each)
    return np.split(np.arange(n), range(size, n, size))


@dataclass(frozen=True, eq=False)
class Owned:
    """What a client has made of its examples: features, contexts, labels and choices."""

    z: Array
    contexts: list[Integers]
    labels: Integers
    choices: list[list[Integers]]

    @property
    def n(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, training: PromptTraining, examples: Sequence[Example]) -> Owned:
        if not examples:
            raise ValueError("there are no examples; pass at least one")
        contexts = [as_tokens(example.context) for example in examples]
        labels = np.array([example.label for example in examples], dtype=np.int64)
        choices: list[list[Integers]] = []
        if training.loss == "words":
            n_words = len(training.server.words)
            if labels.min() < 0 or labels.max() >= n_words:
                raise ValueError(
                    f"labels go from {labels.min()} to {labels.max()} for {n_words} label words"
                )
        else:
            choices = [_answers(example) for example in examples]
        return cls(training.controller.rows(examples), contexts, labels, choices)


def _answers(example: Example) -> list[Integers]:
    """Return the answers that an example has; ValueError if none can be the right one."""
    answers = [as_tokens(answer) for answer in example.choices]
    if not 0 <= example.label < len(answers) or min(map(len, answers)) < 1:
        raise ValueError(
            f"an example has label {example.label} and {len(answers)} choices; pass choices of at "
            "least one token each, one of which is right"
        )
    return answers


def question_about(
    prompter: Prompter,
    owned: Owned,
    rows: Integers,
    *,
    gradient: bool = False,
    choices: bool = False,
) -> Question:
    """Return what is asked about some of a client's examples."""
    training, values = prompter.training, prompter.values
    controller = training.controller
    # A prompt that is the same for every example, and a context likewise, are sent once.
    z = owned.z[rows[:1]] if controller.features is None else owned.z[rows]
    if controller.train_projection:
        prompts = controller.prompts(values, z)
    else:
        codes = controller.codes(values, z)
        prompts = codes if training.guard is None else training.guard.guarded(codes)
    contexts = [owned.contexts[row] for row in rows]
    if all(np.array_equal(context, contexts[0]) for context in contexts[1:]):
        contexts = contexts[:1]
    told = gradient and training.tell_labels
    if not choices:
        labels = owned.labels[rows] if told else None
        return Question(prompts, contexts, len(rows), labels, gradient)
    answers = [owned.choices[row] for row in rows]
    if told:
        answers = [[one[y]] for one, y in zip(answers, owned.labels[rows], strict=True)]
    if all(_same(one, answers[0]) for one in answers[1:]):
        answers = answers[:1]
    return Question(prompts, contexts, len(rows), None, gradient, answers)


def _same(one: Sequence[Integers], other: Sequence[Integers]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))
