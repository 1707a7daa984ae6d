"""Public data sets as [data] of a plan file names them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from catchment.engine import data_of
from catchment.plans import About, Origin, PlanData
from catchment_lab.datasets import load


@dataclass(frozen=True, kw_only=True)
class PublicSet(Origin):
    """A public data set of the catalogue, by its name; `catchment data list` shows them.

    Parameters
    ----------
    window
        Steps per recording; "usual" is the set's own habit, "whole" keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.
    """

    name: str
    window: int | Literal["usual", "whole"] = "usual"
    step: int | None = None

    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        found = load(self.name, directory=data, window=self.window, step=self.step)
        held_out = bool(found.test_clients or found.test_positions)
        clients = dict(found.train if held_out else found.clients)
        first = next(iter(data_of(next(iter(clients.values())))()))
        about = About(found.channels, found.classes or None, bool(first.per_step))
        return PlanData(clients, dict(found.test) if held_out else {}, about)
