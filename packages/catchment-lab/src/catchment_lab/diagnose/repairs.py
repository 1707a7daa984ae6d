"""What might be wrong with a person's recordings, each as a change that would mend it.

A change is found from the inputs alone, or from the inputs of each class, by making them like the
others'. Whether it is what ails a person is for the model to say, which is tested on the changed
recordings: nothing here looks at its predictions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np

from catchment import Array
from catchment.data import Recording, resample
from catchment_lab.diagnose.person import ClassMoments, Person

UNITS = {
    9.80665: "m/s² where the others have g",
    1000.0: "thousandths of the others' unit",
    180 / np.pi: "degrees where the others have radians",
    3.6: "km/h where the others have m/s",
    100.0: "hundredths of the others' unit",
    10.0: "tenths of the others' unit",
}
FAR_SPREAD = 1.8  # times the others', below which people differ anyway
ALIKE = 1.8  # by how much the channels of one sensor may differ in that
NEAR_UNIT = 0.25  # in the logarithm
FAR_RATE = 1.15
FAR_PACE = 1.3
FAR_TURN = 15.0  # degrees
Triad = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Repair:
    """A change to raw recordings that would mend one kind of fault.

    `fault` says what it would be, `words` what was found, `action` what to do about it.
    """

    fault: str
    words: str
    action: str
    change: Callable[[Recording], Recording]


def repairs(
    person: Person, others: Sequence[Person], names: Sequence[str], *, has_rate: bool = False
) -> Iterator[Repair]:
    """Yield the changes worth trying for one person beside at least two others.

    Parameters
    ----------
    names
        Of the channels; those of one sensor are known by x, y and z, or by a word they begin with.
    has_rate
        Whether the preparation brings recordings to one rate anyway.

    >>> rng = np.random.default_rng(0)
    >>> people = [Person.of([Recording(rng.normal(size=(99, 1)))]) for _ in range(4)]
    >>> odd = Person.of([Recording(1000 * rng.normal(size=(99, 1)))])
    >>> next(repairs(odd, people, ["load"])).words
    "load has 1,123 times the others' spread, as thousandths of the others' unit would"
    """
    groups = triads(names)
    yield from _units(person, others, names, groups)
    yield from _turns(person, others, names, groups)
    if not has_rate:
        yield from _rates(person, others)
    yield from _offsets(person, others, names)


def times(factor: float) -> str:
    """Return a factor as people say it.

    >>> times(9.8123), times(1234.5), times(0.01234)
    ('9.81', '1,234', '0.0123')
    """
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def triads(names: Sequence[str]) -> list[Triad]:
    """Return which channels are the three axes of a sensor.

    >>> triads(["ax", "ay", "az", "load"]), triads(["acc-forward", "acc-left", "acc-up"])
    ([(0, 1, 2)], [(0, 1, 2)])
    """
    lower = [name.lower() for name in names]
    found: list[Triad] = []
    for k, name in enumerate(lower):
        for place in re.finditer("x", name):
            begin, end = name[: place.start()], name[place.end() :]
            rest = [f"{begin}{letter}{end}" for letter in "yz"]
            if all(one in lower for one in rest):
                found.append((k, lower.index(rest[0]), lower.index(rest[1])))
    taken = {k for group in found for k in group}
    heads: dict[str, list[int]] = {}
    for k, name in enumerate(lower):
        head = re.split(r"[^a-z0-9]", name)[0]
        if k not in taken and head != name:
            heads.setdefault(head, []).append(k)
    return found + [(g[0], g[1], g[2]) for g in heads.values() if len(g) == 3]


def _units(
    person: Person, others: Sequence[Person], names: Sequence[str], groups: Sequence[Triad]
) -> Iterator[Repair]:
    """Yield the division by which spreads become the others'."""
    typical = np.median([one.spread for one in others], axis=0)
    ok = (typical > 0) & (person.spread > 0)
    logs = np.log(np.where(ok, person.spread, 1.0) / np.where(ok, typical, 1.0))
    alone = [(k,) for k in range(len(names)) if not any(k in group for group in groups)]
    factors, said = np.ones(len(names)), []
    for group in (*groups, *alone):
        own = logs[list(group)]
        common = float(own.mean())
        if abs(common) < np.log(FAR_SPREAD) or np.abs(own - common).max() > np.log(ALIKE):
            continue
        factor, unit = _unit(common)
        factors[list(group)] = factor
        listed = ", ".join(names[k] for k in group)
        has = "has" if len(group) == 1 else "have"
        said.append(f"{listed} {has} {times(np.exp(common))} times the others' spread{unit}")
    if said:
        yield Repair(
            "another unit",
            "; ".join(said),
            "ask which unit and which range their sensor has, and convert their files to the "
            "others' unit",
            lambda one: replace(one, u=one.u / factors),
        )


