"""What the recordings of all clients have in common, whoever comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of
from catchment.readout.class_columns import united
from catchment.readout.one_owner import has_target_per_step


def all_classes(
    known: tuple[str, ...] | None, clients: Mapping[str, Source]
) -> tuple[str, ...] | None:
    """Return the classes that are known and those that clients name beside them."""
    found = [first_recording({name: clients[name]}).classes for name in _some(clients)]
    return united(known, *found) or None


def placed(clients: Mapping[str, Source], classes: tuple[str, ...] | None) -> Mapping[str, Source]:
    """Return clients whose targets are in the columns of these classes, where they are named."""
    if classes is None:
        return clients

    def in_columns(source: Source) -> Iterator[Recording]:
        for recording in data_of(source)():
            yield recording.among(classes) if isinstance(recording, Recording) else recording

    return {name: partial(in_columns, source) for name, source in clients.items()}


LOOKED_AT = 9  # clients whose source is a function and is called to see what they have


@dataclass(frozen=True)
class Shared:
    """What recordings of all clients have in common."""

    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None
    per_step: bool
    n_targets: int = 1


def shared_by(clients: Mapping[str, Source], prepare: Prepare) -> Shared:
    """Return what the first recordings of most clients have in common, whoever comes first.

    Those that cannot be read are left to the run, which names them.
    """
    found: Counter[Shared] = Counter()
    failed: Exception | None = None
    for name in _some(clients):
        try:
            first = first_recording({name: clients[name]})
            channels = first.channels or first.n_inputs
            per_step = has_target_per_step(prepare, first)
            n_targets = first.n_inputs if first.y is None else first.y.shape[-1]
            found[Shared(channels, first.classes, per_step, n_targets)] += 1
        except Exception as error:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return min(found, key=lambda one: (-found[one], repr(one)))


def _some(clients: Mapping[str, Source]) -> list[str]:
    """Return the clients that are in memory, and some of the others, spread over all names."""
    names = sorted(clients)
    elsewhere = [name for name in names if callable(clients[name])]
    step = max(1, len(elsewhere) // LOOKED_AT)
    return [name for name in names if not callable(clients[name])] + elsewhere[::step]


def first_recording(clients: Mapping[str, Source]) -> Recording:
    for name in sorted(clients):
        for recording in data_of(clients[name])():
            if not isinstance(recording, Recording):
                raise TypeError(
                    f"client {name} holds a {type(recording).__name__}; pass Recording(inputs, "
                    "targets)"
                )
            return recording
    raise ValueError("no client has a recording; pass at least one")
