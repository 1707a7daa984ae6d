"""Means and variances of clients' features, from what a run has kept or from recordings."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from catchment.data import Recording
from catchment.errors import CatchmentError
from catchment.federation.learn import FederatedRidge
from catchment.federation.runs import TRAINING, Run, described, last_state
from catchment.readout import Model, RidgeStatistics, unpack
from catchment_lab.diagnose.shift import RowMoments
from catchment_lab.diagnose.trials import unheard

MOST_PIECES = 300  # prepared recordings of one person, evenly spread


def kept_moments(run: Run, model: Model) -> dict[str, RowMoments]:
    """Return the moments of each client whose statistics the run kept; nobody is asked again.

    Parameters
    ----------
    model
        The run's, or one with its map.
    """
    try:
        ridge = described(run).rebuilt(model)
        if not isinstance(ridge, FederatedRidge):
            return {}
        state = ridge.load_state(last_state(run.folder, TRAINING))
    except CatchmentError:
        return {}
    return {
        name: of_statistics(one) for name, one in state.by_client.items() if one.floats.weight > 0
    }


def of_statistics(statistics: RidgeStatistics) -> RowMoments:
    """Return the moments of the rows behind some statistics.

    >>> z = np.array([[1.0], [3.0]])
    >>> of_statistics(RidgeStatistics.from_states(z, z)).variance
    array([1.])
    """
    sums = statistics.floats
    mean = sums.feature_sum / sums.weight
    squares = np.diag(unpack(sums.gram)) / sums.weight
    return RowMoments(sums.n_rows, mean, np.maximum(squares - mean**2, 0.0))


def moments_of(model: Model, recordings: Sequence[Recording]) -> RowMoments:
    """Return the moments of the features of some of one person's raw recordings."""
    with unheard():
        pieces = model.prepare.inputs(recordings)
        places = np.linspace(0, len(pieces) - 1, min(MOST_PIECES, len(pieces))).round().astype(int)
        rows = model.features.rows([pieces[k].u for k in np.unique(places)])
    return RowMoments.of(np.concatenate(rows))


def channel_names(model: Model) -> list[str]:
    """Return the names of the features, with those of channels for their numbers."""
    channels = model.channels or ()

    def named(match: re.Match[str]) -> str:
        k = int(match.group(1))
        return channels[k] if k < len(channels) else match.group(0)

    return [re.sub(r"(?<![A-Za-z0-9])u(\d+)", named, name) for name in model.features.names()]
