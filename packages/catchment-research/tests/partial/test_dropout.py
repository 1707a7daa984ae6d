"""Sub-networks of clients: against a plain torch loop that builds every one as a smaller module."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from catchment import Clip, GaussianNoise, Plan, federate
from catchment.errors import FederationError
from catchment.federation import RoundContext
from catchment.privacy import SecureAggregation, generate_keys
from catchment_research import StochasticQuantization
from catchment_research.partial import (
    Dropout,
    Examples,
    FederatedTraining,
    FollowTheLeader,
    Freeze,
    Kept,
    LocalSteps,
    PartialNetwork,
    layout,
    links,
)

ORDERS: tuple[Literal["random", "first"], ...] = ("random", "first")
CHAIN = (("conv", "hidden", "out"),)
STEPS = LocalSteps(learning_rate=0.2, batch_size=64)


class Small(nn.Module):
    """A convolution of any width, flattened, and two fully connected layers."""

    def __init__(self, maps: int = 4, hidden: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, maps, 3, padding=1)
        self.hidden = nn.Linear(5 * maps, hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.conv(x)).flatten(1)
        logits: torch.Tensor = self.out(torch.tanh(self.hidden(x)))
        return logits


def examples(n: int, seed: int) -> Examples:
    x = np.random.default_rng(seed).normal(size=(n, 2, 5)).astype(np.float32)
    return Examples(x, (x[:, 0, 0] > 0).astype(np.int64) + (x[:, 1, 2] > 0).astype(np.int64))


CLIENTS = {f"c{k}": [examples(10 + 3 * k, k)] for k in range(4)}


def training(freeze: Freeze, dropout: Dropout | None, **more: Any) -> FederatedTraining:
    network = PartialNetwork(make=Small, freeze=freeze, seed=4)
    return FederatedTraining(network=network, steps=STEPS, dropout=dropout, device="cpu", **more)


def units_of(dropout: Dropout, context: RoundContext) -> dict[str, list[int]]:
    """Return the units that a client has of the two hidden layers, as lists."""
    kept = dropout.kept(Small(), context)
    return {
        layer: [int(u) for u in kept[f"{layer}.weight"].rows or ()]
        if kept[f"{layer}.weight"].rows is None
        else kept[f"{layer}.weight"].rows.tolist()  # type: ignore[union-attr]
        for layer in ("conv", "hidden")
    }


def where(units: dict[str, list[int]]) -> dict[str, tuple[Any, ...]]:
    """Return where a narrow network's values lie in the whole one's, spelled out by hand."""
    maps, hidden = units["conv"], units["hidden"]
    read = [5 * m + t for m in maps for t in range(5)]
    return {
        "conv.weight": np.ix_(maps, range(2), range(3)),
        "conv.bias": np.ix_(maps),
        "hidden.weight": np.ix_(hidden, read),
        "hidden.bias": np.ix_(hidden),
        "out.weight": np.ix_(range(3), hidden),
        "out.bias": np.ix_(range(3)),
    }


def narrow_change(
    values: dict[str, np.ndarray[Any, Any]], units: dict[str, list[int]], data: Examples
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, tuple[Any, ...]]]:
    """Return how far one gradient step moves a network that has these units only."""
    small, places = Small(len(units["conv"]), len(units["hidden"])), where(units)
    with torch.no_grad():
        for name, parameter in small.named_parameters():
            parameter.copy_(torch.from_numpy(values[name][places[name]].astype(np.float32)))
    loss = functional.cross_entropy(small(torch.from_numpy(data.x)), torch.from_numpy(data.y))
    slopes = torch.autograd.grad(loss, list(small.parameters()))
    moved = (-0.2 * slope.numpy() for slope in slopes)
    return dict(zip((n for n, _ in small.named_parameters()), moved, strict=True)), places


def by_hand(dropout: Dropout, freeze: Freeze, rounds: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values after some rounds, from narrow modules and sums in numpy."""
    network = PartialNetwork(make=Small, freeze=freeze, seed=4)
    whole = {n: p.detach().double().numpy() for n, p in network.build().named_parameters()}
    trained = layout(network)[0]
    for round_ in range(rounds):
        total = {name: np.zeros_like(value) for name, value in whole.items()}
        weight = {name: np.zeros_like(value) for name, value in whole.items()}
        for client, (data,) in CLIENTS.items():
            units = units_of(dropout, RoundContext(round_, (), seed=0, client=client))
            moved, places = narrow_change(whole, units, data)
            for name in trained:
                total[name][places[name]] += len(data.x) * moved[name]
                weight[name][places[name]] += len(data.x)
        for name in trained:
            whole[name] = whole[name] + total[name] / np.maximum(weight[name], 1)
    return {name: whole[name] for name in trained}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("freeze", [Freeze(), Freeze(names=("hidden.*",))])
