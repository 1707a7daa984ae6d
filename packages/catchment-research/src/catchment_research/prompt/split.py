"""Split-federated training of prompts: controllers are averaged, the language model stays put.

Each round the server sends the controller's trained numbers. A client turns its signals into
features once, and then, batch by batch, sends bottlenecks to the language model's server, gets
gradients back, works out the loss with labels that it keeps, and moves its own copy. What it sends
up at the end is how far it moved, times its number of examples; the mean of these moves the server
(federated averaging, McMahan et al., AISTATS 2017, or any optimizer of
`catchment_research.learn.optimizers`).

Two parties see two things. The federation's server sees each client's change, its mean loss and,
unless labels are told, its share of right answers, if no protection hides them in a sum; under
noise, and where a guard blurs prompts, the last two are not sent. The language model's server sees
every prompt and every context's tokens, always.

The loss is that of the label words alone, or of whole answers of any number of tokens in the whole
vocabulary. Then the language model's server also reads answers: all choices of an example, and not
which is right, or with `tell_labels` the right one alone. Where an example has one choice, that one
is told. If the model runs in the client's process, nobody else reads any of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, final

import numpy as np

from catchment import Array, Integers
from catchment.arrays import PositiveInt
from catchment.errors import IntegrityError
from catchment.federation import Algorithm, Data, RoundContext
from catchment.wire import Message
from catchment_research.learn.optimizers import Adam, Arrays, Mean, ServerOptimizer
from catchment_research.learn.progress import UNKNOWN, Progress, TrainedSum
from catchment_research.prompt.controller import EdgeController, Example
from catchment_research.prompt.exchange import LanguageLink
from catchment_research.prompt.language import losses, softmax
from catchment_research.prompt.noise import PromptNoise
from catchment_research.prompt.prompter import Owned, Prompter, question_about
from catchment_research.prompt.questions import OTHER_QUESTION, Answer

MEAN = Mean()
LOCAL = Adam(learning_rate=0.01, tau=1e-8)
Loss = Literal["words", "tokens", "answers"]


@dataclass(frozen=True, eq=False)
class Controlled:
    """Values so far, what the server's optimizer remembers, and how clients did last."""

    values: Arrays
    memory: Arrays = ()
    progress: Progress = UNKNOWN


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptTraining(Algorithm[Controlled, TrainedSum, Prompter]):
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
    optimizer
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
    loss
        "words": of the right label word among the label words. Of the right choice's tokens in
        the whole vocabulary: "tokens", their mean, or "answers", their sum.
    """

    controller: EdgeController
    server: LanguageLink
    epochs: PositiveInt = 1
    batch_size: PositiveInt = 16
    max_steps: PositiveInt | None = None
    local: ServerOptimizer = LOCAL
    optimizer: ServerOptimizer = MEAN
    tell_labels: bool = False
    guard: PromptNoise | None = None
    initial: Arrays | None = None
    at_once: PositiveInt = 32
    loss: Loss = "words"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss == "words" and len(self.server.words) < 2:
            raise ValueError("the server has no label words; pass loss='tokens' or 'answers'")
        if self.guard is not None and self.controller.train_projection:
            raise ValueError("a guard bounds bottlenecks; leave P as the seed made it")
        if self.initial is not None:
            _check(self.initial, self.controller)

    def start(self) -> Controlled:
        values = self.controller.start() if self.initial is None else self.initial
        return Controlled(values, self.optimizer.start(values))

    def broadcast(self, state: Controlled, context: RoundContext) -> Message:
        return Message("controller", {}, tuple(value.astype(np.float32) for value in state.values))

    def group_size(self, n_clients: int, n_threads: int) -> int:
        return self.at_once

    def client_update(self, received: Message, data: Data, context: RoundContext) -> TrainedSum:
        return self.client_updates(received, [(data, context)])[0]

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[TrainedSum]:
        parts = received.expect("controller", len(self.controller.shapes))
        start = tuple(value.astype(np.float64) for value in parts.arrays)
        _check(start, self.controller)
        learners = [
            _Learner(self, start, Owned.of(self, cast(list[Example], list(data()))), context.rng())
            for data, context in clients
        ]
        for step in range(max(len(learner.batches) for learner in learners)):
            active = [learner for learner in learners if step < len(learner.batches)]
            replies = self.server.answers([learner.question(step) for learner in active])
            for learner, reply in zip(active, replies, strict=True):
                learner.learn(step, Answer.from_bytes(reply))
        return [learner.upload() for learner in learners]

    def read_update(self, parts: Message, context: RoundContext) -> TrainedSum:
        return TrainedSum.from_message(parts).expect(*self.controller.shapes)

    def server_update(
        self, state: Controlled, total: TrainedSum, context: RoundContext
    ) -> Controlled:
        values, memory = self.optimizer.step(state.values, total.mean(), state.memory)
        # Whether a whole answer would have been chosen is not looked at while training.
        scored = self.loss == "words" and not self.tell_labels
        return Controlled(values, memory, total.progress(scored=scored))

    def result(self, state: Controlled) -> Prompter:
        """Return the controller with the state's values, and the language model it steers."""
        return Prompter(self, state.values)

    def figures(self, state: Controlled) -> dict[str, float]:
        norm = float(np.sqrt(sum(float((v**2).sum()) for v in state.values)))
        return {**state.progress.figures, "weight norm": norm}


