"""How far to go: what the server does with the clients' mean change, and rates from round to round.

With the mean change D of a round as a pseudo-gradient (Reddi et al., "Adaptive Federated
Optimization", ICLR 2021; no bias correction, as there):

    Mean      x += rate D
    Momentum  v <- momentum v + D;                         x += rate v
    Adam      m <- b1 m + (1 - b1) D
              v <- b2 v + (1 - b2) D^2;                    x += rate m / (sqrt(v) + tau)
    Yogi      v <- v - (1 - b2) D^2 sign(v - D^2);         x as for Adam
    Adagrad   v <- v + D^2;                                x += rate D / (sqrt(v) + tau)

v starts at tau^2 in Adam, Yogi and Adagrad, everything else at zero. An optimizer is a frozen
value; what it remembers between rounds is passed in and out, and is part of the algorithm's state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt

from catchment.arrays import (
    Array,
    Factor,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from catchment.plugins import CHOICES

Arrays = tuple[Array, ...]
Decay = Annotated[float, Ge(0), Lt(1)]


class ServerOptimizer(ABC):
    """Base of rules that move values by the mean change of a round; `step` is what differs."""

    def __post_init__(self) -> None:
        check_fields(self)

    def start(self, values: Arrays) -> Arrays:
        """Return the memory before the first round, for values of these shapes: none."""
        return ()

    @abstractmethod
    def step(self, values: Arrays, change: Arrays, memory: Arrays) -> tuple[Arrays, Arrays]:
        """Return the values and the memory after a round whose mean change is given."""


@dataclass(frozen=True, kw_only=True)
class Mean(ServerOptimizer):
    """Plain federated averaging: go where the clients went, on average.

    >>> Mean().step((np.array([1.0]),), (np.array([0.5]),), ())
    ((array([1.5]),), ())
    """

    learning_rate: PositiveFloat = 1.0

    def step(self, values: Arrays, change: Arrays, memory: Arrays) -> tuple[Arrays, Arrays]:
        return _moved(values, change, self.learning_rate), ()


@dataclass(frozen=True, kw_only=True)
class Momentum(ServerOptimizer):
    """Averaging with a velocity that outlives the round.

    >>> rule, x, v = Momentum(momentum=0.5), (np.array([0.0]),), (np.array([0.0]),)
    >>> x, v = rule.step(x, (np.array([1.0]),), v)
    >>> rule.step(x, (np.array([1.0]),), v)
    ((array([2.5]),), (array([1.5]),))
    """

    learning_rate: PositiveFloat = 1.0
    momentum: Decay = 0.9

    def start(self, values: Arrays) -> Arrays:
        return tuple(map(np.zeros_like, values))

    def step(self, values: Arrays, change: Arrays, memory: Arrays) -> tuple[Arrays, Arrays]:
        pairs = zip(_sized(memory, values), change, strict=True)
        velocity = tuple(self.momentum * v + D for v, D in pairs)
        return _moved(values, velocity, self.learning_rate), velocity


@dataclass(frozen=True, kw_only=True)
class Adam(ServerOptimizer):
    """Steps divided by the root of a running mean of squared changes (FedAdam).

    Parameters
    ----------
    learning_rate
        About how far a value moves in a round, whatever the size of the change.
    mean_decay, square_decay
        b1 and b2: what the running means keep of their past.
    tau
        Changes much smaller than this are not blown up to full steps.

    >>> rule, x = Adam(learning_rate=0.1, tau=1e-3), (np.array([0.0]),)
    >>> x, _ = rule.step(x, (np.array([1.0]),), rule.start(x))
    >>> x[0].round(6)
    array([0.099005])
    """

    learning_rate: PositiveFloat = 0.01
    mean_decay: Decay = 0.9
    square_decay: Decay = 0.99
    tau: PositiveFloat = 1e-3

    def start(self, values: Arrays) -> Arrays:
        squares = tuple(np.full_like(x, self.tau**2) for x in values)
        return (*map(np.zeros_like, values), *squares)

    def step(self, values: Arrays, change: Arrays, memory: Arrays) -> tuple[Arrays, Arrays]:
        n, b1 = len(values), self.mean_decay
        pairs = zip(_sized(memory[:n], values), change, strict=True)
        means = tuple(b1 * m + (1 - b1) * D for m, D in pairs)
        pairs = zip(_sized(memory[n:], values), change, strict=True)
        squares = tuple(self._squares(v, D**2) for v, D in pairs)
        return _moved(values, means, self.learning_rate, squares, self.tau), means + squares

    def _squares(self, kept: Array, new: Array) -> Array:
        return self.square_decay * kept + (1 - self.square_decay) * new


@dataclass(frozen=True, kw_only=True)
class Yogi(Adam):
    """Adam whose squares move by additive steps, so that a burst is forgotten more slowly.

    Parameters are those of `Adam`.

    >>> rule, x = Yogi(learning_rate=0.1, tau=1e-3), (np.array([0.0]),)
    >>> x, _ = rule.step(x, (np.array([1.0]),), rule.start(x))
    >>> x[0].round(6)
    array([0.099005])
    """

    def _squares(self, kept: Array, new: Array) -> Array:
        return kept - (1 - self.square_decay) * new * np.sign(kept - new)


@dataclass(frozen=True, kw_only=True)
class Adagrad(ServerOptimizer):
    """Steps divided by the root of the sum of all squared changes so far (FedAdagrad).

    >>> rule, x = Adagrad(learning_rate=0.1, tau=1e-3), (np.array([0.0]),)
    >>> x, _ = rule.step(x, (np.array([1.0]),), rule.start(x))
    >>> x[0].round(6)
    array([0.0999])
    """

    learning_rate: PositiveFloat = 0.01
    tau: PositiveFloat = 1e-3

    def start(self, values: Arrays) -> Arrays:
        return tuple(np.full_like(x, self.tau**2) for x in values)

    def step(self, values: Arrays, change: Arrays, memory: Arrays) -> tuple[Arrays, Arrays]:
        squares = tuple(v + D**2 for v, D in zip(_sized(memory, values), change, strict=True))
        return _moved(values, change, self.learning_rate, squares, self.tau), squares


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A factor on the learning rate: a rise, then steps down or half a cosine, or none of it.

    Parameters
    ----------
    warmup
        Rounds over which the factor rises to one in equal steps.
    decay
        What is kept of the factor every `every` rounds.
    cosine
        Rounds over which the factor falls to zero along half a cosine, if given; a plan of this
        many rounds ends close to zero.

    >>> [Schedule(decay=0.5, every=2).factor(k) for k in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    >>> [round(Schedule(warmup=2, cosine=4).factor(k), 3) for k in range(4)]
    [0.5, 0.854, 0.5, 0.146]
    """

    warmup: NonNegativeInt = 0
    decay: Factor = 1.0
    every: PositiveInt = 1
    cosine: PositiveInt | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def factor(self, round_: int) -> float:
        """Return the factor of a round, counted from 0."""
        rise = min(1.0, (round_ + 1) / self.warmup) if self.warmup else 1.0
        fall = self.decay ** (round_ // self.every)
        if self.cosine is not None:
            fall *= 0.5 * (1 + math.cos(math.pi * min(round_ / self.cosine, 1.0)))
        return rise * fall


CHOICES[ServerOptimizer] = {
    "mean": Mean,
    "momentum": Momentum,
    "adam": Adam,
    "yogi": Yogi,
    "adagrad": Adagrad,
}


def _moved(
    values: Arrays, direction: Arrays, rate: float, squares: Arrays = (), tau: float = 0.0
) -> Arrays:
    if squares:
        direction = tuple(d / (np.sqrt(v) + tau) for d, v in zip(direction, squares, strict=True))
    return tuple(x + rate * d for x, d in zip(values, direction, strict=True))


def _sized(memory: Arrays, values: Arrays) -> Arrays:
    if [m.shape for m in memory] != [x.shape for x in values]:
        raise ValueError(
            f"the optimizer remembers shapes {[m.shape for m in memory]} for values "
            f"{[x.shape for x in values]}; begin with what `start` returns"
        )
    return memory
