"""A reservoir: the frozen network that turns inputs into states, the same bits everywhere.

It travels as a few hundred bytes. The settings name the random draws by a seed, so every machine
that holds them draws the same weights. Only `Reservoir.prepared` solves for an eigenvalue, which
scales the recurrent matrix, with as many bits as all machines agree on; the scale is then carried
as an exact number, together with the SHA-256 fingerprint of the weights. Who receives it solves
nothing: the weights are drawn and multiplied, and must have that fingerprint.

In fixed point every product and every sum of a step is exact in float64, in whatever order it is
done, because weights have few enough digits for it (docs/concepts/integers.md).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction as Rational
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import (
    Array,
    Factor,
    Finite,
    Fraction,
    Integers,
    NonNegativeFloat,
    NonNegativeInt,
    Seed,
    aligned,
    as_matrix,
    check_fields,
    check_type,
    frozen,
    is_finite,
    refuse_nonfinite,
)
from catchment.errors import FinerRadiusWarning, FingerprintError, IntegrityError
from catchment.features.base import OR_WIDER, handed, power_of_two, warn_of_clipping
from catchment.features.echo_state.run import advance, found_cut, inputs_in_fixed_point
from catchment.features.echo_state.settings import (
    PER_LAYER,
    Activations,
    InputRange,
    Inputs,
    LayerSettings,
    MixedActivation,
    StateBits,
    Topologies,
    Uniform,
    Units,
    cut_of,
    exact,
    from_plain,
    known_radius,
    per_layer,
    plain,
    raw_matrix,
    settings_of,
)
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    DEFAULT_RANGE,
    MOST_WEIGHT_DIGITS,
    RADIUS_BITS,
    ROUND,
    LayerWeights,
    Purpose,
    SparseRows,
    common_radius,
    distinct,
    rounded,
    rounded_radius,
    state_bounds,
    uniform,
)
from catchment.wire.kept import KEPT_SETTINGS

if TYPE_CHECKING:
    from catchment.features.echo_state.echo_state import EchoState, Reading

DENSE_FROM = 0.25  # density from which a dense product beats the sparse rows...
DENSE_UNITS = 300  # ...when there are at least this many units to fill a matrix product
FORMAT = 1
_one_at_a_time = Lock()


def weight_digits(rows: Integers, values: Array, bounds: Array, bits: int) -> int:
    """Return the digits w after the point of a layer's weights.

    Parameters
    ----------
    rows
        (nnz,) unit that each weight drives.
    bounds
        (nnz,) largest absolute value of what each weight multiplies.
    bits
        Binary digits of the states.

    >>> weight_digits(np.zeros(2, int), np.array([0.4, 3.0]), np.ones(2), 15)
    13
    """
    wanted = min(bits, MOST_WEIGHT_DIGITS)
    fraction, exponent = np.frexp(np.abs(values).max(initial=0.0))
    w = wanted - max(0, int(exponent) - int(fraction == 0.5))
    while True:
        k = np.abs(np.rint(np.ldexp(values, w)))
        sums = np.bincount(rows, weights=k * bounds, minlength=1)
        if k.max(initial=0.0) < 2.0**wanted and sums.max() < 2.0 ** (53 - bits):
            return w
        w -= 1


@dataclass(frozen=True, eq=False)
class Program:
    """One layer as the kernels want it: sparse (or dense) rows over [x; u; 1], gain folded in.

    In fixed point `bits` are the digits of its states and `weight_digits` those of its values.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.floating[Any]]
    leak: NDArray[np.floating[Any]]
    activation: NDArray[np.uint8]
    n_inputs: int
    uniform: bool
    dense: NDArray[np.floating[Any]] | None
    bits: int | None = None
    weight_digits: int = 0

    @classmethod
    def of(
        cls,
        layer: LayerWeights,
        dtype: type[np.floating[Any]] = np.float64,
        *,
        bits: int | None = None,
        input_bounds: Array | None = None,
    ) -> Program:
        """Return the program of a layer.

        Parameters
        ----------
        bits
            Binary digits, if it is in fixed point.
        input_bounds
            (I,) largest absolute value of each input, in fixed point.
        """
        N, I, W, W_in = layer.n_units, layer.n_inputs, layer.W, layer.W_in
        rows = np.concatenate([W.rows(), W_in.rows(), np.arange(N)])
        inputs = W_in.columns.astype(np.int64) + N
        columns = np.concatenate([W.columns.astype(np.int64), inputs, np.full(N, N + I)])
        weights = np.concatenate([W.values, W_in.values])
        offset = layer.gain * layer.bias + layer.shift
        values = np.concatenate([weights * layer.gain[rows[: len(weights)]], offset])
        leak, w = layer.leak, 0
        if bits is not None:
            largest = np.ones(I) if input_bounds is None else input_bounds
            bounds = np.concatenate([state_bounds(layer.activation), largest, np.ones(1)])
            w = weight_digits(rows, values, bounds[columns], bits)
            digits = min(bits, MOST_WEIGHT_DIGITS)
            values, leak = rounded(values, w), np.maximum(rounded(leak, digits), 2.0**-digits)
        order = np.argsort(rows, kind="stable")
        starts = np.zeros(N + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=N), out=starts[1:])
        dense = None
        if layer.W.density >= DENSE_FROM:
            dense = aligned((N, N + I + 1), dtype)
            dense[:] = 0
            dense[rows, columns] = values
        return cls(
            starts,
            columns[order].astype(np.uint32),
            values[order].astype(dtype),
            leak.astype(dtype),
            layer.activation,
            I,
            len(set(leak)) == 1 and len(set(layer.activation)) == 1,
            dense,
            bits,
            w,
        )

    n_units: ClassVar[int] = handed("leak.size")

    @property
    def rounding(self) -> tuple[()] | tuple[float, float]:
        """Rounder and largest number below 1 of states in fixed point, as the kernels want them."""
        return () if self.bits is None else (math.ldexp(ROUND, -self.bits), 1 - 0.5**self.bits)

    @property
    def by_matrix(self) -> bool:
        """Whether a step of many lanes is best done as one dense matrix product."""
        return self.dense is not None and self.n_units >= DENSE_UNITS


