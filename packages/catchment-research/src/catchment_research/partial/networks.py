"""Networks on recordings: those that a plan file knows by name, and models that predict classes.

The FedPT paper (Sidahmed et al., 2021) does not print its architectures; they were identified by
their counts: the convolutional network of federated EMNIST (1 690 046 parameters) and the second
version of ResNet-18 with group normalization and 100 outputs (11 227 812). Any other network is a
function of one's own.

A model's file holds the values that were trained; the frozen part is its seed, and the architecture
the name of the function that makes the module, which is not in the file and has to be there.
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
from torch.nn import functional

from catchment import Array
from catchment.data import RAW, Preprocessing, Recording
from catchment.errors import FingerprintError, IntegrityError
from catchment.features import imported
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
from catchment_research.learn.recordings import OfRecordings, OnRecordings, with_labels
from catchment_research.maps import by_length
from catchment_research.partial.freeze import Freeze, PartialNetwork
from catchment_research.partial.training import Change, Examples, FederatedTraining, Moved, Trained

KIND = "network"
AT_ONCE = 256  # examples that go through the network together


class Cnn(nn.Module):
    """Two convolutions over time, their mean, and a linear layer: recordings of any length.

    Parameters
    ----------
    n_channels, n_classes
        What comes in, (batch, steps, channels), and goes out, logits (batch, classes).

    >>> Cnn(3, 4)(torch.zeros(2, 50, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(n_channels, 32, 7, padding=3)
        self.second = nn.Conv1d(32, 64, 5, padding=2)
        self.out = nn.Linear(64, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of recordings."""
        h = self.second(self.first(x.transpose(1, 2)).relu()).relu()
        logits: torch.Tensor = self.out(h.mean(-1))
        return logits


class EmnistCnn(nn.Module):
    """Two 5 x 5 convolutions of 32 and 64 maps with pooling, 512 hidden units.

    >>> sum(p.numel() for p in EmnistCnn().parameters())
    1690046
    """

    def __init__(self, n_classes: int = 62) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.hidden = nn.Linear(7 * 7 * 64, 512)
        self.out = nn.Linear(512, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        logits: torch.Tensor = self.out(functional.relu(self.hidden(x.flatten(1))))
        return logits


class _Residual(nn.Module):
    """Two 3 x 3 convolutions, each behind its normalization; a 1 x 1 one may go around them."""

    def __init__(self, before: int, after: int, *, first: bool = False) -> None:
        super().__init__()
        self.norm1 = None if first else nn.GroupNorm(32, before)
        self.conv1 = nn.Conv2d(before, after, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(32, after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        around = before != after
        self.around = nn.Conv2d(before, after, 1, bias=False) if around else None
        self.around_norm = nn.GroupNorm(32, after) if around else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.norm1 is None else functional.relu(self.norm1(x))
        y = self.conv2(functional.relu(self.norm2(self.conv1(y))))
        if self.around is not None and self.around_norm is not None:
            x = self.around_norm(self.around(x))
        total: torch.Tensor = x + y
        return total


class ResNet18(nn.Module):
    """ResNet-18 of the second kind (normalization before convolution) with group normalization.

    As in the code behind the paper, no stage shrinks the image.

    Parameters
    ----------
    n_outputs
        100 in the paper's experiments with CIFAR-10, 90 of them unused.

    >>> sum(p.numel() for p in ResNet18().parameters())
    11227812
    """

    def __init__(self, n_outputs: int = 100) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem_norm = nn.GroupNorm(32, 64)
        self.stage1 = nn.Sequential(_Residual(64, 64, first=True), _Residual(64, 64))
        self.stage2 = nn.Sequential(_Residual(64, 128), _Residual(128, 128))
        self.stage3 = nn.Sequential(_Residual(128, 256), _Residual(256, 256))
        self.stage4 = nn.Sequential(_Residual(256, 512), _Residual(512, 512))
        self.norm = nn.GroupNorm(32, 512)
        self.out = nn.Linear(512, n_outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem_norm(self.stem(x)))
        x = functional.max_pool2d(x, 3, 2, 1)
        x = self.stage4(self.stage3(self.stage2(self.stage1(x))))
        logits: torch.Tensor = self.out(functional.relu(self.norm(x)).mean((2, 3)))
        return logits


class EmnistRows(EmnistCnn):
    """`EmnistCnn` for recordings of 28 steps and 28 channels: a step is a row of the image.

    >>> EmnistRows(28, 10)(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__(n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_images(x, "emnist_cnn"))


class ResNetRows(ResNet18):
    """`ResNet18` for recordings of 32 steps and 96 channels: a row's pixels, three colors each.

    >>> ResNetRows(96, 10)(torch.zeros(2, 32, 96)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__(n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_images(x, "resnet18"))


IMAGES = {"emnist_cnn": (28, 1), "resnet18": (32, 3)}  # the side of an image, and its colors


def check_shape(name: str, steps: int | str | None, channels: int) -> None:
    """Raise ValueError if a network is for images and recordings of this shape are none.

    >>> check_shape("cnn", 40, 3), check_shape("resnet18", None, 96)
    (None, None)
    """
    side, colors = IMAGES.get(name, (0, 0))
    known = isinstance(steps, int)
    if side and (steps if known else side, channels) != (side, side * colors):
        raise ValueError(
            f"recordings have {f'{steps} steps of ' if known else ''}{channels} channels; the "
            f"network {name!r} needs {side} steps of {side * colors} channels, the rows of an "
            f"image of {side} x {side} x {colors}"
        )


def _images(x: torch.Tensor, name: str) -> torch.Tensor:
    """Return recordings, a row of pixels in each step, as images (batch, colors, side, side)."""
    check_shape(name, x.shape[1], x.shape[2])
    side, colors = IMAGES[name]
    return x.reshape(-1, side, side, colors).movedim(-1, 1)


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "cnn": Cnn,
    "emnist_cnn": EmnistRows,
    "resnet18": ResNetRows,
}


def network_named(name: str) -> Callable[[int, int], nn.Module]:
    """Return what makes a network: one of this module, or `module:function` of one's own.

    >>> network_named("cnn").__name__, network_named("torch.nn:Linear").__name__
    ('Cnn', 'Linear')
    """
    if ":" in name:
        found: Callable[[int, int], nn.Module] = imported(name)
        return found
    if name not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise ValueError(f"no network is called {name!r}; use {known} or module:function")
    return NETWORKS[name]


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
            parts = np.split(x.astype(np.float32), range(AT_ONCE, len(x), AT_ONCE))
            with torch.inference_mode():
                made = [self.module(torch.from_numpy(part)).double().numpy() for part in parts]
            return np.concatenate(made)

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
