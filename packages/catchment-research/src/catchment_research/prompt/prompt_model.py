"""A trained prompt that lets a frozen language model name the class of raw recordings.

Its file holds the controller, its trained values, the label words and the context; of the language
model only the name of its folder and its digest, never its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catchment import Array
from catchment.data import RAW, Preprocessing, Recording
from catchment.errors import IntegrityError
from catchment.federation import Data, RoundContext, Tally
from catchment.federation.learn import FederatedRidge, RidgeState
from catchment.readout import (
    RidgeStatistics,
    Stored,
    around,
    around_of,
    map_of,
    refuse_device,
    stored_map,
    typed,
)
from catchment.wire import NOTHING, Message
from catchment_research.learn.optimizers import Arrays
from catchment_research.learn.recordings import OfRecordings, OnRecordings, TrainedSum, with_labels
from catchment_research.prompt.controller import EdgeController, Example, Projection
from catchment_research.prompt.exchange import LanguageLink, LanguageServer
from catchment_research.prompt.language import find_model
from catchment_research.prompt.split import (
    Controlled,
    Prompter,
    PromptTraining,
    label_targets,
    regression,
    values_of,
)

if TYPE_CHECKING:
    from catchment_research.prompt.causal import TransformersLM

KIND = "prompt"
Sent = RidgeStatistics | TrainedSum
Read = Tally[RidgeStatistics] | TrainedSum


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptModel(OfRecordings):
    """A controller with its trained values, and the language model that it steers, by name.

    Parameters
    ----------
    controller, values
        What was trained.
    words
        Tokens of the label words, one for each class.
    context
        Tokens that follow the prompt.
    language_model
        A folder, or a name in the directories of models.
    asked
        What a server of this model, projection and words says it is.
    link
        The way to the model; made from the folder when it is first needed, if not given.
    """

    controller: EdgeController
    values: Arrays
    words: tuple[int, ...]
    classes: tuple[str, ...] = ()
    language_model: str
    asked: str
    context: tuple[int, ...] = ()
    preprocessing: Preprocessing = RAW
    channels: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    link: LanguageLink | None = None

    @property
    def n_inputs(self) -> int | None:
        return None if self.controller.features is None else self.controller.features.n_inputs

    @cached_property
    def prompter(self) -> Prompter:
        """What asks the language model; IntegrityError if the folder holds another one."""
        link = self.link
        if link is None:
            link = served(self.language_model, self.controller.projection, self.words)
        if link.identity() != self.asked:
            raise IntegrityError(
                f"{self.language_model} holds another language model than the prompt was trained "
                "for; put the same one there"
            )
        return Prompter(PromptTraining(controller=self.controller, server=link), self.values)

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the chances (1, K) of the classes of each prepared recording."""
        refuse_device(device, "a prompt")
        if not prepared:
            return []
        examples = [Example(0, recording.u, self.context) for recording in prepared]
        return [row.reshape(1, -1) for row in self.prompter.chances(examples)]

    def probabilities(self, scores: Array) -> Array:
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def stored(self) -> Stored:
        projection = asdict(self.controller.projection)
        tensors = {f"values.{k}": np.asarray(value) for k, value in enumerate(self.values)}
        facts: dict[str, Any] = {
            **around(self),
            "projection": projection,
            "train_projection": self.controller.train_projection,
            "words": list(self.words),
            "context": list(self.context),
            "language_model": self.language_model,
            "asked": self.asked,
            "map": None,
        }
        if self.controller.features is not None:
            described = stored_map(self.controller.features, "map")
            facts["map"] = described.facts
            tensors |= described.tensors
        return Stored(KIND, facts, tensors)


@lru_cache(maxsize=2)
def language_model(where: str) -> TransformersLM:
    """Return the language model of a folder, in float32 so that all machines have the same one.

    Parameters
    ----------
    where
        The folder, or its name in a directory of models; a folder that is no longer there is
        looked for by its name, too.
    """
    from catchment_research.prompt.causal import TransformersLM

    return TransformersLM.load(find_model(where) or Path(where).name, precision="float32")


