"""The attacks of an audit."""

from __future__ import annotations

import numpy as np

from catchment.features.echo_state import ACTIVATIONS
from catchment.plugins import installed
from catchment_lab.audit import inputs, prompts
from catchment_lab.audit import membership_and_labels as people
from catchment_lab.audit.outcomes import Outcome, Trial
from catchment_lab.audit.simulated_views import World


def _always(world: World) -> bool:
    return True


def _states_per_step(world: World) -> bool:
    return world.setting.features.per_step and world.drive.features.state


def _pooled(world: World) -> bool:
    return not world.setting.features.per_step


def _adaptive(world: World) -> bool:
    if not world.setting.plasticity or "fedip" not in installed("plasticity"):
        return False
    layer = world.drive.features.reservoir.layers[0]
    known = {ACTIVATIONS.index("tanh"), ACTIVATIONS.index("sigmoid")}
    return set(np.unique(layer.activation).tolist()) <= known


def _asking(world: World) -> bool:
    features = world.drive.features
    known = features.segments == 1 and features.washout < world.setting.steps
    return world.setting.bottleneck > 0 and features.state and known


TRIALS = (
    Trial(
        "sequences",
        "the inputs that a client recorded",
        0.1,
        _states_per_step,
        inputs.sequences_of_upload,
        inputs.sequences_of_sum,
        inputs.sequences_of_noise,
        of_reservoirs=True,
    ),
    Trial(
        "windows",
        "one raw window, from its pooled features",
        0.5,
        _pooled,
        inputs.tried(inputs.window_of_upload),
        inputs.tried(inputs.window_of_sum),
        inputs.tried(inputs.window_of_noise),
        of_reservoirs=True,
    ),
    Trial(
        "labels",
        "what a client's targets are",
        0.5,
        _always,
        people.labels_of_upload,
        people.labels_of_sum,
        people.labels_of_noise,
    ),
    Trial(
        "difference",
        "what is new, from two releases",
        0.5,
        _always,
        inputs.difference,
        inputs.difference_of_sums,
        inputs.difference_of_noise,
        ruled=Outcome(
            0.0,
            "refused",
            "a client's own ledger refuses a second exact release of data that have changed, or "
            "in a sum with other clients",
        ),
    ),
    Trial(
        "membership",
        "whether somebody's data were used",
        0.8,
        _always,
        people.membership_of_upload,
        people.membership_of_sum,
        people.membership_of_noise,
    ),
    Trial(
        "plasticity",
        "the input behind one step of plasticity",
        0.5,
        _adaptive,
        inputs.plasticity_of_upload,
        inputs.plasticity_of_sum,
        inputs.plasticity_of_noise,
        has_rows=False,
        of_reservoirs=True,
    ),
    Trial(
        "prompts",
        "the signal behind one prompt for a language model",
        0.5,
        _asking,
        prompts.prompt_in_the_clear,
        prompts.prompt_beside_a_sum,
        prompts.prompt_with_noise,
        has_rows=False,
        of_reservoirs=True,
    ),
)
