"""The data and settings of FedPT's experiments: stand-ins for the paper's, all federated.

    writers   MNIST digits by writer, for federated EMNIST (Tables 1 and 5)
    cifar     CIFAR-10 cut by Dirichlet(1) (Tables 2 and 4)
    text      addresses or speeches by author, for Stack Overflow (Table 3)
    addresses the same texts, every address a client of its own (Table 5)

Where a set is not on this machine, invented data of the same shape stand in, to see that all works.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from catchment.data.clients import client_name
from catchment.engine.local import Source
from catchment.federation.learn.optimisers import Mean, Momentum, ServerOptimiser
from catchment.partial.local import IGNORED, Examples, LocalSteps
from catchment.partial.schedule import Schedule
from reproductions.data.load import load_images, load_texts
from reproductions.data.values import Images, Text
from reproductions.fedpt_values import FedptSettings, PrivateSettings
from reproductions.networks import EmnistCnn, ResNet18, Transformer
from reproductions.places import find

N_WORDS = 10_004
PAD, UNKNOWN, END, FIRST_WORD = 0, 1, 2, 4  # 3 is left out: the paper's four extra words
CIFAR_STEPS = LocalSteps(learning_rate=0.05, batch_size=32, epochs=2)
TEXT_STEPS = LocalSteps(optimiser="adam", learning_rate=5e-4, batch_size=16, max_steps=64)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# The paper's own sets where a user has them, else the stand-ins.
_WRITERS = ("femnist", "mnist_writers")
_SETS = {
    "writers": _WRITERS,
    "private": _WRITERS,
    "hundred": _WRITERS,
    "cifar": ("cifar10",),
    "text": ("stackoverflow", "sotu"),
    "speeches": ("shakespeare",),
    "addresses": ("sotu",),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A network's data, and the settings that every share of trainable parameters is run with."""

    name: str
    make: Callable[[], torch.nn.Module]
    clients: Mapping[str, Source]
    test: Examples
    steps: LocalSteps
    clients_per_round: int
    rounds: int
    optimiser: ServerOptimiser = field(default_factory=Mean)
    schedule: Schedule = field(default_factory=Schedule)
    notes: str = ""

    def tested_on(self, n: int | None) -> Task:
        """Return the task with at most this many test examples."""
        return self if n is None else replace(self, test=Examples(self.test.x[:n], self.test.y[:n]))


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
        Whether it is to choose that rate, or with noise the server's: in place of the test part,
        training images or clients that are held out.
    """
    s, known = settings, _SETS[part]
    name = next((n for n in known if find(n, directory=directory) is not None), known[-1])
    invented = find(name, directory=directory) is None
    private = s.noisy(part)
    if private is not None:
        task = _private_task(part, s, private, name, directory, invented=invented)
        return held_out_clients(task, private.held_out) if search else task.tested_on(s.n_test)
    if part in ("text", "speeches"):
        texts = text_set(name, directory, invented=invented)
        steps = replace(TEXT_STEPS, max_steps=s.text_steps, precision=s.precision)
        shown = "invented" if invented else name
        task = text_task(shown, texts, rounds=s.text_rounds, cohort=s.text_cohort, steps=steps)
        return task.tested_on(s.n_test)
    images = image_set(name, directory, invented=invented)
    if part == "cifar":
        task = cifar_task(
            held_out(images, s.cifar_held_out) if search else images,
            rounds=s.cifar_search_rounds if search else s.cifar_rounds,
            cohort=s.cifar_cohort,
            n_clients=s.cifar_clients,
            steps=replace(
                CIFAR_STEPS,
                learning_rate=rate or s.cifar_rates[0 if whole else 1],
                precision=s.precision,
            ),
        )
        return task if search else task.tested_on(s.n_test)
    task = writers_task(
        images, rounds=s.writers_rounds, cohort=s.writers_cohort, n_writers=s.n_writers
    )
    return task.tested_on(s.n_test)


def _private_task(
    part: str,
    settings: FedptSettings,
    private: PrivateSettings,
    name: str,
    directory: Path | None,
    *,
    invented: bool,
) -> Task:
    rounds, cohort = private.rounds, private.cohort
    if part != "addresses":
        images = image_set(name, directory, invented=invented)
        return writers_task(images, rounds=rounds, cohort=cohort, n_writers=settings.n_writers)
    texts = by_text(text_set(name, directory, invented=invented))
    steps = replace(TEXT_STEPS, max_steps=settings.addresses_steps, precision=settings.precision)
    shown = "invented" if invented else name
    return text_task(shown, texts, rounds=rounds, cohort=cohort, steps=steps, clients="addresses")


def held_out_clients(task: Task, n: int) -> Task:
    """Return a task whose test part is n clients, drawn at random, who are not trained on."""
    names = sorted(task.clients)
    n = min(n, len(names) // 2)
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
        clients_per_round=min(task.clients_per_round, len(kept)),
    )


def by_text(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return texts by author and number, each by itself.

    >>> by_text({"ann": ["one", "two"]})
    {'ann 000': ['one'], 'ann 001': ['two']}
    """
    return {
        f"{author} {k:03d}": [text] for author, own in texts.items() for k, text in enumerate(own)
    }


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
    )


