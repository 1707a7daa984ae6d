"""What privacy costs: accuracy against epsilon, on real people and on generated ones.

    python -m benchmarks.private [--quick]

Exact federated ridge with Gaussian noise on clipped statistics (delta 1e-5, noise on the sum once),
median accuracy of several draws of the noise on people who took no part in training. Everything the
clip needs comes from people whose data count as public and who are neither trained on nor tested:
the bound alone, or the bound and a whitening of the features.

* writers: MNIST digits by the people who wrote them, an image as 28 steps of 28 pixels; the unit
  of privacy is a writer. 20 of them are public.
* UCI HAR: 21 people of the official training part, tested on the other 9. With the unit "client"
  that is far below what the library accepts without being told to; with the unit "sequence" the
  records are windows of 2.56 s. Public data are MotionSense, other people with another phone.
* wearables: generated people, 10 of them public.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add

import numpy as np

from benchmarks import record
from catchment import Array, Integers
from catchment.data import Recording, wearable_user
from catchment.features import EchoState, Reservoir
from catchment.federation import RoundContext
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.privacy import Clip, GaussianNoise
from catchment.readout import Readout, RidgeStatistics, accumulate
from reproductions.data.load import load_images
from reproductions.people import scale_each
from reproductions.places import load

EPSILONS = (8.0, 4.0, 2.0, 1.0)
DELTA = 1e-5
Clients = Mapping[str, Sequence[Recording]]


@dataclass(frozen=True)
class Task:
    """People to learn from, people to test on, and people whose data anyone may see."""

    train: Clients
    test: Clients
    public: Clients
    segments: int = 1

    def features(self, units: int) -> EchoState:
        n_inputs = next(iter(self.train.values()))[0].n_inputs
        reservoir = Reservoir(units=units, inputs=n_inputs, leak_rate=0.3, seed=1)
        return EchoState.of(reservoir, input=False, pool="mean", segments=self.segments)


def writers(n_public: int, n_test: int, n_train: int) -> Task:
    images = load_images("mnist_writers")

    def people(test: bool) -> list[list[Recording]]:
        pixels = images.test if test else images.train
        labels = images.test_labels if test else images.train_labels
        names = np.array(images.test_clients if test else images.train_clients)
        order = np.argsort(names, kind="stable")
        cuts = np.flatnonzero(names[order][1:] != names[order][:-1]) + 1
        return [
            [Recording.labeled(pixels[i] / 255.0, int(labels[i]), 10) for i in of]
            for of in np.split(order, cuts)
        ]

    first, second = people(test=False), people(test=True)
    public = {f"p{k}": data for k, data in enumerate(first[:n_public])}
    train = {f"w{k}": data for k, data in enumerate(first[n_public:][:n_train])}
    test = {f"t{k}": data for k, data in enumerate(second[:n_test])}
    return Task(train, test, public, segments=2)


def har() -> Task:
    data, other = load("uci_har"), load("motionsense")
    # Each client standardizes its channels by itself; nothing is shared for that.
    return Task(scale_each(data.train), scale_each(data.test), scale_each(other.clients))


def wearables(n: int) -> Task:
    def people(first: int, count: int) -> dict[str, list[Recording]]:
        return {
            f"u{k:05d}": wearable_user(0, k, windows_per_user=20, steps=64)
            for k in range(first, first + count)
        }

    return Task(people(0, n), people(50_000, 100), people(90_000, 10))


def rows(features: EchoState, clients: Clients) -> tuple[Array, Integers]:
    sequences = [s for data in clients.values() for s in data]
    z = np.concatenate(features.rows([s.u for s in sequences]))
    return z, np.array([int(np.argmax(s.y)) for s in sequences if s.y is not None])


def accuracy(readout: Readout, z: Array, labels: Integers) -> float:
    return float((readout(z).argmax(axis=1) == labels).mean())


@dataclass(frozen=True)
class Uploads:
    """The statistics of every client, or of every sequence, made one after the other."""

    features: EchoState
    clients: Clients
    unit: str

    def __iter__(self) -> Iterator[RidgeStatistics]:
        for data in self.clients.values():
            if self.unit == "client":
                yield accumulate(self.features, data)
                continue
            # One row per pooled sequence: what `RecordLevel` would send, without its overhead.
            z = np.concatenate(self.features.rows([s.u for s in data]))
            for row, sequence in zip(z, data, strict=True):
                assert sequence.y is not None
                yield RidgeStatistics.from_states(
                    row[None], sequence.y[None], fingerprint=self.features.fingerprint
                )


def measure(task: Task, units: int, unit: str, draws: int) -> dict[str, object]:
    features = task.features(units)
    z, labels = rows(features, task.test)
    sent, public = Uploads(features, task.train, unit), Uploads(features, task.public, unit)
    exact = reduce(add, sent)
    n_records = sum(1 if unit == "client" else len(data) for data in task.train.values())
    scores: dict[str, object] = {
        "without": round(accuracy(exact.solve(1e-5 * exact.weight), z, labels), 4)
    }
    for name, whiten in (("bound", False), ("bound and whitening", True)):
        clip = Clip.from_public(islice(public, 2000), whiten=whiten)
        scores[name] = private(features, clip, sent, draws, z, labels)
    return {
        "clients": len(task.train),
        "records": n_records,
        "features": features.n_features,
        "accuracy": scores,
    }


def private(
    features: EchoState, clip: Clip, sent: Uploads, draws: int, z: Array, labels: Integers
) -> dict[str, float]:
    """Return the median accuracy over draws of the noise, by epsilon."""
    algorithm = FederatedRidge(features=features, ridge=0.0, store_per_client=False)
    context = RoundContext(0, ("everybody",))
    noises = [
        GaussianNoise(epsilon=epsilon, delta=DELTA, clip=clip, min_clients=1, small_cohort=True)
        for epsilon in EPSILONS
    ]
    # Clipped once, to the steps of the least noise, which is finer than the others need.
    finest = min(noise.step for noise in noises)
    total = reduce(add, (clip.clipped(s, finest) for s in sent))
    scores = {}
    for noise in noises:
        found = []
        for _ in range(draws):
            released = noise.on_server(total, context, algorithm.read_update)
            state = algorithm.server_update(RidgeState(), released, context)
            assert state.readout is not None
            found.append(accuracy(state.readout, z, labels))
        scores[f"{noise.epsilon:g}"] = round(float(np.median(found)), 4)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few people, few draws")
    quick = parser.parse_args().quick
    draws = 3 if quick else 7
    jobs: dict[str, tuple[Callable[[], Task], str]] = {
        "writers": (lambda: writers(20, 40 if quick else 150, 60 if quick else 10_000), "client"),
        "UCI HAR, per client": (har, "client"),
        "UCI HAR, per sequence": (har, "sequence"),
        "wearables, 100 people": (lambda: wearables(100), "client"),
        "wearables, 1000 people": (lambda: wearables(200 if quick else 1000), "client"),
    }
    results: dict[str, object] = {}
    print("| task | units | clip | without | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |")
    for name, (make, unit) in jobs.items():
        task = make()
        found = {}
        for units in (30, 100):
            started = time.perf_counter()
            found[str(units)] = one = measure(task, units, unit, draws)
            one["seconds"] = round(time.perf_counter() - started, 1)
            scores = one["accuracy"]
            assert isinstance(scores, dict)
            for clip in ("bound", "bound and whitening"):
                cells = " | ".join(f"{v:.3f}" for v in scores[clip].values())
                print(f"| {name} | {units} | {clip} | {scores['without']:.3f} | {cells} |")
        results[name] = {"unit": unit, "units": found}
    settings = {"delta": DELTA, "epsilons": EPSILONS, "draws": draws, "quick": quick}
    print(record.write("private", {"settings": settings, "tasks": results}))


if __name__ == "__main__":
    main()
