"""Feature maps as nodes: functions that write them register themselves.

MiniRocket, Hydra and window statistics are integers, exact in float64 or int64. Kernels with one
dilation are one matrix product: the nine taps of every channel, d steps apart, times a matrix that
has a kernel's weights at the channels that it adds up.

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

from catchment import Array, Integers
from catchment.features import (
    BLOCK,
    DIGITS,
    FARTHEST,
    FRACTION,
    LARGEST_RELU,
    LIMIT,
    LOWEST_LOG,
    N_BANDS,
    NVAR,
    ORDER,
    R_DELAY,
    R_SINE,
    RANGE,
    TABLE_DIGITS,
    TOP,
    TURN,
    VALUE_DIGITS,
    AppendNorm,
    DiagonalReservoir,
    FeatureMap,
    FeatureUnion,
    MiniRocket,
    RandomFourierFeatures,
    RandomProjection,
    WindowStatistics,
    band_ends,
    form,
    hydra,
    tables,
)
from catchment.features import diagonal as kernels
from catchment.features.diagonal import Wiring
from catchment.features.hydra import KERNELS as RIVALS
from catchment.features.hydra import TAPS
from catchment.features.minirocket import POSITIONS, Schedule, _schedule
from catchment.features.window_statistics import DIGITS as WINDOW_DIGITS
from catchment_edge.encoder import Encoder
from catchment_edge.onnx.builder import INT64, IR_VERSION, OPSET, Sequences, Value
from catchment_edge.onnx.echo_state import fixed_sin, rounded

SHORT = 30  # binary digits of a mantissa whose logarithm is taken
LONGEST_LOG = 62  # binary digits of what a logarithm is taken of
STANDARD = ("", "ai.onnx")


def whole_inputs(u: Value, scale: float, limit: float, pad: int) -> Value:
    """Return inputs (B, T, I) as integers (B, I, pad + T + pad), zeros on either side."""
    x = (u * scale).clip(-limit, limit).rint().transpose(0, 2, 1)
    return padded(x, pad)


def padded(x: Value, pad: int) -> Value:
    """Return rows (B, n, T) with zeros on either side."""
    sizes = x.builder.constant(np.array([0, 0, pad, 0, 0, pad]))
    return x.builder.op("Pad", x, sizes, x.builder.constant(np.zeros((), dtype=x.dtype)))


def taps(x: Value, dilation: int, first: int, n: int) -> Value:
    """Return the nine taps of n steps (B, 9 rows, n) of x (B, rows, ..), one after another.

    `first` is the place of the first step's middle tap.
    """
    begins = first + (np.arange(TAPS) - TAPS // 2) * dilation
    return x.builder.concat([x.part(at, at + n, axis=2) for at in begins.tolist()], axis=1)


@form("onnx", MiniRocket)
def shares(settings: MiniRocket, given: Sequences) -> Value:
    """Return the features (B, F) of recordings (B, T, I)."""
    u, steps = given.u, given.known_steps(settings)
    schedule = _schedule(settings, steps, settings.known_inputs)
    scale = 2.0**settings.digits
    x = whole_inputs(u, scale, settings.range * scale, schedule.pad)
    weights, dilation, is_padded = _kernels(schedule, settings.known_inputs)
    counts, order = [], []
    for d, pads in sorted(set(zip(dilation.tolist(), is_padded.tolist(), strict=True))):
        some = np.flatnonzero((dilation == d) & (is_padded == pads))
        edge = 0 if pads else 4 * d
        seen = taps(x, d, schedule.pad + edge, steps - 2 * edge)
        outputs = x.builder.value(weights[some], x.dtype) @ seen
        bias = schedule.biases[some].astype(np.float64)[:, None]
        counts.append((outputs > bias).cast(x.dtype).sum(axis=2))
        order.append(schedule.places[some])
    together = u.builder.concat(counts, axis=1)
    back = np.argsort(np.concatenate(order), kind="stable")
    return together.take(back, axis=1) / schedule.positions.astype(np.float64)


def _kernels(schedule: Schedule, n_inputs: int) -> tuple[Array, Integers, Integers]:
    """Return weights (F, 9 I), dilations (F,) and padding (F,) in the order of a schedule."""
    F = len(schedule.places)
    weights = np.zeros((F, TAPS, n_inputs))
    dilation = np.empty(F, dtype=np.int64)
    for (d, first, begin), (_, last, end) in zip(
        schedule.groups[:-1], schedule.groups[1:], strict=True
    ):
        dilation[begin:end] = d
        for f in range(begin, end):
            kernel = np.full(TAPS, -1.0)
            kernel[POSITIONS[schedule.kinds[f, 0], :3]] = 2.0
            weights[f][:, schedule.channels[first:last]] = kernel[:, None]
    return weights.reshape(F, -1), dilation, schedule.kinds[:, 1]


@form("onnx", hydra.Hydra)
def competitions(settings: hydra.Hydra, given: Sequences) -> Value:
    """Return the features (B, F) of recordings (B, T, I): who wins, and who loses."""
    u, steps = given.u, given.known_steps(settings)
    n = settings.n_groups
    channels = hydra.group_channels(n, settings.seed, settings.known_inputs)
    groups = hydra.group_list(n, steps, settings.length or steps)
    W = hydra.weights(n, settings.seed)
    scale = 2.0 ** hydra.input_digits(settings.range, channels.shape[1])
    x = whole_inputs(u, scale, settings.range * scale, 0)
    found, order = [], []
    for d, differs in sorted({(int(a), int(b)) for a, b in groups}):
        some = np.flatnonzero((groups[:, 0] == d) & (groups[:, 1] == differs))
        weights = np.zeros((len(some), RIVALS, TAPS, settings.known_inputs))
        for k, g in enumerate(some):
            weights[k][:, :, channels[g]] = W[g][:, :, None]
        length = steps - differs
        seen = x.part(1, steps, axis=2) - x.part(0, steps - 1, axis=2) if differs else x
        unit = max(1, length) * np.array([scale * channels.shape[1] * 2.0**hydra.WEIGHT_BITS, 1.0])
        found.append(_compete(seen, weights, d, length) / unit[:, None])
        order.append(some)
    together = u.builder.concat(found, axis=1)
    back = np.argsort(np.concatenate(order), kind="stable")
    return together.take(back, axis=1).clip(0.0, 1.0).sqrt().reshape(-1, settings.n_features)


def _compete(x: Value, weights: Array, dilation: int, length: int) -> Value:
    """Return sums of largest responses and counts of smallest ones (B, groups, 2, 8)."""
    n, builder = len(weights), x.builder
    seen = taps(padded(x, 4 * dilation), dilation, 4 * dilation, length)
    responses = builder.value(weights.reshape(n * RIVALS, -1), x.dtype) @ seen
    responses = responses.reshape(-1, n, RIVALS, length)
    rivals = np.arange(RIVALS)[:, None]
    won = responses.place_of_max(axis=2).unsqueeze(2).equals(rivals)
    lost = responses.place_of_min(axis=2).unsqueeze(2).equals(rivals)
    sums = builder.where(won, responses, 0.0).sum(axis=3)
    counts = lost.cast(x.dtype).sum(axis=3)
    return builder.concat([sums.unsqueeze(2), counts.unsqueeze(2)], axis=2)


@form("onnx", WindowStatistics)
def statistics(settings: WindowStatistics, given: Sequences) -> Value:
    """Return the features (B, F) of windows (B, T, I)."""
    u, T, channels = given.u, given.known_steps(settings), given.channels
    builder, unit = u.builder, 2.0**WINDOW_DIGITS
    most = float(np.floor(settings.range * unit))
    if 2 * np.log2(most + 1) + np.log2(T) >= 53:
        raise ValueError(
            f"sums over windows of {T} steps with range {settings.range:g} take more "
            "than 53 binary digits; use shorter windows, or a smaller range"
        )
    x = (u * unit).rint().clip(-most, most).transpose(0, 2, 1)  # (B, I, T)
    total = x.sum(axis=2, keep=True)
    steps = (x.part(1, T, axis=2) - x.part(0, T - 1, axis=2)).size().sum(axis=2)
    center = nearest(total, T)
    x = x - center
    sums = (total - center * float(T)).squeeze(2)
    products = x @ x.transpose(0, 2, 1)  # (B, I, I)
    diagonal = np.arange(channels) * (channels + 1)
    flat = products.reshape(-1, channels * channels)
    variance = (flat.take(diagonal, axis=1) - sums * sums / float(T)) / float(T)
    variance = variance.at_least(0.0)
    mean = (center.squeeze(2) * float(T) + sums) / (T * unit)
    parts = [part.unsqueeze(2) for part in (mean, variance.sqrt() / unit)]
    parts.append((order(x, T) + center * 4.0) / (4 * unit))
    scale = WINDOW_DIGITS + 4
    logs = log2_of(steps.cast(INT64) * 16 / max(T - 1, 1) + 2 ** (scale - LOWEST_LOG // 2))
    parts.append((logs.cast(steps.dtype) * 2.0**-FRACTION - float(scale)).unsqueeze(2))
    parts.append(bands(x, T, channels))
    rows = builder.concat(parts, axis=2).reshape(-1, channels * sum((1, 1, len(ORDER), 1, N_BANDS)))
    if not settings.correlations or channels == 1:
        return rows
    return builder.concat([rows, correlations(flat, sums, variance, T, channels)], axis=1)


def nearest(total: Value, n: int) -> Value:
    """Return integers near the means of n integers with these sums."""
    return ((total * 2.0 + float(n)) / (2.0 * n)).floor()


def order(x: Value, T: int) -> Value:
    """Return four times the extremes and quartiles (B, I, 5) of rows (B, I, T)."""
    ranked = x.sorted(T, axis=2, largest=False)
    places, quarters = np.divmod((T - 1) * np.arange(len(ORDER)), 4)
    above = np.minimum(places + 1, T - 1)
    low = ranked.take(places, axis=2) * (4.0 - quarters)
    return low + ranked.take(above, axis=2) * quarters.astype(np.float64)


def log2_of(value: Value) -> Value:
    """Return logarithms of integers from 1 on, in units of 2^-FRACTION, rounded down."""
    builder = value.builder
    powers = builder.constant(1 << np.arange(LONGEST_LOG + 1, dtype=np.int64))
    reached = value.unsqueeze(-1) >= powers.part(1, LONGEST_LOG + 1, axis=0)
    whole = reached.cast(INT64).sum(axis=-1)
    down = powers.take((whole - SHORT).at_least(0), axis=0)
    up = powers.take((SHORT - whole).at_least(0), axis=0)
    mantissa = value / down * up
    found = whole
    for _ in range(FRACTION):
        mantissa = mantissa * mantissa / (1 << SHORT)
        digit = (mantissa >= 1 << (SHORT + 1)).cast(INT64)
        mantissa = mantissa / (digit + 1)
        found = found * 2 + digit
    return found


def waves(length: int) -> Array:
    """Return tapered cosines and sines (L, 2 (L // 2)) for whole blocks, as integers."""
    cosines, sines = tables(length)
    half = length // 2
    return np.hstack(
        [
            np.vstack([cosines, cosines[:half][::-1]]),
            np.vstack([sines, np.zeros((length % 2, half)), -sines[::-1]]),
        ]
    )


def bands(x: Value, T: int, channels: int) -> Value:
    """Return the logarithms (B, I, bands) of the energies of centered rows (B, I, T)."""
    n_blocks = -(-T // BLOCK)
    L = T // n_blocks
    half = L // 2
    blocks = x.part(0, n_blocks * L, axis=2).reshape(-1, channels, n_blocks, L)
    blocks = blocks - nearest(blocks.sum(axis=3, keep=True), L)
    first, last = band_ends(L)
    width = L * (last - first)
    scale = 2 * WINDOW_DIGITS + 4
    if half:
        spectrum = ((blocks @ waves(L)) * 2.0**-TABLE_DIGITS).rint()
        at = np.arange(half)[:, None]
        inside = ((at >= first) & (at < last)).astype(np.float64)
        energy = (spectrum * spectrum) @ np.vstack([inside, inside])
        per_block = energy.cast(INT64) * 32 / np.maximum(width, 1)
    else:
        per_block = blocks.take(np.zeros(N_BANDS, dtype=np.int64), axis=3).cast(INT64) * 0
    mean = per_block.sum(axis=2) / n_blocks
    found = log2_of(mean + 2 ** (scale - LOWEST_LOG)).cast(x.dtype)
    return (found * 2.0**-FRACTION - float(scale)).at_most(16.0)


def correlations(flat: Value, sums: Value, variance: Value, T: int, channels: int) -> Value:
    """Return the correlations (B, pairs) of channels, 0 where one of them is constant."""
    i, j = np.triu_indices(channels, 1)
    both = sums.take(i, axis=1) * sums.take(j, axis=1)
    covariance = (flat.take(i * channels + j, axis=1) - both / float(T)) / float(T)
    spread = variance.sqrt()
    size = spread.take(i, axis=1) * spread.take(j, axis=1)
    varies = size > 0.0
    found = covariance / flat.builder.where(varies, size, 1.0)
    return flat.builder.where(varies, found.clip(-1.0, 1.0), 0.0)


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
