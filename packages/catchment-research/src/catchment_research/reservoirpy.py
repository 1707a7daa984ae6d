"""Reservoirs and trained models from ReservoirPy 0.4, exactly or not at all.

ReservoirPy's Reservoir runs x(t) = (1 - lr) x(t-1) + lr f(W x(t-1) + Win u(t) + bias), which is our
equation. Its IPReservoir and LocalPlasticityReservoir leak before the activation instead of after
it, so they are the same only when lr is 1. The objects given are read and copied, never changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment import Array, Integers, refuse_nonfinite
from catchment.errors import MissingExtraError
from catchment.features import FeatureMap, Reservoir
from catchment.features.echo_state import ACTIVATIONS, LayerWeights, SparseRows
from catchment.readout import Model, Readout

try:
    import reservoirpy
    import scipy.sparse
    from reservoirpy import activationsfunc, nodes
except ImportError as error:
    raise MissingExtraError("reservoirpy", needed_for="ReservoirPy objects") from error

# ReservoirPy publishes no types, so its objects can only be named by what they are for.
Node = Any
Network = Any

_ACTIVATIONS: dict[Callable[..., Any], str] = {
    activationsfunc.tanh: "tanh",
    np.tanh: "tanh",
    activationsfunc.sigmoid: "sigmoid",
    activationsfunc.relu: "relu",
    activationsfunc.identity: "identity",
    np.sin: "sin",
}
_LEAK_AFTER = (nodes.Reservoir,)
_LEAK_BEFORE = (nodes.IPReservoir, nodes.LocalPlasticityReservoir)
_LINEAR = (nodes.Ridge, nodes.LMS, nodes.RLS)
_is_sparse: Callable[[Any], bool] = scipy.sparse.issparse


def from_reservoirpy(node: Node | Network, *, n_inputs: int | None = None) -> Reservoir:
    """Return the reservoir of a ReservoirPy node, ESN or model, with equal states.

    Our reservoir starts from zero; pass `x0=node.state["out"]` to `states` to go on from where the
    node stands. `EchoState.of(reservoir)` makes a map of it, for `fit` and
    `federate`.

    Parameters
    ----------
    node
        A Reservoir, an IPReservoir or LocalPlasticityReservoir with lr 1, or an ESN or model made
        of a chain of these; its readout is left out.
    n_inputs
        Needed if the node has not seen data yet. Its weights are then drawn in a copy, as
        ReservoirPy would draw them at the first call.

    >>> import reservoirpy.nodes
    >>> theirs = reservoirpy.nodes.Reservoir(30, lr=0.3, sr=0.9, seed=1)
    >>> ours, u = from_reservoirpy(theirs, n_inputs=1), np.ones((5, 1))
    >>> np.abs(ours.states(u) - theirs.run(u)).max() < 1e-12
    np.True_
    """
    chain = _parts(node).chain if isinstance(node, reservoirpy.Model) else (node,)
    _refuse_other_nodes(chain)
    return Reservoir.of_layers(_layers(chain, n_inputs))


def model_from_reservoirpy(network: Network) -> Model:
    """Return the trained model of a ReservoirPy ESN, or of `reservoir >> readout`.

    A readout of some layers or of the input keeps its weights; what it does not read has weight 0.
    The model prepares nothing: it takes inputs as the network does, gaps refused and unscaled.

    Parameters
    ----------
    network
        An ESN or model whose readout, a Ridge, LMS or RLS node, has been fitted.

    >>> import reservoirpy
    >>> u = np.sin(np.arange(50.0))[:, None]
    >>> theirs = reservoirpy.ESN(units=20, ridge=1e-6, seed=1).fit(u[:-1], u[1:])
    >>> ours = model_from_reservoirpy(theirs)
    >>> _ = theirs.reset()
    >>> np.abs(ours.predict(u) - theirs.run(u)).max() < 1e-9
    np.True_
    """
    if not isinstance(network, reservoirpy.Model):
        raise TypeError(
            f"{type(network).__name__} has no readout; pass an ESN or a model with a fitted one"
        )
    parts = _parts(network)
    if parts.readout is None:
        raise ValueError("the model has no readout; use from_reservoirpy for its reservoir")
    reservoir = Reservoir.of_layers(_layers(parts.chain, None))
    reads_input = any(parent is None for parent in parts.read)
    features = reservoir.features(input=reads_input)
    return Model(features, _readout(parts.readout, parts, features))


@dataclass(frozen=True)
class _Parts:
    """What a model is made of: reservoirs in order, its readout, and what the readout reads."""

    chain: tuple[Node, ...]
    readout: Node | None
    read: tuple[Node | None, ...]  # in the order of the readout's weights; None is the input


def _parts(network: Network) -> _Parts:
    for source, delay, target in network.edges:
        if delay != 0:
            raise ValueError(
                f"the model has feedback: {type(source).__name__} reaches {type(target).__name__} "
                f"{delay} step(s) later; only models without feedback can be taken over"
            )
    inputs = [node for node in network.nodes if type(node) is nodes.Input]
    readouts = [node for node in network.nodes if type(node) in _LINEAR]
    # An Output node only shows what another node returns.
    passive = (nodes.Input, nodes.Output, *_LINEAR)
    reservoirs = [node for node in network.execution_order if type(node) not in passive]
    _refuse_other_nodes(reservoirs)
    if len(readouts) > 1 or len(inputs) > 1 or not reservoirs:
        raise ValueError(
            f"the model has {len(inputs)} Input nodes, {len(reservoirs)} reservoirs and "
            f"{len(readouts)} readouts; pass one with at most one input and readout"
        )
    below: Node | None = None
    for node in reservoirs:
        if _sources(network, node, inputs) != (below,):
            raise ValueError(
                f"{type(node).__name__} {node.name or ''} does not stand on one reservoir; "
                "only a chain of reservoirs can be taken over, each driven by the one before"
            )
        below = node
    readout = readouts[0] if readouts else None
    read = _sources(network, readout, inputs) if readouts else ()
    return _Parts(tuple(reservoirs), readout, read)


def _sources(network: Network, node: Node, inputs: Sequence[Node]) -> tuple[Node | None, ...]:
    """Return what a node receives, in the order it is joined; None stands for the model's input."""
    own: list[Node | None] = [None] if node in network.inputs else []
    return (*own, *(None if parent in inputs else parent for parent in network.parents[node]))


