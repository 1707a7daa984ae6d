"""The papers' ranges of hyper-parameters.

IncFed counts connections from 1 to 60 without saying of what: `reproductions.connectivity` has the
readings. FedIP's learning rate of .01 with targets of .005 to .15 diverges in most readings of
its algorithm; beside them `FEDIP_WESAD` and `FEDIP_HHAR` have wider targets, and rates that are
relative to target_std^2.
"""

from __future__ import annotations

from dataclasses import replace

from catchment_lab.search import PlasticitySpace, Space

INCFED_WESAD = Space(units=(100, 250))
INCFED_HAR = Space(units=(100, 500))
FEDIP_WESAD = Space(
    units=(200, 300, 400),
    spectral_radius=(0.3, 0.99),
    input_scaling=(0.5, 1.0),
    leak_rate=(0.1, 0.8),
    connections=None,
    input_connections=None,
    plasticity=PlasticitySpace(),
)
FEDIP_HHAR = replace(FEDIP_WESAD, units=(100, 200, 300, 400, 500), leak_rate=(0.1, 0.5))
FEDIP_PAPER = PlasticitySpace(
    target_mean=(0.0, 0.0), target_std=(0.005, 0.15), learning_rate=0.01, epochs=(3, 5, 10)
)
# One update a batch is one where there would be hundreds: its rates are larger.
FEDIP_RELATIVE = (
    replace(FEDIP_PAPER, learning_rate=None),
    replace(FEDIP_PAPER, learning_rate=None, updates="batch", relative_rate=(0.02, 0.5)),
)
