"""Settings of this package's algorithms as [learn] of a plan file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from catchment.features import FeatureMap
from catchment.federation import Algorithm
from catchment.plugins import CHOICES
from catchment_research.learn.alignment import AlignedRidge as Aligned
from catchment_research.learn.ensemble import StackedEnsemble as Stacked
from catchment_research.learn.optimizers import Adam, Mean, Schedule, ServerOptimizer
from catchment_research.partial.ftrl import FollowTheLeader

__all__ = ["Aligned", "Partial", "Prompt", "Stacked"]
MEAN = Mean()
CONSTANT = Schedule()
STEPS = ["optimizer", "learning_rate", "momentum", "epochs", "max_steps", "batch_size", "prox"]
# What a network's server may do: only there is every change clipped as private sums need it.
CHOICES[ServerOptimizer | FollowTheLeader] = {
    **CHOICES[ServerOptimizer],
    "follow_the_leader": FollowTheLeader,
}


@dataclass(frozen=True, kw_only=True)
class Partial:
    """A partially trainable network on recordings or windows of one length; needs torch.

    Parameters
    ----------
    features, classes, data_shape
        The map, of which only the inputs count, the names of the classes, and the windows and
        channels of prepared recordings, as far as they are known.
    network
        "cnn", two convolutions over time; for images, a row a step, "emnist_cnn" (28 x 28) or
        "resnet18" (32 x 32 x 3); or the function of one's own, `module:function`, that makes the
        torch module. It is called with the number of channels and of classes; the module takes
        (batch, steps, channels) and returns logits (batch, classes).
    freeze
        Patterns of parameters that stay as the seed drew them, such as "0.weight".
    freeze_largest
        Freeze this many of the largest parameters, too.
    seed
        Of the frozen values, and of the start of the others.
    optimizer
        Of the clients: "sgd" or "adam".
    learning_rate, momentum, epochs, batch_size, max_steps, prox
        Of the clients' steps in a round.
    schedule
        How the clients' learning rate goes from round to round.
    weak
        By client: patterns of parameters that it freezes, too, and neither trains nor sends.
    server
        What the server does with the mean change, or "follow_the_leader" with the sum of clipped
        changes, to which it adds noise.
    clip
        Longest change that a client may send, as secure aggregation with noise needs; that of
        "follow_the_leader" if not given.
    dropout
        Layers, each of whose outputs are the next one's inputs, of which every client trains a part
        of the units between them.
    dropout_share, dropout_order
        How many of these units; of several shares each client draws one. "random" or "first".
    device
        "cpu", "cuda", or "auto" for a GPU if there is one.
    """

    features: FeatureMap
    classes: tuple[str, ...] | None
    network: str
    data_shape: tuple[int | str | None, int] | None = None
    freeze: tuple[str, ...] = ()
    freeze_largest: int = 0
    seed: int = 0
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.0
    epochs: int = 1
    batch_size: int = 16
    max_steps: int | None = None
    prox: float = 0.0
    schedule: Schedule = CONSTANT
    weak: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    server: ServerOptimizer | FollowTheLeader = MEAN
    clip: float | None = None
    dropout: tuple[str, ...] = ()
    dropout_share: tuple[float, ...] = (0.5,)
    dropout_order: Literal["random", "first"] = "random"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def algorithm(self) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        from catchment_research.partial.dropout import Dropout
        from catchment_research.partial.freeze import Freeze, PartialNetwork
        from catchment_research.partial.networks import (
            Maker,
            RecordingTraining,
            check_shape,
            network_named,
        )
        from catchment_research.partial.training import FederatedTraining, LocalSteps

        classes, n_inputs = _classes(self.classes, "a network"), self.features.n_inputs
        if n_inputs is None:
            raise ValueError(
                'a network needs no map of your own in [features]; write map = "echo_state" or '
                "leave it out"
            )
        if self.data_shape is not None:
            check_shape(self.network, *self.data_shape)
        clip, dropout = self.clip, None
        if clip is None and isinstance(self.server, FollowTheLeader):
            clip = self.server.clip
        if self.dropout:
            chains, order = (self.dropout,), self.dropout_order
            dropout = Dropout(chains=chains, share=self.dropout_share, order=order)
        training = FederatedTraining(
            network=PartialNetwork(
                make=Maker(network_named(self.network), n_inputs, len(classes)),
                freeze=Freeze(names=self.freeze, largest=self.freeze_largest),
                seed=self.seed,
            ),
            steps=LocalSteps(**{name: getattr(self, name) for name in STEPS}),
            schedule=self.schedule,
            weak={name: Freeze(names=also) for name, also in self.weak.items()},
            optimizer=self.server,
            clip=clip,
            dropout=dropout,
            device=self.device,
        )
        return RecordingTraining(training=training, classes=classes)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt that lets a frozen language model name the class of recordings; needs transformers.

    Parameters
    ----------
    features, classes
        The map whose rows become the prompt, and the names of the classes.
    base
        The plan's own folder.
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
    start
        "closed_form" solves the controller in the first round by ridge regression, from sums.
    train_projection
        Whether the projection is trained, too, as it was published: all of it then travels in every
        round, and with every example its whole prompt.
    learning_rate, epochs, batch_size, max_steps
        Of the clients' steps in a round, by Adam.
    tell_labels
        Whether clients tell the language model's server their labels.
    server
        What the server does with the mean change.
    """

    features: FeatureMap
    classes: tuple[str, ...] | None
    base: Path
    language_model: str
    words: Mapping[str, str] = field(default_factory=dict)
    context: str = "."
    bottleneck: int = 8
    length: int = 4
    seed: int = 0
    scale: float | None = None
    start: Literal["zero", "closed_form"] = "zero"
    train_projection: bool = False
    learning_rate: float = 0.01
    epochs: int = 1
    batch_size: int = 16
    max_steps: int | None = None
    tell_labels: bool = False
    server: ServerOptimizer = MEAN

    def algorithm(self) -> Algorithm[Any, Any, Any]:
        """Return the algorithm."""
        from catchment_research.prompt.causal import TransformersLM
        from catchment_research.prompt.controller import EdgeController, Projection
        from catchment_research.prompt.prompt_model import RecordingPrompts, language_model, served
        from catchment_research.prompt.split import PromptTraining

        classes = _classes(self.classes, "a prompt")
        beside = self.base / self.language_model
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
            controller=EdgeController(
                projection=projection,
                features=self.features,
                train_projection=self.train_projection,
            ),
            server=served(where, projection, words),
            epochs=self.epochs,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            local=Adam(learning_rate=self.learning_rate, tau=1e-8),
            optimizer=self.server,
            tell_labels=self.tell_labels,
        )
        context = tuple(int(token) for token in model.tokens(self.context))
        return RecordingPrompts(
            training=training,
            classes=classes,
            language_model=where,
            context=context,
            ridge="gcv" if self.start == "closed_form" else None,
        )


def _classes(classes: tuple[str, ...] | None, what: str) -> tuple[str, ...]:
    if classes is None:
        raise ValueError(f'{what} names classes; write label = "column" into [data]')
    return classes
