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

What a client makes of its examples, and how it asks about them, is the same once it is trained: a
`Prompter` then takes the likeliest word or answer, or what the model says by itself.

`PromptNoise` clips each prompt's bottleneck, and adds noise to it, before it leaves the client. Two
bottlenecks of length at most C differ by at most 2C, so Gaussian noise of standard deviation s 2C
on every number makes one question (epsilon, delta) private toward the language model's
server, whatever the signal was; R questions about the same signal tell as much as one with noise
s / sqrt R. A training run asks about every example in every epoch, so a little noise is soon none.

The context's tokens, where there are any, are sent as they are: this protects the signal only.

W_out can start in closed form, by federated ridge regression before any client has taken a step.
Which bottleneck makes the language model say a given word needs no client's data: targets for all
labels are trained on public contexts alone. A regression does not hit its targets, it mixes them;
so mixtures are trained, to say the word that has the largest part in them:

    b = B'(e_y + s n),    n normal,    label: the place of the largest entry of e_y + s n

W_out is then the ridge regression of labels on features, times B: one round of exact sums
(`FederatedRidge`), under any protection, the labels inside the statistics. The model says what the
ridge readout of the same features would, as far as it can be steered at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, final

import numpy as np

from catchment import Array, Integers
from catchment.arrays import NonNegativeFloat, PositiveFloat, PositiveInt, check_fields
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import IntegrityError
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, Plan, Protection, RoundContext
from catchment.federation.learn import FederatedRidge
from catchment.privacy.dp import gaussian_epsilon, rounded_normal
from catchment.readout import Readout
from catchment.wire import Message
from catchment_research.learn.optimizers import Adam, Arrays, Mean, ServerOptimizer
from catchment_research.learn.recordings import UNKNOWN, Progress, TrainedSum
from catchment_research.prompt.controller import EdgeController, Example, Projection
from catchment_research.prompt.exchange import (
    OTHER_QUESTION,
    Answer,
    LanguageLink,
    Question,
    as_tokens,
    said_from_bytes,
)
from catchment_research.prompt.language import losses, softmax

MEAN = Mean()
LOCAL = Adam(learning_rate=0.01, tau=1e-8)
FOR_TARGETS = Adam(learning_rate=0.05, tau=1e-8)
Loss = Literal["words", "tokens", "answers"]
ASKED_AT_ONCE = 4096
STEPS = 1 << 20  # fewest grid steps in a standard deviation


@dataclass(frozen=True, eq=False)
class Controlled:
    """Values so far, what the server's optimizer remembers, and how clients did last."""

    values: Arrays
    memory: Arrays = ()
    progress: Progress = UNKNOWN


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
    if all(
        len(one) == len(answers[0]) and all(map(np.array_equal, one, answers[0]))
        for one in answers[1:]
    ):
        answers = answers[:1]
    return Question(prompts, contexts, len(rows), None, gradient, answers)


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
        down = tuple(-slope for slope in gradient)
        self.values, self.memory = training.local.step(self.values, down, self.memory)

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


