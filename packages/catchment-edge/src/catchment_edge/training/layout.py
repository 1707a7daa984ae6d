"""What a device has to do, read from a plan, and its C before it is text: sums, buffers, RAM.

How wide the sums of a device are, and how many rows they hold, is decided here, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from catchment.data import Preprocessing, Scaler
from catchment.features import FeatureMap
from catchment.federation import LowRankUpload
from catchment.federation.learn import FederatedRidge
from catchment.plans import read_plan
from catchment_edge.c.map_code import BYTES, Field, MapCode, Setting, map_code, widest_bits

ROWS = 10_000  # that a device has room for if nothing is said
_COUNTED = 2**32 - 1
PIECE = 512  # bytes of an upload in one frame
MOST_NEIGHBORS = 255
MASKS_PAYLOAD = 512  # bytes of a frame of secure aggregation
_WORD = 4  # bytes of a pointer and of an int of the processors that plans are made for


@dataclass(frozen=True, eq=False)
class Task:
    """What a client of a plan does in its rounds.

    Parameters
    ----------
    features
        The map, built as whoever runs the plan builds it.
    preprocessing
        How recordings are prepared; a federated scale is not fitted.
    channels
        How many inputs there are.
    outputs
        How many targets a row has.
    classes
        Names of the outputs, if they are classes.
    workflow
        Fingerprint of all that is agreed on before the first stage; nothing where it depends on
        keys that the export does not have.
    secure
        Whether the plan has secure aggregation.
    helper, floor, least
        Of a plan with two servers: the helper's public key that seals, the fewest clients of a
        batch, and the fewest rows of a client.
    row_stride
        Learn from every `row_stride`-th row of a recording only.
    """

    features: FeatureMap
    preprocessing: Preprocessing
    channels: int
    outputs: int
    classes: tuple[str, ...] | None = None
    workflow: str = ""
    secure: bool = False
    helper: str = ""
    floor: int = 0
    least: int = 0
    row_stride: int = 1

    def __post_init__(self) -> None:
        _check_preparation(self.preprocessing, per_step=self.features.per_step)

    @property
    def window(self) -> int:
        """Steps of a window, 0 where recordings are left whole."""
        return int(self.preprocessing.window or 0)

    @property
    def step(self) -> int:
        """Steps from one window to the next, 0 where recordings are left whole."""
        return int(self.preprocessing.step or 0) or self.window

    @property
    def washout(self) -> int:
        return self.features.washout

    @property
    def per_step(self) -> bool:
        return self.features.per_step


def task_of(plan_file: str | Path) -> Task:
    """Return what a device does for a plan; ValueError if no device can, and what to change."""
    file = read_plan(plan_file)
    workflow = file.workflow(file.about())
    if workflow.adapt is not None:
        raise ValueError(
            "the plan has [plasticity], which changes the reservoir after the export; leave it out"
        )
    if len(workflow.maps) > 1:
        raise ValueError(
            f"the plan compares {len(workflow.maps)} maps, and a device holds one; name the one "
            "that was chosen under [features]"
        )
    (features,) = workflow.start().maps
    learner = workflow.learn((features,))
    if not isinstance(learner, FederatedRidge):
        raise ValueError(
            f"the plan's algorithm is {file.algorithm!r}; a device sends the statistics of a "
            'ridge regression, so write algorithm = "ridge" under [learn]'
        )
    classes, outputs = workflow.classes, workflow.n_targets
    if any(isinstance(one, LowRankUpload) for one in workflow.protections):
        raise ValueError(
            "clients of this plan send the smaller form of their statistics, and a device sends "
            'plain ones; write upload = "statistics" under [learn]'
        )
    if outputs is None:
        raise ValueError("the plan does not say how many targets there are; name them in [data]")
    return Task(
        features,
        workflow.preprocessing,
        workflow.n_channels,
        outputs,
        classes,
        "" if file.is_secret else workflow.fingerprint,
        file.is_secret,
        *_two_servers(file.protections, features.n_features),
        learner.row_stride,
    )


def _two_servers(tables: Sequence[Mapping[str, Any]], n_features: int) -> tuple[str, int, int]:
    """Return helper, fewest clients and fewest rows of secure aggregation with two servers."""
    for one in tables:
        if one.get("servers") == 2:
            least = int(one.get("min_clients", 10))
            rows = float(one.get("rows_per_feature", 20.0))
            return str(one.get("helper", ""))[:64], least, math.ceil(rows * n_features / least)
    return "", 0, 0


def _check_preparation(preprocessing: Preprocessing, *, per_step: bool) -> None:
    if preprocessing.rate is not None:
        raise ValueError(
            f"rate is {preprocessing.rate:g} in [preprocessing], and a device does not resample; "
            f"let it sample at {preprocessing.rate:g} steps per second and leave the rate out"
        )
    if (
        preprocessing.looks_around
        or preprocessing.predicted
        or isinstance(preprocessing.horizon, tuple)
    ):
        raise ValueError(
            "[preprocessing] has several horizons, predicted, known or calendar, and a device "
            "predicts all its channels at one horizon; leave them out, and give one number as "
            "horizon"
        )
    for name, length in (("window", preprocessing.window), ("step", preprocessing.step)):
        if isinstance(length, str):
            raise ValueError(
                f"{name} is {length!r} in [preprocessing], and a device counts steps; give it in "
                "steps"
            )
    if preprocessing.gaps == "interpolate":
        raise ValueError(
            'gaps is "interpolate" in [preprocessing], which needs the value after a gap; write '
            'gaps = "hold"'
        )
    if preprocessing.gaps == "restart" and not per_step and preprocessing.window is None:
        raise ValueError(
            'gaps is "restart" in [preprocessing], which shares a recording\'s weight among its '
            'pieces; write gaps = "hold", or cut windows'
        )
    if preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'scale is "{preprocessing.scale}" in [preprocessing], which needs all samples before '
            "the first; write "
            'scale = "federated", or give the numbers'
        )
    if preprocessing.window is not None and preprocessing.label == "mean":
        raise ValueError(
            'label is "mean" in [preprocessing], whose sum depends on its order; write label = '
            '"last"'
        )


@dataclass(frozen=True)
class SumsForm:
    """Types in C of the Gram matrix and of sums of features, and the rows that they hold.

    >>> SumsForm.whole(8, 10_000)
    SumsForm(gram='int32_t', sum='int32_t', most_rows=32767)
    >>> SumsForm.whole(12, 10_000).gram
    'int64_t'
    """

    gram: str
    sum: str
    most_rows: int

    @classmethod
    def whole(cls, bits: int, rows: int) -> SumsForm:
        """Return the narrowest sums of rows of integers up to 2^bits; ValueError if none."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ValueError(f"rows is {rows!r}; pass an integer of 1 or more")
        types = {"int32_t": 2**31 - 1, "int64_t": 2**63 - 1}
        holds = {name: (most >> 2 * bits, most >> bits) for name, most in types.items()}
        gram = next((name for name in types if holds[name][0] >= rows), None)
        if gram is None:
            most = holds["int64_t"][0]
            raise ValueError(
                f"sums of {rows} rows of {bits}-bit features do not fit 63 bits, {most} do; pass "
                f"rows={most}, or give the map a smaller feature_bits"
            )
        total = next(name for name in types if holds[name][1] >= rows)
        return cls(gram, total, min(holds[gram][0], holds[total][1], _COUNTED))


