"""Settings of algorithms that are made of others, as [learn] has them: flat, with plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.features.own import imported, name_of
from catchment.federation.learn.alignment import AlignedRidge
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.optimisers import Adam, Mean, ServerOptimiser
from catchment.federation.learn.personal import PersonalReadouts
from catchment.federation.learn.personal_increments import PersonalIncrements
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.stacking import StackedEnsemble
from catchment.federation.measure.drift import FALSE_ALARMS
from catchment.federation.plan import Learner

if TYPE_CHECKING:
    from catchment.plans.names import Given

Recipes = Mapping[str, EchoState]
MEAN = Mean()


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Train a readout on every client's own reservoir; the model is the mean of their predictions.

    Parameters
    ----------
    recipes
        By client: the settings of its own reservoir, as in [features]. Who has none uses that of
        [features] with a seed that depends on the client's name.
    alpha
        A number between 0 and 1: how far reservoirs are moved towards that of [features].
    ridge
        A number, or "folds": each client takes the ridge with the least error on folds of its own
        rows.
    n_folds
        Folds of a client's rows.
    weighting
        "mean": all members count the same; "samples": by the rows they were trained on.
    """

    recipes: Recipes = field(default_factory=dict)
    alpha: float | None = None
    ridge: float | Literal["folds"] = "folds"
    n_folds: int = 5
    weighting: Literal["mean", "samples"] = "mean"

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        features = _reservoir_map(given)
        return ReservoirEnsemble(
            features=features,
            recipes=_recipes(self.recipes, features, given),
            alpha=self.alpha,
            ridge=self.ridge,
            n_folds=self.n_folds,
            weighting=self.weighting,
            classes=given.classes,
        )


@dataclass(frozen=True, kw_only=True)
class Stacked:
    """An ensemble whose members' weights are learned in a second round.

    Parameters
    ----------
    recipes, alpha, ridge
        As for an ensemble.
    n_folds
        Folds of a client's rows, on which its own member is judged.
    """

    recipes: Recipes = field(default_factory=dict)
    alpha: float | None = None
    ridge: float | Literal["folds"] = "folds"
    n_folds: int = 5

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        features = _reservoir_map(given)
        ensemble = ReservoirEnsemble(
            features=features,
            recipes=_recipes(self.recipes, features, given),
            alpha=self.alpha,
            ridge=self.ridge,
            n_folds=self.n_folds,
            classes=given.classes,
        )
        return StackedEnsemble(ensemble=ensemble, n_folds=self.n_folds)


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """Ridge regression over reservoirs that are only nearly the same; exact at alpha = 1.

    Parameters
    ----------
    alpha
        How far every client's reservoir is moved towards that of [features].
    recipes
        By client: the settings of its own reservoir, as for an ensemble.
    ridge
        A number, "clients" or "gcv", as for a ridge.
    per_output
        Whether each output chooses its own ridge.
    """

    alpha: float
    recipes: Recipes = field(default_factory=dict)
    ridge: float | Literal["clients", "gcv"] = "clients"
    per_output: bool = False

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        features = _reservoir_map(given)
        exact = FederatedRidge(
            features=features, ridge=self.ridge, per_output=self.per_output, classes=given.classes
        )
        recipes = _recipes(self.recipes, features, given)
        return AlignedRidge(ridge=exact, alpha=self.alpha, recipes=recipes)


@dataclass(frozen=True, kw_only=True)
class Personal:
    """The exact shared readout, and one of every client's own, chosen by its name afterwards.

    Parameters
    ----------
    method
        "towards": ridge towards the shared readout; "mixed": everybody's statistics and one's own.
    ridge
        Of the shared readout: a number, "clients" or "gcv".
    n_blocks
        Stretches of a client's data that are left out in turn, to choose how far to go.
    increments, forgetting, window, false_alarms
        Of the shared readout, as for a ridge. With increments = "new" how far to go is chosen by
        what came in later, and clients send nothing more than for a ridge.
    """

    method: Literal["towards", "mixed"] = "towards"
    ridge: float | Literal["clients", "gcv"] = "clients"
    n_blocks: int = 5
    increments: int | Literal["new"] = 1
    forgetting: float = 1.0
    window: int | None = None
    false_alarms: float = FALSE_ALARMS

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        shared = FederatedRidge(
            features=_only(given),
            ridge=self.ridge,
            classes=given.classes,
            increments=self.increments,
            forgetting=self.forgetting,
            window=self.window,
            false_alarms=self.false_alarms,
        )
        if shared.carries:
            return PersonalIncrements(ridge=shared, method=self.method)
        return PersonalReadouts(ridge=shared, method=self.method, n_blocks=self.n_blocks)


