"""A keeper that also says what came of each round, and who was left out why."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Generic, TypeVar

from catchment.federation.blocks import PrefixKeeper
from catchment.federation.loop import Keeper, NotesMany, Record
from catchment.federation.runs.ledger import Entries, Entry
from catchment.wire import Parts

S = TypeVar("S")

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Logged(Generic[S]):
    """A keeper around another one; every client that is left out is one line of warning."""

    keeper: Keeper[S]
    stage: str
    rounds: int

    def resume(self) -> tuple[S, tuple[Record, ...]] | None:
        found = self.keeper.resume()
        if found:
            log.info("%s: %d of %d rounds are done", self.stage, len(found[1]), self.rounds)
        return found

    def note(self, entry: Entry) -> None:
        self.keeper.note(entry)

    def note_all(self, entries: Entries) -> None:
        if isinstance(self.keeper, NotesMany):
            self.keeper.note_all(entries)
        else:
            for entry in entries:
                self.keeper.note(entry)

    @property
    def every(self) -> float:
        return self.keeper.every if isinstance(self.keeper, PrefixKeeper) else math.inf

    def begun(self, round_: int) -> Parts | None:
        return self.keeper.begun(round_) if isinstance(self.keeper, PrefixKeeper) else None

    def keep_begun(self, round_: int, parts: Parts) -> None:
        if isinstance(self.keeper, PrefixKeeper):
            self.keeper.keep_begun(round_, parts)

    def close_round(self, state: S, record: Record) -> None:
        self.keeper.close_round(state, record)
        log.info(
            "%s, round %d of %d: %d of %d clients, %.1f s",
            self.stage,
            record.round + 1,
            self.rounds,
            record.n_used,
            record.n_asked,
            record.seconds,
        )
        for refused in record.refused:
            log.warning(
                "%s was left out of the %s: %s (%s)",
                refused.client,
                self.stage,
                refused.reason,
                refused.code,
            )
