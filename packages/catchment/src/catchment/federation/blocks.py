"""A round's sum by blocks of clients: added where the clients are, or here, to the same bits.

An engine with `sums` makes the sum of a whole block elsewhere, by the same steps as here, and
the loop adds these sums. Wherever a block is not plain, its clients are asked one by one: where
answers do not all add to each other, or one would be refused or kept back for what it claims. So
every number, every refusal and every row of the ledger is that of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.federation.algorithm import Additive, Turn
from catchment.federation.client import Request
from catchment.federation.influence import Claim, Screen, claimed, in_rows
from catchment.federation.messages import Engine, Post, Refusal
from catchment.federation.plan import Plan
from catchment.federation.prefix import Prefix, PrefixKeeper
from catchment.federation.reading import readers
from catchment.federation.running_sums import BLOCK, PLAIN, Outline, Sums
from catchment.federation.runs.ledger import Entries, Entry
from catchment.structure import is_whole, plus
from catchment.wire import Parts

AnyPlan = Plan[Any, Any, Any]
Looked = tuple[Additive, Outline, Claim]


@dataclass(frozen=True, eq=False)
class BlockSum:
    """The sum of a block's usable answers, and all that the server would have seen of each.

    Parameters
    ----------
    asked
        The clients of the block.
    clients
        Those in the sum, in their order.
    total
        The sum, None if nobody gave a usable answer.
    outline
        Of the first answer in the sum.
    claims
        (n, 4) what each client in the sum says of its size, as `influence.in_rows` has it.
    entries
        The ledger's rows of all answers.
    bytes_up
        Of all answers.
    refused
        Clients whose answers cannot be used, and why.
    n_blocks
        Of how many blocks in a row it is the sum; more than one only where sums have no order.
    """

    asked: tuple[str, ...]
    clients: tuple[str, ...] = ()
    total: Additive | None = None
    outline: Outline = PLAIN
    claims: NDArray[np.float64] = field(default_factory=lambda: in_rows(()))
    entries: Entries = field(default_factory=Entries)
    bytes_up: int = 0
    refused: tuple[Refusal, ...] = ()
    n_blocks: int = 1


def sum_block(
    plan: AnyPlan, message: bytes, engine: Engine, clients: Sequence[str]
) -> BlockSum | None:
    """Return the sum of a block's answers, None if they do not all add to each other.

    As on a client, the turn in which answers are read does not know the whole cohort.

    Parameters
    ----------
    plan
        What is run.
    message
        The letter to everybody.
    engine
        Carries it to these clients.
    """
    entries: list[Entry] = []
    claims: list[Claim] = []
    post = Post(
        plan.fingerprint(), Request.from_bytes(message, "").turn, engine, note=entries.append
    )
    sums, first = Sums(clients), PLAIN
    for client, (update, outline, claim) in post.ask_all(clients, message, looking(plan)):
        sums.add(client, update, outline)
        if not sums.is_one:
            return None
        first = first if claims else outline
        claims.append(claim)
    return BlockSum(
        asked=tuple(clients),
        clients=tuple(sums.used),
        total=sums.total(1) if claims else None,
        outline=first,
        claims=in_rows(claims),
        entries=Entries.of(entries),
        bytes_up=post.bytes_up,
        refused=tuple(post.refused),
    )


def together(plan: AnyPlan, found: Sequence[BlockSum | None]) -> Sequence[BlockSum | None]:
    """Return blocks in a row as one, if that may be and nothing is seen that speaks against it.

    A client that claims too much is asked one by one with all others of its sum, so blocks with
    such clients stay as they are.
    """
    blocks = [block for block in found if block is not None]
    clients = [client for block in blocks for client in block.clients]
    screen = Screen(plan.limits, len(clients), lambda *_: None)
    if len(found) < 2 or len(blocks) < len(found):
        return found
    if not screen.pass_together(clients, np.concatenate([block.claims for block in blocks])):
        return found
    one = joined(blocks)
    return found if one is None else [one]


def joined(blocks: Sequence[BlockSum]) -> BlockSum | None:
    """Return blocks in a row as one; None if they do not add or their sum has an order.

    >>> joined([BlockSum(("ann",))]) is None
    True
    """
    totals = [block.total for block in blocks if block.total is not None]
    if not totals or not all(map(is_whole, totals)):
        return None
    try:
        with np.errstate(over="raise"):
            total = reduce(plus, totals)
    except Exception:  # they do not add: the server finds out whose fault it is
        return None
    if not is_whole(total):
        return None
    first = next(block for block in blocks if block.total is not None)
    return BlockSum(
        asked=tuple(name for block in blocks for name in block.asked),
        clients=tuple(name for block in blocks for name in block.clients),
        total=total,
        outline=first.outline,
        claims=np.concatenate([block.claims for block in blocks]),
        entries=Entries.joined(block.entries for block in blocks),
        bytes_up=sum(block.bytes_up for block in blocks),
        refused=tuple(refusal for block in blocks for refusal in block.refused),
        n_blocks=sum(block.n_blocks for block in blocks),
    )


def looking(plan: AnyPlan) -> Callable[[Parts, Turn], Looked]:
    """Return what reads an answer for a sum."""
    read = readers(plan)[-1]

    def looked_at(parts: Parts, turn: Turn) -> Looked:
        update = read(parts, turn)
        return update, Outline.of(parts), claimed(update)

    return looked_at


def summed(
    plan: AnyPlan, post: Post, payload: Parts, keeper: object = None
) -> tuple[Additive, int]:
    """Return the sum of a round's answers to one letter, and how many are in it.

    Parameters
    ----------
    keeper
        If it is a `PrefixKeeper`, the round goes on where it was kept, and is kept as it goes.
    """
    gathering = _Gathering(plan, post, post.letter(payload))
    first = gathering.kept_by(keeper) if isinstance(keeper, PrefixKeeper) else 0
    cohort = post.turn.cohort
    blocks = [cohort[begin : begin + BLOCK] for begin in range(0, len(cohort), BLOCK)]
    sums = post.engine.sums(gathering.message, blocks, first)
    if sums is None:
        gathering.ask(cohort[first * BLOCK :])
    else:
        gathering.add_blocks(blocks[first:], sums)
    return gathering.total()


def _whose(
    blocks: Sequence[tuple[str, ...]], sums: Iterable[BlockSum | None]
) -> Iterator[tuple[tuple[str, ...], BlockSum | None]]:
    """Yield each sum with the clients that were asked for it."""
    left = iter(blocks)
    for block in sums:
        asked = islice(left, 1 if block is None else block.n_blocks)
        yield tuple(client for clients in asked for client in clients), block
    assert next(left, None) is None, "an engine gave fewer sums than there are blocks"


class _Gathering:
    """A round's sum under way."""

    def __init__(self, plan: AnyPlan, post: Post, message: bytes) -> None:
        self.plan, self.post, self.message = plan, post, message
        self.look = looking(plan)
        self.sums = Sums(post.turn.cohort)
        self.screen = Screen(plan.limits, len(post.turn.cohort), post.refuse)

    def kept_by(self, keeper: PrefixKeeper) -> int:
        """Go on with what was kept, keep it from now on; return how many blocks are done."""
        prefix = Prefix(
            keeper, self.plan, self.post, self.message, self.sums, self.screen, self.look
        )
        first = prefix.take_up()
        self.post.after = prefix.keep
        return first

    def add_blocks(
        self, blocks: Sequence[tuple[str, ...]], sums: Iterable[BlockSum | None]
    ) -> None:
        """Add blocks, each as a whole where that gives the same."""
        for clients, block in _whose(blocks, sums):
            if block is None or not self._takes(block):
                self.ask(clients)
            else:
                self.post.take(block)

    def ask(self, clients: Sequence[str]) -> None:
        """Ask clients one by one and add what may be added by now."""
        answers = self.post.ask_all(clients, self.message, self.look)
        for client, (update, outline, _) in self.screen.at_once(answers, itemgetter(2)):
            self.sums.add(client, update, outline)

    def total(self) -> tuple[Additive, int]:
        """Add what was kept back, and return the sum and how many are in it."""
        for client, (update, outline, _) in self.screen.at_last():
            self.sums.add(client, update, outline)
        total = self.sums.total(self.plan.fewest(len(self.post.turn.cohort)), self.post.refused)
        self.post.refused.extend(self.sums.left_out)
        return total, self.sums.n_used

    def _takes(self, block: BlockSum) -> bool:
        if block.total is None:
            return True
        before = self.screen.mark()
        if not self.screen.pass_together(block.clients, block.claims):
            return False
        if self.sums.add_block(block.clients, block.total, block.outline):
            return True
        self.screen.go_back(before)
        return False
