"""Reservoirs that differ less: W_k(alpha) = (1 - alpha) W_k + alpha W*, at one spectral radius.

Input weights, biases and leaks are those of the target; only the recurrent matrices differ, and at
alpha = 1 not even they. Summing statistics of reservoirs that differ is not ridge regression on any
features: it is exact only at alpha = 1, and the published figures show that nearly equal is not
nearly as good. An ensemble needs no alignment.

Several reservoirs side by side are one: they share the inputs and nothing else. The states of the
union are the states of its members, so whatever is linear in each member's features (an ensemble of
readouts, joint statistics of all of them) is linear in the union's.

In fixed point the union has one number of weight digits per layer and one cut, which suit all
members; where a member's own are others, its states in the union differ from those alone by a few
steps of the grid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from catchment import Integers
from catchment.arrays import Fraction
from catchment.features import FeatureMap, Reservoir, name_of
from catchment.features.echo_state import LayerWeights, SparseRows, common_radius
from catchment.federation import Algorithm, Data, Kept, Requirements, RoundContext, Tally
from catchment.federation.learn import FederatedRidge, RidgeState, learned
from catchment.readout import Model, PersonalModels, RidgeStatistics, accumulate
from catchment.wire import Message


@dataclass(frozen=True, kw_only=True)
class AlignedRidge(Algorithm[RidgeState, Tally[RidgeStatistics], PersonalModels]):
    """Federated ridge over reservoirs that are only nearly the same.

    Parameters
    ----------
    ridge
        The exact algorithm; its features read the target reservoir.
    alpha
        How far every client's reservoir is moved toward the target; 1 is exact.
    recipes
        Recipes of the clients' own reservoirs. Who has none uses the target's with a seed that
        depends on the client's name.

    >>> import numpy as np
    >>> from catchment import Recording
    >>> from catchment.engine import run_locally
    >>> from catchment.federation import Plan
    >>> features = Reservoir(units=10, inputs=1).features(washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b")}
    >>> exact = FederatedRidge(features=features, ridge=1e-3)
    >>> same = run_locally(Plan(algorithm=AlignedRidge(ridge=exact, alpha=1.0)), clients)
    >>> same.state.total == run_locally(Plan(algorithm=exact), clients).state.total
    True
    """

    ridge: FederatedRidge
    alpha: Fraction
    recipes: Mapping[str, Reservoir] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.target

    @property
    def target(self) -> FeatureMap:
        """The features of the reservoir that all are moved toward."""
        features = self.ridge.features
        if name_of(features) != "echo_state":
            raise TypeError(f"{name_of(features)} has no reservoir to align; use an EchoState map")
        return features

    def features_of(self, client: str) -> FeatureMap:
        """Return the features of a client's own, aligned reservoir."""
        features: Any = self.target
        target: Reservoir = features.reservoir
        recipe = self.recipes.get(client)
        if recipe is None:
            if not target.is_drawn:
                raise ValueError(f"there is no recipe for {client}; pass recipes")
            recipe = with_own_seed(target, client)
        found: FeatureMap = features.reading(aligned_reservoir(recipe, target, self.alpha))
        return found

    def model_of(self, state: RidgeState, client: str) -> Model:
        """Return the model as one client uses it: the common readout on its own reservoir."""
        return Model(self.features_of(client), learned(state.readout), self.ridge.classes)

    @property
    def requirements(self) -> Requirements:
        return self.ridge.requirements

    def start(self) -> RidgeState:
        return self.ridge.start()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        features, classes = self.features_of(context.client), self.ridge.classes is not None
        statistics = accumulate(features, data(), threads=1, classes=classes)
        # Added as if the reservoirs were equal: that is what is being tried here.
        return replace(statistics, fingerprint=self.ridge.features.fingerprint)

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics]:
        return self.ridge.read_update(parts, context)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        return self.ridge.server_update(state, total, context)

    def result(self, state: RidgeState) -> PersonalModels:
        """Return the common readout on every known client's own reservoir.

        For others it is on the target reservoir, which belongs to no client.
        """
        maps = {name: self.features_of(name) for name in sorted(state.by_client)}
        return PersonalModels(self.ridge.result(state), maps=maps if self.alpha < 1 else {})

    def figures(self, state: RidgeState) -> dict[str, float]:
        return self.ridge.figures(state)

    def kept(self, state: RidgeState) -> Kept:
        return self.ridge.kept(state)

    def tally(self, state: RidgeState) -> Tally[RidgeStatistics] | None:
        return self.ridge.tally(state)

    def alone(self, state: RidgeState) -> AlignedRidge:
        return replace(self, ridge=self.ridge.alone(state))


def with_own_seed(recipe: Reservoir, client: str) -> Reservoir:
    """Return the recipe with a seed drawn from its seed and the client's name.

    >>> a, b = (with_own_seed(Reservoir(units=5, inputs=1), name) for name in ("a", "b"))
    >>> a.seed != b.seed, a == with_own_seed(Reservoir(units=5, inputs=1), "a")
    (True, True)
    """
    digest = hashlib.sha256(f"{recipe.seed}/{client}".encode()).digest()
    return replace(recipe.unprepared(), seed=int.from_bytes(digest[:8]))


