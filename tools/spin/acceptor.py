"""Whether a recorded run of the library is one that `secure_aggregation.pml` allows.

The same rules as in the model, one function for each stage, with what the recorder saw in place of
the model's small numbers: digests for views and payloads, sets of clients by place. After each
event the three claims of the model are checked on what the server could have gathered.

A run that is accepted did not do what the model forbids; it is no proof that another run would not.
Refusals are always allowed, since a client may leave at any stage: that clients answer an honest
server is for other tests. Signatures are not looked at: who is said to have signed, and did not,
must be among those known to be corrupt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

STAGES = ("keys", "shares", "boxes", "update", "consistency", "unmask")
Places = frozenset[int]
NOBODY: Places = frozenset()


class NotAllowedError(Exception):
    """The model has no such step, or the step breaks a claim."""


@dataclass(frozen=True)
class Event:
    """A letter to one client and what it answered.

    Parameters
    ----------
    client
        Its place.
    stage
        Of the letter; "nonces" has no part in the model.
    letter, answer
        Digests of the whole letter and of the answer; no answer if it was refused.
    places
        Who is in the letter: members, present or survivors; those who signed at `unmask`.
    told
        Digest of what else is in it: adverts, turn and context at `shares`, payload at `update`.
    session
        Digest of the turn and the context that came with it.
    own, key
        At `unmask`: of whom a share of the own mask, and of the mask key, was given.
    """

    client: int
    stage: str
    letter: str
    answer: str
    places: Places = NOBODY
    told: str = ""
    session: str = ""
    own: Places = NOBODY
    key: Places = NOBODY


@dataclass(eq=False)
class Member:
    """What an honest client has answered so far."""

    stage: int = -1  # the last stage it answered, as a place in STAGES
    members: Places = NOBODY
    view: str = ""
    present: Places = NOBODY
    payload: str = ""
    survivors: Places = NOBODY
    session: str = ""  # of its consent
    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)  # who gave a share of its own mask
    key: set[int] = field(default_factory=set)  # and of its mask key

    @property
    def transcript(self) -> tuple[str, Places, str]:
        return self.view, self.present, self.payload

    def reached(self, stage: str) -> bool:
        return self.stage >= STAGES.index(stage)


@dataclass(eq=False)
class Acceptor:
    """One round as the model sees it.

    Parameters
    ----------
    n_clients
        Registered clients.
    n_corrupt
        How many of them the threshold counts with.
    corrupt
        Those who are corrupt; their events say nothing and they sign anything.

    >>> one = Acceptor(3, 0)
    >>> one.accept(Event(0, "keys", "letter", "answer"))
    >>> one.accept(Event(0, "update", "letter", "answer"))
    Traceback (most recent call last):
    tools.spin.acceptor.NotAllowedError: client 0 answered 'update' after 'keys'
    """

    n_clients: int
    n_corrupt: int
    corrupt: Places = NOBODY

    def __post_init__(self) -> None:
        self._all = {k: Member() for k in range(self.n_clients) if k not in self.corrupt}

    def accept_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.accept(event)

    def accept(self, event: Event) -> None:
        """Take a step; NotAllowedError if the model has none like it."""
        if not event.answer or event.client in self.corrupt or event.stage == "nonces":
            return
        me, letter = self._all[event.client], (event.stage, event.letter)
        if letter in me.answers:
            self._need(me.answers[letter] == event.answer, event, "got another answer again")
            return
        before = STAGES[me.stage] if me.stage >= 0 else "nothing"
        last = STAGES.index(event.stage)
        self._need(me.stage == last - 1, event, f"answered {event.stage!r} after {before!r}")
        {
            "keys": self._keys,
            "shares": self._shares,
            "boxes": self._keys,
            "update": self._update,
            "consistency": self._consistency,
            "unmask": self._unmask,
        }[event.stage](event, me)
        me.stage = last
        me.answers[letter] = event.answer
        self._check()

    def _keys(self, event: Event, me: Member) -> None:
        pass

    def _shares(self, event: Event, me: Member) -> None:
        self._need(event.client in event.places, event, "joined a round that it is not in")
        signed = all(self._all[k].reached("keys") for k in self._honest(event.places))
        self._need(signed, event, "took keys that their owner never showed")
        me.members, me.view = event.places, f"{event.session} {event.told}"
        self._need(self._needed(me) <= len(me.members), event, "joined a round that is too small")

    def _update(self, event: Event, me: Member) -> None:
        self._check_set(event, me, me.members)
        for k in self._honest(event.places) - {event.client}:
            dealt = self._all[k].reached("shares") and self._all[k].view == me.view
            self._need(dealt, event, f"is in a sum with {k}, whose shares it cannot have")
        me.present, me.payload = event.places, f"{event.session} {event.told}"

    def _consistency(self, event: Event, me: Member) -> None:
        self._check_set(event, me, me.present)
        me.survivors, me.session = event.places, event.session

    def _unmask(self, event: Event, me: Member) -> None:
        agreeing = {
            k
            for k in self._honest(event.places)
            if self._all[k].reached("consistency")
            and self._all[k].survivors == me.survivors
            and self._all[k].transcript == me.transcript
            and self._all[k].session == event.session
        }
        strangers = self._honest(event.places) - agreeing - {event.client}
        self._need(not strangers, event, f"took signatures that {sorted(strangers)} never made")
        consents = agreeing | {event.client} | (self.corrupt & me.members)
        self._need(len(consents) >= self._needed(me), event, f"gave shares for {len(consents)}")
        self._need(event.own == me.present & me.survivors, event, "gave other own-mask shares")
        self._need(event.key == me.present - me.survivors, event, "gave other mask-key shares")
        for k in self._honest(event.own):
            self._all[k].own.add(event.client)
        for k in self._honest(event.key):
            self._all[k].key.add(event.client)

    def _check_set(self, event: Event, me: Member, whole: Places) -> None:
        self._need(event.client in event.places, event, "is asked about a set without itself")
        self._need(event.places <= whole, event, "took a set that is not part of the one before")
        self._need(len(event.places) >= self._needed(me), event, "took a set of too few holders")

    def _check(self) -> None:
        """Check the claims of the model in the state that was reached."""
        for k, one in self._all.items():
            if one.reached("shares") and self._open(one, one.own) and self._open(one, one.key):
                raise NotAllowedError(f"both secrets of client {k} are open")
            for other in self._all.values():
                both = one.reached("unmask") and other.reached("unmask") and one.view == other.view
                same = (one.survivors, one.transcript) == (other.survivors, other.transcript)
                if both and not same:
                    raise NotAllowedError("shares were given for two sets or two transcripts")
            readable = self._readable(k)
            if readable and len(readable) + self.n_corrupt < self._needed(one):
                raise NotAllowedError(f"a sum over {sorted(readable)} alone can be read")

    def _readable(self, first: int) -> set[int]:
        """Return the smallest sum with this client in it that can be unmasked, if any."""
        if not self._own_open(first):
            return set()
        inside, todo = {first}, [first]
        while todo:
            a = todo.pop()
            for b in self._honest(self._all[a].present) - {a}:
                if self._key_open(a) or self._key_open(b) or b in inside:
                    continue
                if not (self._own_open(b) and self._all[b].transcript == self._all[a].transcript):
                    return set()
                inside.add(b)
                todo.append(b)
        return inside

    def _own_open(self, k: int) -> bool:
        return self._all[k].reached("update") and self._open(self._all[k], self._all[k].own)

    def _key_open(self, k: int) -> bool:
        return self._all[k].reached("shares") and self._open(self._all[k], self._all[k].key)

    def _open(self, one: Member, shares: set[int]) -> bool:
        return len(shares | (self.corrupt & one.members)) >= self._needed(one)

    def _needed(self, one: Member) -> int:
        m = len(one.members)
        return max(-(-2 * m // 3), (m + self.n_corrupt) // 2 + 1)

    def _honest(self, places: Places) -> set[int]:
        return set(places) - self.corrupt

    def _need(self, holds: bool, event: Event, what: str) -> None:
        if not holds:
            raise NotAllowedError(f"client {event.client} {what}")


def rounds(events: Iterable[tuple[int, Event]]) -> Iterator[list[Event]]:
    """Yield the events of each round by itself.

    >>> one, two = Event(0, "keys", "a", "b"), Event(0, "keys", "c", "d")
    >>> list(rounds([(7, one), (8, two)])) == [[one], [two]]
    True
    """
    parted: dict[int, list[Event]] = {}
    for number, event in events:
        parted.setdefault(number, []).append(event)
    yield from parted.values()
