"""What one prompt tells of the signal behind it, and what clipping and noise cost.

    python -m benchmarks.prompts [--quick]

A random controller of 16 numbers on 100 units reads sensor-like channels (a slow wander and a
wave); the attacker knows the controller and gets bottlenecks as they travel, in float32. Medians
over several clients. P b gives b away, and b = W_out z(u) is k equations for the T I numbers of a
context u. The most probable context is sought: residuals over the noise that is on b, and a prior
for inputs of a known size; without noise, what float32 leaves is narrowed down step by step.

The accuracy is that of naming windows of UCI HAR with the small language
model stories260k, people who took no part in training, where both are on this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import record
from catchment import Array
from catchment.engine import run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.privacy.dp import gaussian_multiplier
from catchment.readout import train
from catchment_lab.audit import Drive, Setting, correlation, generated, minimize
from catchment_research.learn import Adam
from catchment_research.prompt import (
    EdgeController,
    LanguageServer,
    Projection,
    PromptNoise,
    PromptTraining,
    closed_form_start,
    label_targets,
)
from reproductions.places import find, find_model

if TYPE_CHECKING:
    from catchment_research.prompt import TransformersLM
    from reproductions.prompt_tasks import WordTask

Numbers = dict[str, object]
BOTTLENECK = 16
DELTA = 1e-5
EPSILONS = (64.0, 16.0, 4.0, 1.0)
PER_CLIENT = 60


EXACT = (1e-2, 1e-4, 1e-6)  # noise assumed in turn where there is none, of the bottleneck's size


def context_of(
    code: Array,
    W_out: Array,
    drive: Drive,
    steps: int,
    *,
    noise: float = 0.0,
    input_scale: float = 1.0,
    guesses: int = 3,
) -> Array:
    """Return the most probable context (T, I) of a bottleneck (k,).

    Parameters
    ----------
    code
        (k,) as it was sent.
    W_out
        (k, F) the controller.
    drive
        Of features that are pooled.
    steps
        T, which the attacker knows.
    noise
        Standard deviation of the noise on the bottleneck; the attacker knows it, too.
    input_scale
        Size of the inputs.
    guesses
        Starting points; the best end is returned.
    """
    I = drive.features.reservoir.n_inputs
    size = max(float(np.sqrt(np.mean(code**2))), 1e-300)
    stages = (noise,) if noise > 0 else tuple(share * size for share in EXACT)
    rng = np.random.default_rng(0)
    best, least = np.zeros(steps * I), np.inf
    for guess in range(guesses):
        at = input_scale * (0.1 if guess == 0 else 1.0) * rng.normal(size=steps * I)
        cost = np.inf
        for spread in stages:
            at, cost = _most_probable(code, W_out, drive, at.reshape(steps, I), spread, input_scale)
        if cost < least:
            best, least = at, cost
    return best.reshape(steps, I)


def _most_probable(
    code: Array, W_out: Array, drive: Drive, start: Array, spread: float, input_scale: float
) -> tuple[Array, float]:
    shape, prior = start.shape, np.eye(start.size) / input_scale

    def residual(flat: Array) -> tuple[Array, Array]:
        row, by_input = drive.window(flat.reshape(shape))
        misfit = (W_out @ row[1:] - code) / spread
        return np.append(misfit, flat / input_scale), np.vstack(
            [W_out @ by_input[1:] / spread, prior]
        )

    return minimize(residual, start.ravel(), steps=100)


def features(inputs: int, leak_rate: float, units: int = 100, pool: str = "last") -> EchoState:
    recipe = Reservoir(units=units, inputs=inputs, leak_rate=leak_rate, seed=1)
    return EchoState.of(recipe, bias=True, pool=pool)  # type: ignore[arg-type]


def signal(F: EchoState, steps: int, seed: int, client: int = 0) -> Array:
    return generated(Setting(features=F, steps=steps, seed=seed), client)[0].u


def controller(F: EchoState, seed: int) -> Array:
    drawn: Array = np.random.default_rng(seed).normal(size=(BOTTLENECK, F.n_features))
    return drawn / float(np.sqrt(F.n_features))


def inversion(repeats: int) -> Numbers:
    """Contexts behind a bottleneck in the clear, by inputs, leak and length."""
    out: Numbers = {}
    for inputs, leak_rate in ((1, 1.0), (1, 0.3), (3, 1.0), (3, 0.3)):
        F, row = features(inputs, leak_rate), {}
        for steps in (4, 8, 12, 16, 30):
            if inputs * steps > 60:
                continue
            errors, ends, alls = [], [], []
            for k in range(repeats):
                u, W_out = signal(F, steps, k), controller(F, k)
                code = (W_out @ F(u)[0]).astype(np.float32).astype(np.float64)
                size = float(np.sqrt(np.mean(u**2)))
                found = context_of(code, W_out, Drive(F), steps, input_scale=size, guesses=2)
                errors.append(float(np.abs(found - u).max()) / size)
                ends.append(correlation(found[-4:], u[-4:]))
                alls.append(correlation(found, u))
            row[str(steps)] = {
                "error": float(f"{np.median(errors):.1e}"),
                "correlation of the last 4 steps": round(float(np.median(ends)), 3),
                "of all": round(float(np.median(alls)), 3),
            }
        out[f"{inputs} inputs, leak {leak_rate:g}"] = row
    return out


def noise(repeats: int) -> Numbers:
    """The same with 8 scalars, clipped at the median length and given noise, by its epsilon."""
    F, out = features(1, 1.0), {}
    for epsilon in (float("inf"), 1000.0, *EPSILONS):
        fits = []
        for k in range(repeats):
            u, W_out = signal(F, 8, k), controller(F, k)
            others = [W_out @ F(signal(F, 8, k, c))[0] for c in range(1, 21)]
            bound = float(np.median(np.linalg.norm(others, axis=1)))
            multiplier = 0.0 if np.isinf(epsilon) else gaussian_multiplier(epsilon, DELTA)
            guard = PromptNoise(bound=bound, multiplier=multiplier)
            code = guard.guarded((W_out @ F(u)[0])[None])[0]
            size = float(np.sqrt(np.mean(u**2)))
            found = context_of(
                code, W_out, Drive(F), 8, noise=guard.spread, input_scale=size, guesses=1
            )
            fits.append(correlation(found, u))
        name = "clipped only" if np.isinf(epsilon) else f"epsilon {epsilon:g}"
        out[name] = round(float(np.mean(fits)), 3)
    return dict(out)


@dataclass(frozen=True, eq=False)
class Naming:
    """Windows of UCI HAR, to be named by a small language model; made once."""

    lm: TransformersLM
    task: WordTask
    features: EchoState

    @classmethod
    def made(cls) -> Naming:
        from catchment_research.prompt import TransformersLM
        from reproductions.prompt_tasks import sensors_task
        from reproductions.smollm2 import locate_model

        lm = TransformersLM.load(locate_model("stories260k"), device="cpu", batch_size=256)
        task = sensors_task(lm, "uci_har")
        F = features(task.n_inputs, 0.3, pool="mean_std")
        few = task.within(PER_CLIENT)
        reader = EdgeController(projection=projection(lm, BOTTLENECK, 0), features=F)
        ready = {name: reader.prepared(part) for name, part in few.clients.items()}
        return cls(lm, replace(task, clients=ready, test=reader.prepared(task.test)), F)

    def training(self, bottleneck: int, seed: int) -> PromptTraining:
        """Return a training that begins in closed form."""
        P = projection(self.lm, bottleneck, seed)
        controller = EdgeController(projection=P, features=self.features)
        server = LanguageServer(self.lm, P, self.task.words)
        targets = label_targets(server, P, self.task.contexts, seed=seed)
        return PromptTraining(
            controller=controller,
            server=server,
            batch_size=20,
            local=Adam(learning_rate=0.003, tau=1e-8),
            initial=closed_form_start(controller, self.task.clients, targets),
            tell_labels=True,
        )


def projection(lm: TransformersLM, bottleneck: int, seed: int) -> Projection:
    return Projection(bottleneck=bottleneck, length=4, width=lm.width, seed=seed, scale=lm.spread)


def closed_form(naming: Naming, seeds: int) -> Numbers:
    """Accuracy on unseen people before any client takes a step, beside the ridge readout's."""
    task, F = naming.task, naming.features
    from reproductions.prompt_tasks import recorded

    pooled = [example for part in task.clients.values() for example in part]
    readout = train(F, recorded(pooled, len(task.classes)), 0.1).readout
    z = np.stack([example.z for example in task.test if example.z is not None])
    right = readout(z).argmax(axis=1) == [example.label for example in task.test]
    out: Numbers = {"ridge readout": round(float(right.mean()), 3)}
    for bottleneck in (16, 32, 64):
        made = [naming.training(bottleneck, seed) for seed in range(seeds)]
        out[f"bottleneck {bottleneck}"] = [
            round(each.result(each.start()).accuracy(task.test), 3) for each in made
        ]
    return out


