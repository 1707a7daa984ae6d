"""The last message of a training: the model goes back to those who trained it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catchment.engine.local import run_locally
from catchment.federation.delivery import Delivery, InMemory, sha256_of
from catchment.federation.messages import Record
from catchment.federation.plan import Plan
from catchment.readout.model import Model
from catchment.readout.storage import to_bytes


def sent_back(model: Model, clients: Mapping[str, Any]) -> tuple[Record, ...]:
    """Return the record of the round in which every client is sent the trained model.

    Parameters
    ----------
    model
        As it is written to a file: the recipe of its features and its readout.
    """
    content = to_bytes(model)
    delivery = Delivery(sha256=sha256_of(content), place=InMemory(content), content=content)
    return run_locally(Plan(algorithm=delivery), clients).records