@dataclass(frozen=True, kw_only=True)
class Partial:
    """A partially trainable network on recordings or windows of one length; needs torch.

    Parameters
    ----------
    network
        The function of one's own, `module:function`, that makes the torch module. It is called with
        the number of channels and of classes; the module takes (batch, steps, channels) and
        returns logits (batch, classes).
    freeze
        Patterns of parameters that stay as the seed drew them, such as "0.weight".
    freeze_largest
        Freeze this many of the largest parameters, too.
    seed
        Of the frozen values, and of the start of the others.
    optimiser
        Of the clients: "sgd" or "adam".
    learning_rate, momentum, epochs, batch_size, max_steps, prox
        Of the clients' steps in a round.
    server
        What the server does with the mean change.
    clip
        Longest change that a client may send, as a secure sum with noise needs.
    dropout
        Layers, each of whose outputs are the next one's inputs, of which every client trains a part
        of the units between them.
    dropout_share, dropout_order
        How many of these units; of several shares each client draws one. "random" or "first".
    device
        "cpu", "cuda", or "auto" for a GPU if there is one.
    """

    network: str
    freeze: tuple[str, ...] = ()
    freeze_largest: int = 0
    seed: int = 0
    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.0
    epochs: int = 1
    batch_size: int = 16
    max_steps: int | None = None
    prox: float = 0.0
    server: ServerOptimiser = MEAN
    clip: float | None = None
    dropout: tuple[str, ...] = ()
    dropout_share: tuple[float, ...] = (0.5,)
    dropout_order: Literal["random", "first"] = "random"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        from catchment.partial.dropout import Dropout
        from catchment.partial.freeze import Freeze, PartialNetwork
        from catchment.partial.local import LocalSteps
        from catchment.partial.network_model import Maker
        from catchment.partial.recordings import RecordingTraining
        from catchment.partial.training import FederatedTraining

        classes, n_inputs = _classes(given, "a network"), _n_inputs(given, "a network")
        dropout = None
        if self.dropout:
            chains, order = (self.dropout,), self.dropout_order
            dropout = Dropout(chains=chains, share=self.dropout_share, order=order)
        training = FederatedTraining(
            network=PartialNetwork(
                make=Maker(imported(self.network), n_inputs, len(classes)),
                freeze=Freeze(names=self.freeze, largest=self.freeze_largest),
                seed=self.seed,
            ),
            steps=LocalSteps(
                optimiser=self.optimiser,
                learning_rate=self.learning_rate,
                momentum=self.momentum,
                epochs=self.epochs,
                max_steps=self.max_steps,
                batch_size=self.batch_size,
                prox=self.prox,
            ),
            optimiser=self.server,
            clip=self.clip,
            dropout=dropout,
            device=self.device,
        )
        return RecordingTraining(training=training, classes=classes)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt that lets a frozen language model name the class of recordings; needs transformers.

    Parameters
    ----------
    language_model
        Its folder, from the plan's own folder on, or its name in a directory of models.
    words
        By class: the word that the model is to say, if it is not the name of the class.
    context
        Text between the prompt and the word.
    bottleneck, length
        Numbers that a client sends for an example, and vectors of the prompt.
    seed
        Of the projection from the one to the other.
    scale
        Size of its entries; the spread of the model's own embeddings if not given.
    learning_rate, epochs, batch_size, max_steps
        Of the clients' steps in a round, by Adam.
    tell_labels
        Whether clients tell the language model's server their labels.
    server
        What the server does with the mean change.
    """

    language_model: str
    words: Mapping[str, str] = field(default_factory=dict)
    context: str = "."
    bottleneck: int = 8
    length: int = 4
    seed: int = 0
    scale: float | None = None
    learning_rate: float = 0.01
    epochs: int = 1
    batch_size: int = 16
    max_steps: int | None = None
    tell_labels: bool = False
    server: ServerOptimiser = MEAN

    def learner(self, given: Given) -> Learner[Any, Any, Any]:
        """Return the algorithm."""
        from catchment.prompt.causal import TransformersLM
        from catchment.prompt.controller import EdgeController, Projection
        from catchment.prompt.prompt_model import RecordingPrompts, language_model, served
        from catchment.prompt.split import PromptTraining

        classes = _classes(given, "a prompt")
        beside = given.base / self.language_model
        where = str(beside if beside.is_dir() else Path(self.language_model))
        model: TransformersLM = language_model(where)
        projection = Projection(
            bottleneck=self.bottleneck,
            length=self.length,
            width=model.width,
            seed=self.seed,
            scale=model.spread if self.scale is None else self.scale,
        )
        said = [f" {self.words.get(name, name)}" for name in classes]
        words = model.label_words(said, after=self.context)
        training = PromptTraining(
            controller=EdgeController(projection=projection, features=_only(given)),
            server=served(where, projection, words),
            epochs=self.epochs,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            local=Adam(learning_rate=self.learning_rate, tau=1e-8),
            optimiser=self.server,
            tell_labels=self.tell_labels,
        )
        context = tuple(int(token) for token in model.tokens(self.context))
        return RecordingPrompts(
            training=training, classes=classes, language_model=where, context=context
        )


def _only(given: Given) -> FeatureMap:
    (features,) = given.maps
    return features


def _reservoir_map(given: Given) -> EchoStateMap:
    features = _only(given)
    if not isinstance(features, EchoStateMap):
        raise ValueError(
            f"{name_of(features)} has no reservoir of every client's own; use map = "
            '"echo_state" in [features], or algorithm = "ridge"'
        )
    return features


def _recipes(recipes: Recipes, features: EchoStateMap, given: Given) -> dict[str, Recipe]:
    n_inputs, per_step = features.reservoir.n_inputs, features.per_step
    classes = given.classes is not None
    return {
        name: one.recipe(n_inputs, per_step=per_step, classes=classes)
        for name, one in recipes.items()
    }


def _classes(given: Given, what: str) -> tuple[str, ...]:
    if given.classes is None:
        raise ValueError(f'{what} names classes; write label = "column" into [data]')
    return given.classes


def _n_inputs(given: Given, what: str) -> int:
    n_inputs = _only(given).n_inputs
    if n_inputs is None:
        raise ValueError(
            f'{what} needs no map of your own in [features]; write map = "echo_state" or leave it '
            "out"
        )
    return n_inputs
