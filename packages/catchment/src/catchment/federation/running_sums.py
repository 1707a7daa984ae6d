"""A round's sum as the answers come in: of those that most clients could have sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from catchment.errors import TooFewClientsError
from catchment.federation.algorithm import Additive
from catchment.federation.messages import Refusal
from catchment.structure import measured, plus
from catchment.wire import NOTHING, Fact, Parts

BLOCK = 256  # clients summed together before their sums are; the order of sums is part of a result
MOST_GROUPS = 16  # sums kept side by side; more are only there where clients want to cost memory


@dataclass(frozen=True)
class Outline:
    """A message apart from its numbers: its kind, its facts and the shapes of its arrays."""

    kind: str
    facts: Mapping[str, Fact]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parts: Parts) -> Outline:
        return cls(parts.kind, parts.facts, tuple(array.shape for array in parts.arrays))

    def digest(self) -> bytes:
        """Return the SHA-256 (32,) of it: nobody chooses where theirs comes among others'."""
        told = json.dumps([self.kind, self.facts, self.shapes], sort_keys=True)
        return hashlib.sha256(told.encode()).digest()


PLAIN = Outline.of(NOTHING)


class GroupState(NamedTuple):
    """Where the sum of answers that add to each other stands: whose they are, and its two parts."""

    outline: Outline
    clients: Sequence[str]
    number: int
    whole: Additive | None
    block: Additive | None


