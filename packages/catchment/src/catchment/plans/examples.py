"""Plans to begin with, by name; `catchment plan --example NAME` prints one."""

from __future__ import annotations

from importlib import resources

from catchment.plans.dataclass_tables import nearest

_FOLDER = resources.files("catchment.plans") / "examples"


def example_names() -> tuple[str, ...]:
    """Return the names of the examples.

    >>> "wearables" in example_names()
    True
    """
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name[:-5] for name in files if name.endswith(".toml")))


def example_plan(name: str) -> str:
    """Return the text of an example.

    >>> example_plan("wearables").splitlines()[0]
    '# Exact federated ridge on invented wearables: one round, no download, a few seconds.'
    >>> example_plan("waerables")
    Traceback (most recent call last):
    ValueError: no example is called 'waerables'; did you mean 'wearables'?
    """
    if name not in example_names():
        raise ValueError(f"no example is called {name!r}; {nearest(name, example_names())}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
