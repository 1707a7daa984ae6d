"""One client brings a class that nobody had: the model grows, and nobody else is asked.

Three owners' machines know two ways to run. Before anybody has named a third one, the model calls
it unknown. Then a fourth owner brings it in one upload; the model is that of a run with all four
from the start, to the bit. Retired again, it is the first model, to the bit.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import catchment as ct
from catchment.arrays import Array
from catchment.readout import Predictor

PACES = {"slow": 0.2, "fast": 0.6, "hop": 1.5}
OLD = ("slow", "fast")


def wave(pace: float, rng: np.random.Generator) -> Array:
    """Return a swing (60,) of that pace, from anywhere in it, with noise."""
    u = np.sin(np.arange(60) * pace + rng.uniform(0, 6)) + 0.2 * rng.normal(size=60)
    return np.asarray(u)


def held(names: tuple[str, ...], n: int, seed: int) -> list[ct.Recording]:
    """Return n recordings of each of these classes."""
    rng = np.random.default_rng(seed)
    return [
        ct.Recording.labeled(wave(PACES[name], rng), name, names)
        for name in names
        for _ in range(n)
    ]


def main() -> None:
    early = {who: held(OLD, 60, k) for k, who in enumerate(("ann", "bob", "cid"))}
    late = {"dora": held(("hop",), 60, 9)}
    tested = {name: [one.u for one in held((name,), 100, 20)] for name in PACES}
    with TemporaryDirectory() as place:
        first, second = Path(place) / "first", Path(place) / "second"
        run = ct.federate(ct.EchoState(30), early, out=first)
        wary = ct.reject_unknown(run, early, rate=0.05)
        grown = ct.join(first, late, out=second)
        back = ct.retire(second, "hop")
    models: dict[str, Predictor] = {
        "two classes": run.model,
        "may say unknown": wary,
        "grown by dora": grown,
        "hop retired": back,
    }
    print(f"{'share of answers':18}" + "".join(f"{name:>10}" for name in PACES) + "   unknown hops")
    for title, model in models.items():
        answers = {name: model.predict(tested[name]) for name in PACES}
        right = "".join(f"{np.mean(np.array(answers[name]) == name):10.2f}" for name in PACES)
        unknown = np.mean(np.array(answers["hop"]) == "unknown")
        print(f"{title:18}{right}{unknown:15.2f}")

    fitted = ct.Pipeline(run.model.preprocessing, ct.EchoState(30))
    always = ct.federate(fitted, early | late, classes=tuple(PACES)).model
    pairs = {
        "grown = everybody from the start": (grown, always),
        "retired = the first model": (back, run.model),
    }
    for text, (ours, theirs) in pairs.items():
        print(f"{text}, to the bit: {np.array_equal(ours.readout.weights, theirs.readout.weights)}")


if __name__ == "__main__":
    main()
