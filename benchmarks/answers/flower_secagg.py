"""Flower's SecAgg+ in one process: its workflow, its client mod and a grid that calls clients.

Only the transport is ours. Clipping, quantization, masks, shares and the sum are Flower's own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import (
    arrayrecord_to_parameters,
    parameters_to_arrayrecord,
)
from flwr.server import LegacyContext
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from catchment import Array

SHARES, THRESHOLD = 5, 3


def secagg_average(
    vectors: Sequence[Array], weights: Sequence[int], **settings: Any
) -> tuple[Array, list[str]]:
    """Return the weighted average by SecAgg+, and the warnings that were logged.

    Parameters
    ----------
    vectors
        (L,) numbers of each client.
    weights
        How many examples each client says it has.
    settings
        Those of `SecAggPlusWorkflow`, as it comes if there are none.
    """
    n_clients, said = len(vectors), Said()
    grid = InProcess(vectors, weights)
    strategy = FedAvg(min_fit_clients=n_clients, min_available_clients=n_clients)
    context = LegacyContext(Context(1, 0, {}, RecordDict(), {}), strategy=strategy)
    for node in grid.get_node_ids():
        context.client_manager.register(GridClientProxy(node, grid, 1))
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({"current_round": 1})
    start = parameters_to_arrayrecord(ndarrays_to_parameters([np.zeros(len(vectors[0]))]), True)
    context.state.array_records[MAIN_PARAMS_RECORD] = start
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(said)
    try:
        SecAggPlusWorkflow(SHARES, THRESHOLD, **settings)(grid, context)
    finally:
        logger.removeHandler(said)
        logger.setLevel(level)
    record = context.state.array_records[MAIN_PARAMS_RECORD]
    (found,) = parameters_to_ndarrays(arrayrecord_to_parameters(record, True))
    return found, said.lines


class Holder(NumPyClient):
    """A client that has its numbers already."""

    def __init__(self, vector: Array, weight: int) -> None:
        self.vector, self.weight = vector, weight

    def fit(self, parameters: Any, config: Any) -> tuple[list[Array], int, dict[str, Any]]:
        return [self.vector], self.weight, {}


class InProcess(Grid):
    """A grid that calls the client app of each node, one after the other."""

    def __init__(self, vectors: Sequence[Array], weights: Sequence[int]) -> None:
        self.contexts = {
            k + 1: Context(1, k + 1, {}, RecordDict(), {}) for k in range(len(vectors))
        }

        def client(context: Context) -> Any:
            k = context.node_id - 1
            return Holder(vectors[k], weights[k]).to_client()

        self.app = ClientApp(client_fn=client, mods=[secaggplus_mod])

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return [self.app(deepcopy(m), self.contexts[m.metadata.dst_node_id]) for m in messages]

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    def create_message(self, *args: Any, **settings: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError


class Said(logging.Handler):
    """Keeps each warning about numbers once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "fit_metrics_aggregation_fn" not in line and line not in self.lines:
            self.lines.append(line)
