"""MiniRocket and Hydra as nodes: integers throughout, held exactly in float64.

Kernels with one dilation are one matrix product: the nine taps of every channel, d steps apart,
times a matrix that has a kernel's weights at the channels that it adds up.
"""

from __future__ import annotations

import numpy as np

from catchment import Array, Integers
from catchment.features import MiniRocket, form, hydra
from catchment.features.hydra import KERNELS as RIVALS
from catchment.features.hydra import TAPS
from catchment.features.minirocket import POSITIONS, Schedule, _schedule
from catchment_edge.onnx.sequences import Sequences
from catchment_edge.onnx.values import Value


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
    assert settings.n_inputs is not None
    schedule = _schedule(settings, steps, settings.n_inputs)
    scale = 2.0**settings.digits
    x = whole_inputs(u, scale, settings.input_range * scale, schedule.pad)
    weights, dilation, is_padded = _kernels(schedule, settings.n_inputs)
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
    assert settings.n_inputs is not None
    n = settings.n_groups
    channels = hydra.group_channels(n, settings.seed, settings.n_inputs)
    groups = hydra.group_list(n, steps, settings.length or steps)
    W = hydra.weights(n, settings.seed)
    scale = 2.0 ** hydra.input_digits(settings.input_range, channels.shape[1])
    x = whole_inputs(u, scale, settings.input_range * scale, 0)
    found, order = [], []
    for d, differs in sorted({(int(a), int(b)) for a, b in groups}):
        some = np.flatnonzero((groups[:, 0] == d) & (groups[:, 1] == differs))
        weights = np.zeros((len(some), RIVALS, TAPS, settings.n_inputs))
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
