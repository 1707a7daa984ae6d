"""Which parameters of a network stay at their random start, and how a seed makes them again.

Numbers drawn have the same bits on every processor. Word k of a stream is the SplitMix64 finalizer
of seed + (k + 1) * 0x9E3779B97F4A7C15 (Steele, Lea and Flood, OOPSLA 2014): integer arithmetic
modulo 2^64, which CPU and GPU do alike. A Gaussian number is the sum of the twelve 16-bit pieces of
three words, centered and divided by its standard deviation: no logarithm, no cosine, nothing whose
last bit depends on a library. Its first three moments are a Gaussian's, its kurtosis is 0.1 less,
and it stays within six standard deviations.

`suggest_freeze` says which parts can stay frozen, by the rule of the FedPT paper as a search:

    1  Order the blocks of the network by their size.
    2  Freeze the largest, with all that is frozen so far, and train.
    3  If the score holds, keep it frozen.
    4  If not, train it after all; either way go on with the next smaller block.

A score holds if it is no more than a tolerance below that of full training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf, prod, sqrt

import torch
from torch import nn

from catchment.errors import FingerprintError

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_PIECES = 12
# Variance of a sum of twelve numbers uniform on 0..65535.
_STD = (_PIECES * (65536.0**2 - 1.0) / 12.0) ** 0.5
_MEAN = _PIECES * 65535.0 / 2.0
NORMS = (
    nn.GroupNorm,
    nn.LayerNorm,
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
)


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A choice of parameters to freeze.

    Parameters
    ----------
    names
        Patterns such as "layer4.*.conv?.weight"; a parameter that matches any is frozen.
    largest
        Freeze this many of the largest parameters, too.
    at_least
        Freeze every parameter with at least this many numbers, too.
    norms
        Whether parameters of normalization layers may be frozen; they are trained unless asked.

    >>> net = nn.Sequential(nn.Linear(4, 100), nn.LayerNorm(100), nn.Linear(100, 2))
    >>> Freeze(largest=1).frozen(net)
    ('0.weight',)
    """

    names: tuple[str, ...] = ()
    largest: int = 0
    at_least: int | None = None
    norms: bool = False

    def frozen(self, module: nn.Module) -> tuple[str, ...]:
        """Return the names of the parameters to freeze, in the module's order."""
        parameters = dict(module.named_parameters())
        for pattern in self.names:
            if not any(fnmatchcase(name, pattern) for name in parameters):
                raise ValueError(
                    f"no parameter matches {pattern!r}; there are {', '.join(list(parameters)[:8])}"
                )
        spared = set() if self.norms else norm_parameters(module)
        free = {name: p for name, p in parameters.items() if name not in spared}
        chosen = {n for n in free if any(fnmatchcase(n, pattern) for pattern in self.names)}
        by_size = sorted(free, key=lambda name: (-free[name].numel(), name))
        chosen |= set(by_size[: self.largest])
        if self.at_least is not None:
            chosen |= {name for name in free if free[name].numel() >= self.at_least}
        return tuple(name for name in parameters if name in chosen)


@dataclass(frozen=True)
class Share:
    """How much of a network is trained, what crosses the wire because of it, and what is held.

    >>> print(Share(total=1_690_046, trainable=83_902))
    4.96 % of 1,690,046 values trained: 0.34 MB each way, 20.1 times less; 7.1 MB to hold
    """

    total: int
    trainable: int

    def __str__(self) -> str:
        return (
            f"{self.percent:.2f} % of {self.total:,} values trained: "
            f"{self.bytes_each_way / 1e6:.2f} MB each way, {self.reduction:.1f} times less; "
            f"{self.bytes_held() / 1e6:.1f} MB to hold"
        )

    @property
    def percent(self) -> float:
        return 100.0 * self.trainable / self.total

    @property
    def reduction(self) -> float:
        """How many times less is sent each way than with everything trained."""
        return self.total / self.trainable

    @property
    def bytes_each_way(self) -> int:
        """float32 values, and the seed of eight bytes."""
        return 4 * self.trainable + 8

    def bytes_held(self, remembered: int = 0) -> int:
        """Return what a client holds to train: all values, and gradients of the trained ones.

        Activations come on top.

        Parameters
        ----------
        remembered
            Numbers that the optimizer keeps per trained value: 0 for plain SGD, 1 with momentum,
            2 for Adam.

        >>> Share(total=100, trainable=10).bytes_held(remembered=2)
        520
        """
        return 4 * (self.total + (1 + remembered) * self.trainable)