def cifar_task(
    images: Images,
    *,
    rounds: int,
    cohort: int,
    n_clients: int,
    steps: LocalSteps = CIFAR_STEPS,
) -> Task:
    """Return CIFAR-10 cut by Dirichlet(1) with ResNet-18 (100 outputs, ten of them used).

    As in the paper images are cut to 24 x 24 pixels and mirrored at random, anew in every round;
    test images are cut from the middle.
    """
    owners = dirichlet_owners(images.train_labels, n_clients, alpha=1.0, seed=0)
    clients = {}
    for k in range(n_clients):
        mine = owners == k
        if mine.any():
            clients[client_name(k)] = augmented(
                images.train[mine], images.train_labels[mine], seed=[0, k]
            )
    middle = slice(4, 28)
    return Task(
        name=images.name,
        make=ResNet18,
        clients=clients,
        test=examples(images.test[:, middle, middle], images.test_labels),
        steps=steps,
        clients_per_round=min(cohort, len(clients)),
        rounds=rounds,
        optimiser=Momentum(momentum=0.5),
        schedule=Schedule(cosine=rounds),
        notes=f"{len(images.train)} images, {n_clients} clients",
    )


def held_out(images: Images, n: int) -> Images:
    """Return images with n of the training part, drawn at random, in place of the test part."""
    order = np.random.default_rng(0).permutation(len(images.train))
    kept, out = np.sort(order[n:]), np.sort(order[:n])
    return replace(
        images,
        train=images.train[kept],
        train_labels=images.train_labels[kept],
        test=images.train[out],
        test_labels=images.train_labels[out],
        train_clients=(),
        test_clients=(),
    )


def augmented(
    pixels: NDArray[np.uint8], labels: NDArray[Any], *, seed: Sequence[int], side: int = 24
) -> Callable[[], list[Examples]]:
    """Return a client's images as a function: cut and mirrored anew whenever it is called."""
    calls = count()

    def drawn() -> list[Examples]:
        rng = np.random.default_rng([*seed, next(calls)])
        n, room = len(pixels), pixels.shape[1] - side
        across = np.arange(side)[None, :]
        rows = rng.integers(0, room + 1, n)[:, None] + across
        columns = rng.integers(0, room + 1, n)[:, None] + across
        columns = np.where(rng.random(n)[:, None] < 0.5, columns, columns[:, ::-1])
        cut = pixels[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
        return [examples(cut, labels)]

    return drawn


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


def dirichlet_owners(
    labels: NDArray[Any], n_clients: int, *, alpha: float, seed: int
) -> NDArray[np.int64]:
    """Return the client (n,) of each example; a client's classes follow a Dirichlet draw.

    Clients get equally many examples, drawn by their class shares while the classes last.

    >>> owners = dirichlet_owners(np.arange(100) % 10, 5, alpha=1.0, seed=0)
    >>> np.bincount(owners)
    array([20, 20, 20, 20, 20])
    """
    rng = np.random.default_rng(seed)
    n_classes = int(labels.max()) + 1
    left = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(n_classes)]
    owners = np.empty(len(labels), dtype=np.int64)
    for k in range(n_clients):
        share = rng.dirichlet(np.full(n_classes, alpha))
        size = len(labels) * (k + 1) // n_clients - len(labels) * k // n_clients
        for _ in range(size):
            weights = share * [bool(pool) for pool in left]
            if weights.sum() == 0:
                weights = np.array([float(len(pool)) for pool in left])
            c = int(rng.choice(n_classes, p=weights / weights.sum()))
            owners[left[c].pop()] = k
    return owners


def examples(pixels: NDArray[np.uint8], labels: NDArray[Any]) -> Examples:
    """Return grey or colour images as (n, channels, height, width) around zero."""
    x = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    scaled = (x / np.float32(255) - np.float32(0.5)) * np.float32(2)
    return Examples(np.ascontiguousarray(scaled), labels.astype(np.int64))


def image_set(name: str, directory: Path | None, *, invented: bool) -> Images:
    """Return a set of images, or invented ones of its shape."""
    if not invented:
        return load_images(name, directory=directory)
    shape = (28, 28) if name == "mnist_writers" else (32, 32, 3)
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, *shape))
    labels = rng.integers(0, 10, 1200).astype(np.uint8)
    noise = rng.integers(0, 256, (1200, *shape))
    pixels = (0.5 * patterns[labels] + 0.5 * noise).astype(np.uint8)
    writers = tuple(f"writer-{k % 40:02d}" for k in range(1000))
    return Images(
        name="invented",
        train=pixels[:1000].copy(),
        train_labels=labels[:1000].copy(),
        test=pixels[1000:].copy(),
        test_labels=labels[1000:].copy(),
        classes=tuple(str(k) for k in range(10)),
        train_clients=writers,
    )


def text_set(name: str, directory: Path | None, *, invented: bool) -> dict[str, list[str]]:
    """Return texts by author, or invented ones: words that mostly follow a fixed order."""
    if not invented:
        return _by_author(load_texts(name, directory=directory).train)
    rng = np.random.default_rng(0)
    after = rng.permutation(400)
    texts = {}
    for k in range(12):
        word, said = int(rng.integers(400)), []
        for _ in range(600):
            word = int(after[word]) if rng.random() < 0.8 else int(rng.integers(400))
            said.append("w" + "".join(chr(97 + int(d)) for d in f"{word:03d}"))
        texts[f"author-{k:02d}"] = [" ".join(said)]
    return texts


def _by_author(texts: Iterable[Text]) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for text in texts:
        if text.client is not None:
            by.setdefault(text.client, []).append(text.text)
    return by
