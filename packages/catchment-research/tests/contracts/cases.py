"""One small case per algorithm; every check of test_algorithms.py runs on each.

A new algorithm adds one line to `cases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from catchment.data import Preprocessing, Recording, contiguous, label_skew, narma
from catchment.engine import run_locally
from catchment.features import NVAR, EchoState, Reservoir
from catchment.federation import LowRankUpload, Plan, Protection
from catchment.federation.learn import (
    Candidates,
    FederatedAnomalyDetector,
    FederatedRidge,
    FederatedScaling,
    FederatedYuleWalker,
    PersonalReadouts,
    ReadoutAveraging,
)
from catchment.federation.measure import (
    Dummy,
    Evaluation,
)
from catchment.readout import LDA, CosineHead, Model, train
from catchment_research import StochasticQuantization
from catchment_research.learn import (
    Adam,
    AlignedRidge,
    BalancedRidge,
    ConjugateGradients,
    Ensemble,
    GradientAveraging,
    Momentum,
    ReservoirEnsemble,
    StackedEnsemble,
    Stacking,
    Yogi,
)
from catchment_research.plasticity import FederatedPlasticity, MomentPlasticity
from catchment_research.prompt import (
    EdgeController,
    Example,
    LanguageServer,
    Projection,
    PromptTraining,
    SurrogateLM,
)

CLASSES = ("slow", "fast")


@dataclass(frozen=True)
class Case:
    """A plan that is quick to run, and clients for it; at least three of them."""

    name: str
    plan: Plan[Any, Any, Any]
    clients: Mapping[str, list[Any]]


def step_features(leak_rate: float = 0.5) -> EchoState:
    """Return features per step of series with one input."""
    recipe = Reservoir(units=12, inputs=1, leak_rate=leak_rate, seed=3)
    return EchoState.of(recipe, washout=5)


def pooled_features() -> EchoState:
    """Return features per sequence of waves with one input."""
    recipe = Reservoir(units=8, inputs=1, leak_rate=0.5, seed=3)
    return EchoState.of(recipe, pool="mean_std")


@cache
def series() -> dict[str, list[Recording]]:
    """Return four clients with a segment of NARMA each."""
    return contiguous(narma(260, seed=2), 4)


@cache
def waves() -> dict[str, list[Recording]]:
    """Return four clients with noisy waves of two classes, in different proportions."""
    rng = np.random.default_rng(5)
    sequences = [
        Recording.labeled(
            np.sin(np.arange(24) / (4 - 2 * (k % 2))) + 0.3 * rng.normal(size=24), k % 2, 2
        )
        for k in range(40)
    ]
    return label_skew(sequences, 4, alpha=2.0, seed=1)


@cache
def trained() -> Model:
    """Return a model of the waves, to be tested."""
    sequences = [s for part in waves().values() for s in part]
    return train(pooled_features(), sequences[::2], 1e-2, classes=CLASSES)


@cache
def members() -> Ensemble:
    """Return an ensemble of the series' clients, to be weighted."""
    algorithm = ReservoirEnsemble(features=step_features(), ridge=1e-2)
    return run_locally(Plan(algorithm=algorithm), series(), threads=1).result


@cache
def named_waves() -> dict[str, list[Example]]:
    """Return the waves' clients with a word to say of each."""
    return {
        name: [
            Example(int(np.argmax(s.y)), s.u, (3, 4 + k % 3))
            for k, s in enumerate(held)
            if s.y is not None
        ]
        for name, held in waves().items()
    }


def prompts(**settings: Any) -> PromptTraining:
    """Return a training of prompts for the waves, on a stand-in for a language model."""
    projection = Projection(bottleneck=4, length=2, width=8, seed=1)
    server = LanguageServer(SurrogateLM(width=8, vocabulary=20), projection, (5, 9))
    controller = EdgeController(
        projection=projection,
        features=pooled_features(),
        train_projection=settings.pop("train_projection", False),
    )
    return PromptTraining(controller=controller, server=server, batch_size=4, **settings)


