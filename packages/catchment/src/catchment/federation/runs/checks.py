"""What came of comparing a run's folder with what can be computed again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from catchment.federation.learn.digests import Sum, apart, digest_of, is_exact

TOLERANCE = 1e-6  # of floating-point numbers, as a share of their size
ROUNDED = "float64: compared to rounding"

Outcome = Literal["ok", "differs", "cannot be checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was compared, what was found, and what there is to say of it."""

    what: str
    outcome: Outcome
    sha256: str = ""
    note: str = ""


@dataclass(frozen=True)
class Verification:
    """All that was compared of a run."""

    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether everything that could be checked agrees."""
        return not self.having("differs")

    def having(self, outcome: Outcome) -> tuple[Check, ...]:
        """Return the checks with this outcome."""
        return tuple(check for check in self.checks if check.outcome == outcome)

    def text(self) -> str:
        """Return a line for each check, and one that sums up."""
        width = max((len(check.what) for check in self.checks), default=0)
        lines = [
            f"{check.outcome:<17}  {check.what:<{width}}  {check.sha256}"
            f"{'  ' if check.sha256 and check.note else ''}{check.note}".rstrip()
            for check in self.checks
        ]
        ok, bad, open_ = (len(self.having(one)) for one in ("ok", "differs", "cannot be checked"))
        end = f"{bad} of {ok + bad} checks differ" if bad else f"all {ok} checks agree"
        rest = f"; {open_} could not be made" if open_ else ""
        return "\n".join([*lines, end + rest])

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"agrees": self.agrees, "checks": [asdict(check) for check in self.checks]}


def compared(what: str, found: str, said: str, note: str = "") -> Check:
    """Return the check of a hash against the one that was written down.

    >>> compared("sum", "ab", "cd").note
    'cd was written down'
    """
    if not said:
        return Check(what, "cannot be checked", found, "no hash was written down to compare with")
    if found != said:
        return Check(what, "differs", found, f"{said} was written down")
    return Check(what, "ok", found, note)


def same(what: str, again: Sum, kept: Sum, said: str = "", *, rounded: bool = False) -> Check:
    """Return the check of statistics that were computed again against those that are kept.

    Parameters
    ----------
    said
        The digest that was written down; that of those kept if there is none.
    rounded
        Whether they were rounded on their way.
    """
    found, wanted = digest_of(again), said or digest_of(kept)
    if found == wanted:
        return Check(what, "ok", found)
    if is_exact(again) and is_exact(kept) and not rounded:
        return Check(what, "differs", found, f"{wanted} was written down")
    distance = apart(again, kept)
    outcome: Outcome = "ok" if distance <= TOLERANCE else "differs"
    return Check(what, outcome, note=f"{ROUNDED}, {distance:.0e} apart")


def cannot(what: str, why: str) -> Check:
    """Return that something cannot be checked."""
    return Check(what, "cannot be checked", note=why)