def aligned_reservoir(own: Reservoir, target: Reservoir, alpha: float) -> Reservoir:
    """Return the target with its recurrent matrices moved toward another reservoir's.

    Parameters
    ----------
    own
        Whose recurrent matrices it has at alpha = 0, rescaled to the target's spectral radii.
    target
        Whose input weights, biases and leaks it has; at alpha = 1 it is the target itself.
    alpha
        Between 0 and 1.

    >>> own, target = (Reservoir(units=20, inputs=1, seed=s) for s in (1, 2))
    >>> half = aligned_reservoir(own, target, 0.5)
    >>> common_radius(half.layers[0].W)[0] == common_radius(target.layers[0].W)[0]
    True
    >>> aligned_reservoir(own, target, 1.0).fingerprint == target.fingerprint
    True
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; pass a number between 0 and 1")
    if alpha == 1:
        return target
    sizes = [[layer.n_units for layer in r.layers] for r in (own, target)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"layers of {sizes[0]} units do not align with layers of {sizes[1]}; use equal sizes"
        )
    layers = []
    for mine, layer in zip(own.layers, target.layers, strict=True):
        W = SparseRows.from_dense((1 - alpha) * mine.W.to_dense() + alpha * layer.W.to_dense())
        radius, wanted = common_radius(W)[0], common_radius(layer.W)[0]
        layers.append(replace(layer, W=W.times(wanted / radius) if radius > 0 else W))
    return Reservoir.of_layers(layers, bits=target.bits, range=target.range)


def side_by_side(reservoirs: Sequence[Reservoir]) -> Reservoir:
    """Return the reservoir whose layers hold, one after another, the units of each member's layers.

    Parameters
    ----------
    reservoirs
        With the same inputs and equally many layers; sizes may differ.

    >>> members = [Reservoir(units=n, inputs=2, seed=n) for n in (5, 8)]
    >>> u = np.ones((4, 2))
    >>> apart = np.hstack([member.states(u) for member in members])
    >>> np.allclose(side_by_side(members).states(u), apart, atol=1e-14)
    True
    """
    if not reservoirs:
        raise ValueError("there are no reservoirs; pass at least one")
    for name, found in (
        ("inputs", {reservoir.n_inputs for reservoir in reservoirs}),
        ("layers", {len(reservoir.layers) for reservoir in reservoirs}),
    ):
        if len(found) > 1:
            raise ValueError(
                f"the reservoirs have {', '.join(map(str, sorted(found)))} {name}; "
                f"only reservoirs of equally many {name} stand side by side"
            )
    pairs = {(reservoir.bits, reservoir.range) for reservoir in reservoirs}
    if len(pairs) > 1:
        raise ValueError(
            f"the reservoirs have {len(pairs)} different pairs of bits and input range; only "
            "reservoirs of one pair stand side by side"
        )
    ((bits, range),) = pairs
    cuts = [reservoir.cut for reservoir in reservoirs]
    # Long enough for all, and none if one member has none.
    cut = (0, 0) if (0, 0) in cuts else (max(L for L, _ in cuts), max(M for _, M in cuts))
    stacks = zip(*(reservoir.layers for reservoir in reservoirs), strict=True)
    return Reservoir.of_layers(
        [_joined(stack, first=k == 0) for k, stack in enumerate(stacks)],
        bits=bits,
        range=range,
        cut=cut,
    )


def state_places(reservoirs: Sequence[Reservoir]) -> list[Integers]:
    """Return, for each member, where (N_m,) its states lie among the union's.

    >>> deep = [Reservoir(units=(2, 1), inputs=1, seed=s) for s in (1, 2)]
    >>> [places.tolist() for places in state_places(deep)]
    [[0, 1, 4], [2, 3, 5]]
    """
    sizes = np.array([[layer.n_units for layer in r.layers] for r in reservoirs])  # (M, L)
    firsts = np.concatenate([[0], np.cumsum(sizes.T.ravel())])[:-1].reshape(sizes.T.shape).T
    return [
        np.concatenate([np.arange(f, f + n) for f, n in zip(row, counts, strict=True)])
        for row, counts in zip(firsts, sizes, strict=True)
    ]


def _joined(layers: Sequence[LayerWeights], *, first: bool) -> LayerWeights:
    return LayerWeights(
        _diagonal([layer.W for layer in layers]),
        _diagonal([layer.W_in for layer in layers], shared_columns=first),
        *(
            np.concatenate([getattr(layer, name) for layer in layers])
            for name in ("bias", "leak", "gain", "shift", "activation")
        ),
    )


def _diagonal(blocks: Sequence[SparseRows], *, shared_columns: bool = False) -> SparseRows:
    """Return the blocks below one another, each in columns of its own unless these are shared."""
    widths = [0 if shared_columns else block.n_columns for block in blocks]
    offsets = np.concatenate([[0], np.cumsum(widths)])
    counts = np.concatenate([np.diff(block.starts) for block in blocks])
    return SparseRows(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate(
            [block.columns + np.uint32(o) for block, o in zip(blocks, offsets, strict=False)]
        ),
        np.concatenate([block.values for block in blocks]),
        blocks[0].n_columns if shared_columns else int(offsets[-1]),
    )