@dataclass(frozen=True, eq=False)
class Layout:
    """A client of a plan in C, before it is text.

    Parameters
    ----------
    task
        The map, the preparation and the targets.
    name
        What its files are called, and the beginning of their names in C.
    rows
        That its sums must have room for.
    steps
        Of the longest recording, for maps that need all of one; None if unknown.
    neighbors
        Clients of secure aggregation that it has room for, if it masks its sums itself; 0 if not.
    """

    task: Task
    name: str
    rows: int
    steps: int | None = None
    neighbors: int = 0

    def __post_init__(self) -> None:
        features = self.task.features
        if features.feature_bits is None:
            raise ValueError(
                "the plan's map is in float64, and a device adds up integers; give the map "
                "bits in the plan"
            )
        if not 0 <= self.neighbors <= MOST_NEIGHBORS:
            raise ValueError(
                f"--masks is {self.neighbors}; a device has room for 1 to {MOST_NEIGHBORS} "
                "neighbors of secure aggregation"
            )
        if self.task.per_step and self.task.window:
            raise ValueError(
                "the map gives a row per step of windows, whose target is known at their end; use "
                "a map with a pool"
            )

    @cached_property
    def sums(self) -> SumsForm:
        return SumsForm.whole(self.task.features.feature_bits or 0, self.rows)

    @property
    def entry_bits(self) -> tuple[int, ...]:
        """Bits of the largest entry of each array of the upload, of as many rows as asked for."""
        bits, rows = self.task.features.feature_bits or 0, self.rows.bit_length()
        if self.task.classes is not None:
            return 0, bits + rows, rows, 2 * bits + rows, bits + rows, rows
        # Of numbers a limb has 40 digits, but for the last, and may be as large as that.
        return 0, bits + rows, 40, max(40, 2 * bits + rows - 40), 40, 40

    @property
    def setting(self) -> Setting:
        window = self.task.window
        return Setting(window or self.steps, window > 0, widest_bits(self.task.features))

    @cached_property
    def map(self) -> MapCode:
        """The map's code, checked to fit the windows."""
        code, window = map_code(self.task.features, self.setting), self.task.window
        if window and window < code.least_steps:
            raise ValueError(
                f"windows have {window} steps and the map needs {code.least_steps}; give longer "
                "windows or a shorter washout"
            )
        if not window and self.steps is None and (code.needs_steps or not code.streams):
            raise ValueError(
                "the map needs a whole recording at once; pass --steps with the length of the "
                "longest one, or cut windows in [preprocessing]"
            )
        return code

    @property
    def kept(self) -> int:
        """Steps whose words are kept until a row is made of them, 0 if the map follows."""
        task, code = self.task, self.map
        if task.window:
            return task.window if task.step < task.window or not code.streams else 0
        return self.steps or 0 if code.needs_steps or not code.streams else 0

    @property
    def feature(self) -> str:
        """C type of a feature."""
        return self.setting.feature

    @property
    def majority(self) -> bool:
        """Whether a window has the class of most of its steps."""
        return self.task.window > 0 and self.task.preprocessing.label == "majority"

    @property
    def scale(self) -> int:
        return scale_kind(self.task.preprocessing)

    @cached_property
    def state(self) -> tuple[Field, ...]:
        """What the map keeps, the widest first."""
        found = [*self.map.fields, Field(self.feature, "row", self.map.n_features)]
        return tuple(sorted(found, key=lambda one: -BYTES[one.type]))

    @property
    def ram(self) -> dict[str, int]:
        """Bytes of what is kept, by what it is for."""
        F, K, I = self.map.n_features, self.task.outputs, self.task.channels
        gram, total = BYTES[self.sums.gram], BYTES[self.sums.sum]
        sums = [(4, 1), (gram, F * (F + 1) // 2), (total, F)]
        if self.task.classes is not None:
            sums += [(total, F * K), (4, K)]
        else:
            sums += [(4, 4 * F * K), (4, 4 * K), (4, 6 * K * (K + 1) // 2)]
        # A session of masks: its text, names, keys, and a key for each neighbor.
        session = [(4, 4), (1, 384 + 65 + 5 * 32), (4, 10 * self.neighbors), (1, 2)]
        return {
            "sums": struct_size(sums),
            "map": struct_size([(BYTES[one.type], one.length) for one in self.state]),
            "readout": struct_size([(4, F * K), (8, K), (4, K), (4, 2)]),
            "samples": self._feed_bytes(I, K),
            "scale": struct_size([(_WORD, 15), (8, 1), (_WORD, 1)]) * I * (self.scale == 2),
            "link": self._link_bytes(I, K),
            "masks": struct_size(session) if self.neighbors else 0,
        }

    def _feed_bytes(self, I: int, K: int) -> int:
        word, kept = BYTES["int32_t"], self.kept
        fields = [(8, I), *([(8, 2 * I), (4, 1)] if self.scale == 2 else []), (4, 3), (_WORD, 1)]
        fields += [(4, 1)] if self.task.row_stride > 1 else []
        fields += [(4, K)] if self.majority else []
        fields += [(4, 1), (word, kept * self.map.n_words)] if kept else [(word, self.map.n_words)]
        fields += [(4, kept)] if kept and self.majority else []
        horizon = max(self.task.preprocessing.horizons, default=0)
        fields += [(8, horizon * I), (4, 2)] if horizon else []
        return struct_size([*fields, (1, I)])

    def _link_bytes(self, I: int, K: int) -> int:
        round_ = struct_size([(4, 1), (1, 2), (_WORD, 1)])
        rounds = 2 if self.scale == 2 else 1
        least = MASKS_PAYLOAD if self.neighbors else 8
        target = struct_size([(4, 2)] if self.task.classes is not None else [(4, 1), (8, K)])
        before = struct_size([(1, 1), (4, 1), (1, max(least, 16 * I) + PIECE), (4, 1)])
        return struct_size([(4, before // 4), (4, rounds * round_ // 4), (4, 1), (8, target // 8)])


def scale_kind(preprocessing: Preprocessing) -> int:
    """Return where a device has its scale: 0 there is none, 1 in the plan, 2 told over the link."""
    given = preprocessing.scale
    return 1 if isinstance(given, Scaler) else {"none": 0, "federated": 2}[given]


def struct_size(fields: list[tuple[int, int]]) -> int:
    """Return the bytes of a struct of fields (bytes of one, how many), as compilers lay it out.

    >>> struct_size([(4, 1), (8, 2), (1, 3)])
    32
    """
    size, widest = 0, 1
    for each, count in fields:
        if count:
            size = -(-size // each) * each + each * count
            widest = max(widest, each)
    return -(-size // widest) * widest
