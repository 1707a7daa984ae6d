"""The ledger: for every message, who sent it, what for, how large, its hash; and what it tells.

What is said in words is no promise: it says what messages hold and what is known to follow from
them, in the words of the classes whose values travel. A kind of message whose class says nothing is
said to be unknown, never to be harmless.

What differential privacy bounds is read from the settings of a run's stages, never from messages:
what a client writes into its own is its own word. An epsilon without its delta says nothing, and
one without the number of clients little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment.federation.algorithm import Kept
from catchment.federation.messages import Record, headline, left_out
from catchment.federation.protection import LOW_RANK
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Kind, Message, digest, plain_text

if TYPE_CHECKING:
    from catchment.federation.runs.read import Run, SentMessage, Traffic

S = TypeVar("S")
BATCH = 2048  # messages at once: few enough to be flat in memory, many enough to be quick


@dataclass(frozen=True)
class Entry:
    """One message. A message down goes to the whole cohort and has no client."""

    round: int
    client: str
    direction: Literal["down", "up"]
    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    n_bytes: int
    sha256: str
    epsilon: float | None = None

    @classmethod
    def of(
        cls,
        round_: int,
        client: str,
        direction: Literal["down", "up"],
        parts: Message,
        message: bytes,
    ) -> Entry:
        match parts.facts:  # the privacy cost that it states, itself or for what is masked in it
            case {"epsilon": float(stated)} | {"outline": {"facts": {"epsilon": float(stated)}}}:
                epsilon: float | None = stated
            case _:
                epsilon = None
        about = (round_, client, direction, plain_text(parts.kind, 80))
        shapes = tuple(map(np.shape, parts.arrays))
        return cls(*about, shapes, len(message), digest(message).hex(), epsilon)


@dataclass(frozen=True, eq=False)
class Entries:
    """Messages of many clients in a few columns, which take little to send and to write down.

    Parameters
    ----------
    clients
        Of each message.
    abouts
        What messages have in common, each once: entries without a client, length and hash.
    which
        (n,) for each message, which of these it has.
    n_bytes
        (n,) its length.
    sha256
        32 bytes for each message.

    >>> one = Entry(0, "ann", "up", "sum", ((2,),), 64, "00" * 32)
    >>> list(Entries.of([one])) == [one]
    True
    """

    clients: tuple[str, ...] = ()
    abouts: tuple[Entry, ...] = ()
    which: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    n_bytes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    sha256: bytes = b""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Entries:
        """Return messages as columns."""
        every, which = list(entries), []
        known: dict[tuple[Entry, str], int] = {}
        for one in every:
            head = (one.round, "", one.direction, one.purpose, one.shapes)
            about = Entry(*head, 0, "", one.epsilon)
            # By its words, too: 0.0 and -0.0 are one to a dictionary.
            which.append(known.setdefault((about, repr(about.epsilon)), len(known)))
        return cls(
            tuple(entry.client for entry in every),
            tuple(about for about, _ in known),
            np.array(which, np.int64),
            np.array([entry.n_bytes for entry in every], np.int64),
            bytes.fromhex("".join(entry.sha256 for entry in every)),
        )

    def rows(self) -> Iterator[tuple[int, str, int, str]]:
        """Yield what each message has of its own: which of `abouts`, client, length and hash."""
        sizes, hashes = self.n_bytes.tolist(), self.sha256.hex(" ", 32).split()
        return zip(self.which.tolist(), self.clients, sizes, hashes, strict=True)

    def __iter__(self) -> Iterator[Entry]:
        for k, client, n_bytes, sha256 in self.rows():
            yield replace(self.abouts[k], client=client, n_bytes=n_bytes, sha256=sha256)


class Keeper(Generic[S]):
    """Where a run is written down, so that it can be explained and resumed; by default nowhere."""

    def resume(self) -> tuple[S, tuple[Record, ...]] | None:
        """Return the state and the records with which a run goes on, None if it begins."""
        return None

    def note(self, entry: Entry) -> None:
        """Write down a message."""

    def note_all(self, entries: Entries) -> None:
        """Write down the messages of many clients."""
        for entry in entries:
            self.note(entry)

    def close_round(self, state: S, record: Record) -> None:
        """Keep the state after a round."""


@dataclass(eq=False)
class EntryList(Keeper[Any]):
    """A keeper of the messages alone, in a list; of many clients it has them in columns."""

    entries: list[Entry] = field(default_factory=list)
    many: list[Entries] = field(default_factory=list)  # those before

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)
        if len(self.entries) >= BATCH:
            self.many.append(Entries.of(self.entries))
            self.entries = []


@dataclass(frozen=True)
class Bound:
    """A bound on what the releases of a stage tell of one client, or of one of its sequences.

    Parameters
    ----------
    n_clients
        Most clients in a sum of the stage.
    by_clients
        Whether the clients add the noise, within secure aggregation; else the server does.

    >>> print(Bound("training", 1.0, 1e-5, "client", 120, by_clients=False))
    training: to whoever sees the model, epsilon 1 at delta 1e-05 for each of 120 clients. To the
    server, no bound: what it is sent is exact, but for being clipped, and it adds the noise itself.
    """

    stage: str
    epsilon: float
    delta: float
    unit: str
    n_clients: int
    by_clients: bool

    def __str__(self) -> str:
        whom = f"{self.n_clients:,} clients"
        each = f"each of {whom}" if self.unit == "client" else f"each {self.unit} of {whom}"
        size = f"epsilon {self.epsilon:g} at delta {self.delta:g} for {each}"
        if self.by_clients:
            return (
                f"{self.stage}: to the server and to whoever sees the model, {size}, unless more "
                "of them than the plan counts on tell the server their noise."
            )
        return (
            f"{self.stage}: to whoever sees the model, {size}. To the server, no bound: what it is "
            "sent is exact, but for being clipped, and it adds the noise itself."
        )


def bounds_of(run: Run) -> tuple[Bound, ...]:
    """Return the bounds that hold in a run, stage by stage."""
    found = []
    for stage in run.stages:
        n_clients = max((record.n_used for record in run.rounds.get(stage.name, ())), default=0)
        protections = stage.settings.get("Plan", {}).get("protections", ())
        for settings in (one for named in protections for one in named.values()):
            match settings:
                case {"epsilon": float() | int() as epsilon, "delta": float() as delta, **rest}:
                    unit, by_clients = str(rest.get("unit", "client")), rest.get("distributed")
                    about = (stage.name, epsilon, delta, unit, n_clients)
                    found.append(Bound(*about, by_clients=by_clients is True))
    return tuple(found)


STATISTICS = (RidgeStatistics.KIND.name, LOW_RANK, "ridge-factors")

REFUSAL = Kind(
    "refusal",
    "one sentence that says why the client sends nothing",
    (
        "the reason, which may name a file of the client, say how many rows or features there are, "
        "and quote the one value that is at fault",
    ),
)

NEVER = (
    "inputs, targets and feature rows as such: no message of the kinds above holds them (what "
    "can be rebuilt from sums is said there)",
    "the clients' files; of a file's name only what a client is called by",
)
# Where somebody refused, the two sentences above would say too much.
NEVER_BUT_REFUSALS = (
    "inputs, targets and feature rows as such: no message of the kinds above holds them, except "
    "the one value that a refusal may quote (what can be rebuilt from sums is said there)",
    "the clients' files; of a file's name only what a client is called by, and what a refusal says",
)


@dataclass(frozen=True)
class Sent:
    """One kind of message in one stage: how often, how large, and what it tells."""

    stage: str
    purpose: str
    n_clients: int
    n_messages: int
    n_bytes: int
    n_numbers: tuple[int, int]  # least and most in one message
    kind: Kind | None
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return how often and how large, in words."""
        low, high = self.n_numbers
        size = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        each = say_bytes(self.n_bytes // max(1, self.n_messages))
        numbers = f"{size} numbers" if high else "no numbers"
        return (
            f"{_count(self.n_clients, 'client')} sent {_count(self.n_messages, 'message')} of "
            f"{numbers}, about {each} each, {say_bytes(self.n_bytes)} in all."
        )


@dataclass(frozen=True)
class Explanation:
    """What left the clients, what came to them, what is bounded, and what never left.

    `bounded` says against whom differential privacy bounds what is told, and how far; `kept` is
    what the run's folder has of single clients beside the messages.
    """

    up: tuple[Sent, ...]
    down: tuple[str, ...]
    never: tuple[str, ...]
    unknown: tuple[str, ...] = field(default=())
    bounded: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def explain(run: Run) -> Explanation:
    """Return what left each client of a run, and what can be read from it."""
    up = [t for t in run.traffic if t.direction == "up"]
    groups: dict[tuple[str, str], list[Traffic]] = {}
    for traffic in up:
        groups.setdefault((traffic.stage, traffic.purpose), []).append(traffic)
    sent = tuple(_sent(run, *key, parts) for key, parts in groups.items())
    unknown = tuple(dict.fromkeys(one.purpose for one in sent if one.kind is None))
    never = NEVER_BUT_REFUSALS if any(one.purpose == REFUSAL.name for one in sent) else NEVER
    return Explanation(
        sent,
        tuple(_down(run)),
        () if unknown else never,
        unknown,
        tuple(_bounded(run)),
        tuple(_kept(run)),
    )


def in_words(run: Run, messages: list[SentMessage], *, more: bool = False) -> str:
    """Return the explanation of a run as text, with the hashes of the messages given.

    Parameters
    ----------
    run
        What is explained.
    messages
        Those whose hashes are listed.
    more
        Whether there are more messages than these.
    """
    from jinja2 import Environment, StrictUndefined

    text = (resources.files("catchment.federation.runs") / "ledger.jinja").read_text("utf-8")
    made = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    said = made.from_string(text).render(
        run=run,
        explained=explain(run),
        first=[*filter(None, (map_sentence(run.facts), headline(run.rounds), thin_clients(run)))],
        refused=left_out(run.rounds),
        messages=messages,
        more=more,
        size=say_bytes,
    )
    return said.rstrip() + "\n"


def thin_clients(run: Run) -> str:
    """Return a sentence if clients sent statistics of fewer rows than features in the clear."""
    clear = [t for t in run.traffic if t.direction == "up" and t.purpose in STATISTICS]
    n_features = max(map(_n_features, clear), default=0)
    thin = sum(n < n_features for n in run.rows_by_client.values())
    if not thin:
        return ""
    return (
        f"{thin} of {len(run.rows_by_client)} clients have fewer rows than features: anyone who "
        "reads their uploads can reconstruct inputs"
    )


def _sent(run: Run, stage: str, purpose: str, parts: list[Traffic]) -> Sent:
    numbers, n_clients = [t.n_numbers for t in parts], max(t.clients for t in parts)
    asked = max((record.n_asked for record in run.rounds.get(stage, ())), default=0)
    if len(parts) > 1 and asked:  # some may have sent several of these
        n_clients = min(sum(t.clients for t in parts), asked)
    return Sent(
        stage,
        purpose,
        n_clients,
        sum(t.sent for t in parts),
        sum(t.total_bytes for t in parts),
        (min(numbers), max(numbers)),
        REFUSAL if purpose == REFUSAL.name else run.kinds.get(purpose),
        tuple(_notes(run, purpose, parts)),
    )


def _bounded(run: Run) -> list[str]:
    """Return what is bounded, for whom, and what is not although something is."""
    bounds = [str(bound) for bound in bounds_of(run)]
    if not bounds:
        return ["nothing: no protection of the plan states an epsilon"]
    bounds.append("Not bounded: who takes part, when, and how many they are.")
    if run.scores:
        bounds.append(
            "Not bounded: the scores of those whom the model was tested on, who did not train it."
        )
    return bounds


def _kept(run: Run) -> list[str]:
    """Return what a run's folder has of single clients that no message brought, or that is exact.

    Only where all clients are in one process can it have more than what they sent.
    """
    kept = []
    if tested := [name for name in run.scores if name]:
        kept.append(f"the exact score of each of {_count(len(tested), 'test client')}")
    for one in json.loads(run.facts.get("drawn", "[]")):  # of a run of 0.3 or before
        kept.append(
            f"raw signals: up to {_count(len(one['times']), 'step')} of {one['client']}, a test "
            "client, with the truth, to be drawn beside what was predicted"
        )
    if run.served:
        kept.append(
            f"how {run.served}, a test client, is served and why: what its recordings are like in "
            "numbers, its confusions, and raw signals of its three worst recordings"
        )
    if run.beside:
        kept.append(
            f"what was computed outside the federation, from clients' raw data and without "
            f"its protections, to compare with: {', '.join(run.beside)}"
        )
    return kept


def _notes(run: Run, purpose: str, parts: list[Traffic]) -> list[str]:
    """Return what is known of this run's messages beyond what holds of their kind."""
    rows = run.rows_by_client
    if purpose not in STATISTICS or not rows:
        return []
    n_features = max(map(_n_features, parts), default=0)
    few = sorted(name for name, n in rows.items() if n < n_features)
    weak = [name for name, n in rows.items() if n_features <= n < 5 * n_features]
    notes = []
    if few:
        names = ", ".join(few[:5]) + (", ..." if len(few) > 5 else "")
        notes.append(
            f"{len(few)} of {len(rows)} clients ({names}) have fewer rows than the {n_features} "
            "features. Anyone who reads such statistics can reconstruct the raw inputs, for one "
            "recording with a row per step to many digits, for pooled recordings some of them. "
            "Use fewer units, or secure aggregation with many more rows than features."
        )
    if weak:
        notes.append(
            f"{len(weak)} of {len(rows)} clients have fewer than five rows per feature; parts of "
            "their inputs have been rebuilt in tests from statistics like these."
        )
    return notes


def _n_features(statistics: Traffic) -> int:
    """Return the features of statistics: their products with targets are (F, K), or limbs of it."""
    widest = max(statistics.shapes, key=len, default=())
    return widest[-2] if len(widest) > 1 else 0


def _down(run: Run) -> list[str]:
    seen = []
    for traffic in run.traffic:
        if traffic.direction != "down":
            continue
        what = (
            "the request alone: the plan, with its recipe and seed, is known to every client"
            if traffic.purpose == "nothing"
            else f"{traffic.purpose} of {traffic.n_numbers:,} numbers"
        )
        seen.append(f"{traffic.stage}: {what}")
    return list(dict.fromkeys(seen))


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def say_bytes(n: int) -> str:
    """Return a number of bytes with three digits and a unit.

    >>> say_bytes(1_234_567), say_bytes(999_700), say_bytes(12)
    ('1.23 MB', '1 MB', '12 bytes')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= 0.9995 * size:
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"


def map_facts(kept: Kept, note: str = "") -> dict[str, str]:
    """Return the facts of a run that tell of a choice among maps; none if there was none.

    Parameters
    ----------
    note
        Why the choice was not made, though it was asked for.

    >>> sorted(map_facts(Kept(maps={"small": 0.5, "large": 0.25}, chosen="large")))
    ['map_chosen', 'map_scores']
    """
    facts = {"map_note": note} if note else {}
    if len(kept.maps) > 1:
        facts |= {"map_chosen": kept.chosen, "map_scores": json.dumps(dict(kept.maps))}
        facts |= {"map_by": kept.by} if kept.by else {}
    return facts


def map_scores(facts: Mapping[str, str]) -> dict[str, float]:
    """Return what each map scored on clients left out, the best first; nothing if one was given."""
    scores: dict[str, float] = json.loads(facts.get("map_scores", "{}"))
    return dict(sorted(scores.items(), key=lambda one: one[1]))


def map_sentence(facts: Mapping[str, str]) -> str:
    """Return which map was chosen and how the others did; nothing if there was no choice.

    >>> facts = map_facts(Kept(maps={"small": 0.5, "large": 0.25}, chosen="large"))
    >>> print(map_sentence(facts))
    map chosen: large, NRMSE 0.25 on clients left out (small: 0.5)
    """
    if facts.get("map_note"):
        return f"map: {facts['map_note']}"
    scores, chosen = map_scores(facts), facts.get("map_chosen", "")
    if chosen not in scores:
        return ""
    others = "; ".join(f"{name}: {one:.3g}" for name, one in scores.items() if name != chosen)
    by = facts.get("map_by", "on clients left out")
    return f"map chosen: {chosen}, NRMSE {scores[chosen]:.3g} {by} ({others})"