def _unit(log: float) -> tuple[float, str]:
    """Return the factor of a known unit near one, with words for it; else the factor itself."""
    for factor, words in UNITS.items():
        if abs(log - np.log(factor)) < NEAR_UNIT:
            return factor, f", as {words} would"
        if abs(log + np.log(factor)) < NEAR_UNIT:
            return (
                1 / factor,
                f", as the others' having {words.replace('the others', 'they')} would",
            )
    return float(np.exp(log)), ""


def _rates(person: Person, others: Sequence[Person]) -> Iterator[Repair]:
    known = [one.rate for one in others if one.rate is not None]
    if person.rate is not None and known:
        usual = float(np.median(known))
        if not 1 / FAR_RATE < person.rate / usual < FAR_RATE:
            yield Repair(
                "another rate",
                f"they have {person.rate:.3g} steps per second, the others {usual:.3g}",
                f"write rate = {usual:.3g} into [prepare], so that all recordings are brought to "
                "one rate",
                lambda one: one if one.times is None else resample(one, usual),
            )
        return
    # A channel that hardly ever crosses its mean says nothing of pace.
    paces = np.median([one.pace for one in others], axis=0)
    ok = (paces > 0.005) & (person.pace > 0)
    if not ok.any():
        return
    pace = float(np.median(person.pace[ok] / paces[ok]))
    if not 1 / FAR_PACE < pace < FAR_PACE:
        yield Repair(
            "another rate",
            f"a guess, without times: their channels cross their mean {times(pace)} times as often "
            "per step as the others'",
            "ask at which rate they were recorded, name the column of times, and write a rate into "
            "[prepare]",
            lambda one: _stretched(one, pace),
        )


def _stretched(one: Recording, factor: float) -> Recording:
    """Return a recording with this many times as many steps, its targets with them."""
    timed = replace(one, times=np.arange(float(one.n_steps)))
    return replace(resample(timed, factor), times=None)


def _offsets(person: Person, others: Sequence[Person], names: Sequence[str]) -> Iterator[Repair]:
    """Yield the change that gives every channel the others' mean and spread."""
    means, spreads = (
        np.median([getattr(one, field) for one in others], axis=0) for field in ("mean", "spread")
    )
    ok = (person.spread > 0) & (spreads > 0)
    factor = np.where(ok, spreads / np.where(ok, person.spread, 1.0), 1.0)
    shift = means - factor * person.mean
    far = np.maximum(np.abs(np.log(factor)), np.abs(shift) / np.where(ok, spreads, 1.0))
    if far.max(initial=0.0) < 0.2:
        return
    listed = ", ".join(names[k] for k in np.argsort(-far)[:3] if far[k] >= 0.2)
    yield Repair(
        "another level or spread",
        f"their mean and spread differ from the others', most in {listed}",
        'try scale = "own" in [prepare], which scales everybody by their own recordings, or find '
        "out what differs in how they were recorded",
        lambda one: replace(one, u=one.u * factor + shift),
    )


def _turns(
    person: Person, others: Sequence[Person], names: Sequence[str], groups: Sequence[Triad]
) -> Iterator[Repair]:
    """Yield the turn of all sensors together, and that of each by itself."""
    together = [tuple(groups)] if len(groups) > 1 else []
    for chosen in (*together, *((group,) for group in groups)):
        fit = _Turn.of(person, others, chosen)
        if fit is None:
            continue
        R = fit.best()
        angle = _angle(R)
        mirrored = np.linalg.det(R) < 0
        if (angle < FAR_TURN and not mirrored) or fit(R) > 0.6 * fit(np.eye(3)):
            continue
        yield Repair(
            "a turned sensor",
            _turn_words(R, chosen, names),
            "ask how the sensor is worn and mounted, and turn their recordings back",
            _turning(R, chosen),
        )


def _turning(R: Array, groups: Sequence[Triad]) -> Callable[[Recording], Recording]:
    def change(one: Recording) -> Recording:
        u = one.u.copy()
        for group in groups:
            u[:, list(group)] = one.u[:, list(group)] @ R.T
        return replace(one, u=u)

    return change


