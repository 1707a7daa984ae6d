"""A federated training without its messages: everything stays where the networks are trained.

The round loop of the library packs, hashes, checks and adds every client's message as if it had
come over a network: for a ResNet-18 trained whole that is 45 MB a client, and takes far longer
than the training. Here the same clients are drawn, take the same steps on the same examples, and
are added in the same order and precision; tests compare the two. Nothing is measured of messages:
their bytes are counted from the sizes of tensors. Noise has the law that the library's has, and is
drawn from the plan's seed, which protects nobody.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast, final

import torch
from torch.func import functional_call

from catchment.engine import Source, data_of
from catchment.errors import FederationError
from catchment.federation import Plan, Record, Result, RoundContext
from catchment_research.learn import Arrays
from catchment_research.partial import (
    Examples,
    FederatedTraining,
    FollowTheLeader,
    PartialNetwork,
    Trained,
    frozen_part,
    one_set,
    recordings_of,
    train_group,
)
from reproductions.convolve import JointConvolutions, channels_last
from reproductions.fedpt_keep import Keeping

Values = tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class _State:
    """Trainable values and the optimizer's memory, float64, where the networks are trained."""

    values: Values
    memory: Values

    @classmethod
    def of(cls, state: Trained, device: torch.device) -> _State:
        values, memory = (
            tuple(torch.tensor(v, device=device) for v in part)
            for part in (state.values, state.memory)
        )
        if device.type == "cuda":
            # Weights lie as joint convolutions take them, and stay so in all that is made of them.
            values, memory = (tuple(map(channels_last, part)) for part in (values, memory))
        return cls(values, memory)

    def trained(self) -> Trained:
        if not all(bool(value.isfinite().all()) for value in self.values):
            raise FederationError("values are no longer finite; take a smaller learning rate")
        values, memory = (tuple(v.cpu().numpy() for v in p) for p in (self.values, self.memory))
        return Trained(cast(Arrays, values), cast(Arrays, memory))


def simulate(
    plan: Plan[Trained, Any, torch.nn.Module],
    clients: Mapping[str, Source],
    *,
    keeper: Keeping | None = None,
) -> Result[Trained, torch.nn.Module]:
    """Return what a plan of partial training comes to, all clients of a round at once.

    Parameters
    ----------
    plan
        `FederatedTraining` without weak clients, dropout and protections; of noise, a tree's.
    clients
        Examples by name, or functions that make them when a client is asked.
    keeper
        As for `run_locally`; it is given the state of those rounds only in which it wants it.
    """
    algorithm = plan.algorithm
    if not isinstance(algorithm, FederatedTraining):
        raise TypeError(f"only FederatedTraining is simulated, not {type(algorithm).__name__}")
    rule = algorithm.optimizer
    toeplitz = isinstance(rule, FollowTheLeader) and rule.mechanism == "toeplitz"
    if algorithm.weak or algorithm.dropout or plan.protections or toeplitz:
        raise ValueError(
            "weak clients, dropout, protections and the Toeplitz mechanism are not simulated; use "
            "run_locally"
        )
    device = algorithm.torch_device()
    kept = keeper.resume() if keeper else None
    begun, records = kept if kept else (algorithm.start(), ())
    state = _State.of(begun, device)
    names = sorted(clients)
    noise = torch.Generator(device).manual_seed(plan.seed)
    with ThreadPoolExecutor(1) as ahead:  # the next examples are made while these are learned

        def asked(round_: int) -> list[Examples]:
            cohort = plan.cohort(names, round_) if round_ < plan.rounds else ()
            return [one_set(data_of(clients[name])) for name in cohort]

        following = ahead.submit(asked, len(records))
        for round_ in range(len(records), plan.rounds):
            began, examples = time.perf_counter(), following.result()
            following = ahead.submit(asked, round_ + 1)
            cohort = plan.cohort(names, round_)
            context = RoundContext(round_, cohort, plan.seed)
            total, weight = summed_change(algorithm, state.values, examples, context)
            state = _stepped(algorithm, state, total, weight, noise)
            record = _record(algorithm, context, time.perf_counter() - began)
            records = (*records, record)
            if keeper:
                wanted = keeper.wants(round_)
                keeper.close_round(state.trained() if wanted else None, record)
    return Result(state.trained(), plan, records)


