"""Clients that hold no more than what is new, and carry the rest from round to round.

A client's source has what was recorded since the last round, or more. A recording that comes in
segments has a name, and each segment says with which step it begins; steps that were read before
are passed over. What later steps need of earlier ones is in the client's memory: states, sums of a
pool, the last value of each channel, and raw steps that wait for their target or their window. So
the sum of all increments is the statistics of the whole recordings: the same digest in fixed
point, the same to rounding in float64.

The server's request says which sum an increment is added to. Asked again for the same sum, the
client answers the same; asked for a later one, it goes on, and adds what the server says it missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from catchment.arrays import Array
from catchment.data.preprocessing import Waiting, check_continuable, prepared_segment
from catchment.data.recording import Recording
from catchment.errors import IntegrityError
from catchment.features.base import Arrays, FeatureMap
from catchment.federation.algorithm import Data, Memory, RoundContext, Tally
from catchment.federation.measure.outliers import round_scores
from catchment.readout.accumulation import accumulate
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.yule_walker import Autocovariances
from catchment.wire import Fact, Kind, Message, Structure, deserialize, join, split

if TYPE_CHECKING:
    from catchment.federation.learn.sums import RidgeState
    from catchment.federation.learn.yule_walker import YuleWalkerState

KIND = "increments"
SUMS: Any = RidgeStatistics | Autocovariances
STEPS = 4096  # of a recording that are turned into rows together


@dataclass(frozen=True, eq=False)
class ByRound:
    """A simulated client's recordings by the round in which they come in; none after the last.

    Whoever does not ask for increments, such as the fit of a scale, gets those of the first round.

    >>> steps = Recording([0.0, 1.0, 2.0], [[0.0]] * 3, name="ward 3")
    >>> source = ByRound([steps.part(0, 1)], [steps.part(1, 3)])
    >>> [len(source.at(k)) for k in range(3)], source()[0].n_steps
    ([1, 1, 0], 1)
    """

    rounds: tuple[Sequence[Recording], ...]

    def __init__(self, *rounds: Sequence[Recording]) -> None:
        object.__setattr__(self, "rounds", rounds)

    def __call__(self) -> Sequence[Recording]:
        return self.at(0)

    def at(self, round_: int) -> Sequence[Recording]:
        """Return the recordings of a round."""
        return self.rounds[round_] if round_ < len(self.rounds) else ()


@dataclass(frozen=True)
class Asked(Structure):
    """What the server tells clients: the sum that increments are added to, and who is not in it.

    `begun` is the plan under which the sum was begun, `after` the digest of what it holds, empty if
    it is nothing, and `missed` are clients whose last answer did not come into it.
    """

    KIND: ClassVar[Kind] = Kind("increment-asked", "which sum increments are added to")

    begun: str
    after: str = ""
    missed: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where a client's memory has what it carries for this sum."""
        return f"{KIND}/{self.begun}"


