"""The papers' ranges of hyper-parameters.

IncFed counts connections from 1 to 60 without saying of what: `reproductions.connectivity` has the
readings. FedIP's learning rate of .01 with targets of .005 to .15 diverges under the corrected
rule; `catchment.search.space` draws it relative to target_std^2 instead.
"""

from __future__ import annotations

from dataclasses import replace

from catchment.search.space import PlasticitySpace, Space

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
