"""What left each client in a run, in plain words, and what can be read from it.

Nothing here is a promise: it says what messages hold and what is known to follow from them. A kind
of message that is not described below is said to be unknown, never to be harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catchment.federation.runs.read import Message, Run, Traffic


@dataclass(frozen=True)
class Kind:
    """A kind of message: what it holds, and what whoever reads it learns."""

    holds: str
    tells: tuple[str, ...]


KINDS: Mapping[str, Kind] = {
    "ridge-statistics": Kind(
        "sums over the client's rows: how many there are, the sum of every feature and target, and "
        "the sums of their products",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class; a class with one sequence gives that sequence's state",
            "whether a given recording is among the client's",
        ),
    ),
    "weighted-sum": Kind(
        "parameters that the client fitted on its own data, multiplied by their weight, and the "
        "weight",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "a model of this one client's data, against which recordings can be tested",
        ),
    ),
    "member": Kind(
        "the recipe of the client's reservoir, the readout it fitted on its own data, and how many "
        "rows it has",
        (
            "how many rows the client has, and which classes",
            "a model of this one client's data, against which recordings can be tested",
        ),
    ),
    "readout": Kind(
        "the readout that the client fitted on its own data",
        ("a model of this one client's data, against which recordings can be tested",),
    ),
    "statistics-set": Kind(
        "for each candidate or class, sums over the client's rows: how many there are, the sum of "
        "every feature and target, and the sums of their products",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class, and more of it: several sets of sums tell more than one",
            "whether a given recording is among the client's",
        ),
    ),
    "moment-factor": Kind(
        "a factor of the sums over the client's rows, which the server multiplies out",
        (
            "all that the sums tell: how many rows there are, and for classes how many of each",
            "the mean state of each class; a class with one sequence gives that sequence's state",
            "if the rows are fewer than the features, also from the size of the message how many",
        ),
    ),
    "clipped": Kind(
        "the client's sums or parameters, scaled down to an agreed length; with distributed noise, "
        "also noise",
        (
            "unless the clients add noise, what the sums or parameters tell, but for their length",
            "what is released from the noisy sum afterwards is bounded by its epsilon",
        ),
    ),
    "secure-keys": Kind("public keys of one round, signed", ("that the client takes part",)),
    "secure-shares": Kind(
        "shares of the round's secrets, encrypted for the other clients", ("nothing by themselves",)
    ),
    "secure-upload": Kind(
        "the client's message under masks that cancel in the sum of all clients",
        (
            "nothing of one client by itself, as long as enough clients are honest",
            "from the sum what such sums tell: of a small cohort, who is in it",
        ),
    ),
    "secure-consent": Kind("a signature under the list of clients in the sum", ("that it agrees",)),
    "secure-shares-given": Kind(
        "shares that take the masks off the sum", ("nothing of one client by itself",)
    ),
    "comparison": Kind(
        "sums of errors of the shared and of the client's own readout on its later data",
        (
            "how well both do on this client, and whether its own was any better",
            "how many test rows it has and, for classes, how many of each",
        ),
    ),
    "moments": Kind(
        "for each channel how many values there are, their sum and their sum of squares",
        ("how much data the client has, and the mean and spread of each of its channels",),
    ),
    "score": Kind(
        "sums of errors on the client's test data and, for classes, how often each was taken for "
        "each",
        (
            "how well the model does on this client",
            "how many test rows it has and, for classes, how many of each",
        ),
    ),
    "trials": Kind(
        "for each model tried, sums of its errors on the client's test data",
        ("how well each model does on this client, and how many test rows of each class it has",),
    ),
    "path-errors": Kind(
        "sums of the errors of readouts that were solved without the client, for each ridge",
        ("how unlike the others this client is, and how many rows it has",),
    ),
    "refusal": Kind(
        "one sentence that says why the client sends nothing",
        ("the reason, which may mention the size or a fault of the client's data",),
    ),
}

NEVER = (
    "inputs, targets and reservoir states as such: no message of the kinds above holds them (what "
    "can be rebuilt from sums is said there)",
    "the clients' files and their names",
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
    epsilon: float | None = None
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
    """What left the clients, what came to them, and what never left."""

    up: tuple[Sent, ...]
    down: tuple[str, ...]
    never: tuple[str, ...]
    unknown: tuple[str, ...] = field(default=())


def explain(run: Run) -> Explanation:
    """Return what left each client of a run, and what can be read from it."""
    up = [t for t in run.traffic if t.direction == "up"]
    groups: dict[tuple[str, str], list[Traffic]] = {}
    for traffic in up:
        groups.setdefault((traffic.stage, traffic.purpose), []).append(traffic)
    sent = tuple(_sent(run, *key, parts) for key, parts in groups.items())
    unknown = tuple(dict.fromkeys(one.purpose for one in sent if one.kind is None))
    return Explanation(sent, tuple(_down(run)), NEVER if not unknown else (), unknown)


def in_words(run: Run, messages: list[Message], *, more: bool = False) -> str:
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
    explained = explain(run)
    lines = [f"What left the clients of {run.facts.get('title') or run.folder.name}", ""]
    for one in explained.up:
        lines += [f"{one.stage}: {one.purpose}", f"  {one.sentence()}"]
        if one.kind is None:
            lines += ["  What is in it is not described here: assume that all of it can be read."]
        else:
            lines += [f"  It holds {one.kind.holds}.", "  Whoever reads it learns:"]
            lines += [f"    - {text};" for text in one.kind.tells]
        lines += [f"  Note: {note}" for note in one.notes]
        if one.epsilon is not None:
            lines.append(f"  Differential privacy: epsilon {one.epsilon:g} at most per client.")
        lines.append("")
    if not explained.up:
        lines += ["Nothing has left any client yet.", ""]
    lines += ["What came to the clients", ""]
    lines += [f"  - {text}" for text in explained.down] + [""]
    lines += ["What never left", ""]
    lines += [f"  - {text}" for text in explained.never]
    if explained.unknown:
        lines.append(f"  - not known: there are messages of kind {', '.join(explained.unknown)}")
    lines += ["", "Statistics are not anonymous. Only differential privacy gives a bound.", ""]
    if messages:
        lines += ["Messages by client", ""]
        lines += [
            f"  {m.client}  {m.stage} round {m.round + 1}  {m.purpose}  {say_bytes(m.n_bytes)}  "
            f"sha256 {m.sha256}" + (f"  sent {m.times} times" if m.times > 1 else "")
            for m in messages
        ]
        if more:
            lines.append("  ... and more; name a client to see all of its messages")
    return "\n".join(lines).rstrip() + "\n"


def _sent(run: Run, stage: str, purpose: str, parts: list[Traffic]) -> Sent:
    numbers = [t.n_numbers for t in parts]
    epsilons = [t.epsilon for t in parts if t.epsilon is not None]
    return Sent(
        stage,
        purpose,
        max(t.clients for t in parts) if len(parts) == 1 else _clients(run, stage, parts),
        sum(t.sent for t in parts),
        sum(t.total_bytes for t in parts),
        (min(numbers), max(numbers)),
        KINDS.get(purpose),
        max(epsilons) if epsilons else None,
        tuple(_notes(run, purpose, parts)),
    )


def _clients(run: Run, stage: str, parts: list[Traffic]) -> int:
    """Return how many clients sent any of these, at most as many as were asked."""
    asked = max((record.n_asked for record in run.rounds.get(stage, ())), default=0)
    return min(sum(t.clients for t in parts), asked) if asked else max(t.clients for t in parts)


def _notes(run: Run, purpose: str, parts: list[Traffic]) -> list[str]:
    """Return what is known of this run's messages beyond what holds of their kind."""
    rows = run.rows_by_client
    if purpose != "ridge-statistics" or not rows:
        return []
    n_features = max((shape[0] for t in parts for shape in t.shapes if len(shape) == 2), default=0)
    few = sorted(name for name, n in rows.items() if n < n_features)
    weak = [name for name, n in rows.items() if n_features <= n < 5 * n_features]
    notes = []
    if few:
        names = ", ".join(few[:5]) + (", ..." if len(few) > 5 else "")
        notes.append(
            f"{len(few)} of {len(rows)} clients ({names}) have fewer rows than the {n_features} "
            "features. Whoever reads such statistics can rebuild the raw inputs: of one sequence "
            "with a row per step to many digits, of pooled sequences some of them. Use fewer "
            "units, or hide each client in a secure sum with many more rows than features."
        )
    if weak:
        notes.append(
            f"{len(weak)} of {len(rows)} clients have fewer than five rows per feature; parts of "
            "their inputs have been rebuilt in tests from statistics like these."
        )
    return notes


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

    >>> say_bytes(1_234_567), say_bytes(12)
    ('1.23 MB', '12 bytes')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"