def summed_change(
    algorithm: FederatedTraining,
    values: Values,
    examples: Sequence[Examples],
    context: RoundContext,
) -> tuple[Values, float]:
    """Return the sum of the clients' changes as they are sent, in float64, and of their weights."""
    device = algorithm.torch_device()
    names, frozen = frozen_part(algorithm.network, device)
    begun = {name: value.float() for name, value in zip(names, values, strict=True)}
    steps, module, start = algorithm.steps, _layout(algorithm.network)[0], begun
    joined = Joined(module, begun) if steps.optimizer == "adam" else None
    if joined is not None:
        module, start = joined, {"values": joined.values.detach()}
        frozen = {f"inner.{name}": value for name, value in frozen.items()}
    recorded = algorithm.record and device.type == "cuda"
    with JointConvolutions() if device.type == "cuda" else nullcontext():
        group = train_group(
            module,
            start,
            frozen,
            examples,
            [
                steps.schedule(len(e.x), replace(context, client=client).rng())
                for client, e in zip(context.cohort, examples, strict=True)
            ],
            steps,
            learning_rate=steps.learning_rate * algorithm.schedule.factor(context.round),
            recordings=recordings_of(algorithm.network, steps, device) if recorded else None,
        )
    after = group.values if joined is None else joined.apart(group.values["values"])
    moved = {name: after[name] - value for name, value in begun.items()}
    weights, factors = algorithm._weights(moved, [len(e.x) for e in examples])
    # Products are float32, as they are sent.
    sent = (m * factors.reshape(-1, *[1] * (m.ndim - 1)) for m in moved.values())
    return tuple(one.sum(0, dtype=torch.float64) for one in sent), sum(weights)


@final
class Joined(torch.nn.Module):
    """A network whose trained values are one vector.

    An optimizer that remembers takes two dozen small steps for every tensor, each a kernel on a
    GPU; for one vector it takes as many in all, to the same bits.
    """

    def __init__(self, inner: torch.nn.Module, start: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.inner, self.shapes = inner, {name: v.shape for name, v in start.items()}
        self.values = torch.nn.Parameter(torch.cat([v.flatten() for v in start.values()]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = functional_call(self.inner, self.apart(self.values), (x,))
        return y

    def apart(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return values (..., all of them) by name."""
        parts = torch.split(values, [shape.numel() for shape in self.shapes.values()], dim=-1)
        return {
            name: part.reshape(*part.shape[:-1], *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


def _stepped(
    algorithm: FederatedTraining,
    state: _State,
    total: Values,
    weight: float,
    noise: torch.Generator,
) -> _State:
    """Return the state after the server's step, which is arithmetic of any numbers."""
    if isinstance(algorithm.optimizer, FollowTheLeader):
        return followed(algorithm.optimizer, state, total, noise)
    change = tuple(one / weight for one in total)
    given = (cast(Arrays, part) for part in (state.values, change, state.memory))
    return _State(*(cast(Values, part) for part in algorithm.optimizer.step(*given)))


def followed(rule: FollowTheLeader, state: _State, total: Values, noise: torch.Generator) -> _State:
    """Return the state after a step of `rule` with a tree, where the networks are trained."""
    n, t = len(total), int(state.memory[0][0]) + 1
    velocity, before, *slots = (
        state.memory[1 + k * n : 1 + (k + 1) * n] for k in range(len(state.memory[1:]) // n)
    )
    place = t if rule.restart_every is None else (t - 1) % rule.restart_every + 1
    lowest = (place & -place).bit_length() - 1
    drawn = tuple(
        rule.spread * torch.randn(x.shape, generator=noise, dtype=x.dtype, device=x.device)
        for x in state.values
    )
    # The nodes below the new one end here.
    prefix = tuple(
        sum((-slot[k] for slot in slots[:lowest]), start=before[k] + drawn[k]) for k in range(n)
    )
    ended = [tuple(torch.zeros_like(x) for x in state.values)] * lowest
    velocity = tuple(
        rule.momentum * v + one / rule.clients + after - earlier
        for v, one, after, earlier in zip(velocity, total, prefix, before, strict=True)
    )
    values = tuple(x + rule.learning_rate * v for x, v in zip(state.values, velocity, strict=True))
    rest = (x for slot in (*ended, drawn, *slots[lowest + 1 :]) for x in slot)
    return _State(values, (state.memory[0] + 1, *velocity, *prefix, *rest))


@lru_cache(maxsize=2)
def _layout(network: PartialNetwork) -> tuple[torch.nn.Module, int]:
    """Return a network's module without values, and the bytes that a client sends."""
    return network.skeleton(), network.share().bytes_each_way


def _record(algorithm: FederatedTraining, context: RoundContext, seconds: float) -> Record:
    n, (_, size) = len(context.cohort), _layout(algorithm.network)
    return Record(context.round, n, n, seconds, n * size, n * size)