@cache
def cases() -> tuple[Case, ...]:
    """Return every case; their names are the tests' names."""
    z, p = step_features(), pooled_features()
    several = tuple(step_features(leak) for leak in (0.2, 0.5, 1.0))
    return (
        _case("ridge", FederatedRidge(features=z), series()),
        _case(
            "ridge-number", FederatedRidge(features=z, ridge=1e-3, store_per_client=False), series()
        ),
        _case("ridge-gcv", FederatedRidge(features=z, ridge="gcv"), series()),
        _case("ridge-classes", FederatedRidge(features=p, classes=CLASSES), waves()),
        _case("ridge-scaled", FederatedRidge(features=z, standardize=True), series()),
        _case("ridge-increments", FederatedRidge(features=z, increments=2), series(), rounds=2),
        _case("ridge-origin", FederatedRidge(features=z, intercept=False), series()),
        _case("gaussian", FederatedRidge(features=p, classes=CLASSES, head=LDA()), waves()),
        _case("unit", FederatedRidge(features=p, classes=CLASSES, head=CosineHead()), waves()),
        _case("readouts", ReadoutAveraging(features=z), series()),
        _case("readouts-gcv", ReadoutAveraging(features=z, ridge="gcv"), series()),
        _case("readouts-uniform", ReadoutAveraging(features=z, weighting="uniform"), series()),
        _case("readouts-printed", ReadoutAveraging(features=z, weighting="printed"), series()),
        _case("gradient", GradientAveraging(features=z, epochs=2), series(), rounds=3),
        _case(
            "gradient-batches",
            GradientAveraging(features=p, batch_size=4, classes=CLASSES, optimizer=Adam()),
            waves(),
            rounds=2,
        ),
        _case(
            "gradient-momentum", GradientAveraging(features=z, optimizer=Momentum()), series(), 2
        ),
        _case("yogi", GradientAveraging(features=z, optimizer=Yogi()), series(), rounds=2),
        _case("selected", Candidates(features=(z,), store_per_client=False), series(), rounds=2),
        _case(
            "selected-classes",
            Candidates(features=(p,), classes=CLASSES, by="accuracy", store_per_client=False),
            waves(),
            rounds=2,
        ),
        _case(
            "normal",
            FederatedAnomalyDetector(features=z, false_positive_rate=0.1),
            series(),
            rounds=2,
        ),
        _case(
            "normal-errors",
            FederatedAnomalyDetector(features=z, score="error", calibration=0.0),
            series(),
            rounds=2,
        ),
        _case("candidates", Candidates(features=several), series()),
        _case("conjugate", ConjugateGradients(features=z, ridge=1e-2), series(), rounds=200),
        _case("conjugate-folds", ConjugateGradients(features=p, classes=CLASSES), waves(), 200),
        _case("balanced", BalancedRidge(features=p, classes=CLASSES), waves()),
        _case("evaluation", Evaluation(model_under_test=trained()), waves()),
        _case("random", Dummy(how="uniform", classes=CLASSES), waves()),
        _case("persistence", Dummy(how="persistence", washout=3), series()),
        _case("input-scaling", FederatedScaling(channels=1), series()),
        lags(),
        _case("ensemble", ReservoirEnsemble(features=z), series()),
        _case(
            "ensemble-classes",
            ReservoirEnsemble(features=p, classes=CLASSES, ridge=0.1, weighting="samples"),
            waves(),
        ),
        _case("stacking", Stacking(ensemble=members()), series()),
        _case("stacked", StackedEnsemble(ensemble=ReservoirEnsemble(features=z)), series(), 2),
        _case(
            "personal-readouts",
            PersonalReadouts(ridge=FederatedRidge(features=p, classes=CLASSES)),
            waves(),
            rounds=2,
        ),
        _case("aligned", AlignedRidge(ridge=FederatedRidge(features=z), alpha=0.9), series()),
        _case("plasticity", FederatedPlasticity(reservoir=z.reservoir), series(), rounds=2),
        _case(
            "plasticity-momentum",
            FederatedPlasticity(reservoir=z.reservoir, weighting="uniform", optimizer=Momentum()),
            series(),
            rounds=2,
        ),
        _case("prompts", prompts(epochs=2), named_waves(), rounds=2),
        _case(
            "prompts-whole",
            prompts(train_projection=True, tell_labels=True, optimizer=Momentum()),
            named_waves(),
            rounds=2,
        ),
        _case("moments", MomentPlasticity(reservoir=z.reservoir), series(), rounds=3),
        _case("compressed", FederatedRidge(features=z), series(), protections=(LowRankUpload(),)),
        _case(
            "few-bits",
            GradientAveraging(features=z),
            series(),
            rounds=2,
            protections=(StochasticQuantization(bits=4),),
        ),
    )


def lags() -> Case:
    """Return the case of a forecast of the inputs, whose plan has a preparation."""
    ahead = Preprocessing(horizon=(1, 3), scale="none")
    features = NVAR(5, order=1).build(1, per_step=True)
    learn = FederatedYuleWalker(features=features, preprocessing=ahead)
    inputs = {name: [Recording(one.u) for one in held] for name, held in series().items()}
    return Case("yule-walker", Plan(algorithm=learn, seed=7, preprocessing=ahead), inputs)


def _case(
    name: str,
    algorithm: Any,
    clients: Mapping[str, list[Any]],
    rounds: int = 1,
    protections: tuple[Protection, ...] = (),
) -> Case:
    plan = Plan(algorithm=algorithm, rounds=rounds, seed=7, protections=protections)
    return Case(name, plan, clients)