def test_two_rounds_are_those_of_narrower_modules_in_a_plain_loop(
    order: Literal["random", "first"], freeze: Freeze
) -> None:
    """With the hidden layer frozen too: a unit that is not dealt is out of the whole network."""
    dropout = Dropout(chains=CHAIN, share=(0.5, 1.0), order=order)
    algorithm = training(freeze, dropout)
    result = federate(Plan(algorithm=algorithm, rounds=2), CLIENTS)
    expected = by_hand(dropout, freeze, 2)
    names, _ = layout(algorithm.network)
    for name, value in zip(names, result.state.values, strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=1e-6)
    plain = federate(Plan(algorithm=training(freeze, None), rounds=2), CLIENTS)
    assert any(
        np.abs(a - b).max() > 1e-3
        for a, b in zip(result.state.values, plain.state.values, strict=True)
    )


def test_only_the_sub_network_travels() -> None:
    dropout = Dropout(chains=CHAIN, share=0.5)
    algorithm = training(Freeze(), dropout)
    up = federate(Plan(algorithm=algorithm), CLIENTS).records[0].bytes_up / 4
    whole = federate(Plan(algorithm=training(Freeze(), None)), CLIENTS).records[0].bytes_up / 4
    narrow = sum(p.numel() for p in Small(2, 5).parameters())
    _, shapes = layout(algorithm.network)
    kept = dropout.kept(Small(), RoundContext(0, (), client="c0"))
    sizes = [kept.get(name, Kept()).shape(shape) for name, shape in shapes.items()]
    assert sum(map(prod, sizes)) == narrow
    full = sum(p.numel() for p in Small().parameters())
    assert whole - up == pytest.approx(4 * (full - narrow), abs=20)
    both = Plan(algorithm=algorithm, protections=(StochasticQuantization(bits=4),))
    assert federate(both, CLIENTS).records[0].bytes_up / 4 < up


