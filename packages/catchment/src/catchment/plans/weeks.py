"""A plan whose run goes on: what is new since the last time is tested on, then learned from.

With increments = "new" in [learn] a finished run is not over: taken up again (`--resume`) in the
same folder, every client hands in what is new since then. What is new is predicted by the model of
the time before, first, so that every recording is tested on once, and by a model that has not seen
it. Clients keep what they carry in the run's folder, where all are in this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of
from catchment.features.base import imported
from catchment.federation.algorithm import Memory
from catchment.federation.course import DELIVERY, EVALUATION, TRAINING
from catchment.federation.increments import unread
from catchment.federation.runs.write import CLIENTS, EARLIER, MODEL, PRIVATE, Store
from catchment.files import replace_file
from catchment.plans.about import About, Clients
from catchment.plans.own_files import Files
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.readout.predictor import Predictor
from catchment.storage import load

if TYPE_CHECKING:
    from catchment.plans.plan_file import PlanFile

NOTHING_NEW = "nothing is new since the last time, and the run is as it was"
FIRST = "nothing came before the first time, so that no model could be tested on what is new"


@dataclass(frozen=True, eq=False)
class Week:
    """One time that a run goes on, counted from 1.

    Parameters
    ----------
    number
        Which time it is.
    new
        By client: the recordings that are new, and will be learned from.
    earlier
        The model of the time before.
    rounds
        By stage: how many rounds it had before.
    idle
        Why a finished run does not go on, in a sentence each; nothing if it does.
    """

    number: int = 1
    new: Mapping[str, list[Recording]] = field(default_factory=dict)
    earlier: Predictor | None = None
    rounds: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Growing:
    """A client's recordings, each with the name by which what is new is found."""

    source: Source
    goes_on: bool = False

    def __call__(self) -> list[Recording]:
        found = list(data_of(self.source)())
        if any(not one.name for one in found):
            raise ValueError(
                "recordings have no names here, so that nobody could tell which are new; use files "
                'that are read whole, or leave out increments = "new"'
            )
        return [replace(one, goes_on=True) for one in found] if self.goes_on else found


def check_weeks(file: PlanFile) -> None:
    """Raise ValueError if a run of the plan could not go on."""
    if not file.carries:
        if file.sharing.test == "new":
            raise ValueError('test = "new" goes with increments = "new" in [learn]; add it')
        return
    if not isinstance(file.origin, Files):
        raise ValueError(f'increments = "new" is for files, and {file.source} does not grow')
    if file.sharing.test not in (None, "new") or file.sharing.test_of or file.sharing.split:
        raise ValueError(
            'with increments = "new" what is new is tested on before it is learned from; write '
            'test = "new" into [data], or nothing, and leave out test_of and split'
        )
    if file.run.rounds not in (None, 1):
        raise ValueError(
            f'rounds is {file.run.rounds} in [run]; with increments = "new" each time that the run '
            "goes on is one round: leave it out"
        )
    if file.is_noisy:
        raise ValueError(
            'gaussian_noise covers one release, and with increments = "new" every time is one '
            "more; leave one out"
        )
    if file.run.baselines:
        raise ValueError('baselines are of one training; leave them out with increments = "new"')


def refuse_weeks(file: PlanFile) -> None:
    """Raise ValueError if the plan's run goes on, for engines in which clients carry nothing."""
    if file.carries:
        raise ValueError(
            'increments = "new" goes on where all clients are in this process, and not on Flower; '
            "run it with --engine local, or leave increments out of [learn]"
        )


def own_kinds(file: PlanFile) -> list[type]:
    """Return the classes of one's own that the plan's map is made of."""
    from catchment.plans.names import own_classes  # it imports this module, by way of plans

    return [imported(name) for name in own_classes(file.features)]


def weekly_memories(folder: Path, clients: list[str]) -> dict[str, Memory]:
    """Return what each client carries from time to time, in a folder of its own."""
    return {name: FileMemory(folder / CLIENTS / quote(name, safe="")) for name in clients}


def begin_week(
    store: Store,
    about: About,
    train: Clients,
    memories: Mapping[str, Memory],
    *,
    use: Sequence[type] = (),
) -> Week:
    """Return what is new, with which a finished run goes on if there is anything.

    A run that was stopped goes on with the time that it was at.

    Parameters
    ----------
    use
        Classes of one's own that the model is made of.
    """
    facts = store.facts()
    number = int(facts.get("week", "1"))
    new, unreadable = _new(train, memories)
    if "finished" in facts:
        if not new:
            return Week(number, idle=(NOTHING_NEW, *unreadable))
        _refuse_others(about, facts)
        number += 1
        replace_file(store.folder / EARLIER, (store.folder / MODEL).read_bytes(), mode=PRIVATE)
        had = {stage: len(store.finished(stage)) for stage in (TRAINING, DELIVERY, EVALUATION)}
        store.go_on({"week": str(number), "rounds_before": json.dumps(had)})
        facts = store.facts()
    if number == 1:
        return Week(1, new)
    earlier = load(store.folder / EARLIER, use=use)
    return Week(number, new, earlier, json.loads(facts.get("rounds_before", "{}")))


def _new(
    train: Clients, memories: Mapping[str, Memory]
) -> tuple[dict[str, list[Recording]], list[str]]:
    """Return what is new by client, and whose data cannot be read, as a run would name them."""
    new, unreadable = {}, []
    for name, source in train.items():
        try:
            found = unread(data_of(source)(), memories[name])
        except Exception as error:  # whatever it is, the run names it with its reason
            unreadable.append(f"{name} cannot be read: {error}")
            continue
        if found:
            new[name] = found
    return new, unreadable


def _refuse_others(about: About, facts: Mapping[str, str]) -> None:
    """Raise ValueError if the files have other channels or classes than when the run began."""
    now = {"classes": about.classes, "channels": about.channels}
    for name, found in now.items():
        before = json.loads(facts.get(name, "null"))
        if before != (None if found is None else list(found)):
            raise ValueError(
                f"the files have the {name} {', '.join(found or ())} now, and the run was begun "
                f"with {', '.join(before or ())}; name all that may come as {_KEYS[name]} in "
                "[data] and begin anew (--force)"
            )


_KEYS = {"classes": "classes", "channels": "inputs"}
