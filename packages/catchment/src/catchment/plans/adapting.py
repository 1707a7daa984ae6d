"""Plans whose model adapts without labels, and plans in which some clients have none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catchment.readout.adapt import described, refuse_adapting
from catchment.readout.model import Model

if TYPE_CHECKING:
    from catchment.plans.data import About
    from catchment.plans.file import PlanFile
    from catchment.readout.predictor import Predictor


NOT_ASKED = "this model could adapt to a new person: adapt = true in [run]"


def on_adapting(file: PlanFile, about: About, model: Predictor) -> str:
    """Return what a model carries to adapt with, or that it could; nothing where it cannot."""
    if file.run.adapt:
        return described(model) if isinstance(model, Model) else ""
    try:
        check_adapting(replace(file, run=replace(file.run, adapt=True)), about.classes)
    except ValueError:
        return ""
    return NOT_ASKED


def check_adapting(file: PlanFile, classes: tuple[str, ...] | None) -> None:
    """Raise ValueError if the training leaves no sums, or rows without labels no names."""
    ridge = file.algorithm in ("ridge", "candidates")
    if file.run.adapt:
        another = not ridge or "head" in file.learn
        refuse_adapting(classes, noisy=file.is_noisy, another=another)
        if file.carries:
            raise ValueError('adapt is of one training; leave it out with increments = "new"')
    if not file.origin.some_labels:
        return
    several = bool(file.candidates) or file.map_name == "auto"
    asks = file.is_secret and file.learn.get("ridge") == "leave-one-client-out"
    if not ridge or several or asks or file.is_noisy or file.run.rounds is not None:
        raise ValueError(
            'labels = "some" is for a ridge on one map, without gaussian_noise, with the rounds '
            'that it needs, and with secure_aggregation for ridge = "gcv" or a number; leave out '
            "what is at odds"
        )