@dataclass(frozen=True, eq=False)
class OpenRecording:
    """What a client carries of one recording: its steps so far, and what waits.

    `rows` are the steps that the map has seen, after which it remembers what is `carried`.
    """

    steps: int
    waiting: Waiting
    rows: int = 0
    carried: Arrays = ()

    def parts(self) -> Message:
        w = self.waiting
        facts = {"steps": self.steps, "skip": w.skip, "rows": self.rows}
        return Message("open-recording", facts, (w.u, w.y, w.last, *self.carried))

    @classmethod
    def from_message(cls, parts: Message) -> OpenRecording:
        u, y, last, *arrays = parts.arrays
        steps, skip, rows = (int(parts.facts[name]) for name in ("steps", "skip", "rows"))  # type: ignore[arg-type]
        return cls(steps, Waiting(u, y, last, skip), rows, tuple(arrays))


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a client carries: its answer to the last request, open recordings, ended ones."""

    after: str = ""
    answer: Any = None  # statistics, or autocovariances
    recordings: Mapping[str, OpenRecording] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    noted: str = ""  # of which data the answer was made, for the client's ledger

    def to_bytes(self) -> bytes:
        facts: dict[str, Fact] = {"after": self.after, "ended": dict(self.ended)}
        if self.noted:
            facts["noted"] = self.noted
        named = {"about": Message("about", facts)}
        if self.answer is not None:
            named["answer"] = self.answer.parts()
        named |= {f"recording {name}": one.parts() for name, one in self.recordings.items()}
        return join(KIND, named).to_bytes()

    @classmethod
    def from_bytes(cls, kept: bytes) -> Progress:
        """Return what was kept; IntegrityError if it is damaged."""
        named = split(Message.from_bytes(kept), KIND)
        facts, answer = named.pop("about").facts, named.pop("answer", None)
        ended = facts.get("ended")
        if not isinstance(ended, dict):
            raise IntegrityError("what this client carried from round to round is damaged")
        return cls(
            str(facts.get("after")),
            None if answer is None else deserialize(SUMS, answer),
            {
                name.removeprefix("recording "): OpenRecording.from_message(one)
                for name, one in named.items()
            },
            ended,
            str(facts.get("noted", "")),
        )


def asked_after(state: RidgeState | YuleWalkerState, context: RoundContext) -> Message:
    """Return which sum increments are added to, as clients are told."""
    after = "" if state.total is None else state.total.digest()
    return Asked(state.begun or context.plan, after, state.missed).parts()


@dataclass(frozen=True, eq=False)
class Increments:
    """What makes a client's increments: the map, the preparation and the kind of targets."""

    features: FeatureMap
    preprocessing: Any  # a `Preprocessing`, where the turn of a client has it
    classes: tuple[str, ...] | None = None

    def answer(self, received: Message, data: Data, context: RoundContext) -> RidgeStatistics:
        """Return a client's increment, and keep what it carries in its memory.

        The memory is written before the answer leaves, all of it at once: killed before that, the
        client reads its new data again; killed after it, it gives the same answer again.

        Into secure aggregation what was missed is not sent again with what is new: it may be in the
        sum that it had left for, and two sums would differ by it.
        """
        if (memory := context.memory) is None:
            raise ValueError(
                "increments is 'new', and nothing here remembers what came before; use the ridge "
                "by itself, not inside another algorithm"
            )
        check_continuable(self.preprocessing)
        asked = Asked.from_message(received)
        place = asked.place
        known = Progress.from_bytes(memory[place]) if place in memory else Progress()
        if known.after and not asked.after:
            known = Progress()  # the server begins a new sum
        before: RidgeStatistics | None = known.answer
        counted = before is None or before.n_rows == 0
        if before is not None and not counted and known.after == asked.after:
            if context.ledger is not None:
                context.ledger.about = known.noted
            return before
        missed = context.client in asked.missed and not context.session
        owed = before if missed and not counted else None
        found = data.at(context.round) if isinstance(data, ByRound) else data()
        new = list(_unread(found, known))
        if context.ledger is not None:
            new = list(context.ledger.reading(partial(iter, new), apart=True)())
        made, after = self._read(new, known)
        if owed is not None:
            made = [owed, *made]
        elif before is not None:
            made = [self._zero(before.n_targets), *made]
        elif self.classes is not None:
            made = [self._zero(len(self.classes)), *made]
        if not made:
            raise ValueError("this client has nothing new, and never had; ask it later")
        answer = reduce(add, made)
        about = "" if context.ledger is None else context.ledger.about
        kept = replace(after, after=asked.after, answer=answer, noted=about)
        memory[place] = kept.to_bytes()
        return answer

    def _zero(self, n_targets: int) -> RidgeStatistics:
        features = self.features
        return RidgeStatistics.zero(
            features.n_features, n_targets, features.fingerprint, self._fixed_point
        )

    @property
    def _fixed_point(self) -> FixedPoint | None:
        return FixedPoint.of(self.features, classes=self.classes is not None)

    def _read(
        self, new: Iterable[Recording], known: Progress
    ) -> tuple[list[RidgeStatistics], Progress]:
        """Return the statistics of what is new, and what is carried after it."""
        made: list[RidgeStatistics] = []
        ready: list[Recording] = []
        recordings, ended = dict(known.recordings), dict(known.ended)
        for segment in new:
            own = recordings.pop(segment.name, None) if segment.name else None
            opened = own or OpenRecording(0, Waiting.at_first(segment))
            # Steps within the washout give no row, and yet say how many targets there are.
            made = made or [self._zero(self._n_targets(segment))]
            pieces, opened = self._prepared(segment, opened)
            if self.preprocessing.window is not None:
                ready += pieces
            else:
                rows, opened = self._rows(segment, pieces, opened)
                made += rows
            if segment.goes_on:
                recordings[segment.name] = opened
            elif segment.name:
                ended[segment.name] = opened.steps
        if ready:
            classes = self.classes is not None
            made.append(accumulate(self.features, ready, threads=1, classes=classes))
        return made, Progress("", None, recordings, ended)

    def _n_targets(self, segment: Recording) -> int:
        if segment.y is not None:
            return int(segment.y.shape[-1])
        channels = segment.channels or segment.n_inputs
        horizon = self.preprocessing.horizon
        return segment.n_inputs if horizon is None else self.preprocessing.n_targets(channels)

    def _prepared(
        self, segment: Recording, opened: OpenRecording
    ) -> tuple[list[Recording], OpenRecording]:
        if segment.y is None and self.preprocessing.horizon is None:
            raise ValueError(
                f"recording {segment.name!r} has no targets; statistics need inputs and targets"
            )
        read = opened.steps - segment.first_step
        waiting = opened.waiting
        if read < segment.n_steps:
            steps = segment.part(read, segment.n_steps)
        elif len(waiting.u):  # it ends with steps that were read before: those that wait are left
            y = waiting.y if segment.per_step else segment.y
            y = None if self.preprocessing.horizon is not None else y
            steps = replace(segment, u=waiting.u, y=y, times=None)
            nothing = Waiting.at_first(steps)
            waiting = replace(waiting, u=nothing.u, y=nothing.y)
        else:
            return [], opened
        pieces, after = prepared_segment(
            self.preprocessing, steps, waiting, ends=not segment.goes_on
        )
        return pieces, replace(opened, steps=segment.first_step + segment.n_steps, waiting=after)

    def _rows(
        self, segment: Recording, pieces: Sequence[Recording], opened: OpenRecording
    ) -> tuple[list[RidgeStatistics], OpenRecording]:
        """Return the statistics of the rows of a recording's next steps."""
        self.features.refuse_segments()
        made, steps, carried = [], opened.rows, opened.carried
        for piece in pieces:
            for first in range(0, piece.n_steps, STEPS):
                part = piece.part(first, min(first + STEPS, piece.n_steps))
                z, carried = self.features.go_on(part.u, steps, carried)
                steps += part.n_steps
                if len(z):
                    made.append(self._statistics(z, part))
        if not segment.goes_on:
            z = self.features.at_end(steps, carried)
            if len(z):
                made.append(self._statistics(z, segment))
        opened = replace(opened, rows=steps, carried=carried)
        return ([reduce(add, made)] if made else []), opened

    def _statistics(self, z: Array, part: Recording) -> RidgeStatistics:
        assert part.y is not None
        if part.per_step and not self.features.per_step:
            raise ValueError(
                f"recording {part.name!r} has a target per step, but pooled features give one row "
                "per recording; pass pool=None or one target per recording"
            )
        y = part.y[-len(z) :] if part.per_step else np.broadcast_to(part.y, (len(z), len(part.y)))
        return RidgeStatistics.from_states(
            z,
            y,
            weight=None if part.weight == 1 else np.full(len(z), part.weight),
            fingerprint=self.features.fingerprint,
            fixed=self._fixed_point,
        )


