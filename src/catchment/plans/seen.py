"""What the files of a plan look like, in a line each: the first of every pattern is opened."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catchment.plans.file import PlanFile
from catchment.plans.sources import Files


def seen(file: PlanFile) -> Iterator[str]:
    """Yield what the first file of each pattern holds; nothing for data that are no files."""
    origin = file.origin
    if not isinstance(origin, Files):
        return
    from catchment.data.tables import read_columns

    for path in origin.first_files(file.base):
        shown = path.relative_to(file.base) if path.is_relative_to(file.base) else path
        columns = ", ".join(read_columns(path))
        found = origin.read([path])
        every = [one for held in found.values() for one in held]
        lengths = sorted({one.n_steps for one in every})
        steps = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        gaps = float(np.mean(np.concatenate([np.isnan(one.u).ravel() for one in every])))
        channels = found.channels or ()
        said = [
            f"{shown}: columns {columns}",
            f"{counted(len(channels), 'channel')} ({', '.join(channels)})",
            f"{counted(len(every), 'recording')} of {steps} steps",
        ]
        if found.classes is not None:
            said.append(f"classes {', '.join(map(str, found.classes))}")
        if gaps > 0:
            said.append(f"{100 * gaps:.2g} % gaps")
        yield "; ".join(said)


def counted(n: int, what: str) -> str:
    """Return a number and what it counts.

    >>> counted(1, "channel"), counted(2, "channel")
    ('1 channel', '2 channels')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
