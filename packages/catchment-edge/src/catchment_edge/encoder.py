"""`Encoder`: a frozen pretrained network, in an ONNX file, as a feature map.

The recipe is the SHA-256 of the file, and how recordings enter it and features leave it; where the
file lies is each machine's own affair. Other maps give the same bits on every machine. A network's
own arithmetic is that of `onnxruntime`, whose last digits may differ between processors, devices
and releases: a feature in fixed point may then, rarely, be rounded to the neighboring value
elsewhere.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catchment import Array, PositiveFloat, PositiveInt, ordered_map
from catchment.errors import ClippingWarning
from catchment.features import LOCAL, Bits, FeatureMap

if TYPE_CHECKING:
    from catchment_edge.onnx_session import Network

# T steps, I inputs; a 1 is an axis of one element.
Layout = Literal["1TI", "1IT", "1T", "TI", "IT", "T", "1TI1", "11TI"]
MANY_CLIPPED = 0.001


@dataclass(frozen=True)
class Encoder(FeatureMap):
    """A network that others trained, whose output is one feature row for each recording.

    It runs on one thread, on one recording after another.

    Parameters
    ----------
    onnx
        Path of the file. Each machine has its own: it is no part of the recipe. Left empty, as in a
        model that came from elsewhere, the file is looked for by its hash in `$CATCHMENT_MODELS`
        and in the user's cache, `models`.
    sha256
        Of the file, in hexadecimal; compared before anything is run.
    features
        How many there are, if the file does not say: compared with what comes out.
    layout
        Axes of the array that it is given: T steps, I inputs, 1 for an axis of one element.
    output
        Name of the output; the first if left out.
    pool
        "flatten": all numbers of the output are features, so recordings have one length. "mean":
        the mean over all axes but the last.
    bound
        Where outputs are cut off.
    standardize
        Whether a ridge acts on features divided by their spread over all clients.
    bits
        Bits of the features within the bound; None to leave them as they are.

    >>> Encoder("speech.onnx", "0" * 64, features=96).build(1, per_step=False).n_features
    96
    """

    onnx: str | Path = field(default="", metadata=LOCAL)
    sha256: str = ""
    features: PositiveInt | None = None
    layout: Layout = "1TI"
    output: str = ""
    pool: Literal["flatten", "mean"] = "flatten"
    bound: PositiveFloat = 64.0
    standardize: bool = True
    bits: Bits | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    pools_always = True

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(
                f"sha256 is {self.sha256!r}; give the file's SHA-256, 64 hexadecimal digits, as "
                "`sha256sum` prints it"
            )
        super().__post_init__()
        object.__setattr__(self, "bound", float(self.bound))

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        if "I" not in self.layout and n_inputs != 1:
            raise ValueError(
                f"the data have {n_inputs} channels, the layout {self.layout!r} has an axis for "
                "steps alone; choose a layout with I"
            )
        return {"features": self._said() if self.features is None else self.features}

    def _said(self) -> int:
        """Return how many features the file says there are."""
        network = self._network()
        shape = network.outputs[network.output(self.output)]
        sizes = shape[-1:] if self.pool == "mean" else shape
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) < len(sizes) or not sizes:
            raise ValueError(
                f"the output of {self.onnx} has shape {shape}, which leaves the number of features "
                "open; pass features=..."
            )
        return math.prod(known)

    def _network(self, gpu: int | None = None) -> Network:
        from catchment_edge.onnx_session import network

        return network(self.onnx, self.sha256, gpu)

    @property
    def n_features(self) -> int:
        if self.features is None:
            raise self.unbound()
        return self.features

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, self.bound)

    @property
    def cost(self) -> float:
        """Not known from the file: a network is taken to cost what a wide matrix product does."""
        return 1e6

    def names(self) -> list[str]:
        return [f"e{k}" for k in range(self.n_features)]

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        """Return the row (1, F) of each recording's inputs (T, I)."""
        return self._rows_by(self._network(), inputs, threads)

    def gpu_rows(self, inputs: Sequence[Array], gpu: int) -> list[Array] | None:
        """Return the row (1, F) of each recording's inputs (T, I), the network run on a GPU."""
        from catchment_edge.onnx_session import runs_on_gpus

        return self._rows_by(self._network(gpu), inputs, 1) if runs_on_gpus() else None

    def _rows_by(
        self, network: Network, inputs: Sequence[Array], threads: int | None
    ) -> list[Array]:
        made = list(ordered_map(lambda u: self._row(network, u), inputs, threads=threads))
        n_beyond = sum(int((np.abs(z) > self.bound).sum()) for z in made)
        if n_beyond > MANY_CLIPPED * len(made) * self.n_features:
            warnings.warn(
                f"{n_beyond / (len(made) * self.n_features):.2%} of the outputs lie beyond "
                f"{self.bound:g} and were cut off there; pass a larger bound",
                ClippingWarning,
                stacklevel=5,
            )
        return [np.clip(z, -self.bound, self.bound) for z in made]

    def _row(self, network: Network, u: Array) -> Array:
        z = network(self._laid_out(u), self.output)
        if self.pool == "mean" and z.ndim and z.size:
            columns = z.reshape(-1, z.shape[-1]).T
            # Sums that are rounded once do not depend on an order.
            row = np.array([math.fsum(column) / len(column) for column in columns.tolist()])
        else:
            row = z.astype(np.float64).ravel()
        if len(row) != self.n_features:
            raise ValueError(
                f"the output for {len(u)} steps has shape {z.shape}, which makes {len(row)} "
                f"features, and {self.n_features} were promised; use recordings of one length, or "
                'pool="mean"'
            )
        return row[None]

    def _laid_out(self, u: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Return inputs (T, I) as the network wants them."""
        axes = self.layout.replace("1", "")
        laid = {"TI": u, "IT": u.T, "T": u[:, 0]}[axes]
        sizes = iter(laid.shape)
        shape = [1 if axis == "1" else next(sizes) for axis in self.layout]
        return np.ascontiguousarray(laid, dtype=np.float32).reshape(shape)
