"""Which clients a run did without, said in one line."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catchment.errors import RefusedClientsWarning
from catchment.federation.messages import Record

TRAINING, EVALUATION = "training", "evaluation"
Rounds = Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class LeftOut:
    """A client whose answers were not used in a stage, and why."""

    client: str
    stage: str
    code: str
    reason: str


def left_out(rounds: Rounds) -> tuple[LeftOut, ...]:
    """Return the clients that stages did without, every reason of a client in a stage once.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.
    """
    found = (
        LeftOut(refused.client, stage, refused.code, refused.reason)
        for stage, records in rounds.items()
        for record in records
        for refused in record.refused
    )
    return tuple(dict.fromkeys(found))


def headline(rounds: Rounds, *, most: int = 5) -> str:
    """Return how many clients trained, and who did not and why; nothing if nobody was left out.

    Of a training of several rounds it is the round with the fewest.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.
    most
        Name so many clients, and say how many more there are.

    >>> from catchment.federation.messages import Refusal
    >>> why = Refusal("ann", "refused", "there is no column 'y'")
    >>> headline({"training": [Record(0, 15, 14, 0.1, 0, 0, (why,))]})
    "14 of 15 clients; ann: there is no column 'y'"
    """
    training = rounds.get(TRAINING) or next(iter(rounds.values()), ())
    worst = _worst(training)
    if worst is None:
        return ""
    named: dict[str, str] = {}
    for one in sorted(left_out(rounds), key=lambda one: one.stage != TRAINING):
        where = "" if one.stage == TRAINING else f" ({one.stage})"
        named.setdefault(one.client, f"{one.client}{where}: {one.reason}")
    silent = worst.n_asked - worst.n_used - len({refused.client for refused in worst.refused})
    if not named and silent <= 0:
        return ""
    words = [f"{worst.n_used} of {worst.n_asked} clients", *list(named.values())[:most]]
    if len(named) > most:
        words.append(f"and {len(named) - most} more")
    if silent > 0:
        words.append(f"{silent} did not answer to the end")
    return "; ".join(words)


def left_out_lines(rounds: Rounds) -> list[str]:
    """Return a line for every client that was left out: of which stages, and why.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.

    >>> from catchment.federation.messages import Refusal
    >>> why = Refusal("ann", "refused", "there is no column 'y'")
    >>> record = Record(0, 15, 14, 0.1, 0, 0, (why,))
    >>> left_out_lines({"training": [record], "evaluation": [record]})
    ["ann was left out of the training and evaluation: there is no column 'y'"]
    """
    found: dict[str, dict[str, list[str]]] = {}
    for one in left_out(rounds):
        found.setdefault(one.client, {}).setdefault(one.reason, []).append(one.stage)
    return [
        f"{client} was left out of the "
        + "; and of the ".join(f"{_listed(stages)}: {why}" for why, stages in reasons.items())
        for client, reasons in sorted(found.items())
    ]


def counts(rounds: Rounds) -> str:
    """Return how many of those asked trained, and how many of those asked were tested.

    Of a training of several rounds it is the round with the fewest.

    Parameters
    ----------
    rounds
        By stage: the records of its rounds.

    >>> asked, tested = Record(0, 15, 14, 0.1, 0, 0), Record(0, 4, 3, 0.1, 0, 0)
    >>> counts({"training": [asked], "evaluation": [tested]})
    '14 of 15 clients trained, 3 of 4 were tested'
    """
    training, test = (_worst(rounds.get(stage, ())) for stage in (TRAINING, EVALUATION))
    words = []
    if training is not None:
        words.append(f"{training.n_used} of {training.n_asked} clients trained")
    if test is not None:
        words.append(f"{test.n_used} of {test.n_asked} were tested")
    return ", ".join(words)


def _worst(records: Sequence[Record]) -> Record | None:
    return min(records, key=lambda record: record.n_used - record.n_asked, default=None)


def _listed(stages: Sequence[str]) -> str:
    *first, last = stages
    return f"{', '.join(first)} and {last}" if first else last


def warn_of(rounds: Rounds) -> None:
    """Warn with the names of the clients that a run did without, if it did without any."""
    if left_out(rounds):
        warnings.warn(headline(rounds), RefusedClientsWarning, stacklevel=3)