def programs_in_fixed_point(
    layers: Sequence[LayerWeights], bits: int, reach: float
) -> tuple[Program, ...]:
    """Return the programs of layers whose states have this many digits after the point."""
    programs, bounds = [], np.full(layers[0].n_inputs, reach)
    for layer in layers:
        programs.append(Program.of(layer, bits=bits, input_bounds=bounds))
        bounds = state_bounds(layer.activation)
    return tuple(programs)


def fingerprint(
    layers: Sequence[LayerWeights],
    bits: int | None = None,
    range: float = DEFAULT_RANGE,
    cut: tuple[int, int] | None = None,
) -> str:
    """Return the SHA-256, in hexadecimal, of all numbers of all layers, and of fixed point.

    >>> len(fingerprint(Reservoir(4, topology="ring").layers))
    64
    """
    sha = hashlib.sha256(b"".join(layer.digest() for layer in layers))
    if bits is not None:
        sha.update(json.dumps(["grid", bits, range, cut]).encode())
    return sha.hexdigest()


def _scale(layer: LayerSettings) -> float:
    """Return the factor that gives the raw recurrent matrix its spectral radius."""
    if layer.topology == "delay_line":
        return layer.spectral_radius
    radius, finer = _raw_radius(layer.wiring)
    if finer:
        warnings.warn(
            f"the spectral radius of layer {layer.layer} as drawn, {radius!r}, lies within "
            f"1e-9 of the middle between two numbers of {RADIUS_BITS} bits; {RADIUS_BITS + 1} are "
            "kept, on every machine, and nothing is to be done",
            FinerRadiusWarning,
            stacklevel=2,
        )
    if radius > 0.0:
        return layer.spectral_radius / radius
    nothing_asked = layer.density == 0.0 or (layer.density is None and layer.connections == 0)
    if nothing_asked or layer.spectral_radius == 0.0:
        return 0.0
    raise ValueError(
        f"layer {layer.layer} was drawn without any cycle, so no scale gives it spectral "
        f"radius {layer.spectral_radius}; use more connections or another seed"
    )


@lru_cache(maxsize=1024)
def _raw_radius(wiring: LayerSettings) -> tuple[float, bool]:
    """Return the radius of the raw matrix and whether it has one bit more than others.

    A search over scales and leaks needs it only once.
    """
    known = known_radius(wiring)
    if known is None:
        return common_radius(raw_matrix(wiring))
    return rounded_radius(Rational(known))