def accuracy(naming: Naming, rounds: int, seeds: int) -> Numbers:
    """Accuracy by the noise on every bottleneck, in training and in use.

    Bottlenecks are clipped at the median length of those of the start.
    """
    task, found = naming.task, dict[str, list[float]]()
    for seed in range(seeds):
        free = naming.training(BOTTLENECK, seed)
        start = free.start().values
        codes = np.concatenate(
            [free.controller.codes(start, free.controller.rows(p)) for p in task.clients.values()]
        )
        bound = float(np.median(np.linalg.norm(codes, axis=1)))
        for epsilon in (None, float("inf"), *EPSILONS):
            guard = None
            if epsilon is not None:
                multiplier = 0.0 if np.isinf(epsilon) else gaussian_multiplier(epsilon, DELTA)
                guard = PromptNoise(bound=bound, multiplier=multiplier)
            training = replace(free, guard=guard)
            result = run_locally(Plan(algorithm=training, rounds=rounds, seed=seed), task.clients)
            name = "free" if epsilon is None else "clipped only" if np.isinf(epsilon) else epsilon
            for when, state in (("start", training.start()), (f"{rounds} rounds", result.state)):
                reached = round(training.result(state).accuracy(task.test), 3)
                found.setdefault(f"{name}, {when}", []).append(reached)
    return {"examples per client": PER_CLIENT, "clients": len(task.clients), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer clients, fewer repeats")
    quick = parser.parse_args().quick
    jobs: dict[str, Callable[[], Numbers]] = {
        "inversion": lambda: inversion(2 if quick else 5),
        "noise": lambda: noise(5 if quick else 20),
    }
    if find_model("stories260k") and find("uci_har"):
        naming, seeds = Naming.made(), 1 if quick else 3
        jobs["closed form"] = lambda: closed_form(naming, seeds)
        jobs["accuracy"] = lambda: accuracy(naming, 1 if quick else 5, seeds)
    results: Numbers = {"units": 100, "bottleneck": BOTTLENECK, "delta": DELTA, "quick": quick}
    for name, job in jobs.items():
        results[name] = job()
        print(name, results[name], flush=True)
    print(record.write("prompts", results))


if __name__ == "__main__":
    main()
