"""A partially trainable network that predicts classes from raw recordings.

Its file holds the values that were trained; the frozen part is its seed, and the architecture the
name of the function that makes the module, which is not in the file and has to be there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import nn

from catchment import Array
from catchment.data import RAW, Preprocessing, Recording
from catchment.errors import FingerprintError, IntegrityError
from catchment.federation import Data, RoundContext
from catchment.readout import (
    Stored,
    around,
    around_of,
    refuse_device,
    typed,
)
from catchment.wire import Message
from catchment_research.learn.optimizers import Arrays
from catchment_research.learn.recordings import OnRecordings
from catchment_research.maps import by_length
from catchment_research.partial.freeze import Freeze, PartialNetwork
from catchment_research.partial.networks import NETWORKS
from catchment_research.partial.training import Change, Examples, FederatedTraining, Moved, Trained
from catchment_research.recordings import OfRecordings, with_labels

KIND = "network"
AT_ONCE = 256  # examples that go through the network together


@dataclass(frozen=True)
class Maker:
    """Makes a module: a function, and how many channels come in and classes go out.

    >>> Maker(nn.Linear, 3, 2)()
    Linear(in_features=3, out_features=2, bias=True)
    """

    function: Callable[[int, int], nn.Module]
    n_inputs: int
    n_outputs: int

    @property
    def name(self) -> str:
        """Where the function is, as a plan file names it: `module:function`."""
        return name_of(self.function)

    def __call__(self) -> nn.Module:
        module = self.function(self.n_inputs, self.n_outputs)
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"{self.name} returned a {type(module).__name__}; return a torch.nn.Module for "
                "inputs (batch, steps, channels)"
            )
        return module


def name_of(function: Callable[..., Any]) -> str:
    """Return where a function or a class is, as `module:name`."""
    return f"{function.__module__}:{function.__qualname__}"


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkModel(OfRecordings):
    """A trained network on prepared recordings (batch, T, I), all of one length; logits come out.

    Parameters
    ----------
    network
        The architecture, what is frozen, and the seed; made by a `Maker`.
    values
        What was trained, in the order of the parameters.
    classes
        Names of the outputs.
    """

    network: PartialNetwork
    values: Arrays
    classes: tuple[str, ...] = ()
    preprocessing: Preprocessing = RAW
    channels: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.network.make, Maker):
            raise TypeError("the network has no name to be kept by; pass make=Maker(function, ...)")
        if len(self.classes) != self.maker.n_outputs:
            raise ValueError(
                f"{len(self.classes)} classes are named for {self.maker.n_outputs} outputs"
            )

    @property
    def maker(self) -> Maker:
        assert isinstance(self.network.make, Maker)
        return self.network.make

    @property
    def n_inputs(self) -> int:
        return self.maker.n_inputs

    @cached_property
    def module(self) -> nn.Module:
        """The network with its frozen values drawn and its trained ones filled in."""
        module = self.network.build()
        with torch.no_grad():
            for (name, parameter), value in zip(_trainable(module), self.values, strict=True):
                if tuple(parameter.shape) != value.shape:
                    raise ValueError(f"{name} has shape {value.shape}, not {parameter.shape}")
                parameter.copy_(torch.from_numpy(value.astype(np.float32)))
        return module.eval()

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the logits (1, K) of each prepared recording."""
        refuse_device(device, "a network")

        def logits(x: Array) -> Array:
            parts = torch.from_numpy(x.astype(np.float32)).split(AT_ONCE)
            with torch.inference_mode():
                return np.concatenate([self.module(part).double().numpy() for part in parts])

        found = by_length([recording.u for recording in prepared], logits)
        return [row.reshape(1, -1) for row in found]

    def probabilities(self, scores: Array) -> Array:
        return np.asarray(softmax(scores, axis=1))

    def stored(self) -> Stored:
        network, names = self.network, [name for name, _ in _trainable(self.module)]
        facts = {
            **around(self),
            "make": self.maker.name,
            "n_inputs": self.maker.n_inputs,
            "freeze": asdict(network.freeze),
            "seed": network.seed,
            "gain": network.gain,
            "identity": network.identity(),
            "frozen": network.fingerprint(),
            "trained": names,
        }
        values = zip(names, self.values, strict=True)
        tensors = {f"trained.{name}": value.astype(np.float32) for name, value in values}
        return Stored(KIND, facts, tensors)