@dataclass(frozen=True, kw_only=True)
class PromptNoise:
    """A bound on the length of bottlenecks, and noise in units of how far two can lie apart.

    Parameters
    ----------
    bound
        Longest bottleneck; longer ones are shortened to it.
    multiplier
        Noise divided by twice the bound; 0 only shortens.

    >>> short, factor = PromptNoise(bound=1.0).shortened(np.array([[3.0, 4.0], [0.0, 0.5]]))
    >>> short
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    bound: PositiveFloat
    multiplier: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def spread(self) -> float:
        """Standard deviation of the noise on every number."""
        return 2 * self.bound * self.multiplier

    def shortened(self, codes: Array) -> tuple[Array, Array]:
        """Return codes (n, k) no longer than the bound, and the factors (n, 1) that did it."""
        length = np.linalg.norm(codes, axis=1, keepdims=True)
        factor = np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        return codes * factor, factor

    def guarded(self, codes: Array) -> Array:
        """Return what may leave the client instead of codes (n, k)."""
        short, _ = self.shortened(codes)
        if self.multiplier == 0:
            return short
        grid = math.ldexp(1.0, math.floor(math.log2(self.spread / STEPS)))
        noise = rounded_normal(self.spread / grid, short.size).reshape(short.shape)
        return np.asarray((np.trunc(short / grid) + noise) * grid)

    def pull_back(self, codes: Array, gradients: Array) -> Array:
        """Return gradients (n, ..., k) at what left the client as gradients at the codes (n, k)."""
        short, factor = self.shortened(codes)
        if (factor == 1).all():
            return gradients
        wide = (slice(None), *[None] * (gradients.ndim - 2))
        unit = (short / np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-300))[wide]
        across = gradients - unit * (gradients * unit).sum(axis=-1, keepdims=True)
        return np.where(factor[wide] < 1, factor[wide] * across, gradients)

    def epsilon(self, questions: int, delta: float) -> float:
        """Return the bound on what questions about one signal tell; infinite without noise.

        >>> noise = PromptNoise(bound=1.0, multiplier=4.0)
        >>> round(noise.epsilon(1, 1e-5), 2), round(noise.epsilon(20, 1e-5), 2)
        (0.93, 4.98)
        """
        if self.multiplier == 0:
            return math.inf
        return gaussian_epsilon(self.multiplier / math.sqrt(questions), delta)


def label_targets(
    server: LanguageLink,
    projection: Projection,
    contexts: Sequence[Sequence[int] | Integers],
    *,
    steps: int = 80,
    spread: float = 0.3,
    copies: int = 4,
    rule: ServerOptimizer = FOR_TARGETS,
    seed: int = 0,
) -> Array:
    """Return bottlenecks (L, k), trained so that each, and mixtures, make the model say a word.

    Parameters
    ----------
    contexts
        After which it is to be said: anything like what clients will ask about, a template or
        public text; `[()]` for none.
    steps, rule
        How long and how they are trained, from zero.
    spread
        Of what is mixed in; 0 trains each bottleneck by itself.
    copies
        Mixtures of each label in a step.

    >>> from catchment_research.prompt.exchange import LanguageServer
    >>> from catchment_research.prompt.language import SurrogateLM
    >>> P = Projection(bottleneck=4, length=2, width=16)
    >>> label_targets(LanguageServer(SurrogateLM(), P, (1, 2, 3)), P, [(5, 6)], steps=3).shape
    (3, 4)
    """
    if not contexts:
        raise ValueError("there are no contexts; pass at least one, [()] for an empty one")
    read, L = [as_tokens(context) for context in contexts], len(server.words)
    n, rng = L * copies, np.random.default_rng(seed)
    values: Arrays = (np.zeros((L, projection.bottleneck)),)
    memory = rule.start(values)
    for _ in range(steps):
        mixed = np.tile(np.eye(L), (copies, 1)) + spread * rng.normal(size=(n, L))
        asked = [read[k] for k in rng.integers(len(read), size=n)] if len(read) > 1 else read
        question = Question(mixed @ values[0], asked, n, mixed.argmax(axis=1))
        (reply,) = server.answers([question.to_bytes(projection)])
        gradients = Answer.from_bytes(reply).gradients
        if gradients is None or gradients.shape != (n, projection.bottleneck):
            raise IntegrityError(OTHER_QUESTION)
        values, memory = rule.step(values, (-mixed.T @ gradients / n,), memory)
    return values[0]


def regression(features: FeatureMap, ridge: float | Literal["gcv"], **known: Any) -> FederatedRidge:
    """Return the round whose readout tells classes by features; a constant one is the intercept."""
    settings: Any = {"ridge": ridge, "store_per_client": False, "intercept": features.constant}
    return FederatedRidge(features=features, **settings, **known)


def values_of(controller: EdgeController, readout: Readout, targets: Array) -> Arrays:
    """Return a controller's values that give the readout's mixtures of targets (L, k).

    The readout's intercept goes to the constant feature, which the controller must have then.
    """
    features, W_out = controller.features, (readout.weights @ targets).T
    if readout.intercept.any():
        if features is None or not features.constant:
            raise ValueError("the controller has no constant feature; pass features with bias=True")
        one = next(k for k, name in enumerate(features.names()) if "bias" in name)
        W_out[:, one] += readout.intercept @ targets
    return (W_out, *controller.start()[1:])


def closed_form_start(
    controller: EdgeController,
    clients: Mapping[str, Sequence[Example]],
    targets: Array,
    *,
    ridge: float = 0.1,
    protections: tuple[Protection, ...] = (),
) -> Arrays:
    """Return values from one round of federated ridge regression, for `PromptTraining.initial`.

    Parameters
    ----------
    clients
        Examples by client.
    targets
        (L, k) as `label_targets` returns them.
    """
    if controller.features is None:
        raise ValueError("a constant prompt has nothing to regress on; begin at zero")
    L, held = len(targets), {}
    for name, examples in clients.items():
        if any(one.u is None for one in examples):
            raise ValueError("an example has no signal for the reservoir; pass u (steps, channels)")
        held[name] = [Recording.labeled(one.u, one.label, L) for one in examples]
    plan = Plan(algorithm=regression(controller.features, ridge), protections=protections)
    return values_of(controller, run_locally(plan, held).model.readout, targets)