def test_everything_kept_is_the_plain_training_to_the_bit() -> None:
    plain = federate(Plan(algorithm=training(Freeze(), None), rounds=2), CLIENTS).state
    for order in ORDERS:
        algorithm = training(Freeze(), Dropout(chains=CHAIN, share=1.0, order=order))
        same = federate(Plan(algorithm=algorithm, rounds=2), CLIENTS).state
        for a, b in zip(same.values, plain.values, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_deal_is_the_clients_own_in_its_round_and_orders_keep_their_word() -> None:
    random = Dropout(chains=CHAIN, share=0.5)
    dealt = [
        units_of(random, RoundContext(r, (), seed=s, client=c))
        for r, s, c in ((0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"))
    ]
    assert dealt[0] == units_of(random, RoundContext(0, ("x",), seed=0, client="a"))
    assert all(dealt[0] != other for other in dealt[1:])
    first = Dropout(chains=CHAIN, share=(0.25, 0.5, 1.0), order="first")
    widths = set()
    for k in range(60):
        units = units_of(first, RoundContext(k, (), client="a"))
        assert units["hidden"] == list(range(len(units["hidden"])))
        widths.add(len(units["hidden"]))
    assert widths == {2, 5, 10}
    counts = np.zeros(10)
    for k in range(400):
        counts[units_of(random, RoundContext(k, (), client="a"))["hidden"]] += 1
    assert (np.abs(counts - 200) < 5 * 10).all()  # five deviations of a fair draw


def test_a_clipped_change_of_a_sub_network_is_taken_and_a_longer_one_is_not() -> None:
    algorithm = training(Freeze(), Dropout(chains=CHAIN), clip=0.05)
    result = federate(Plan(algorithm=algorithm), CLIENTS)
    assert result.records[0].n_used == 4
    other = replace(algorithm, clip=5.0)
    told = other.broadcast(other.start(), RoundContext(0, ()))
    context = RoundContext(0, (), client="c0")
    sent = other.client_update(told, lambda: CLIENTS["c0"], context)
    with pytest.raises(Exception, match="were agreed on"):
        algorithm.read_update(sent.parts(), context)
    with pytest.raises(Exception, match="another shape"):
        replace(algorithm, dropout=None).read_update(sent.parts(), context)


def test_what_needs_one_layout_of_all_clients_is_refused() -> None:
    algorithm = training(Freeze(), Dropout(chains=CHAIN))
    secure = SecureAggregation(generate_keys(CLIENTS), min_clients=3)
    with pytest.raises(ValueError, match="with dropout clients train different parts"):
        Plan(algorithm=algorithm, protections=(secure,))
    noise = GaussianNoise(
        epsilon=8.0, delta=1e-5, clip=Clip(bound=0.5), min_clients=4, small_cohort=True
    )
    with pytest.raises(FederationError, match="which do not add"):
        federate(Plan(algorithm=algorithm, protections=(noise,)), CLIENTS)


def test_settings_that_make_no_sense_say_so() -> None:
    leader = FollowTheLeader(noise_multiplier=1.0, clients=4, clip=0.5, rounds=4)
    with pytest.raises(ValueError, match="divides by a fixed number of clients"):
        training(Freeze(), Dropout(chains=CHAIN), clip=0.5, optimizer=leader)
    for share in (0.0, 1.5, ()):
        with pytest.raises(ValueError, match="share is"):
            Dropout(chains=CHAIN, share=share)
    with pytest.raises(ValueError, match="nobody trains the last units"):
        Dropout(chains=CHAIN, share=0.5, order="first")
    with pytest.raises(ValueError, match="give 'random' or 'first'"):
        Dropout(chains=CHAIN, order="last")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least two layers"):
        Dropout(chains=(("conv",),))
    for chain, words in (
        (("conv", "nothing"), "'nothing' is no fully connected or convolution layer"),
        (("hidden", "conv"), "'conv' has 2 inputs, no multiple of the 10 outputs"),
    ):
        with pytest.raises(ValueError, match=words):
            training(Freeze(), Dropout(chains=(chain,)))
    with pytest.raises(ValueError, match="two followers"):
        links(Small(), (("conv", "hidden"), ("conv", "hidden")))
    joined = nn.ModuleDict({"a": nn.Linear(2, 4), "b": nn.Linear(2, 4), "c": nn.Linear(8, 1)})
    with pytest.raises(ValueError, match="reads two others"):
        links(joined, (("a", "c"), ("b", "c")))
    grouped = nn.Sequential(nn.Conv1d(4, 4, 3, groups=2), nn.Conv1d(4, 4, 3))
    with pytest.raises(ValueError, match="in groups"):
        links(grouped, (("0", "1"),))


def test_a_part_goes_back_to_where_it_came_from() -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(6, 8, 2))
    for kept in (
        Kept(),
        Kept(np.array([1, 4])),
        Kept(None, np.array([0, 7])),
        Kept(np.array([5]), np.array([2, 3])),
    ):
        part = kept.of(array)
        assert part.shape == kept.shape(array.shape)
        back = kept.back(part, array.shape)
        assert np.array_equal(back[back != 0], part.ravel())
        assert np.array_equal(back, np.where(back != 0, array, 0))
