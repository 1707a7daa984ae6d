"""A survey in a few lines."""

from __future__ import annotations

from catchment.data.survey.look import Survey
from catchment.data.survey.remarks import hertz

MOST_WARNINGS = 12
MOST_CHANNELS = 6


def summary_lines(found: Survey, *, most: int = MOST_WARNINGS) -> list[str]:
    """Return what a survey found: one line of figures, then warnings, then files left out.

    Parameters
    ----------
    most
        Show so many warnings, and say how many more there are.
    """
    lines = [_figures(found)]
    lines += [f"  ! {warning}" for warning in found.warnings[:most]]
    if len(found.warnings) > most:
        lines.append(f"  ! and {len(found.warnings) - most} more warnings")
    lines += [f"  x {problem}" for problem in found.problems]
    return lines


def counted(n: int, what: str, many: str = "") -> str:
    """Return a number and what it counts.

    >>> counted(1, "channel"), counted(2, "channel"), counted(2, "person", "people")
    ('1 channel', '2 channels', '2 people')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {many or what + 's'}"


def _figures(found: Survey) -> str:
    inputs, roles = found.roles.inputs, found.roles
    shown = ", ".join(inputs[:MOST_CHANNELS]) + (", ..." if len(inputs) > MOST_CHANNELS else "")
    by = {"file": "one per file", "folder": "one per folder", "column": f"by {roles.client!r}"}
    said = [
        counted(len(found.paths), "file"),
        f"{counted(len(found.clients), 'person', 'people')} ({by[roles.client_by]})",
        f"{counted(len(inputs), 'channel')} ({shown})",
    ]
    if found.rate is not None:
        said.append(hertz(found.rate))
    if found.classes is not None:
        said.append(f"{counted(len(found.classes), 'class', 'classes')}")
    elif roles.target:
        said.append(f"to predict {', '.join(roles.target)}")
    rest = [f"{_percent(found.gaps)} gaps"] if found.gaps else []
    if found.problems:
        rest.append(f"{counted(len(found.problems), 'file')} left out")
    return "; ".join([", ".join(said), *rest])


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-3 else "under 0.1 %"