def _drawn(layer: LayerSettings, scale: float) -> LayerWeights:
    """Return the weights of a layer, its recurrent matrix multiplied by a scale."""
    N, k = layer.units, layer.input_connections
    columns = distinct(layer.words(Purpose.INPUT_PLACES), N, k, layer.inputs)
    rng = layer.words(Purpose.INPUT_VALUES)
    W_in = SparseRows(
        starts=np.arange(N + 1, dtype=np.int64) * k,
        columns=columns.ravel().astype(np.uint32),
        values=uniform(rng, N * k, -layer.input_scaling, layer.input_scaling),
        n_columns=layer.inputs,
    )
    rng = layer.words(Purpose.BIAS)
    return LayerWeights(
        W=raw_matrix(layer).times(scale),
        W_in=W_in,
        bias=frozen(uniform(rng, N, -layer.bias_scaling, layer.bias_scaling)),
        leak=frozen(layer.leaks),
        gain=frozen(np.full(N, layer.gain)),
        shift=frozen(np.full(N, layer.shift)),
        activation=layer.activations,
    )


@dataclass(frozen=True)
class Reservoir:
    """One or more layers of fixed weights; layer l is driven by the states of layer l - 1.

    The weights are drawn from the seed when they are first asked for, unless they are given. Any
    setting may be a tuple with one value per layer. What settings mean never changes, so their
    defaults stay as they are; those of `EchoState` follow the kind of target and are what to start
    with.

    A reservoir has no memory between calls: every sequence starts from zero unless `x0` is given.

    >>> reservoir = Reservoir(50, inputs=1, leak_rate=0.3, seed=1)
    >>> reservoir.states([0.1, 0.5, -0.2]).shape
    (3, 50)
    >>> Reservoir.from_json(reservoir.to_json()) == reservoir
    True
    >>> deep = Reservoir((50, 50), inputs=3, leak_rate=(1.0, 0.1))
    >>> [layer.n_inputs for layer in deep.layers]
    [3, 50]

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, each layer driven by the one below.
    inputs
        Number of input columns of the first layer.
    topology
        Shape of the recurrent matrix: one of `TOPOLOGIES`.
    density, connections
        For `random`, either the fraction of non-zeros or the number that each unit receives; 10
        per unit if neither is given. For `small_world`, connections is the (even) number of nearest
        neighbors, and for `scale_free` twice the number of units that a new one links to.
    rewiring
        `small_world`: probability that an edge is moved; 0.1 if not given.
    jump, jump_weight
        `cycle_jumps`: units per jump (the root of N if not given), and weight of a jump relative to
        the cycle (0.5 if not given).
    random_signs
        `ring`, `delay_line`, `cycle_jumps`, `permutation`: a random sign for each weight.
    spectral_radius
        Largest absolute eigenvalue of the scaled matrix, to one part in a million: that of the raw
        matrix is rounded to 20 bits, which every machine finds alike. A delay line has none but 0:
        there it is the weight of the line.
    input_scaling, bias_scaling
        Input weights and biases are uniform between minus and plus this.
    input_connections
        Inputs that each unit receives. If not given: all inputs in the first layer, and at most 10
        units of the layer below in the others.
    leak_rate
        One rate for all units, or a range: `Uniform`, `LogUniform`, `Linspace` or `LongTail`.
    activation
        One of `ACTIVATIONS` for all units, or a `MixedActivation`.
    gain, shift
        Intrinsic plasticity before any adaptation.
    seed
        64-bit number that names the draws.
    bits
        Binary digits b (8 to 24) of states, which are then integers times 2^-b: the same bits
        on every processor. None for float64.
    range
        With bits: inputs are cut off at minus and plus this power of two.
    scale, known_fingerprint
        Filled in by `prepared`.
    known_cut
        With bits, filled in by `prepared`: (L, M) if a sequence is cut every L steps, each part
        started from rest M steps before; (0, 0) if it never is.
    weights
        Of its layers, if they are not as drawn: given as matrices, or adapted.
    base
        The reservoir as drawn, before its gains and shifts were adapted.
    """

    units: Units | tuple[Units, ...]
    _: KW_ONLY
    inputs: Inputs = 1
    topology: str | tuple[str, ...] = "random"
    density: Fraction | tuple[Fraction | None, ...] | None = None
    connections: NonNegativeInt | tuple[NonNegativeInt | None, ...] | None = None
    rewiring: Fraction | tuple[Fraction | None, ...] | None = None
    jump: NonNegativeInt | tuple[NonNegativeInt | None, ...] | None = None
    jump_weight: Finite | tuple[Finite | None, ...] | None = None
    random_signs: bool | tuple[bool, ...] = False
    spectral_radius: NonNegativeFloat | tuple[NonNegativeFloat, ...] = 0.9
    input_scaling: NonNegativeFloat | tuple[NonNegativeFloat, ...] = 0.5
    input_connections: NonNegativeInt | tuple[NonNegativeInt | None, ...] | None = None
    bias_scaling: NonNegativeFloat | tuple[NonNegativeFloat, ...] = 0.2
    leak_rate: Factor | Uniform | tuple[Factor | Uniform, ...] = 0.3
    activation: str | MixedActivation | tuple[str | MixedActivation, ...] = "tanh"
    gain: Finite | tuple[Finite, ...] = 1.0
    shift: Finite | tuple[Finite, ...] = 0.0
    seed: Seed = 0
    scale: tuple[Finite, ...] | None = None
    known_fingerprint: str | None = None
    bits: StateBits | None = None
    range: InputRange = DEFAULT_RANGE
    known_cut: tuple[int, int] | None = None
    weights: tuple[LayerWeights, ...] | None = None
    base: Reservoir | None = None

    def __post_init__(self) -> None:
        set_ = partial(object.__setattr__, self)
        check_fields(self)
        check_type(self.topology, Topologies, "topology")
        check_type(self.activation, Activations, "activation")
        set_("range", power_of_two(self.range, "range"))
        if self.known_cut is not None:
            set_("known_cut", cut_of(self.known_cut, "cut"))
        if self.weights is not None:
            for below, above in zip(self.weights, self.weights[1:], strict=False):
                if above.n_inputs != below.n_units:
                    raise ValueError(
                        f"a layer of {above.n_inputs} inputs stands on one of {below.n_units} "
                        "units; each layer's inputs are the states of the layer below"
                    )
            return
        for name in ("inputs", "seed", *PER_LAYER):
            set_(name, exact(getattr(self, name), name))
        if self.n_layers == 0:
            raise ValueError("units is an empty tuple; give the number of units of each layer")
        for name in PER_LAYER:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.n_layers:
                raise ValueError(
                    f"{name} has {len(value)} values for {self.n_layers} layers; "
                    "give one value, or a tuple with one per layer"
                )
        self._check_found()
        self.layer_settings  # noqa: B018  # raises if the settings of a layer do not fit

    def _check_found(self) -> None:
        """Raise ValueError if what `prepared` finds is there in part, or with other settings."""
        if (self.scale is None) != (self.known_fingerprint is None):
            raise ValueError(
                "a reservoir carries scale and fingerprint together; clear both, or call prepared()"
            )
        if not re.fullmatch("[0-9a-f]{64}", self.known_fingerprint or "0" * 64):
            raise ValueError(
                f"fingerprint is {self.known_fingerprint!r}; give the 64 hexadecimal digits"
            )
        if self.bits is None and self.range != DEFAULT_RANGE:
            raise ValueError(f"range is {self.range} in float64; give bits=20, or leave it out")
        if (self.known_cut is not None) != (self.bits is not None and self.is_prepared):
            raise ValueError(
                "a reservoir in fixed point carries cut, scale and fingerprint together; clear all "
                "three, or call prepared()"
            )

    @classmethod
    def of_layers(
        cls,
        layers: Sequence[LayerWeights],
        *,
        bits: int | None = None,
        range: float = DEFAULT_RANGE,
        cut: tuple[int, int] | None = None,
    ) -> Reservoir:
        """Return the reservoir with these weights; in fixed point its cut is found if not given."""
        if not layers:
            raise ValueError("a reservoir needs at least one layer")
        units = tuple(layer.n_units for layer in layers)
        return cls(
            units if units[1:] else units[0],
            inputs=layers[0].n_inputs,
            bits=bits,
            range=range,
            known_cut=cut,
            weights=tuple(layers),
        )

    @classmethod
    def from_matrices(
        cls,
        W: ArrayLike,
        W_in: ArrayLike,
        *,
        bias: ArrayLike | None = None,
        leak_rate: ArrayLike = 1.0,
        activation: str | Sequence[str] = "tanh",
        bits: int | None = None,
        range: float = DEFAULT_RANGE,
        cut: tuple[int, int] | None = None,
    ) -> Reservoir:
        """Return a one-layer reservoir with the given matrices.

        Parameters
        ----------
        W
            (N, N) recurrent weights.
        W_in
            (N, I) input weights.
        bias
            (N,) added to the drive; zeros if not given.
        leak_rate
            One number or (N,), above 0 and at most 1.
        activation
            One name, or one per unit.
        bits, range, cut
            As in `Reservoir`; the cut is found if it is not given.

        >>> Reservoir.from_matrices([[0.5]], [[1.0]]).states([1.0, 0.0]).round(3).ravel()
        array([0.762, 0.363])
        """
        recurrent, drive = as_matrix(W, "W"), as_matrix(W_in, "W_in")
        N = len(recurrent)
        names = [activation] * N if isinstance(activation, str) else list(activation)
        unknown = sorted(set(names) - set(ACTIVATIONS))
        if unknown:
            raise ValueError(
                f"activation {unknown[0]!r} is unknown; use one of {', '.join(ACTIVATIONS)}"
            )
        leak = np.array(np.broadcast_to(np.asarray(leak_rate, dtype=np.float64), (N,)))
        if not ((leak > 0) & (leak <= 1)).all():
            raise ValueError("leak rates must be above 0 and at most 1")
        b = np.zeros(N) if bias is None else np.array(bias, dtype=np.float64).reshape(-1)
        for array, name in ((recurrent, "W"), (drive, "W_in"), (b, "bias")):
            refuse_nonfinite(array, name)
        layer = LayerWeights(
            SparseRows.from_dense(recurrent),
            SparseRows.from_dense(drive),
            b,
            leak,
            np.ones(N),
            np.zeros(N),
            np.array([ACTIVATIONS.index(name) for name in names], dtype=np.uint8),
        )
        return cls.of_layers([layer], bits=bits, range=range, cut=cut)

    @property
    def n_layers(self) -> int:
        return len(per_layer(self.units))

    @property
    def n_units(self) -> int:
        """Units of all layers together."""
        return sum(per_layer(self.units))

    @property
    def n_inputs(self) -> int:
        return self.inputs

    @property
    def is_drawn(self) -> bool:
        """Whether the weights are those of the seed, neither given nor adapted."""
        return self.weights is None

    @cached_property
    def layer_settings(self) -> tuple[LayerSettings, ...]:
        """The settings of each layer that is drawn, with every default filled in."""
        return tuple(settings_of(self, index) for index in range(self.n_layers))

    @cached_property
    def layers(self) -> tuple[LayerWeights, ...]:
        """The weights of each layer; FingerprintError if they are not those that were prepared.

        >>> Reservoir(4, topology="ring", spectral_radius=0.5).layers[0].W.values
        array([0.5, 0.5, 0.5, 0.5])
        """
        if self.weights is not None:
            return self.weights
        known = self.prepared()
        layers = tuple(map(_drawn, self.layer_settings, known.scale or ()))
        found = fingerprint(layers, self.bits, self.range, known.known_cut)
        if found != known.known_fingerprint:
            raise FingerprintError(
                f"the reservoir says fingerprint {known.known_fingerprint}, its weights have "
                f"{found}; if you changed a setting, do it with unprepared(), otherwise get the "
                "reservoir again from its sender"
            )
        return layers

    @property
    def is_prepared(self) -> bool:
        return self.scale is not None

    def prepared(self) -> Reservoir:
        """Return it with its exact scales and fingerprint, which are found once per process.

        >>> reservoir = Reservoir(20, topology="ring", spectral_radius=0.75).prepared()
        >>> reservoir.scale
        (0.75,)
        >>> reservoir.prepared() is reservoir
        True
        """
        if self.is_prepared or not self.is_drawn:
            return self
        # Without the lock, clients that start together would each solve for the same eigenvalue.
        # A copy is asked about, because what is remembered is to hold nobody's weights.
        with _one_at_a_time:
            scale, found, cut = _found(replace(self))
        return replace(self, scale=scale, known_fingerprint=found, known_cut=cut)

    def unprepared(self) -> Reservoir:
        """Return it without what `prepared` found out, to change a setting of it.

        >>> reservoir = Reservoir(20, topology="ring")
        >>> reservoir.prepared().unprepared() == reservoir
        True
        """
        return replace(self, scale=None, known_fingerprint=None, known_cut=None)

    def to_json(self) -> str:
        """Return the settings as one line of JSON: the same line for equal reservoirs.

        >>> len(Reservoir(200, inputs=3).prepared().to_json()) < 600
        True
        """
        if not self.is_drawn:
            raise ValueError("the weights are no draw of a seed, so that no settings say them")
        settings: dict[str, object] = {"format": FORMAT}
        for name, own in _IN_JSON.items():
            value = getattr(self, own)
            if value is not None:
                settings[name] = plain(value)
        if self.bits is None:
            del settings[KEPT_SETTINGS["range"]]
        if self.scale is not None:
            settings["scale"] = [factor.hex() for factor in self.scale]
        return json.dumps(settings, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Reservoir:
        """Return the reservoir that `to_json` wrote; its weights are not drawn yet.

        >>> Reservoir.from_json('{"format":1,"units":5,"leak":0.5}')
        Traceback (most recent call last):
        ValueError: a reservoir has no setting 'leak'; the settings are units, inputs, topology, ...
        """
        try:
            settings = json.loads(text)
        except json.JSONDecodeError as error:
            raise IntegrityError(
                f"a reservoir is not valid JSON ({error}); get it again from its sender"
            ) from error
        if not isinstance(settings, dict):
            raise IntegrityError(
                f"a reservoir is a JSON object, got {type(settings).__name__}; pass what to_json "
                "wrote"
            )
        version = settings.pop("format", None)
        if version != FORMAT:
            raise IntegrityError(
                f"the reservoir has format {version!r}, this version reads {FORMAT}; "
                "upgrade catchment, or write the reservoir with this version"
            )
        for name in settings:
            if name not in _IN_JSON:
                raise ValueError(
                    f"a reservoir has no setting {name!r}; the settings are {', '.join(_IN_JSON)}"
                )
        if "units" not in settings:
            raise ValueError("the reservoir does not say how many units; add the setting 'units'")
        values = {_IN_JSON[name]: from_plain(value, name) for name, value in settings.items()}
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every value

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every weight and of fixed point, in hexadecimal."""
        return fingerprint(self.layers, self.bits, self.range, self.cut)

    @cached_property
    def cut(self) -> tuple[int, int]:
        """Length and warm-up of segments into which fixed point cuts a recording; (0, 0) for none.

        It is that of `prepared`; of weights that were given or adapted it is found when needed.
        """
        if self.bits is None:
            return 0, 0
        return self.prepared().known_cut or found_cut(self.programs())

    @property
    def state_bounds(self) -> Array:
        """Largest absolute value (N,) of each unit's states, infinite where there is none.

        No weight is drawn for it.
        """
        if self.weights is None:
            activation = [layer.activations for layer in self.layer_settings]
        else:
            activation = [layer.activation for layer in self.weights]
        return state_bounds(np.concatenate(activation), in_fixed_point=self.bits is not None)

    def programs(self, dtype: type[np.floating[Any]] = np.float64) -> tuple[Program, ...]:
        """Return the layers in the form that the kernels run."""
        if self.bits is not None and dtype is np.float32:
            raise ValueError(
                f"the reservoir has states of {self.bits} bits, which float32 does not hold; use "
                "float64, or bits=None"
            )
        if dtype not in self._programs:
            if self.bits is None:
                self._programs[dtype] = tuple(Program.of(layer, dtype) for layer in self.layers)
            else:
                in_fixed_point = programs_in_fixed_point(self.layers, self.bits, self.range)
                self._programs[dtype] = in_fixed_point
        return self._programs[dtype]

    @cached_property
    def _programs(self) -> dict[type[np.floating[Any]], tuple[Program, ...]]:
        return {}

    def states(self, u: ArrayLike, x0: Array | None = None) -> Array:
        """Return the states (T, N) that the inputs drive the reservoir through.

        Parameters
        ----------
        u
            (T, I) inputs.
        x0
            (N,) state of all layers before the first input; zeros if not given. With a state the
            sequence is never cut.
        """
        inputs = self.checked(u)
        if x0 is None:
            return self.run([inputs])[0]
        start = np.asarray(x0, dtype=np.float64)
        if start.shape != (self.n_units,):
            raise ValueError(f"x0 has shape {start.shape}, expected ({self.n_units},)")
        if self.bits is not None:
            if not (np.abs(start) <= self.state_bounds).all():
                raise ValueError(
                    f"x0 reaches {np.abs(start).max():g}, and in fixed point a state lies within "
                    "1, or 8 for relu and identity; pass a state that the reservoir can have"
                )
            start = rounded(start, self.bits)
        xs = np.empty((len(inputs), self.n_units))
        for block in advance(self.programs(), [inputs], x0=start[:, None]):
            xs[block.start : block.stop] = block.rows[-self.n_units :, :, 0].T
        return xs

    def run(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the states (T_k, N) of each sequence, every one started from zero."""
        return self.features(input=False).rows(inputs, threads=threads)

    def features(self, **read: Unpack[Reading]) -> EchoState:
        """Return the map that reads its states, as `EchoState.of` does.

        >>> Reservoir(5).features(washout=2).rows([np.zeros((8, 1))])[0].shape
        (6, 6)
        """
        from catchment.features.echo_state.echo_state import EchoState

        return EchoState.of(self, **read)

    def checked(self, u: ArrayLike, name: str = "inputs") -> Array:
        """Return inputs (T, I) as float64; raise if they do not fit or are not finite.

        In fixed point they are cut off at its range and rounded.
        """
        return self.checked_all([u], name)[0]

    def checked_all(self, inputs: Sequence[ArrayLike], name: str = "recording {}") -> list[Array]:
        """Return what `checked` does for each sequence, with one warning for all of them."""
        us = []
        for k, given in enumerate(inputs):
            u, called = as_matrix(given, name.format(k)), name.format(k)
            if u.shape[1] != self.n_inputs:
                raise ValueError(
                    f"{called} has {u.shape[1]} columns, the reservoir was built for "
                    f"{self.n_inputs}; pass an array of shape (T, {self.n_inputs})"
                )
            if len(u) == 0:
                raise ValueError(f"{called} has no steps; leave empty recordings out")
            if self.bits is None:
                refuse_nonfinite(u, called)
            us.append(u)
        if self.bits is None or not us:
            return us
        # Together, because very many short sequences would each cost a few small operations.
        edges = list(accumulate(map(len, us), initial=0))
        joined = np.concatenate(us, out=np.empty((edges[-1], self.n_inputs)))
        if not is_finite(joined):
            for k, u in enumerate(us):
                refuse_nonfinite(u, name.format(k))
        n_clipped = inputs_in_fixed_point(joined, self.bits, self.range)
        warn_of_clipping(n_clipped, joined.size, self.range, OR_WIDER)
        return [joined[first:last] for first, last in pairwise(edges)]

    def with_plasticity(
        self, gain: Array, shift: Array, *, cut: tuple[int, int] | None = None
    ) -> Reservoir:
        """Return the reservoir with gain (N,) and shift (N,) of intrinsic plasticity.

        Other gains forget at another pace, so in fixed point the cut is found anew if not given.
        """
        if gain.shape != (self.n_units,) or shift.shape != (self.n_units,):
            raise ValueError(
                f"gain {gain.shape} and shift {shift.shape} must both have shape ({self.n_units},)"
            )
        edges = np.cumsum([layer.n_units for layer in self.layers])[:-1]
        parts = zip(self.layers, np.split(gain, edges), np.split(shift, edges), strict=True)
        layers = tuple(replace(layer, gain=g, shift=s) for layer, g, s in parts)
        base = self.base or (self.prepared() if self.is_drawn else None)
        return replace(
            self, weights=layers, base=base, scale=None, known_fingerprint=None, known_cut=cut
        )


# Names of settings in JSON, and of the fields that they are.
_IN_JSON = {
    KEPT_SETTINGS.get(name.removeprefix("known_"), name.removeprefix("known_")): name
    for name in Reservoir.__dataclass_fields__
    if name not in ("weights", "base")
}


@lru_cache(maxsize=256)
def _found(reservoir: Reservoir) -> tuple[tuple[float, ...], str, tuple[int, int] | None]:
    """Return the scales of a reservoir's layers, its fingerprint, and its cut in fixed point."""
    bits, reach, cut = reservoir.bits, reservoir.range, None
    scale = tuple(map(_scale, reservoir.layer_settings))
    layers = tuple(map(_drawn, reservoir.layer_settings, scale))
    if bits is not None:
        cut = found_cut(programs_in_fixed_point(layers, bits, reach))
    return scale, fingerprint(layers, bits, reach, cut), cut


@lru_cache(maxsize=8)
def shared(reservoir: Reservoir) -> Reservoir:
    """Return the equal reservoir that was asked for lately, whose weights are drawn already."""
    return reservoir
