"""A device as C, decided before it is text: the map's code, sums, buffers, and what they take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from catchment.data import Scaler
from catchment_edge.c.map_code import BYTES, Field, MapCode, Number, Setting
from catchment_edge.c.maps import in_q15, map_code
from catchment_edge.training.sums_form import SumsForm
from catchment_edge.training.task import Task

PIECE = 512  # bytes of an upload in one frame
MOST_NEIGHBORS = 255
MASKS_PAYLOAD = 512  # bytes of a frame of secure aggregation
_WORD = 4  # bytes of a pointer and of an int of the processors that plans are made for


@dataclass(frozen=True, eq=False)
class Layout:
    """A client of a plan in C, before it is text.

    Parameters
    ----------
    task
        The map, the preparation and the targets.
    name
        What its files are called, and the beginning of their names in C.
    number
        How numbers are held.
    rows
        That its sums must have room for.
    steps
        Of the longest recording, for maps that need all of one; None if unknown.
    neighbors
        Clients of secure aggregation that it has room for, if it masks its sums itself; 0 if not.
    """

    task: Task
    name: str
    number: Number
    rows: int
    steps: int | None = None
    neighbors: int = 0

    def __post_init__(self) -> None:
        features = self.task.features
        if self.number == "float32" and features.feature_grid is not None:
            raise ValueError(
                f"the plan's features lie in fixed point of {features.feature_grid} bits, and "
                "sums in float32 do not; export integers, or set the grids of the map to none in "
                "the plan"
            )
        if self.number != "float32" and features.feature_grid is None:
            raise ValueError(
                f"the plan's map has no grid, which --number {self.number} needs; export it with "
                "--number float32, or give the map a grid in the plan"
            )
        if self.number == "q15" and in_q15(features) is not features:
            raise ValueError(
                "the plan's map has more than 15 binary digits, and rounded to 15 it is another "
                "one than the server's; write grid = 15 under [features]"
            )
        if not 0 <= self.neighbors <= MOST_NEIGHBORS:
            raise ValueError(
                f"--masks is {self.neighbors}; a device has room for 1 to {MOST_NEIGHBORS} "
                "neighbors of secure aggregation"
            )
        if self.neighbors and self.number == "float32":
            raise ValueError(
                "masks on the device are for integers, and this map has none; give the map a "
                "grid in the plan, or leave --masks out: the gateway then masks"
            )
        if self.task.per_step and self.task.window:
            raise ValueError(
                "the map gives a row per step of windows, whose target is known at their end; use "
                "a map with a pool"
            )

    @property
    def whole(self) -> bool:
        """Whether rows are integers."""
        return self.number != "float32"

    @cached_property
    def sums(self) -> SumsForm:
        return SumsForm.of(self.task.features, self.rows, whole=self.whole)

    @property
    def entry_bits(self) -> tuple[int, ...]:
        """Bits of the largest entry of each array of the upload, of as many rows as asked for."""
        bits, rows = self.task.features.feature_grid or 0, self.rows.bit_length()
        if self.task.classes is not None:
            return 0, bits + rows, rows, 2 * bits + rows, bits + rows, rows
        # Of numbers a limb has 40 digits, but for the last, and may be as large as that.
        return 0, bits + rows, 40, max(40, 2 * bits + rows - 40), 40, 40

    @property
    def setting(self) -> Setting:
        window = self.task.window
        return Setting(self.number, window or self.steps, window > 0)

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
    def every(self) -> int:
        """One row of this many is learnt from."""
        return self.task.row_stride

    @property
    def feature(self) -> str:
        """C type of a feature."""
        if self.map.bits is None:
            return "float"
        return "int16_t" if self.map.bits <= 14 else "int32_t"

    @property
    def majority(self) -> bool:
        """Whether a window has the class of most of its steps."""
        return self.task.window > 0 and self.task.preprocessing.label == "majority"

    @property
    def scale(self) -> int:
        """0: none; 1: in the plan; 2: told over the link."""
        given = self.task.preprocessing.scale
        return 1 if isinstance(given, Scaler) else {"none": 0, "federated": 2}[given]

    @cached_property
    def state(self) -> tuple[Field, ...]:
        """What the map keeps, the widest first."""
        found = [*self.map.fields, Field(self.feature, "row", self.map.n_features)]
        return tuple(sorted(found, key=lambda one: -BYTES[one.type]))

    @property
    def ram(self) -> dict[str, int]:
        """Bytes of what is kept, by what it is for."""
        F, K, I = self.map.n_features, self.task.outputs, self.task.channels
        state = struct_size([(BYTES[one.type], one.length) for one in self.state])
        found = {"sums": self._sums_bytes, "map": state, "readout": self._readout_bytes(F, K)}
        found["samples"] = self._feed_bytes(I, K)
        found["scale"] = (
            struct_size([(_WORD, 15), (8, 1), (_WORD, 1)]) * I if self.scale == 2 else 0
        )
        found["link"] = self._link_bytes(I, K)
        found["masks"] = self._masks_bytes
        return found

    @property
    def _masks_bytes(self) -> int:
        """Bytes of a session: its text, names, keys, and a key for each neighbor."""
        texts = 384 + 65 + 5 * 32
        fields = [(4, 4), (1, texts), (4, 10 * self.neighbors), (1, 2)]
        return struct_size(fields) if self.neighbors else 0

    @property
    def _sums_bytes(self) -> int:
        F, K = self.map.n_features, self.task.outputs
        triangle, targets = F * (F + 1) // 2, K * (K + 1) // 2
        gram, total = BYTES[self.sums.gram], BYTES[self.sums.sum]
        fields = [(4, 1), (gram, triangle), (total, F)]
        if self.task.classes is not None:
            fields += [(total, F * K), (4, K)]
        elif self.whole:
            fields += [(4, 4 * F * K), (4, 4 * K), (4, 6 * targets)]
        else:
            fields += [(total, F * K + K + targets)]
        return struct_size(fields)

    def _readout_bytes(self, F: int, K: int) -> int:
        return struct_size([(4, F * K), (8, K), (4, K if self.whole else 0), (4, 2)])

    def _feed_bytes(self, I: int, K: int) -> int:
        word, kept = BYTES[self.setting.word], self.kept
        fields = [(8, I), *([(8, 2 * I), (4, 1)] if self.scale == 2 else []), (4, 3), (_WORD, 1)]
        fields += [(4, 1)] if self.every > 1 else []
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