@dataclass(frozen=True, kw_only=True)
class PartialNetwork:
    """A network whose frozen part is a seed.

    Parameters
    ----------
    make
        Builds the module; its architecture must not depend on chance.
    freeze
        What stays as drawn.
    seed
        Of the frozen values, and of the start of the others.
    gain
        Weights are Gaussian with standard deviation gain / sqrt(inputs of a unit).

    >>> network = PartialNetwork(make=lambda: nn.Linear(3, 2), freeze=Freeze(names=("weight",)))
    >>> network.share()
    Share(total=8, trainable=2)
    """

    make: Callable[[], nn.Module]
    freeze: Freeze = Freeze()
    seed: int = 0
    gain: float = sqrt(2.0)

    def build(self, device: torch.device | str = "cpu") -> nn.Module:
        """Return the module with every value drawn from the seed; frozen ones need no gradient."""
        module = self.make().to(device)
        frozen = set(self.freeze.frozen(module))
        spared = norm_parameters(module)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                shape = tuple(parameter.shape)
                if name not in spared and len(shape) < 2:
                    parameter.zero_()
                elif name not in spared:
                    scale = self.gain / sqrt(prod(shape[1:]))
                    parameter.copy_(gaussian(self.seed, name, shape, device) * scale)
                parameter.requires_grad_(name not in frozen)
        return module

    def skeleton(self) -> nn.Module:
        """Return the module with shapes but no values, at next to no cost."""
        with torch.device("meta"):
            return self.make()

    def share(self) -> Share:
        return share_of(self.skeleton(), self.freeze)

    def identity(self) -> str:
        """Return the SHA-256 of the architecture, what is frozen, the seed and the gain."""
        module = self.skeleton()
        shapes = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        settings = (repr(module), shapes, self.freeze.frozen(module), self.seed, self.gain.hex())
        return hashlib.sha256(repr(settings).encode()).hexdigest()

    def fingerprint(self, device: torch.device | str = "cpu") -> str:
        """Return the SHA-256 of the frozen values, in hexadecimal."""
        sha = hashlib.sha256()
        for name, parameter in self.build(device).named_parameters():
            if not parameter.requires_grad:
                sha.update(name.encode())
                sha.update(parameter.detach().cpu().numpy().tobytes())
        return sha.hexdigest()

    def check(self, expected: str, device: torch.device | str = "cpu") -> None:
        """Raise FingerprintError if the frozen values are not the expected ones."""
        found = self.fingerprint(device)
        if found != expected:
            raise FingerprintError(
                f"the frozen part is {found[:12]}, expected {expected[:12]}; "
                "use the same architecture, freeze and seed"
            )


def norm_parameters(module: nn.Module) -> set[str]:
    """Return the names of all parameters that belong to normalization layers."""
    return {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules()
        if isinstance(part, NORMS)
        for name, _ in part.named_parameters(recurse=False)
    }


def share_of(module: nn.Module, freeze: Freeze) -> Share:
    """Return how much of a module is trained under a freeze.

    >>> share_of(nn.Linear(3, 2), Freeze(names=("weight",))).percent
    25.0
    """
    frozen = set(freeze.frozen(module))
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    return Share(sum(sizes.values()), sum(n for name, n in sizes.items() if name not in frozen))


def stream(seed: int, name: str) -> int:
    """Return the 64-bit start of a named stream of a seed.

    >>> stream(1, "conv.weight") == stream(1, "conv.weight") != stream(2, "conv.weight")
    True
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}; pass an integer from 0 to 2**64 - 1")
    digest = hashlib.sha256(seed.to_bytes(8, "little") + name.encode()).digest()
    return int.from_bytes(digest[:8], "little")


def words(start: int, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return 64-bit words (count,) as int64, the same on any device.

    >>> [int(w) % 2**64 for w in words(1234567, 2)]
    [6457827717110365317, 3203168211198807973]
    """
    z = torch.arange(1, count + 1, dtype=torch.int64, device=device) * _signed(_GOLDEN)
    z = z + _signed(start)
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return z ^ _shifted(z, 31)


