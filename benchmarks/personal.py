"""Do readouts of one's own help real people, and do they harm any?

Subjects of UCI HAR and MotionSense in four folds. A fold's subjects take no part in the shared
model, which the others train; each then makes a readout of its own from the earlier half of its
windows (of each activity) and is tested on the later half. Windows of 128 steps do not overlap.
Recordings of MotionSense are in the order of its trials. Of UCI HAR's segments the order is lost,
so there the earlier half is that of every segment; with segments in the order of the file one
subject of thirty was harmed (by .04; one seed).

The rule that keeps a client from leaving the shared readout was chosen among about ten on the later
halves of UCI HAR and MotionSense themselves, so what it gains there is optimistic. WISDM was not
looked at before: its rows are the clean ones.

    python -m benchmarks.personal            # writes benchmarks/results/personal.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np

from benchmarks.record import RESULTS, write
from catchment import evaluate
from catchment.data import Dealt, Recording, Scaler
from catchment.engine import run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge, own_readout
from catchment.readout import ClassCounts, Model
from reproductions.places import load

SETS = ("uci_har", "motionsense", "wisdm_watch")
N_FOLDS = 4
STEPS = 128
Pair = tuple[ClassCounts, ClassCounts]  # of the shared readout and of the personal one


def people(data: str) -> tuple[Dealt, tuple[str, ...]]:
    """Return each subject's windows, earlier ones first, and the names of the activities."""
    if data == "uci_har":
        dataset = load(data, window="whole")
        clients = {name: windows(segments) for name, segments in dataset.clients.items()}
    else:
        dataset = load(data, window=STEPS, step=STEPS)
        clients = {name: list(part) for name, part in dataset.clients.items()}
    assert dataset.classes is not None
    return clients, dataset.classes


def windows(segments: Iterable[Recording]) -> list[Recording]:
    """Return windows in the order of their place within their own segment."""
    placed = []
    for segment in segments:
        n = segment.n_steps // STEPS
        for k in range(n):
            placed.append((k / n, replace(segment, u=segment.u[k * STEPS : (k + 1) * STEPS])))
    return [window for _, window in sorted(placed, key=lambda pair: pair[0])]


@dataclass(frozen=True)
class Outcome:
    """What own readouts did for the subjects of one data set, mean over seeds."""

    data: str
    n_subjects: int
    shared: float
    personal: float
    macro_f1_shared: float
    macro_f1_personal: float
    worst_shared: float
    worst_personal: float
    worst_change: float
    worst_subject: str
    worst_single_run: float
    n_helped: int
    n_harmed: int
    n_moved: float


@dataclass(frozen=True)
class Comparison:
    """What the shared and the personal readout took for what, on one subject's later data."""

    shared: ClassCounts
    personal: ClassCounts
    has_moved: bool


def compare(
    clients: Dealt, classes: tuple[str, ...], *, units: int, seed: int
) -> dict[str, Comparison]:
    """Return the comparison of each subject with a model of the other folds."""
    names = sorted(clients)
    found: dict[str, Comparison] = {}
    for k in range(N_FOLDS):
        held_out = names[k::N_FOLDS]
        training = {name: clients[name] for name in names if name not in held_out}
        scaler = Scaler.fit(one for own in training.values() for one in own)
        n_inputs = len(scaler.mean)
        recipe = Reservoir(
            units=units,
            inputs=n_inputs,
            spectral_radius=0.9,
            leak_rate=0.3,
            input_scaling=0.5,
            seed=seed,
        )
        features = EchoState.of(recipe, pool="mean_std")
        shared = FederatedRidge(features=features, classes=classes)
        scaled = {name: scaler.apply(part) for name, part in training.items()}
        state = run_locally(Plan(algorithm=shared), scaled).state
        assert state.readout is not None
        model = Model(features, state.readout, classes, state.total)
        for name in held_out:
            earlier, later = halves(list(scaler.apply(clients[name])))
            before = confusion(model, later)
            own = own_readout(features, state.readout, earlier, classes=True)
            mine = replace(model, readout=own.readout, statistics=None)
            found[name] = Comparison(before, confusion(mine, later), own.step > 0)
    return found


def both(a: Pair, b: Pair) -> Pair:
    """Return two subjects' counts as one."""
    return a[0] + b[0], a[1] + b[1]


def confusion(model: Model, recordings: list[Recording]) -> ClassCounts:
    """Return what a model takes for what."""
    scores = evaluate(model, {"one": recordings}).total
    assert scores is not None
    assert scores.counts is not None
    return scores.counts


def halves(recordings: list[Recording]) -> tuple[list[Recording], list[Recording]]:
    """Return the first half of the recordings of each class, to learn from, and the others."""
    labels = [int(np.argmax(one.y)) if one.y is not None else -1 for one in recordings]
    earlier: list[Recording] = []
    later: list[Recording] = []
    for k, one in enumerate(recordings):
        before = labels[:k].count(labels[k])
        (earlier if before < labels.count(labels[k]) // 2 else later).append(one)
    return earlier, later


def outcome(data: str, runs: list[dict[str, Comparison]]) -> Outcome:
    """Return the summary of the runs; a subject's change is its mean over the seeds."""
    names = sorted(runs[0])
    pairs = [[(run[name].shared, run[name].personal) for name in names] for run in runs]
    every = np.array([[(a.accuracy, b.accuracy) for a, b in run] for run in pairs])
    # Over all subjects' windows, then the mean over seeds.
    f1 = np.mean([[c.macro_f1 for c in reduce(both, run)] for run in pairs], axis=0)
    shared, own = every.mean(axis=0).T
    change = own - shared
    return Outcome(
        data=data,
        n_subjects=len(names),
        shared=float(shared.mean()),
        personal=float(own.mean()),
        macro_f1_shared=float(f1[0]),
        macro_f1_personal=float(f1[1]),
        worst_shared=float(shared.min()),
        worst_personal=float(own.min()),
        worst_change=float(change.min()),
        worst_subject=names[int(change.argmin())],
        worst_single_run=float((every[..., 1] - every[..., 0]).min()),
        n_helped=int((change > 0).sum()),
        n_harmed=int((change < 0).sum()),
        n_moved=float(np.mean([sum(c.has_moved for c in run.values()) for run in runs])),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    began = time.perf_counter()
    rows = []
    for data in SETS:
        clients, classes = people(data)
        runs = [
            compare(clients, classes, units=options.units, seed=seed)
            for seed in range(options.seeds)
        ]
        row = outcome(data, runs)
        rows.append(vars(row))
        print(
            f"{data:12} shared {row.shared:.4f} personal {row.personal:.4f} "
            f"worst change {row.worst_change:+.4f} ({row.worst_subject}; in a single run "
            f"{row.worst_single_run:+.4f}), "
            f"{row.n_helped} helped, {row.n_harmed} harmed of {row.n_subjects}"
        )
    results = {
        "caveat": "the rule was chosen on uci_har and motionsense; wisdm_watch was not seen then",
        "question": "accuracy of the shared readout and of personal ones on subjects' later data",
        "units": options.units,
        "seeds": options.seeds,
        "folds": N_FOLDS,
        "seconds": round(time.perf_counter() - began, 1),
        "rows": rows,
    }
    write("personal", results, folder=options.out)


if __name__ == "__main__":
    main()