def served(where: str, projection: Projection, words: Sequence[int]) -> LanguageServer:
    """Return a server, in this process, of the language model in a folder."""
    return LanguageServer(language_model(where), projection, words)


def prompt_model_of(held: Stored, use: Iterable[Callable[..., Any]] = ()) -> PromptModel:
    """Return the prompt that a file holds; its language model is looked for when it is used."""
    facts, known = held.facts, around_of(held.facts)
    if known["classes"] is None:
        raise ValueError("the prompt has no classes")
    projection = {**facts["projection"], "words": tuple(facts["projection"]["words"])}
    features = None if facts["map"] is None else map_of(facts["map"], held.tensors, "map", use)
    controller = EdgeController(
        projection=Projection(**projection),
        features=features,
        train_projection=bool(facts["train_projection"]),
    )
    values = tuple(
        typed(held.tensors, f"values.{k}", np.float64) for k in range(len(controller.shapes))
    )
    if tuple(value.shape for value in values) != controller.shapes:
        raise ValueError("the values do not fit the controller")
    return PromptModel(
        controller=controller,
        values=values,
        words=tuple(map(int, facts["words"])),
        language_model=str(facts["language_model"]),
        asked=str(facts["asked"]),
        context=tuple(map(int, facts["context"])),
        **known,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingPrompts(OnRecordings[Controlled, Any, PromptModel]):
    """Train a prompt to make a language model name the class of recordings or windows.

    Parameters
    ----------
    training
        The controller, the language model's server and how they are trained.
    classes
        Names of the outputs, in the order of the label words; every recording has one of them.
    language_model
        Where the model lies, for those who use the prompt.
    context
        Tokens that follow every prompt.
    ridge
        Of a first round that solves the controller's start in closed form (`closed_form_start`); it
        starts at zero if not given.
    """

    training: PromptTraining
    classes: tuple[str, ...]
    language_model: str
    context: tuple[int, ...] = ()
    ridge: float | Literal["gcv"] | None = field(default=None, metadata={"later": True})

    def first(self, context: RoundContext) -> FederatedRidge | None:
        """Return what this round solves if it is the first one; None if it trains."""
        features = self.training.controller.features
        if self.ridge is None or context.round > 0 or features is None:
            return None
        return regression(features, self.ridge, classes=self.classes)

    def broadcast(self, state: Controlled, context: RoundContext) -> Message:
        return NOTHING if self.first(context) else self.training.broadcast(state, context)

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> Sequence[Sent]:
        first = self.first(clients[0][1])
        if first is not None:
            return first.client_updates(received, clients)
        return super().client_updates(received, clients)

    def examples(self, recordings: Iterable[Recording]) -> list[Example]:
        return labeled(recordings, len(self.classes), self.context)

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Sent:
        return self.client_updates(received, [(data, context)])[0]

    def read_update(self, parts: Message, context: RoundContext) -> Read:
        return (self.first(context) or self.training).read_update(parts, context)

    def server_update(self, state: Controlled, total: Any, context: RoundContext) -> Controlled:
        first, training = self.first(context), self.training
        if first is None:
            return training.server_update(state, total, context)
        readout = first.result(first.server_update(RidgeState(), total, context)).readout
        targets = label_targets(training.server, training.controller.projection, [self.context])
        values = values_of(training.controller, readout, targets)
        return Controlled(values, training.optimizer.start(values))

    def result(self, state: Controlled) -> PromptModel:
        return PromptModel(
            controller=self.training.controller,
            values=state.values,
            words=self.training.server.words,
            classes=self.classes,
            language_model=self.language_model,
            asked=self.training.server.identity(),
            context=self.context,
            link=self.training.server,
        )


def labeled(
    recordings: Iterable[Recording], n_classes: int, context: tuple[int, ...] = ()
) -> list[Example]:
    """Return prepared recordings as examples; those without a target are left out.

    >>> [example.label for example in labeled([Recording.labeled([0.0, 1.0], 1, 2)], 2)]
    [1]
    """
    known = with_labels(recordings, n_classes)
    return [Example(label, recording.u, context) for recording, label in known]
