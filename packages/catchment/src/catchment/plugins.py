"""What the packages beside this one bring, found by entry points when a name is used.

A package, of this project or of anybody, names what it brings in its `pyproject.toml`:

    [project.entry-points."catchment.algorithms"]
    stacking = "catchment_research.plans:Stacked"

=============  ====================================================================================
commands       `catchment NAME`: a function for typer, or a typer app
maps           feature maps that [features] may name
algorithms     settings of algorithms that [learn] may name
plasticity     what [plasticity] may name
protections    protections that [[protections]] may name
engines        who carries the messages: "flower", "ray", and "device", a client elsewhere
forms          feature maps and statistics on other hardware: "torch"
sources        where [data] may come from: public data sets by name
readers        other files: "parquet", folders whose clients are read one by one
models         kinds of model files
reports        what is said of a run: how clients are "served"
=============  ====================================================================================

Nothing is imported before its name is used. A name whose package is not installed is one sentence
with the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from catchment.errors import MissingExtraError

Group = Literal[
    "commands",
    "maps",
    "algorithms",
    "plasticity",
    "protections",
    "engines",
    "forms",
    "sources",
    "readers",
    "models",
    "reports",
]

# What this project's own packages bring, so that a missing one can be named.
KNOWN: Mapping[str, Mapping[str, str]] = {
    "edge": {"commands": "export", "engines": "device", "maps": "encoder"},
    "fleet": {"commands": "drop flower", "engines": "flower ray", "readers": "parquet"},
    "gpu": {"forms": "torch"},
    "lab": {
        "commands": "audit data search watch",
        "sources": (
            "fsdd hhar japanese_vowels motionsense santafe_laser sunspots uci_har wisdm_watch"
        ),
        "reports": "served",
    },
    "research": {
        "maps": "layers",
        "algorithms": ("aligned conjugate_gradients ensemble gradient partial prompt stacking"),
        "plasticity": "fedip moments",
        "protections": "stochastic_quantization",
        "models": "network prompt",
    },
}

# What a setting of a plan file may name, by the setting's type; who defines the type adds it here.
CHOICES: dict[object, Mapping[str, type]] = {}


@cache
def installed(group: Group) -> Mapping[str, EntryPoint]:
    """Return what installed packages bring of a kind, by name, not yet imported."""
    return {found.name: found for found in entry_points(group=f"catchment.{group}")}


def known(group: Group) -> list[str]:
    """Return the names that this project's own packages bring of a kind, installed or not."""
    return [name for brought in KNOWN.values() for name in brought.get(group, "").split()]


def extra_of(group: Group, name: str) -> str | None:
    """Return the extra that brings a name of this project, None if no package of it does.

    >>> extra_of("commands", "export"), extra_of("commands", "fit")
    ('edge', None)
    """
    return next(
        (extra for extra, brought in KNOWN.items() if name in brought.get(group, "").split()), None
    )


def plugin(group: Group, name: str, *, needed_for: str | None = None) -> Any:
    """Return what a package brings under a name; MissingExtraError if it is not installed.

    What does not go without it is `needed_for`, in the plural; the name in quotes if not given.

    >>> plugin("engines", "pigeons")
    Traceback (most recent call last):
    ValueError: no installed package brings 'pigeons' (catchment.engines); install the one that does
    """
    found = installed(group).get(name)
    if found is not None:
        return found.load()
    extra = extra_of(group, name)
    if extra is None:
        raise ValueError(
            f"no installed package brings {name!r} (catchment.{group}); install the one that does"
        )
    raise MissingExtraError(extra, needed_for=needed_for or f"{name!r} and its like")


class Named(Mapping[str, Any]):
    """Things of one kind by name: the library's own, and what other packages bring.

    Those of other packages are imported when they are asked for. To ask for one of this project
    whose package is not installed is a MissingExtraError.
    """

    def __init__(self, group: Group, own: Mapping[str, Any]) -> None:
        self.group, self.own = group, own

    def __getitem__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        if name in installed(self.group) or extra_of(self.group, name) is not None:
            return plugin(self.group, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.own, *(n for n in sorted(installed(self.group)) if n not in self.own)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in installed(self.group)
