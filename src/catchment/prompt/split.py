"""Split-federated training of prompts: controllers are averaged, the language model stays put.

Each round the server sends the controller's trained numbers. A client turns its signals into
features once, and then, batch by batch, sends bottlenecks to the language model's server, gets
gradients back, works out the loss with labels that it keeps, and moves its own copy. What it sends
up at the end is how far it moved, times its number of examples; the mean of these moves the server
(federated averaging, McMahan et al., AISTATS 2017, or any optimiser of
`catchment.federation.learn.optimisers`).

Two parties see two things. The federation's server sees each client's change, its mean loss and,
unless labels are told, its share of right answers, if no protection hides them in a sum; under
noise, and where a guard blurs prompts, the last two are not sent. The language model's server sees
every prompt and every context's tokens, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from catchment.arrays import Array, Integers
from catchment.errors import IntegrityError
from catchment.federation.algorithm import Data, Needs, Turn
from catchment.federation.learn.optimisers import Adam, Arrays, Mean, ServerOptimiser
from catchment.federation.progress import UNKNOWN, Progress
from catchment.federation.sums import TrainedSum
from catchment.privacy.dp.prompt_noise import PromptNoise
from catchment.prompt.controller import EdgeController, Example
from catchment.prompt.exchange import Answer, LanguageLink, Question, as_tokens
from catchment.prompt.language import losses, softmax
from catchment.wire import Parts

MEAN = Mean()
LOCAL = Adam(learning_rate=0.01, tau=1e-8)
ASKED_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Controlled:
    """Values so far, what the server's optimiser remembers, and how clients did last."""

    values: Arrays
    memory: Arrays = ()
    progress: Progress = UNKNOWN


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptTraining:
    """Rounds of local steps on a controller, by gradients from a language model's server.

    Parameters
    ----------
    controller
        What is trained.
    server
        The language model's server, or a connection to it.
    epochs, batch_size, max_steps
        Passes of a client over its examples in a round, examples of a step, and fewer steps than
        the epochs have, if given.
    local
        A client's rule, begun anew in each round: `Mean(learning_rate=...)` for gradient descent,
        `Adam(learning_rate=..., tau=1e-8)`.
    optimiser
        What the server does with the mean change.
    tell_labels
        Whether clients tell the language model's server their labels. It then returns one gradient
        per example instead of one for each label word but the first.
    guard
        Clipping and noise on each bottleneck that leaves a client.
    initial
        Values to begin with; the controller's own start if not given.
    at_once
        Clients of one machine whose batches are asked of the model together.
    """

    controller: EdgeController
    server: LanguageLink
    epochs: int = 1
    batch_size: int = 16
    max_steps: int | None = None
    local: ServerOptimiser = LOCAL
    optimiser: ServerOptimiser = MEAN
    tell_labels: bool = False
    guard: PromptNoise | None = None
    initial: Arrays | None = None
    at_once: int = 32

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "at_once"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; pass at least 1")
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps}; pass at least 1, or None for all")
        if self.guard is not None and self.controller.train_projection:
            raise ValueError("a guard bounds bottlenecks; leave P as the seed made it")
        if self.initial is not None:
            _check(self.initial, self.controller)

    @property
    def needs(self) -> Needs:
        return Needs()

    def start(self) -> Controlled:
        values = self.controller.start() if self.initial is None else self.initial
        return Controlled(values, self.optimiser.start(values))

    def broadcast(self, state: Controlled, turn: Turn) -> Parts:
        return Parts("controller", {}, tuple(value.astype(np.float32) for value in state.values))

    def group_size(self, n_clients: int, n_threads: int) -> int:
        return self.at_once

    def client_update(self, received: Parts, data: Data, turn: Turn) -> TrainedSum:
        return self.client_updates(received, [(data, turn)])[0]

    def client_updates(
        self, received: Parts, clients: Sequence[tuple[Data, Turn]]
    ) -> list[TrainedSum]:
        parts = received.expect("controller", len(self.controller.shapes))
        start = tuple(value.astype(np.float64) for value in parts.arrays)
        _check(start, self.controller)
        learners = [
            _Learner(self, start, _Owned.of(self, cast(list[Example], list(data()))), turn.rng())
            for data, turn in clients
        ]
        for step in range(max(len(learner.batches) for learner in learners)):
            active = [learner for learner in learners if step < len(learner.batches)]
            replies = self.server.answers([learner.question(step) for learner in active])
            for learner, reply in zip(active, replies, strict=True):
                learner.learn(step, Answer.from_bytes(reply))
        return [learner.upload() for learner in learners]

    def read_update(self, parts: Parts, turn: Turn) -> TrainedSum:
        return TrainedSum.from_parts(parts).expect(*self.controller.shapes)

    def server_update(self, state: Controlled, total: TrainedSum, turn: Turn) -> Controlled:
        values, memory = self.optimiser.step(state.values, total.mean(), state.memory)
        return Controlled(values, memory, total.progress(scored=not self.tell_labels))

    def result(self, state: Controlled) -> Prompter:
        """Return the controller with the state's values, and the language model it steers."""
        return Prompter(self, state.values)

    def figures(self, state: Controlled) -> dict[str, float]:
        norm = float(np.sqrt(sum(float((v**2).sum()) for v in state.values)))
        return {**state.progress.figures, "weight norm": norm}


