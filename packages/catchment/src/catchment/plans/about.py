"""What a source hands to a plan: its clients, and what everyone must know of their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catchment.engine.local import Source

Clients = Mapping[str, Source]


@dataclass(frozen=True)
class About:
    """What everyone must know of the data before anything is built.

    Parameters
    ----------
    channels
        Names of the inputs.
    classes
        Names of the outputs, if they are classes.
    per_step
        Whether raw recordings have a target for every step; False if they have none.
    columns
        How files name what is no channel; the model keeps it.
    """

    channels: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    per_step: bool = False
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Recordings:
    """Clients as a source has them, and the publisher's test part if there is one.

    `notices` are sentences on what is odd about the data and was passed over.
    """

    clients: Clients
    about: About
    test: Clients = field(default_factory=dict)
    notices: tuple[str, ...] = ()
