"""What a frozen language model is steered to say: three tasks, cut into clients.

- Routing: a sensor at one of three levels, and the word for it. A toy that a reservoir must solve.
- Sentiment (SST-2): the model reads a film review and says whether it is positive. The reservoir
  reads the same words, as embeddings brought down to a few channels at random.
- Sensors to words: the model reads nothing but "The person is"; what the person does is in a window
  of motion signals that only the reservoir has seen. Test subjects are unseen people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording, cohorts, label_skew
from catchment.features.echo_state import Purpose, Words, signs
from catchment_research.prompt import Example
from reproductions.data.text import sst2
from reproductions.data.values import Text
from reproductions.people import scale_each
from reproductions.places import load

REVIEW = "Review: {}\nSentiment:"
PERSON = "The person is"
ROUTE = "Go"
ROUTES = ("left", "right", "home")
LEVELS = (-0.8, 0.0, 0.8)
SENTIMENTS = ("negative", "positive")
# The publishers' names are no words a sentence would go on with; these are, one token each.
ACTIVITIES = {
    "WALKING": "walking",
    "WALKING_UPSTAIRS": "climbing",
    "WALKING_DOWNSTAIRS": "descending",
    "SITTING": "sitting",
    "STANDING": "standing",
    "LAYING": "lying",
    "downstairs": "descending",
    "upstairs": "climbing",
    "walking": "walking",
    "jogging": "jogging",
    "sitting": "sitting",
    "standing": "standing",
}
Sensors = Literal["uci_har", "motionsense"]


class Reader(Protocol):
    """A language model that can also be given text."""

    @property
    def spread(self) -> float: ...

    def tokens(self, text: str) -> Integers: ...

    def label_words(self, words: Sequence[str], *, after: str = ".") -> tuple[int, ...]: ...

    def embed(self, tokens: Sequence[int] | Integers) -> Array: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class WordTask:
    """Examples by client, examples to choose and to judge by, and the words that answer.

    Parameters
    ----------
    words
        Tokens of the label words.
    development
        To choose settings by.
    test
        To be looked at once.
    """

    name: str
    classes: tuple[str, ...]
    words: tuple[int, ...]
    clients: Mapping[str, Sequence[Example]]
    development: Sequence[Example]
    test: Sequence[Example]
    notes: tuple[str, ...] = ()

    @property
    def n_inputs(self) -> int:
        """Channels that the reservoir reads; 0 if the examples have no signal."""
        first = next(iter(self.clients.values()))[0]
        return 0 if first.u is None else int(first.u.shape[1])

    @property
    def n_train(self) -> int:
        return sum(len(examples) for examples in self.clients.values())

    @cached_property
    def contexts(self) -> tuple[Integers, ...]:
        """The different contexts of the first client's first examples, at most 64."""
        first = next(iter(self.clients.values()))[:64]
        return tuple({tuple(e.context): np.asarray(e.context) for e in first}.values())

    def within(self, n: int) -> WordTask:
        """Return the task with at most this many examples per client and set, evenly taken.

        >>> few = routing_task(per_client=9, n_test=12).within(3)
        >>> few.n_train, len(few.test)
        (9, 3)
        """
        return replace(
            self,
            clients={name: _thin(examples, n) for name, examples in self.clients.items()},
            development=_thin(self.development, n),
            test=_thin(self.test, n),
        )


def routing_task(
    reader: Reader | None = None,
    *,
    n_clients: int = 3,
    per_client: int = 9,
    n_test: int = 12,
    steps: int = 30,
    noise: float = 0.1,
    seed: int = 0,
) -> WordTask:
    """Return the toy: a noisy constant level, and which of three ways to go.

    Parameters
    ----------
    reader
        Whose tokens the words are; without one, words are tokens 0, 1 and 2 and contexts empty.
    per_client, n_test
        Examples of each client, and of the development and test sets each.

    >>> task = routing_task()
    >>> task.n_train, task.clients["client-000"][0].u.shape
    (27, (30, 1))
    """
    rng = np.random.default_rng([seed, 0x2071])
    context = () if reader is None else reader.tokens(ROUTE)

    def drawn(n: int) -> list[Example]:
        return [
            Example(k % 3, LEVELS[k % 3] + noise * rng.normal(size=(steps, 1)), context)
            for k in range(n)
        ]

    return WordTask(
        name="routing",
        classes=ROUTES,
        words=(0, 1, 2) if reader is None else _answers(reader, ROUTES, ROUTE),
        clients={f"client-{k:03d}": drawn(per_client) for k in range(n_clients)},
        development=drawn(n_test),
        test=drawn(n_test),
        notes=("synthetic signals",),
    )