@dataclass(frozen=True, eq=False)
class Prompter:
    """A trained controller in front of the language model's server."""

    training: PromptTraining
    values: Arrays

    def chances(self, examples: Sequence[Example]) -> Array:
        """Return the chances (n, L) of the label words, asked of the language model's server."""
        owned = _Owned.of(self.training, examples)
        found = []
        for rows in np.split(np.arange(owned.n), range(ASKED_AT_ONCE, owned.n, ASKED_AT_ONCE)):
            question = _question(self.training, self.values, owned, rows, gradient=False)
            asked = question.to_bytes(self.training.controller.projection)
            (reply,) = self.training.server.answers([asked])
            found.append(softmax(Answer.from_bytes(reply).values))
        return np.concatenate(found)

    def accuracy(self, examples: Sequence[Example]) -> float:
        """Return the share of examples whose label word has the best chance."""
        labels = np.array([example.label for example in examples])
        return float((self.chances(examples).argmax(axis=1) == labels).mean())


@dataclass(frozen=True, eq=False)
class _Owned:
    """What a client has made of its examples: features, contexts and labels."""

    z: Array
    contexts: list[Integers]
    labels: Integers

    @property
    def n(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, training: PromptTraining, examples: Sequence[Example]) -> _Owned:
        if not examples:
            raise ValueError("there are no examples; pass at least one")
        n_words = len(training.server.words)
        labels = np.array([example.label for example in examples], dtype=np.int64)
        if labels.min() < 0 or labels.max() >= n_words:
            raise ValueError(
                f"labels go from {labels.min()} to {labels.max()} for {n_words} label words"
            )
        contexts = [as_tokens(example.context) for example in examples]
        return cls(training.controller.rows(examples), contexts, labels)


def _question(
    training: PromptTraining, values: Arrays, owned: _Owned, rows: Integers, *, gradient: bool
) -> Question:
    """Return what is asked about some of a client's examples."""
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
    labels = owned.labels[rows] if gradient and training.tell_labels else None
    return Question(prompts, contexts, len(rows), labels, gradient)


@final
class _Learner:
    """One client in the middle of a round."""

    def __init__(
        self, training: PromptTraining, start: Arrays, owned: _Owned, rng: np.random.Generator
    ) -> None:
        self.training, self.start, self.owned = training, start, owned
        self.values, self.memory = start, training.local.start(start)
        size = training.batch_size
        orders = [rng.permutation(owned.n) for _ in range(training.epochs)]
        batches = [rows for order in orders for rows in np.split(order, range(size, owned.n, size))]
        self.batches = batches[: training.max_steps]
        self.loss, self.right, self.met = 0.0, 0, 0  # sums over the examples of all steps

    def question(self, step: int) -> bytes:
        asked = _question(self.training, self.values, self.owned, self.batches[step], gradient=True)
        return asked.to_bytes(self.training.controller.projection)

    def learn(self, step: int, answer: Answer) -> None:
        """Move by the gradient of the batch's mean loss."""
        training, controller = self.training, self.training.controller
        rows = self.batches[step]
        g = answer.gradients
        expected = (len(rows), len(training.server.words) - 1)
        if g is None or answer.values.shape != (expected[: 2 - training.tell_labels]):
            raise IntegrityError("the language model's server answered another question")
        self.met += len(rows)
        if training.tell_labels:
            self.loss += float(answer.values.sum())
        else:
            labels = self.owned.labels[rows]
            loss, slope = losses(answer.values, labels)
            self.loss += float(loss.sum())
            self.right += int((softmax(answer.values).argmax(axis=1) == labels).sum())
            g = np.einsum("nl,nl...->n...", slope, g)
        z = self.owned.z[rows[: len(g)]]
        if training.guard is not None:
            g = training.guard.pull_back(controller.codes(self.values, z), g)
        gradient = controller.gradient(self.values, z, g / len(rows))
        self.values, self.memory = controller.apply_gradient(
            self.values, gradient, training.local, self.memory
        )

    def upload(self) -> TrainedSum:
        moved = tuple(after - before for after, before in zip(self.values, self.start, strict=True))
        done = TrainedSum.of(moved, float(self.owned.n))
        if self.training.guard is not None:
            return done
        return done.told(Progress(self.loss / self.met, self.right / self.met))


def _check(values: Sequence[Array], controller: EdgeController) -> None:
    if tuple(value.shape for value in values) != controller.shapes:
        raise IntegrityError(
            f"values of shapes {[value.shape for value in values]} came, the controller has "
            f"{list(controller.shapes)}"
        )
    if not all(np.isfinite(value).all() for value in values):
        raise IntegrityError("a value of the controller is not finite")