def with_increments(
    before: RidgeState,
    after: RidgeState,
    total: Tally[RidgeStatistics],
    came: Mapping[str, RidgeStatistics],
    context: RoundContext,
    kept: bool | str,
) -> RidgeState:
    """Return a solved state with whom it missed, and how unlike their earlier data new ones are."""
    after, history = replace(after, begun=before.begun or context.plan), before.history
    if kept == "groups":
        return after
    if before.total is not None and before.readout is not None:
        # Rounds are counted on where a run begins with the sums of an earlier one.
        at = max(context.round, history[-1].round + 1 if history else 1)
        sums = came or {"": total.total}, before.by_client or {"": before.total}
        scores = round_scores(*sums, before.total, before.readout, at)
        history += (scores,) if scores.clients else ()
    # Without names nobody can be missed: answers are then taken to be in the sum.
    asked = {*before.missed, *(context.cohort if kept else ())}
    return replace(after, missed=tuple(sorted(asked.difference(total.by_client))), history=history)


def unread(found: Iterable[Recording], memory: Memory) -> list[Recording]:
    """Return what a client's increments have not read yet of some recordings, by its memory.

    >>> one = Recording([1.0, 2.0], [[0.0], [0.0]], name="monday")
    >>> [part.n_steps for part in unread([one], {})]
    [2]
    """
    places = [name for name in memory if name.startswith(f"{KIND}/")]
    for place in places:
        found = list(_unread(found, Progress.from_bytes(memory[place])))
    return [one for one in found if one.n_steps]


def _unread(found: Iterable[Recording], known: Progress) -> Iterator[Recording]:
    """Yield what is new of a client's recordings: steps that were not read, and ends."""
    steps = {name: one.steps for name, one in known.recordings.items()}
    ended = set(known.ended)
    for one in found:
        if not one.name:
            yield one
            continue
        read = known.ended.get(one.name, 0) if one.name in ended else steps.get(one.name, 0)
        stop = one.first_step + one.n_steps
        if one.first_step > read:
            raise ValueError(
                f"recording {one.name!r} goes on at step {one.first_step}, and {read} steps of it "
                "were read; hand in the steps between, or name it otherwise"
            )
        if one.name in ended:
            if stop > read:
                raise ValueError(
                    f"recording {one.name!r} ended after {read} steps and has {stop} now; say "
                    "goes_on=True of recordings that do"
                )
            continue
        if stop > read:
            yield one.part(read - one.first_step, one.n_steps)
        elif not one.goes_on:
            yield one
        steps[one.name] = stop
        if not one.goes_on:
            ended.add(one.name)
