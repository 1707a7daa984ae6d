"""The data and settings of FedPT's experiments: stand-ins for the paper's, all federated.

writers   MNIST digits by writer, for federated EMNIST (Tables 1 and 5); digits: more rounds
cifar     CIFAR-10 cut by Dirichlet(1) (Tables 2 and 4); cifar_many: to many clients
fashion   clothing in gray, dealt to many clients as CIFAR-10 is (the order of Table 2)
text      addresses or speeches by author, for Stack Overflow (Table 3); words: more rounds
addresses the same texts, every address a client of its own (Table 5)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from catchment.engine import Source
from catchment_research.learn import Mean, Momentum, ServerOptimizer
from catchment_research.partial import IGNORED, EmnistCnn, Examples, LocalSteps, ResNet18, Schedule
from reproductions.data.values import Images
from reproductions.fedpt_data import (
    Augmented,
    by_text,
    dirichlet_owners,
    examples,
    held_out,
    image_set,
    text_set,
)
from reproductions.fedpt_values import FedptSettings, ManySettings, PrivateSettings
from reproductions.networks import Transformer
from reproductions.places import find

N_WORDS = 10_004
PAD, UNKNOWN, END, FIRST_WORD = 0, 1, 2, 4  # 3 is left out: the paper's four extra words
_UNCOUNTED: dict[Callable[[], torch.nn.Module], int] = {Transformer: UNKNOWN}
SIDE = 24  # of images that ResNet-18 sees
CIFAR_STEPS = LocalSteps(learning_rate=0.05, batch_size=32, epochs=2)
TEXT_STEPS = LocalSteps(optimizer="adam", learning_rate=5e-4, batch_size=16, max_steps=64)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# The paper's own sets where a user has them, else the stand-ins.
_WRITERS = ("femnist", "mnist_writers")
_SETS = {
    "writers": _WRITERS,
    "digits": _WRITERS,
    "private": _WRITERS,
    "hundred": _WRITERS,
    "long": _WRITERS,
    "cifar": ("cifar10",),
    "cifar_many": ("cifar10",),
    "cifar_long": ("cifar10",),
    "fashion": ("fashion_mnist",),
    "text": ("stackoverflow", "sotu"),
    "words": ("stackoverflow", "sotu"),
    "speeches": ("shakespeare",),
    "addresses": ("sotu",),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A network's data, and the settings that every share of trainable parameters is run with.

    `owners` names the client of every test example, where they have clients of their own, and
    `classes` counts each training client's examples by class, where its share of the test part is
    told by these.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    clients: Mapping[str, Source]
    test: Examples
    steps: LocalSteps
    clients_per_round: int
    rounds: int
    optimizer: ServerOptimizer = field(default_factory=Mean)
    schedule: Schedule = field(default_factory=Schedule)
    notes: str = ""
    owners: tuple[str, ...] = ()
    classes: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def tested_on(self, n: int | None) -> Task:
        """Return the task with at most this many test examples."""
        if n is None:
            return self
        test = Examples(self.test.x[:n], self.test.y[:n])
        return replace(self, test=test, owners=self.owners[:n])


def task_of(
    part: str,
    settings: FedptSettings,
    directory: Path | None = None,
    *,
    whole: bool = True,
    rate: float | None = None,
    search: bool = False,
) -> Task:
    """Return the data and settings of one part, as for training the whole network or less of it.

    Parameters
    ----------
    rate
        Of learning on CIFAR-10, if not that of the settings.
    search
        Whether it is to choose a rate: in place of the test part, training images or clients that
        are held out.
    """
    s, known = settings, _SETS[part]
    name = next((n for n in known if find(n, directory=directory) is not None), known[-1])
    synthetic = find(name, directory=directory) is None
    private = s.noisy(part)
    if private is not None:
        task = _private_task(part, s, private, name, directory, synthetic=synthetic)
        return held_out_clients(task, private.held_out) if search else task.tested_on(s.n_test)
    if part in ("text", "words", "speeches"):
        texts = text_set(name, directory, synthetic=synthetic)
        steps = replace(TEXT_STEPS, max_steps=s.text_steps, precision=s.precision)
        shown = "synthetic" if synthetic else name
        rounds = s.words_rounds if part == "words" else s.text_rounds
        task = text_task(shown, texts, rounds=rounds, cohort=s.text_cohort, steps=steps)
        if search:
            return held_out_clients(task, s.text_held_out)
        return task.tested_on(s.n_test)
    images = image_set(name, directory, synthetic=synthetic)
    if part == "cifar":
        steps = replace(CIFAR_STEPS, learning_rate=rate or s.cifar_rates[0 if whole else 1])
        task = cifar_task(
            held_out(images, s.cifar_held_out) if search else images,
            rounds=s.cifar_search_rounds if search else s.cifar_rounds,
            cohort=s.cifar_cohort,
            n_clients=s.cifar_clients,
            steps=replace(steps, precision=s.precision),
        )
        return task if search else task.tested_on(s.n_test)
    many = s.dealt(part)
    if many is not None:
        rounds = many.search_rounds if search and part != "cifar_long" else many.rounds
        rate = rate or many.rates[0 if whole else 1]
        task = _many_task(images, s, many, rate, rounds=rounds, search=search)
        return task if search else task.tested_on(s.n_test)
    rounds, cohort = s.writers_rounds, s.writers_cohort
    if part == "digits":
        rounds, cohort = s.digits_rounds, s.digits_cohort
    task = writers_task(images, rounds=rounds, cohort=cohort, n_writers=s.n_writers)
    return task.tested_on(s.n_test)


def baseline(task: Task) -> float:
    """Return what the most frequent target of the training part gets right in the test part."""
    counts: Counter[int] = Counter()
    for name, source in task.clients.items():
        if name in task.classes:
            counts.update(dict(enumerate(task.classes[name].tolist())))
        elif not callable(source):
            for e in cast(list[Examples], source):
                counts.update(
                    e.y[(e.y != IGNORED) & (e.y != _UNCOUNTED.get(task.make, -1))].tolist()
                )
    guess = max(counts, key=lambda target: (counts[target], -target))
    counted = task.test.y[task.test.y != IGNORED]
    return float((counted == guess).mean())


def _many_task(
    images: Images,
    settings: FedptSettings,
    many: ManySettings,
    rate: float,
    *,
    rounds: int,
    search: bool,
) -> Task:
    """Return images dealt to many clients; those of the choice are fewer, of as many images."""
    size = len(images.train) / many.clients
    if search:
        images = held_out(images, many.held_out)
    return cifar_task(
        images,
        rounds=rounds,
        cohort=many.cohort,
        n_clients=round(len(images.train) / size),
        steps=LocalSteps(
            learning_rate=rate,
            batch_size=many.batch,
            epochs=many.epochs,
            precision=settings.precision,
        ),
    )


def _private_task(
    part: str,
    settings: FedptSettings,
    private: PrivateSettings,
    name: str,
    directory: Path | None,
    *,
    synthetic: bool,
) -> Task:
    rounds, cohort = private.rounds, private.cohort
    if part != "addresses":
        images = image_set(name, directory, synthetic=synthetic)
        return writers_task(images, rounds=rounds, cohort=cohort, n_writers=settings.n_writers)
    texts = by_text(text_set(name, directory, synthetic=synthetic))
    steps = replace(TEXT_STEPS, max_steps=settings.addresses_steps, precision=settings.precision)
    shown = "synthetic" if synthetic else name
    return text_task(shown, texts, rounds=rounds, cohort=cohort, steps=steps, clients="addresses")


def held_out_clients(task: Task, number: float) -> Task:
    """Return a task whose test part is clients, drawn at random, who are not trained on.

    Parameters
    ----------
    number
        How many, at most half of them; below 1, which share.
    """
    names = sorted(task.clients)
    n = min(round(number if number >= 1 else number * len(names)), len(names) // 2)
    out = {names[k] for k in np.random.default_rng(0).permutation(len(names))[:n]}
    held = [e for name in sorted(out) for e in cast(list[Examples], task.clients[name])]
    x, y = np.concatenate([e.x for e in held]), np.concatenate([e.y for e in held])
    if task.make is Transformer:
        y = np.where(y == UNKNOWN, IGNORED, y)
    chosen = np.random.default_rng(0).permutation(len(x))[:4000]
    kept = {name: source for name, source in task.clients.items() if name not in out}
    return replace(
        task,
        clients=kept,
        test=Examples(x[chosen], y[chosen]),
        owners=(),
        clients_per_round=min(task.clients_per_round, len(kept)),
    )


def writers_task(images: Images, *, rounds: int, cohort: int, n_writers: int | None = None) -> Task:
    """Return digits by writer with the EMNIST network (62 outputs, ten of them used)."""
    chosen = dict(list(images.positions.items())[:n_writers])
    return Task(
        name=images.name,
        make=EmnistCnn,
        clients={
            name: [examples(images.train[where], images.train_labels[where])]
            for name, where in chosen.items()
        },
        test=examples(images.test, images.test_labels),
        steps=LocalSteps(learning_rate=0.05, batch_size=16),
        clients_per_round=min(cohort, len(chosen)),
        rounds=rounds,
        notes=f"{len(chosen)} writers",
        owners=images.test_clients,
    )


def cifar_task(
    images: Images,
    *,
    rounds: int,
    cohort: int,
    n_clients: int,
    steps: LocalSteps = CIFAR_STEPS,
) -> Task:
    """Return CIFAR-10, or gray images, by Dirichlet(1) with ResNet-18 (ten of 100 outputs used).

    As in the paper images are cut to 24 x 24 pixels and mirrored at random, anew in every round;
    test images are cut from the middle. Grey ones have the same value in all three channels.
    """
    images = replace(images, train=_colored(images.train), test=_colored(images.test))
    owners = dirichlet_owners(images.train_labels, n_clients, alpha=1.0, seed=0)
    clients: dict[str, Source] = {}
    classes = {}
    for k in range(n_clients):
        mine = owners == k
        if mine.any():
            name, labels = f"client-{k:03d}", images.train_labels[mine]
            clients[name] = Augmented(images.train[mine], labels, seed=[0, k], side=SIDE)
            classes[name] = np.bincount(labels, minlength=10)
    edge = (images.test.shape[1] - SIDE) // 2
    middle = slice(edge, edge + SIDE)
    return Task(
        name=images.name,
        make=ResNet18,
        clients=clients,
        test=examples(images.test[:, middle, middle], images.test_labels),
        steps=steps,
        clients_per_round=min(cohort, len(clients)),
        rounds=rounds,
        optimizer=Momentum(momentum=0.5),
        schedule=Schedule(cosine=rounds),
        notes=f"{len(images.train)} images, {n_clients} clients",
        classes=classes,
    )


def _colored(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images (n, height, width, 3); color images are as they were."""
    return pixels if pixels.ndim == 4 else np.repeat(pixels[..., None], 3, axis=3)