def sst2_task(
    reader: Reader,
    *,
    n_clients: int = 4,
    alpha: float = 0.3,
    channels: int = 64,
    seed: int = 0,
    directory: Path | str | None = None,
) -> WordTask:
    """Return SST-2's whole sentences, cut into clients whose classes follow a Dirichlet draw.

    Parameters
    ----------
    reader
        The language model: its tokens are the contexts, its embeddings the reservoir's signal.
    alpha
        Concentration: the smaller, the more the clients differ.
    channels
        Channels that embeddings are brought down to by a random matrix of signs.
    seed
        Names the cut and the random matrix.
    directory
        Data directory; the usual ones if not given.
    """
    texts = sst2(directory=directory, sentences=True)
    mixing = _mixing(reader, channels, seed)

    def read(text: Text) -> Example:
        words = reader.tokens(text.text)
        u = np.asarray(reader.embed(words) @ mixing, dtype=np.float32).astype(np.float64)
        return Example(text.label or 0, u, reader.tokens(REVIEW.format(text.text)))

    train = [read(text) for text in texts.train]
    # Labels decide who gets what; the signals are not looked at.
    places = [Recording.labeled([[float(k)]], e.label, 2) for k, e in enumerate(train)]
    cut = label_skew(places, n_clients, alpha=alpha, seed=seed)
    return WordTask(
        name="sst2",
        classes=SENTIMENTS,
        words=_answers(reader, SENTIMENTS, REVIEW),
        clients={name: [train[int(p.u[0, 0])] for p in part] for name, part in cut.items()},
        development=[read(text) for text in texts.development],
        test=[read(text) for text in texts.test],
        notes=texts.notes,
    )


def sensors_task(
    reader: Reader,
    name: Sensors = "uci_har",
    *,
    seed: int = 0,
    directory: Path | str | None = None,
) -> WordTask:
    """Return windows of motion signals by subject, and the word for what the subject does.

    Each subject is scaled by their own mean and deviation. UCI HAR's test subjects are the
    publisher's; MotionSense's are a fifth of its people.

    Parameters
    ----------
    seed
        Names the split of the subjects.
    directory
        Data directory; the usual ones if not given.
    """
    data = load(name, directory=directory)
    scaled = scale_each(data.clients)
    known = [subject for subject in scaled if subject not in data.test_clients]
    share = 0.2 if not data.test_clients else 0
    training, validation, test = cohorts(known, validation=0.2, test=share, seed=seed)
    classes = tuple(ACTIVITIES[label] for label in data.classes)
    context = reader.tokens(PERSON)

    def read(subjects: Sequence[str]) -> list[Example]:
        return [
            Example(int(np.argmax(window.y)), window.u, context)
            for subject in sorted(subjects)
            for window in scaled[subject]
            if window.y is not None
        ]

    return WordTask(
        name=name,
        classes=classes,
        words=_answers(reader, classes, PERSON),
        clients={subject: read([subject]) for subject in sorted(training)},
        development=read(validation),
        test=read(data.test_clients or test),
        notes=data.notes,
    )


def recorded(examples: Sequence[Example], n_classes: int) -> list[Recording]:
    """Return examples as labeled sequences, for readouts that need no language model.

    >>> recorded([Example(1, np.zeros((4, 2)))], 3)[0].y
    array([0., 1., 0.])
    """
    signals = [example.u for example in examples if example.u is not None]
    if len(signals) < len(examples):
        raise ValueError("an example has no signal; a readout needs one")
    return [
        Recording.labeled(u, example.label, n_classes)
        for u, example in zip(signals, examples, strict=True)
    ]


def _answers(reader: Reader, words: Sequence[str], after: str) -> tuple[int, ...]:
    """Return the first tokens of words as they follow the end of a template."""
    return reader.label_words([f" {word}" for word in words], after=after[-1:])


def _mixing(reader: Reader, channels: int, seed: int) -> Array:
    """Return a random matrix (d, channels) that gives embeddings about unit size."""
    width = reader.embed([0]).shape[1]
    rng = Words(seed=seed, layer=9, purpose=Purpose.PROMPT)
    drawn = signs(rng, width * channels).reshape(width, channels)
    return np.asarray(drawn / (np.sqrt(width) * reader.spread))


def _thin(examples: Sequence[Example], n: int) -> list[Example]:
    if len(examples) <= n:
        return list(examples)
    return [examples[k] for k in np.linspace(0, len(examples) - 1, n).round().astype(int)]