def _refuse_other_nodes(chain: Sequence[Node]) -> None:
    for node in chain:
        if type(node) not in _LEAK_AFTER + _LEAK_BEFORE:
            raise TypeError(
                f"{type(node).__module__}.{type(node).__name__} is not a node that can be taken "
                "over; pass a Reservoir, IPReservoir or LocalPlasticityReservoir"
            )


def _layers(chain: Sequence[Node], n_inputs: int | None) -> tuple[LayerWeights, ...]:
    if any(not node.initialized for node in chain):
        # Copied together: nodes without a seed share one generator, and draw from it in turn.
        chain = copy.deepcopy(tuple(chain))
    width = n_inputs
    for node in chain:
        known = node.input_dim
        if known is None and width is None:
            raise ValueError("input_dim is not known yet; pass n_inputs")
        if known is not None and width is not None and known != width:
            raise ValueError(f"input_dim is {known}, but the node would receive {width} inputs")
        if not node.initialized:
            node.initialize(np.zeros(known if width is None else width))
        width = node.units
    return tuple(_layer(node) for node in chain)


def _layer(node: Node) -> LayerWeights:
    N = int(node.units)
    if node.activation not in _ACTIVATIONS:
        raise ValueError(
            f"activation is {node.activation!r}; only {', '.join(ACTIVATIONS)} can be taken over"
        )
    leak = _per_unit(node.lr, N, "lr")
    if not ((leak > 0) & (leak <= 1)).all():
        raise ValueError(f"lr is {node.lr}; leak rates must be above 0 and at most 1")
    gain, shift = np.ones(N), np.zeros(N)
    if type(node) in _LEAK_BEFORE:
        if (leak != 1).any():
            raise ValueError(
                f"lr is {node.lr}; {type(node).__name__} leaks before its activation, ours after, "
                "so only lr=1 can be taken over"
            )
        if type(node) is nodes.IPReservoir:
            gain, shift = _per_unit(node.a, N, "a"), _per_unit(node.b, N, "b")
    return LayerWeights(
        _matrix(node.W, (N, N), "W"),
        _matrix(node.Win, (N, int(node.input_dim)), "Win"),
        _per_unit(node.bias, N, "bias"),
        leak,
        gain,
        shift,
        np.full(N, ACTIVATIONS.index(_ACTIVATIONS[node.activation]), dtype=np.uint8),
    )


def _real(value: Any, name: str) -> Array:
    array = np.asarray(value.toarray() if _is_sparse(value) else value)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype}; only real numbers can be taken over")
    numbers = array.astype(np.float64)
    refuse_nonfinite(numbers, name)
    return numbers


def _per_unit(value: Any, N: int, name: str) -> Array:
    numbers = _real(value, name)
    if numbers.shape not in ((), (1,), (N,)):
        raise ValueError(f"{name} has shape {numbers.shape}; pass one number or ({N},)")
    return np.array(np.broadcast_to(numbers, (N,)))


def _matrix(value: Any, shape: tuple[int, int], name: str) -> SparseRows:
    if value.shape != shape:
        raise ValueError(f"{name} has shape {value.shape}, expected {shape}")
    if not _is_sparse(value):
        return SparseRows.from_dense(_real(value, name))
    entries = value.tocsr(copy=True)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    rows, columns = entries.tocoo().coords
    return SparseRows.from_coordinates(rows, columns, _real(entries.data, name), *shape)


def _readout(node: Node, parts: _Parts, features: FeatureMap) -> Readout:
    if not isinstance(node.Wout, np.ndarray):
        raise ValueError("Wout is not trained yet; fit the model in ReservoirPy first")
    Wout = _real(node.Wout, "Wout")
    n_inputs = features.reservoir.n_inputs
    columns: dict[Node | None, Integers] = {None: np.arange(n_inputs)}
    end = n_inputs if any(parent is None for parent in parts.read) else 0
    for below in parts.chain:
        columns[below] = np.arange(end, end + below.units)
        end += int(below.units)
    # The order in which ReservoirPy joins what its readout reads need not be ours.
    place = np.concatenate([columns[source] for source in parts.read])
    if Wout.ndim != 2 or len(Wout) != len(place):
        raise ValueError(f"Wout has shape {Wout.shape}, expected ({len(place)}, outputs)")
    weights = np.zeros((features.n_features, Wout.shape[1]))
    weights[place] = Wout
    intercept = _per_unit(node.bias, Wout.shape[1], "bias")
    return Readout(weights, intercept, float(node.ridge) if type(node) is nodes.Ridge else 0.0)