def text_task(
    name: str,
    texts: Mapping[str, Sequence[str]],
    *,
    rounds: int,
    cohort: int,
    steps: LocalSteps = TEXT_STEPS,
    n_steps: int = 20,
    clients: str = "authors",
) -> Task:
    """Return next-word prediction by author; the last tenth of each author's words is for test.

    The vocabulary is the most frequent words of the training part, from counts that authors add in
    the clear. Accuracy counts words of the vocabulary only, and the end of a text.
    """
    words = {author: [_WORD.findall(text.lower()) for text in own] for author, own in texts.items()}
    streams = {author: [*(w for text in own for w in (*text, ""))] for author, own in words.items()}
    cuts = {author: len(stream) * 9 // 10 for author, stream in streams.items()}
    counts = Counter(w for author, stream in streams.items() for w in stream[: cuts[author]] if w)
    known = [word for word, _ in counts.most_common(N_WORDS - FIRST_WORD)]
    numbers = {"": END, **{word: k for k, word in enumerate(known, start=FIRST_WORD)}}
    train, test = {}, []
    for author, stream in streams.items():
        ids = np.array([numbers.get(word, UNKNOWN) for word in stream])
        if cuts[author] > 1:
            train[author] = [windows(ids[: cuts[author]], n_steps)]
        if len(ids) - cuts[author] > 1:
            test.append(windows(ids[cuts[author] :], n_steps))
    x, y = np.concatenate([t.x for t in test]), np.concatenate([t.y for t in test])
    chosen = np.random.default_rng(0).permutation(len(x))[:4000]
    return Task(
        name=name,
        make=Transformer,
        clients=train,
        test=Examples(x[chosen], np.where(y[chosen] == UNKNOWN, IGNORED, y[chosen])),
        steps=steps,
        clients_per_round=min(cohort, len(train)),
        rounds=rounds,
        notes=f"{len(train)} {clients}, {len(known)} words known",
    )


def windows(ids: NDArray[np.int64], n_steps: int) -> Examples:
    """Return words (n, n_steps) and the words after them; the last window is filled up.

    >>> windows(np.array([5, 6, 7, 8]), 2).y.tolist()
    [[6, 7], [8, -100]]
    """
    n = -(-(len(ids) - 1) // n_steps)
    x, y = np.full(n * n_steps, PAD), np.full(n * n_steps, IGNORED)
    x[: len(ids) - 1], y[: len(ids) - 1] = ids[:-1], ids[1:]
    return Examples(x.reshape(n, n_steps), y.reshape(n, n_steps))