def _turn_words(R: Array, groups: Sequence[Triad], names: Sequence[str]) -> str:
    listed = "; ".join(", ".join(names[k] for k in group) for group in groups)
    near = min(_axis_turns(), key=lambda P: float(np.linalg.norm(P - R)))
    how = "mirrored" if np.linalg.det(R) < 0 else f"turned by about {_angle(R):.0f} degrees"
    said = f"{listed} look {how} against the others'"
    if _angle(near @ R.T) < 25 and np.linalg.det(near) * np.linalg.det(R) > 0:
        moved = []
        for i, k in enumerate(groups[0]):
            j = int(np.abs(near[i]).argmax())
            if j != i or near[i, j] < 0:
                sign = "minus " if near[i, j] < 0 else ""
                moved.append(f"the others' {names[k]} is {sign}their {names[groups[0][j]]}")
        said += f" ({', '.join(moved)})" if moved else ""
    return said


def _angle(R: Array) -> float:
    """Return by how many degrees a rotation turns; of a mirrored one, of its turning part."""
    turn = R * np.sign(np.linalg.det(R))
    return float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))


def _axis_turns() -> list[Array]:
    """Return the 48 ways to exchange and mirror three axes, those that only turn first."""
    found = [
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ]
    return sorted(found, key=lambda P: -np.linalg.det(P).round())


@dataclass(frozen=True, eq=False)
class _Turn:
    """How unlike the others' means and covariances a person's are after a turn (3, 3)."""

    own: tuple[Array, Array]  # means (n, 3) and covariances (n, 3, 3)
    others: tuple[Array, Array]
    weight: Array  # (n,)

    @classmethod
    def of(cls, person: Person, others: Sequence[Person], groups: Sequence[Triad]) -> _Turn | None:
        classes = _common(person, others)
        own: list[tuple[Array, Array]] = []
        theirs: list[tuple[Array, Array]] = []
        weights: list[float] = []
        for group in groups:
            size = 0.0
            first = len(own)
            for c in classes:
                held = [one.by_class[c] for one in others if c in one.by_class]
                own.append(_of_group(person.by_class[c], group))
                parts = [_of_group(one, group) for one in held]
                mean, cov = (np.mean([part[k] for part in parts], axis=0) for k in (0, 1))
                theirs.append((mean, cov))
                size += float(mean @ mean + np.trace(cov)) / len(classes)
            if size <= 0:
                return None
            weights += [1.0 / size] * (len(own) - first)
        if not own:
            return None
        stacked = [
            (np.array([one[0] for one in part]), np.array([one[1] for one in part]))
            for part in (own, theirs)
        ]
        return cls(stacked[0], stacked[1], np.array(weights))

    def __call__(self, R: Array) -> float:
        means, covs = self.own
        apart = ((means @ R.T - self.others[0]) ** 2).sum(axis=1)
        apart += np.linalg.norm(R @ covs @ R.T - self.others[1], axis=(1, 2))
        return float(self.weight @ apart)

    def best(self) -> Array:
        """Return the turn after which they are most alike; a mirrored one only if it is needed."""
        tried = [(self(P) * _penalty(P), P) for P in _axis_turns()]
        starts = [P for _, P in sorted(tried, key=lambda one: one[0])[:2]]
        return min(map(self._refined, starts), key=lambda R: self(R) * _penalty(R))

    def _refined(self, start: Array) -> Array:
        """Return the best turn near one."""
        from scipy.optimize import minimize
        from scipy.spatial.transform import Rotation

        def turned(w: Array) -> Array:
            return np.asarray(Rotation.from_rotvec(w).as_matrix()) @ start

        def unlike(w: Array) -> float:
            return self(turned(w))

        done = minimize(
            unlike, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6}
        )
        return turned(np.asarray(done.x))


def _penalty(R: Array) -> float:
    """Return what a mirrored turn is worse by: sensors are turned more often than mirrored."""
    return 1.0 if np.linalg.det(R) > 0 else 1.5


def _common(person: Person, others: Sequence[Person]) -> list[int]:
    """Return the classes that the person and two others have, or all steps together."""
    own = [c for c in person.by_class if c >= 0]
    found = [c for c in own if sum(c in one.by_class for one in others) >= 2]
    if found:
        return found
    return [-1] if -1 in person.by_class and any(-1 in one.by_class for one in others) else []


def _of_group(moments: ClassMoments, group: Triad) -> tuple[Array, Array]:
    places = list(group)
    return moments.mean[places], moments.cov[np.ix_(places, places)]
