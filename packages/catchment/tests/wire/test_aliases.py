"""Arrays are known as such whichever way numpy spells their type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from typing_extensions import TypeAliasType

from catchment.wire import Message, Summable

T = TypeVar("T", bound=np.generic)
Declared = TypeAliasType(
    "Declared", np.ndarray[tuple[Any, ...], np.dtype[T]], type_params=(T,)
)  # what numpy.typing.NDArray is from numpy 2.5 on


@dataclass(frozen=True, eq=False)
class Spread(Summable):
    n: int
    values: Declared[np.float64]
    many: tuple[Declared[np.float64], ...]


def test_arrays_declared_by_an_alias_of_its_own_kind_add_and_travel() -> None:
    one = Spread(1, np.array([1.0, 2.0]), (np.ones((2, 2)),))
    came = Spread.from_message(Message.from_bytes((one + one).parts().to_bytes()))
    assert came == one + one
    assert came.many[0].dtype == np.float64
