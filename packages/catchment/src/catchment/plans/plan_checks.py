"""What is wrong with a plan, as far as can be told without its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.features.echo_state.echo_state import EchoState
from catchment.plans.about import About
from catchment.plans.normal import NAME as NORMAL_PLAN
from catchment.plans.normal import check_data, stand_in_classes
from catchment.plans.own_files import Files
from catchment.plans.weeks import check_weeks
from catchment.readout.intervals import checked_cuts

if TYPE_CHECKING:
    from catchment.plans.plan_file import PlanFile

TESTED_UNDER_NOISE = (
    "gaussian_noise bounds what the training tells of a client, and exact scores on other data of "
    'the same client would tell more; write test_of = "clients" into [data], so that nobody who is '
    "tested has trained"
)


def check(file: PlanFile) -> None:
    """Raise ValueError if a setting is wrong, as far as can be told without the data."""
    if file.origin.has_targets and file.prepare.horizon is not None:
        raise ValueError(
            "[data] has a label or target, and [prepare] a horizon, which predicts the inputs "
            "instead; leave one out"
        )
    normal = file.algorithm == NORMAL_PLAN
    if normal:
        numbers = isinstance(file.origin, Files) and file.origin.target is not None
        check_data(
            target=numbers or file.source == "narma",
            horizon=file.prepare.horizon is not None,
            baselines=bool(file.run.baselines) and not file.origin.has_targets,
        )
    if not file.origin.has_targets and file.prepare.horizon is None and not normal:
        raise ValueError(
            'there is nothing to predict; write label = "column" or target = "column" into '
            "[data] or, to forecast the inputs, horizon = 1 into [prepare]"
        )
    if file.sharing.test == "folds" and file.run.baselines:
        raise ValueError(
            "baselines are measured on test clients, and folds keep none apart; leave out "
            "baselines, or give a share such as test = 0.25"
        )
    check_weeks(file)
    if "personalised" in (file.run.baselines or ()) and file.sharing.test_after == 0:
        raise ValueError("a personalised baseline needs test_after in [data]; try test_after = 0.5")
    if file.run.intervals or file.run.bands:
        _check_intervals(file)
    alone = not file.candidates and all(isinstance(one, EchoState) for one in file.maps)
    if file.plasticity and not alone:
        raise ValueError(
            '[plasticity] adapts one reservoir; use map = "echo_state" and leave out [[candidates]]'
        )
    # Built of tiny stand-ins: what is wrong with any setting shows now.
    classes = None if file.prepare.horizon is not None else _some_classes(file)
    channels = _some_channels(file)
    _ = file.course(About(channels, classes, per_step=classes is None or normal)).fingerprint
    if file.is_noisy:
        _check_noise(file, About(channels, classes))


def _check_intervals(file: PlanFile) -> None:
    """Raise ValueError if nobody could count errors of readouts without them."""
    if not file.run.intervals:
        raise ValueError("bands divide intervals; write intervals = true into [run], too")
    checked_cuts(file.run.bands)
    if file.prepare.horizon is None and _some_classes(file) is not None:
        raise ValueError(
            "intervals are of numbers, and [data] has a label: its classes have probabilities; "
            "leave intervals out of [run]"
        )
    several = bool(file.candidates) or file.map_name == "auto"
    if file.algorithm != "ridge" or several or file.protect:
        raise ValueError(
            "intervals are made from every client's own statistics, which only a ridge with one "
            "map and without protections leaves to the server; leave intervals out of [run], and "
            "call catchment.calibrate with clients that did not train"
        )


def _check_noise(file: PlanFile, about: About) -> None:
    """Raise ValueError if something beside the training would tell of those who train."""
    before = {"[plasticity]": bool(file.plasticity)}
    before['scale = "federated"'] = not file.prepare.is_fitted
    for stage in (name for name, present in before.items() if present):
        remedy = 'write scale = "own" into [prepare]' if "scale" in stage else "leave one out"
        raise ValueError(f"gaussian_noise covers the training, not {stage}; {remedy}")
    sharing = file.sharing
    # A publisher's own test part is looked at when the data are here.
    chosen = isinstance(file.origin, Files) or sharing.test_of or sharing.split
    if sharing.test == "folds" or (chosen and sharing.tests_of(about) != "clients"):
        raise ValueError(TESTED_UNDER_NOISE)


def _some_channels(file: PlanFile) -> tuple[str, ...]:
    """Return channels that have all that [prepare] names, and one more."""
    asked = (*file.prepare.known, *(file.prepare.predicted or ()))
    last = max((one for one in asked if isinstance(one, int)), default=0)
    return ("x", *(one for one in asked if isinstance(one, str)), *(f"x{k}" for k in range(last)))


def _some_classes(file: PlanFile) -> tuple[str, ...] | None:
    origin = file.origin
    if isinstance(origin, Files) and origin.label is None:
        return None
    named = isinstance(origin, Files) and origin.classes != "auto"
    if file.algorithm == NORMAL_PLAN and not named:
        return stand_in_classes(file.learn)
    if isinstance(origin, Files):
        return ("a", "b") if origin.classes == "auto" else tuple(map(str, origin.classes))
    return None if file.source == "narma" else ("a", "b")


def refuse_one_class(classes: tuple[str, ...] | None) -> None:
    """Raise ValueError if there is one class: every model would be right.

    >>> refuse_one_class(("walk",))
    Traceback (most recent call last):
    ValueError: every label is 'walk', and one class is nothing to tell apart; ...
    """
    if classes is not None and len(classes) < 2:
        raise ValueError(
            f"every label is {classes[0]!r}, and one class is nothing to tell apart; add files of "
            'another class, or name another column, label = "..." in [data]'
        )
