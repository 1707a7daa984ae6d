"""Feature maps as nodes: functions that write them register themselves.

Diagonal reservoirs are in fixed point as in `catchment.features.diagonal`: two Scans, one over the
modes and one over what follows products and mixtures; what is between them is done for all steps at
once. A pretrained network is inside the graph of a model that uses it as a feature map.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import onnx
from onnx import compose, version_converter

from catchment import Integers
from catchment.features import (
    DIGITS,
    FARTHEST,
    LARGEST_RELU,
    LIMIT,
    NVAR,
    R_DELAY,
    R_SINE,
    RANGE,
    TOP,
    TURN,
    VALUE_DIGITS,
    AppendNorm,
    DiagonalReservoir,
    FeatureMap,
    FeatureUnion,
    RandomFourierFeatures,
    RandomProjection,
    form,
)
from catchment.features import diagonal as kernels
from catchment.features.diagonal import Wiring
from catchment_edge.encoder import Encoder
from catchment_edge.onnx import echo_state, windows
from catchment_edge.onnx.builder import IR_VERSION, OPSET, Sequences, Value
from catchment_edge.onnx.echo_state import fixed_sin, rounded

REGISTERED = (echo_state, windows)  # files with forms of their own
STANDARD = ("", "ai.onnx")


def maps_within(features: FeatureMap) -> list[FeatureMap]:
    """Return a map and all maps that it is made of."""
    return [features, *(part for one in features.inner_maps for part in maps_within(one))]


@form("onnx", AppendNorm)
def norm_rows(settings: AppendNorm, given: Sequences) -> Value:
    """Return the rows of inputs (.., I) and their length, less its usual size, as one more."""
    u, unit = given.u, 2.0**DIGITS
    x = (u.clip(-RANGE, RANGE) * unit).rint()
    usual = math.isqrt(given.channels << 2 * DIGITS)
    length = (x * x).sum(axis=-1, keep=True).sqrt().floor() - float(usual)
    both = u.builder.concat([u, length / unit], axis=-1)
    return replace(given, u=both, channels=given.channels + 1).rows(settings.map)


@form("onnx", RandomFourierFeatures)
def fourier_rows(settings: RandomFourierFeatures, given: Sequences) -> Value:
    """Return the cosines or rectifiers of rows (.., F)."""
    x = given.u if settings.map is None else given.rows(settings.map)
    W, phases = settings._weights
    unit = 2.0**VALUE_DIGITS
    values = (x.clip(-FARTHEST, FARTHEST) * unit).rint() / unit @ W
    if settings.activation == "relu":
        return values.clip(0.0, LARGEST_RELU)
    v = values + (phases + 0.25)
    v = v - v.rint()
    return fixed_sin(v * TURN, R_SINE, TOP) if x.builder.exact else (v * TURN).apply("Sin")


@form("onnx", RandomProjection)
def projected_rows(settings: RandomProjection, given: Sequences) -> Value:
    """Return the signed sums of features (.., F) that the projection keeps."""
    flips, kept = settings._drawn
    F = len(flips)
    crossings = np.bitwise_count(np.arange(F)[:, None] & kept[None, :])
    H = np.where(crossings % 2, -1.0, 1.0)
    sums = given.rows(settings.inner) @ (flips[:, None] * H)
    # A vector: onnxruntime takes a single number into the product before it, and as a float32.
    return (sums / np.full(len(kept), math.sqrt(F))).clip(-settings.bound, settings.bound)


@form("onnx", FeatureUnion)
def concat_rows(settings: FeatureUnion, given: Sequences) -> Value:
    """Return the rows of all maps, from where the one with the longest washout begins."""
    rows = [
        given.after(given.rows(one), settings.washout - one.washout if one.per_step else 0)
        for one in settings.maps
    ]
    return given.u.builder.concat(rows, axis=-1)


@form("onnx", NVAR)
def delay_rows(settings: NVAR, given: Sequences) -> Value:
    """Return the monomials of inputs and those before them; zeros before the first step."""
    reach = (settings.delays - 1) * settings.stride
    x, T = rounded(given.u.clip(-LIMIT, LIMIT), R_DELAY), given.u.length(1)
    builder = given.u.builder
    if reach:
        rest = builder.zeros(x.length(0), reach, settings.known_inputs)
        padded = builder.concat([rest, x], axis=1)
        shifts = [reach - d * settings.stride for d in range(settings.delays)]
        delayed = [padded.part(shift, T + shift, axis=1) for shift in shifts]
        x = builder.concat(delayed, axis=-1)
    return given.after(monomials(settings, x), settings.washout)


def monomials(settings: NVAR, x: Value) -> Value:
    """Return a constant, delayed inputs x (.., n) and their products."""
    n = settings.delays * settings.known_inputs
    parts = [x.take([0], axis=-1) * 0.0 + 1.0, x]
    if settings.order > 1:
        i, j = np.array(list(combinations_with_replacement(range(n), 2))).T
        parts.append(x.take(i, axis=-1) * x.take(j, axis=-1))
    if settings.order > 2:
        i, j, k = np.array(list(combinations_with_replacement(range(n), 3))).T
        pair = rounded(x.take(i, axis=-1) * x.take(j, axis=-1), R_DELAY)
        parts.append(pair * x.take(k, axis=-1))
    return x.builder.concat(parts, axis=-1)


@form("onnx", DiagonalReservoir)
def diagonal_rows(settings: DiagonalReservoir, given: Sequences) -> Value:
    """Return the features of all steps of recordings (B, T, I), or their means and deviations."""
    drawn, builder = settings.wiring, given.u.builder
    u = rounded(cut(given.u), kernels.R_INPUT)
    rest = builder.zeros(u.length(0), drawn.eigenvalues.shape[1])

    def advance(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        (re, im), (a, b) = states, drawn.eigenvalues
        new = [cut(rounded(re * a - im * b + cut(steps[0]), kernels.R_STATE))]
        new.append(cut(rounded(re * b + im * a, kernels.R_STATE)))
        return new, new

    _, parts = builder.over_time(advance, [rest, rest], [u @ drawn.W])
    if len(drawn.leak):

        def follow(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
            led = states[0] * (1.0 - drawn.leak) + steps[0] * drawn.leak
            new = [rounded(led, kernels.R_STATE)]
            return new, new

        still = builder.zeros(u.length(0), len(drawn.leak))
        _, q = builder.over_time(follow, [still], [products_and_mixtures(drawn, u, *parts)])
        parts = [*parts, *q]
    z = given.after(builder.concat([u, *parts], axis=-1), settings.washout)
    if settings.pool is None:
        return z
    first = z.part(0, 1, axis=1)

    def add(states: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        return [states[0] + steps[0], states[1] + steps[0] * steps[0]], []

    # Added one after another, as the kernel does.
    zero, n = builder.zeros(z.length(0), z.length(2)), z.length(1).cast(builder.real)
    (total, squares), _ = builder.over_time(add, [zero, zero], [z - first])
    shift = total / n
    spread = (squares / n - shift * shift).at_least(0.0).sqrt()
    return builder.concat([first.squeeze(1) + shift, spread], axis=-1)


def cut(x: Value) -> Value:
    return x.clip(-kernels.LIMIT, kernels.LIMIT)


def products_and_mixtures(drawn: Wiring, u: Value, re: Value, im: Value) -> Value:
    """Return what the units (.., P + Q) that are no modes follow."""
    builder = u.builder
    ring = rounded(builder.concat([re, im], axis=-1), kernels.R_FACTOR)
    N, Q = 2 * drawn.eigenvalues.shape[1], drawn.M.shape[1]
    P, I = len(drawn.leak) - Q, len(drawn.W)
    parts = []
    if P:
        both = builder.concat([ring, u], axis=-1)
        one, other = factors(drawn.shifts, N, I, P)
        parts.append(rounded(ring.take(one, axis=-1) * both.take(other, axis=-1), kernels.R_STATE))
    if Q:
        i = np.arange(Q)
        places = (drawn.turns[i // N].T + i % N) % N  # (3, Q) of the states that mixed units see
        mixed = ring.take(places[0], axis=-1) * drawn.M[0]
        for k in (1, 2):
            mixed = mixed + ring.take(places[k], axis=-1) * drawn.M[k]
        # Bent nearly as tanh does.
        x = rounded((mixed + drawn.M[3]).clip(-3.0, 3.0), kernels.R_BEND)
        y = rounded(x * x, kernels.R_SQUARE)
        found = rounded(x * (y + 27.0) / (9.0 * y + 27.0), kernels.R_BENT)
        parts.append(found.clip(-kernels.TOP, kernels.TOP))
    return builder.concat(parts, axis=-1)


def factors(shifts: Integers, N: int, I: int, P: int) -> tuple[Integers, Integers]:
    """Return the places (P,) of both factors: of states 0 to N - 1, and of inputs from N on."""
    i = np.arange(P)
    within, shift = i % N, shifts[i // N]
    return within, np.where(shift < 0, N + within % I, (within + shift) % N)


def network_of(settings: Encoder) -> onnx.ModelProto:
    """Return the network of an encoder, brought to the opset of the graph if it is older."""
    from catchment_edge.onnx_session import locate

    network = onnx.load(locate(settings.onnx, settings.sha256), load_external_data=False)
    others = [one.domain for one in network.opset_import if one.domain not in STANDARD]
    outside = [one.name for one in network.graph.initializer if one.data_location]
    if others or outside or network.functions:
        what = f"operators of {others[0]}" if others else "parts outside its graph"
        raise ValueError(
            f"the encoder's network has {what}, which do not fit into the file of a model; export "
            "the network to standard ONNX operators in one file"
        )
    if opset_of(network) >= OPSET:
        return network
    try:
        return version_converter.convert_version(network, OPSET)
    except Exception as error:  # its errors have no other base
        raise ValueError(
            f"the encoder's network has opset {opset_of(network)} and cannot be brought to {OPSET} "
            f"({str(error).splitlines()[0][:200]}); export it again with opset {OPSET} or later"
        ) from error


def opset_of(network: onnx.ModelProto) -> int:
    return int(next(one.version for one in network.opset_import if one.domain in STANDARD))


@form("onnx", Encoder)
def encoded(settings: Encoder, given: Sequences) -> Value:
    """Return the features (B, F) of recordings (B, T, I): one run of the network for each."""
    u, builder = given.u, given.u.builder
    prefix = builder.fresh("encoder") + "_"
    network = compose.add_prefix(network_of(settings), prefix)
    builder.ir_version = max(builder.ir_version, network.ir_version, IR_VERSION)
    builder.initializers.extend(network.graph.initializer)
    fed = {one.name for one in network.graph.initializer}
    (entry,) = [one.name for one in network.graph.input if one.name not in fed]
    wanted = prefix + settings.output if settings.output else network.graph.output[0].name
    (kind,) = [
        np.dtype(onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type))
        for one in network.graph.output
        if one.name == wanted
    ]

    def body(_: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        x = steps[0].cast(np.float32)
        sizes: dict[str, Value | int] = {"T": x.length(0), "I": x.length(1), "1": 1}
        laid = x.transpose(1, 0) if settings.layout.replace("1", "") == "IT" else x
        laid = laid.reshape(*(sizes[axis] for axis in settings.layout))
        builder.scopes[-1].append(onnx.helper.make_node("Identity", [laid.name], [entry]))
        builder.scopes[-1].extend(network.graph.node)
        z = Value(builder, wanted, kind).cast(builder.real)
        if settings.pool == "flatten":
            return [], [z.reshape(settings.n_features)]
        several = z.reshape(-1, settings.n_features)
        return [], [several.sum(axis=0) / several.length(0).cast(z.dtype)]

    _, (rows,) = builder.scan(body, [], [u], rank=1)
    return rows.reshape(-1, settings.n_features).clip(-settings.bound, settings.bound)