@final
class Sums:
    """Running sums in a fixed order: clients in blocks by their place in the cohort, then blocks.

    Two levels of servers that add whole blocks give the very same bits as one.

    Answers that do not add to each other, such as statistics of one target and of three, are summed
    apart, and at the end the sum counts that most clients are in: the first answer has no more
    weight than any other. Memory holds one sum for each such group, and no answers.
    """

    def __init__(self, cohort: Sequence[str]) -> None:
        # The clients of a block share one number: a hundred thousand of them would be megabytes.
        self.blocks = {
            client: number
            for number in range(-(-len(cohort) // BLOCK))
            for client in cohort[number * BLOCK : (number + 1) * BLOCK]
        }
        self.left_out: list[Refusal] = []
        self._groups: list[_Group] = []

    @property
    def used(self) -> list[str]:
        """The clients in the largest sum."""
        return self._largest().clients if self._groups else []

    @property
    def n_used(self) -> int:
        return len(self.used)

    @property
    def is_one(self) -> bool:
        """Whether all answers so far add to each other."""
        return len(self._groups) <= 1

    def add(self, client: str, update: Additive, outline: Outline = PLAIN) -> None:
        """Add a client's answer to those that it adds to, or else begin a sum of its own."""
        number = self.blocks[client]
        for group in self._groups:
            if group.takes(number, client, update):
                break
        else:
            if len(self._groups) == MOST_GROUPS:
                smallest = min(self._groups, key=lambda group: len(group.clients))
                self._groups.remove(smallest)
                self._leave_out(smallest, f"more than {MOST_GROUPS} different messages came")
            self._groups.append(_Group(outline, number, [client], update))
        if len(self._groups) > 1:  # the next answer is most likely of the largest group
            self._groups.sort(key=lambda group: -len(group.clients))

    def add_block(self, clients: Sequence[str], total: Additive, outline: Outline = PLAIN) -> bool:
        """Add the sum of all usable answers of a block; False, and nothing is added, if it cannot.

        As if the answers came one by one, which must be so for a block of which some are added.
        """
        number = self.blocks[clients[0]]
        if self._groups:
            return self._groups[0].takes_block(number, clients, total)
        self._groups.append(_Group(outline, number, clients, total))
        return True

    def state(self) -> list[GroupState]:
        """Return where the sums stand."""
        return [group.state() for group in self._groups]

    def put_back(self, groups: Sequence[GroupState], left_out: Sequence[Refusal]) -> None:
        """Go on where sums stood."""
        self._groups = [_Group.of(one) for one in groups]
        self.left_out = [*left_out]

    def total(self, fewest: int, refused: Sequence[Refusal] = ()) -> Additive:
        """Return the sum that most clients are in; the others are `left_out` then, with a reason.

        TooFewClientsError, with the reasons `refused` and those, if fewer than `fewest` are in it.
        """
        if self._groups:
            largest = self._largest()
            for group in self._groups:
                if group is not largest:
                    self._leave_out(group, *_difference(group, largest))
            self._groups = [largest]
        self.left_out.sort(key=lambda refusal: refusal.client)
        if not self._groups or self.n_used < fewest:
            raise TooFewClientsError(
                f"{self.n_used} clients gave a usable answer, the plan asks for {fewest} of the "
                f"{len(self.blocks)} asked{reasons([*refused, *self.left_out])}"
            )
        return self._groups[0].total()

    def _leave_out(self, group: _Group, reason: str, code: str = "does-not-add") -> None:
        self.left_out += [Refusal.of(client, code, reason) for client in group.clients]

    def _largest(self) -> _Group:
        # By digest where as many sent one as the other: not by who came first.
        return min(self._groups, key=lambda group: (-len(group.clients), group.outline.digest()))


class _Group:
    """The sum of answers that add to each other, and whose they are."""

    def __init__(
        self, outline: Outline, number: int, clients: Sequence[str], update: Additive
    ) -> None:
        self.outline, self.clients = outline, [*clients]
        self._whole: Additive | None = None
        self._ahead: Additive | None = None  # the whole with the block, where that is known
        self._block: Additive | None = update
        self._number = number

    @classmethod
    def of(cls, state: GroupState) -> _Group:
        made = cls.__new__(cls)
        made.outline, made.clients, made._number = state.outline, [*state.clients], state.number
        made._whole, made._block, made._ahead = state.whole, state.block, None
        return made

    def state(self) -> GroupState:
        return GroupState(self.outline, self.clients, self._number, self._whole, self._block)

    def takes(self, number: int, client: str, update: Additive) -> bool:
        """Add an answer if it can be added; if not, the sum stays as it is."""
        try:
            with np.errstate(over="raise"):
                if number != self._number:
                    self._close_block()
                    self._number = number
                if self._block is None:
                    assert self._whole is not None
                    plus(self._whole, update)  # raises now, while it is known whose fault it is
                    self._block = update
                else:
                    self._block = plus(self._block, update)
                    self._ahead = None
        except Exception:
            return False
        self.clients.append(client)
        return True

    def takes_block(self, number: int, clients: Sequence[str], total: Additive) -> bool:
        """Add the sum of a whole block if it can be added; if not, the sum stays as it is."""
        if number == self._number:
            return False
        try:
            with np.errstate(over="raise"):
                self._close_block()
                assert self._whole is not None
                ahead = plus(self._whole, total)
        except Exception:
            return False
        self._number, self._block, self._ahead = number, total, ahead
        self.clients += clients
        return True

    def total(self) -> Additive:
        self._close_block()
        assert self._whole is not None
        return self._whole

    def _close_block(self) -> None:
        if self._block is None:
            return
        if self._ahead is not None:
            self._whole = self._ahead
        else:
            self._whole = self._block if self._whole is None else plus(self._whole, self._block)
        self._block = self._ahead = None


def _difference(group: _Group, largest: _Group) -> tuple[str, str]:
    """Return why the answers of a group do not add to those of most clients, and a code."""
    code, said = "does-not-add", "the answer does not add to those of most clients"
    try:
        plus(group.total(), largest.total())
    except Exception as error:
        code, said = getattr(error, "code", code), f"{said}: {error}"
    came, most = _sizes(group.total()), _sizes(largest.total())
    for name in came.keys() & most.keys():
        if came[name] != most[name]:
            return f"{came[name]} {name} came, most clients sent {most[name]}", code
    return said, code


def _sizes(value: Any) -> Mapping[str, int]:
    return next((found.sizes for found in measured(value)), {})


def reasons(refused: Sequence[Refusal]) -> str:
    """Return the latest reasons why answers were not used, each once, for an error message.

    >>> reasons([Refusal("ann", "refused", "no data"), Refusal("bob", "refused", "no data")])
    ' (ann: no data)'
    """
    first = {r.reason: r.client for r in reversed(refused)}
    given = [f"{first[reason]}: {reason}" for reason in dict.fromkeys(r.reason for r in refused)]
    return f" ({'; '.join(given[-3:])})" if given else ""
