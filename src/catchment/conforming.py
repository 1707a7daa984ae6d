"""Which protocols a value's class follows, asked once for each class.

`isinstance` of a protocol looks at every member of it each time, which takes longer than to read a
message. Where a million clients are asked the same question, it is asked of their class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
MOST = 4096  # answers that are kept
_known: dict[tuple[type, object], bool] = {}


def follows(value: object, protocol: Callable[..., T]) -> TypeIs[T]:
    """Return whether a value follows a protocol, as the first of its class did that was asked.

    >>> from catchment.structure import Travels
    >>> from catchment.wire import NOTHING
    >>> follows(NOTHING, Travels), follows(3, Travels)
    (False, False)
    """
    key = type(value), protocol
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST:
            _known.clear()
        found = _known[key] = isinstance(value, cast(Any, protocol))
    return found