def network_model_of(held: Stored, use: Iterable[Callable[..., Any]] = ()) -> NetworkModel:
    """Return the network that a file holds; IntegrityError if what makes it is not here."""
    facts, known = held.facts, around_of(held.facts)
    if known["classes"] is None:
        raise ValueError("the network has no classes")
    freeze = {**facts["freeze"], "names": tuple(facts["freeze"]["names"])}
    network = PartialNetwork(
        make=Maker(_function(facts["make"], use), int(facts["n_inputs"]), len(known["classes"])),
        freeze=Freeze(**freeze),
        seed=facts["seed"],
        gain=facts["gain"],
    )
    if network.identity() != facts["identity"]:
        raise FingerprintError(
            f"{facts['make']} makes another network than the one that was trained; use the "
            "version of the function that the training had"
        )
    network.check(facts["frozen"])
    values = tuple(
        typed(held.tensors, f"trained.{name}", np.float32).astype(np.float64)
        for name in facts["trained"]
    )
    return NetworkModel(network=network, values=values, **known)


def _trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def _function(name: str, use: Iterable[Callable[..., Any]]) -> Callable[[int, int], nn.Module]:
    """Return the function of a name: one of those handed over, or of a module imported already."""
    for one in (*use, *NETWORKS.values()):
        if name_of(one) == name:
            return one
    module, _, inside = name.partition(":")
    value: Any = vars(sys.modules[module]).get(inside) if module in sys.modules else None
    if not callable(value):
        raise IntegrityError(
            f"the model's network is made by {name}, which is not known here; import its module "
            f"first, pass the function to load, or on the command line say --use {name}"
        )
    made: Callable[[int, int], nn.Module] = value
    return made


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordingTraining(OnRecordings[Trained, Moved, NetworkModel]):
    """Train a partially trainable network to name the class of recordings or windows.

    Parameters
    ----------
    training
        The network and how it is trained; its module takes (batch, steps, channels) and returns
        logits (batch, classes), and is made by a `Maker`.
    classes
        Names of the outputs; every recording has one of them.
    """

    training: FederatedTraining
    classes: tuple[str, ...]

    def examples(self, recordings: Iterable[Recording]) -> list[Examples]:
        return [examples_of(recordings, len(self.classes))]

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Change:
        made: Change = self.client_updates(received, [(data, context)])[0]
        return made

    def read_update(self, parts: Message, context: RoundContext) -> Moved:
        return self.training.read_update(parts, context)

    def server_update(self, state: Trained, total: Moved, context: RoundContext) -> Trained:
        return self.training.server_update(state, total, context)

    def result(self, state: Trained) -> NetworkModel:
        return NetworkModel(
            network=self.training.network, values=state.values, classes=self.classes
        )


def examples_of(recordings: Iterable[Recording], n_classes: int) -> Examples:
    """Return prepared recordings as examples (n, T, I); those without a target are left out.

    >>> one = Recording.labeled(np.zeros((5, 2)), 1, 3)
    >>> held = examples_of([one, one], 3)
    >>> held.x.shape, held.y
    ((2, 5, 2), array([1, 1]))
    """
    known = with_labels(recordings, n_classes)
    lengths = sorted({recording.n_steps for recording, _ in known})
    if len(lengths) > 1:
        raise ValueError(
            f"recordings have {lengths[0]} to {lengths[-1]} steps, a network takes examples of one "
            f"length; set a window of at most {lengths[0]} steps"
        )
    x = np.stack([recording.u for recording, _ in known]).astype(np.float32)
    return Examples(x, np.array([label for _, label in known], dtype=np.int64))