def gaussian(
    seed: int, name: str, shape: tuple[int, ...], device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return float32 numbers of mean 0 and variance 1, the same bits on any device.

    >>> x = gaussian(0, "w", (100, 100))
    >>> bool(abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05)
    True
    """
    count = int(torch.Size(shape).numel())
    drawn = words(stream(seed, name), 3 * count, device).reshape(count, 3)
    total = torch.zeros(count, dtype=torch.int64, device=drawn.device)
    for place in (0, 16, 32, 48):
        total += ((drawn >> place) & 0xFFFF).sum(dim=1)
    exact = (total.to(torch.float64) - _MEAN) / _STD
    values: torch.Tensor = exact.to(torch.float32).reshape(shape)
    return values


def _shifted(z: torch.Tensor, places: int) -> torch.Tensor:
    """Return z shifted right as an unsigned number."""
    return (z >> places) & ((1 << (64 - places)) - 1)


def _signed(word: int) -> int:
    word %= 1 << 64
    return word - (1 << 64) if word >= 1 << 63 else word


@dataclass(frozen=True)
class Attempt:
    """One block more frozen, what is then left to train, its score, and whether it was kept."""

    block: str
    freeze: Freeze
    share: Share
    score: float
    kept: bool


@dataclass(frozen=True)
class Suggestion:
    """What to freeze, the score of full training, and every attempt in its order."""

    freeze: Freeze
    full_score: float
    attempts: tuple[Attempt, ...]

    @property
    def score(self) -> float:
        """The score with the suggested freeze."""
        return next((a.score for a in reversed(self.attempts) if a.kept), self.full_score)


def suggest_freeze(
    module: nn.Module,
    evaluate: Callable[[Freeze], float],
    *,
    tolerance: float,
    blocks: Sequence[str] | None = None,
    enough: float = 1.0,
    smallest: float = 0.01,
) -> Suggestion:
    """Return the freeze that a greedy search from the largest block down finds.

    Parameters
    ----------
    module
        The network, for its names and shapes.
    evaluate
        Trains with a freeze and returns a score, the higher the better; once for full training and
        once per block. Judge on validation clients: the search looks at every score.
    tolerance
        How far below full training a score may be.
    blocks
        Patterns of parameter names, each a block; if not given, every layer by itself.
    enough
        Stop when at most this percentage of the parameters is trained.
    smallest
        Blocks with less than this share of all parameters are not worth a training.

    >>> net = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 50), nn.Linear(50, 2))
    >>> found = suggest_freeze(
    ...     net, lambda freeze: 0.5 if "0.weight" in freeze.names else 0.9, tolerance=0.01
    ... )
    >>> found.freeze.names, [attempt.kept for attempt in found.attempts]
    (('1.weight', '1.bias', '2.weight', '2.bias'), [True, False, True])
    """
    if not 0 <= tolerance < inf:
        raise ValueError(f"tolerance is {tolerance}; pass how far the score may fall, 0 or more")
    full = evaluate(Freeze())
    kept: tuple[str, ...] = ()
    attempts: list[Attempt] = []
    for block, names in by_size(module, blocks, smallest):
        freeze = Freeze(names=(*kept, *names))
        share = share_of(module, freeze)
        if share.trainable == 0:
            continue
        score = evaluate(freeze)
        holds = score >= full - tolerance
        attempts.append(Attempt(block, freeze, share, score, holds))
        if holds:
            kept = freeze.names
            if share.percent <= enough:
                break
    return Suggestion(Freeze(names=kept), full, tuple(attempts))


def by_size(
    module: nn.Module, blocks: Sequence[str] | None = None, smallest: float = 0.0
) -> list[tuple[str, tuple[str, ...]]]:
    """Return blocks with the parameters they hold, the largest first; no normalization layers.

    >>> by_size(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 9, bias=False)))
    [('2', ('2.weight',)), ('0', ('0.weight', '0.bias'))]
    """
    spared = norm_parameters(module)
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    free = [name for name in sizes if name not in spared]
    if blocks is None:
        owners = {name: name.rpartition(".")[0] for name in free}
    else:
        owners = {}
        for name in free:
            matching = [pattern for pattern in blocks if fnmatchcase(name, pattern)]
            if matching:
                owners[name] = matching[0]
    held: dict[str, tuple[str, ...]] = {}
    for name, owner in owners.items():
        held[owner] = (*held.get(owner, ()), name)
    for pattern in blocks or ():
        if pattern not in held:
            raise ValueError(
                f"no parameter that may be frozen matches {pattern!r}, or an earlier block has it; "
                f"there are {', '.join(free[:8])}"
            )
    weight = {owner: sum(sizes[name] for name in names) for owner, names in held.items()}
    least = smallest * sum(sizes.values())
    order = sorted((o for o in held if weight[o] >= least), key=lambda o: (-weight[o], o))
    return [(owner, held[owner]) for owner in order]
