"""What the recordings of all clients have in common, whoever comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import neg

from catchment.data.clients import Changed, LazyClients
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import AnySource, Source, data_of
from catchment.errors import DeviceError
from catchment.federation.client import Elsewhere, devices_of
from catchment.federation.workflow import Workflow
from catchment.readout.heads import united
from catchment.readout.model import has_target_per_step


def all_classes(
    known: tuple[str, ...] | None, clients: Mapping[str, AnySource]
) -> tuple[str, ...] | None:
    """Return the classes that are known and those that clients name beside them."""
    found = [first_recording({name: clients[name]}).classes for name in _some(clients)]
    return united(known, *found) or None


def placed(
    clients: Mapping[str, AnySource],
    classes: tuple[str, ...] | None,
    workflow: Workflow | None = None,
) -> Mapping[str, AnySource]:
    """Return clients whose targets are in the columns of these classes, where they are named.

    Devices are those of a workflow then, if there is one.
    """
    if classes is None and workflow is None:
        return clients
    if isinstance(clients, LazyClients):
        return clients if classes is None else Changed(clients, partial(InColumns, classes=classes))
    found: dict[str, AnySource] = {}
    for name, one in clients.items():
        if not isinstance(one, Elsewhere):
            found[name] = one if classes is None else InColumns(one, classes)
        else:
            found[name] = one if workflow is None else one.within(workflow, of_plan_file=False)
    return found


@dataclass(frozen=True)
class InColumns:
    """A client's recordings, with targets in the columns of these classes."""

    source: Source
    classes: tuple[str, ...]

    def __call__(self) -> Iterator[Recording]:
        for recording in data_of(self.source)():
            yield recording.among(self.classes) if isinstance(recording, Recording) else recording


LOOKED_AT = 9  # clients whose source is a function and is called to see what they have


@dataclass(frozen=True)
class Shared:
    """What recordings of all clients have in common."""

    channels: tuple[str, ...] | int
    classes: tuple[str, ...] | None
    per_step: bool
    n_targets: int = 1


def shared_by(
    clients: Mapping[str, AnySource], prepare: Prepare, classes: Sequence[str] | None = None
) -> Shared:
    """Return what the first recordings of most clients have in common, whoever comes first.

    Those that cannot be read are left to the run, which names them. Devices are asked only if there
    are no recordings here, and know their classes by number: `classes` are their names.
    """
    devices = devices_of(clients)
    if len(devices) == len(clients):
        return _shared_by_devices([*devices.values()], classes)
    found: Counter[Shared] = Counter()
    failed: Exception | None = None
    for name in _some(clients):
        try:
            first = first_recording({name: clients[name]})
            channels = first.channels or first.n_inputs
            per_step = has_target_per_step(prepare, first)
            if first.y is not None:
                n_targets = first.y.shape[-1]
            elif prepare.horizon is not None:
                n_targets = prepare.n_targets(channels)
            else:
                n_targets = first.n_inputs
            found[Shared(channels, first.classes, per_step, n_targets)] += 1
        except Exception as error:
            failed = failed or error
    if failed is not None and not found:
        raise failed
    return min(zip(map(neg, found.values()), map(repr, found), found, strict=True))[2]


def _shared_by_devices(devices: Sequence[Elsewhere], classes: Sequence[str] | None) -> Shared:
    """Return what the first device that answers says of itself."""
    failed: DeviceError | None = None
    for device in devices:
        try:
            said = device.hello()
        except DeviceError as error:
            failed = failed or error
        else:
            if said.classes and classes is None:
                raise ValueError(
                    f"all clients are devices, which know their {said.outputs} classes by number; "
                    "pass their names, classes=(...), in the order of the plan"
                )
            return Shared(said.channels, None, said.per_step, said.outputs)
    assert failed is not None
    raise failed


def _some(clients: Mapping[str, AnySource]) -> list[str]:
    """Return the clients that are in memory, and some of the others, spread over all names."""
    here: list[str] = []
    called: list[str] = []
    if isinstance(clients, LazyClients):
        called = sorted(clients)
    else:
        for name in sorted(clients):
            if not isinstance(clients[name], Elsewhere):
                (called if callable(clients[name]) else here).append(name)
    return here + called[:: max(1, len(called) // LOOKED_AT)]


def first_recording(clients: Mapping[str, AnySource]) -> Recording:
    for name in sorted(clients):
        for recording in data_of(clients[name])():
            if not isinstance(recording, Recording):
                raise TypeError(
                    f"client {name} holds a {type(recording).__name__}; pass Recording(inputs, "
                    "targets)"
                )
            return recording
    raise ValueError("no client has a recording; pass at least one")