@final
class _Learner:
    """One client in the middle of a round."""

    def __init__(
        self, training: PromptTraining, start: Arrays, owned: Owned, rng: np.random.Generator
    ) -> None:
        self.training, self.start, self.owned = training, start, owned
        self.values, self.memory = start, training.local.start(start)
        size = training.batch_size
        orders = [rng.permutation(owned.n) for _ in range(training.epochs)]
        batches = [rows for order in orders for rows in np.split(order, range(size, owned.n, size))]
        self.batches = batches[: training.max_steps]
        self.loss, self.right, self.met = 0.0, 0, 0  # sums over the examples of all steps

    def question(self, step: int) -> bytes:
        training = self.training
        asked = question_about(
            Prompter(training, self.values),
            self.owned,
            self.batches[step],
            gradient=True,
            choices=training.loss != "words",
        )
        return asked.to_bytes(training.controller.projection)

    def learn(self, step: int, answer: Answer) -> None:
        """Move by the gradient of the batch's mean loss."""
        training, controller = self.training, self.training.controller
        rows = self.batches[step]
        g = self._of_words(rows, answer) if training.loss == "words" else self._of(rows, answer)
        self.met += len(rows)
        z = self.owned.z[rows[: len(g)]]
        if training.guard is not None:
            g = training.guard.pull_back(controller.codes(self.values, z), g)
        gradient = controller.gradient(self.values, z, g / len(rows))
        self.values, self.memory = controller.apply_gradient(
            self.values, gradient, training.local, self.memory
        )

    def _of_words(self, rows: Integers, answer: Answer) -> Array:
        """Note the losses among label words; return their gradients, of each example or summed."""
        training, n = self.training, len(rows)
        if training.tell_labels:
            shared = training.controller.features is None
            g = self._gradients(answer, (n,), (1,) if shared else (n,))
            self.loss += float(answer.values.sum())
            return g
        expected = (n, len(training.server.words) - 1)
        g = self._gradients(answer, expected, expected)
        labels = self.owned.labels[rows]
        loss, slope = losses(answer.values, labels)
        self.loss += float(loss.sum())
        self.right += int((softmax(answer.values).argmax(axis=1) == labels).sum())
        return np.asarray(np.einsum("nl,nl...->n...", slope, g))

    def _of(self, rows: Integers, answer: Answer) -> Array:
        """Note the losses of the right answers; return their gradients, of each example."""
        owned, told = self.owned, self.training.tell_labels
        counts = np.array([1 if told else len(owned.choices[row]) for row in rows])
        expected = (int(counts.sum()),)
        g = self._gradients(answer, expected, expected)
        labels = owned.labels[rows]
        right = np.cumsum(counts) - counts + (0 if told else labels)
        each = np.ones(len(rows))
        if self.training.loss == "tokens":
            pairs = zip(rows, labels, strict=True)
            each = np.array([len(owned.choices[row][label]) for row, label in pairs], dtype=float)
        self.loss -= float((answer.values[right] / each).sum())
        return np.asarray(-g[right] / each.reshape(-1, *[1] * (g.ndim - 1)))

    def _gradients(self, answer: Answer, values: tuple[int, ...], rows: tuple[int, ...]) -> Array:
        """Return the answer's gradients, if it and they have the shapes that were asked for."""
        controller, g = self.training.controller, answer.gradients
        P = controller.projection
        each = (P.length, P.width) if controller.train_projection else (P.bottleneck,)
        if g is None or answer.values.shape != values or g.shape != (*rows, *each):
            raise IntegrityError(OTHER_QUESTION)
        return g

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
