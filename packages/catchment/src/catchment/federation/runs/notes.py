"""A run's ledger in the memory of this process, written to a folder only if somebody asks.

Hashes and sizes of messages are kept, never the messages; of states only the last one of a stage is
held, for the digests of its sums, so a run that is to be resumed needs a `Store`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from catchment.federation.learn.digests import digests_of
from catchment.federation.loop import Record
from catchment.federation.plan import Plan
from catchment.federation.runs.ledger import Entry
from catchment.federation.runs.write import Cell, Store, digest_rows

S = TypeVar("S")


@dataclass(eq=False)
class StageNotes(Generic[S]):
    """What one stage sent and received; a `Keeper` that never resumes."""

    plan: Plan[S, Any, Any]
    entries: list[Entry] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    last: S | None = None

    def resume(self) -> None:
        """Return that nothing is there to go on with."""

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)

    def close_round(self, state: S, record: Record) -> None:
        self.records.append(record)
        self.last = state


@dataclass(eq=False)
class Notes:
    """The stages of a run that is in memory."""

    stages: dict[str, StageNotes[Any]] = field(default_factory=dict)

    def keeper(self, stage: str, plan: Plan[S, Any, Any]) -> StageNotes[S]:
        """Return the keeper of one stage."""
        return self.stages.setdefault(stage, StageNotes(plan))

    def write(self, store: Store) -> None:
        """Write the stages, rounds and messages to a run's folder, but no states."""
        for stage, notes in self.stages.items():
            store.keeper(stage, notes.plan)
            for entry in notes.entries:
                store.note(stage, entry)
            for record in notes.records:
                store.insert("rounds", [_round(stage, record)])
                store.insert(
                    "refusals",
                    [(stage, record.round, r.client, r.code, r.reason) for r in record.refused],
                )
                store.insert(
                    "figures",
                    [(stage, record.round, name, value) for name, value in record.figures.items()],
                )
            if notes.last is not None:
                digests = digests_of(notes.plan.algorithm.tally(notes.last))
                store.insert("digests", digest_rows(stage, notes.records[-1].round, digests))
            for record in notes.records:
                store.seal(stage, record.round)


def _round(stage: str, record: Record) -> tuple[Cell, ...]:
    counts = (record.n_asked, record.n_used, record.seconds, record.bytes_down, record.bytes_up)
    return (stage, record.round, *counts, "")
