"""A plug-in of pytest: properties are tried on the same examples each time, however long it takes.

A verdict must not depend on the load of the machine or on luck.
"""

from __future__ import annotations

from hypothesis import settings


def pytest_configure() -> None:
    settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
    settings.load_profile("mutants")
