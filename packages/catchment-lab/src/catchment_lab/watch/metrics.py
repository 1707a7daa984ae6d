"""A run's figures in the text format of Prometheus, by its own client library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from catchment.errors import MissingExtraError
from catchment_lab.watch.state import FINISHED, RUNNING, SILENCE, Snapshot

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        InfoMetricFamily,
        Metric,
        StateSetMetricFamily,
    )
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtraError("lab", needed_for="metrics for Prometheus") from error

CONTENT_TYPE = CONTENT_TYPE_LATEST
STATES = ("waiting", "running", "silent", "stopped", "failed", "finished")


def exposition(snapshot: Snapshot) -> bytes:
    """Return a run's metrics as Prometheus reads them. No client is named in any of them.

    >>> from catchment_lab.watch.state import look
    >>> b"catchment_up 0.0" in exposition(look("no/such/run"))
    True
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(snapshot))
    return generate_latest(registry)


class _Collected(Collector):
    """Gives the metrics of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        one = self._snapshot
        yield from _state(one)
        yield from _traffic(one)
        yield from _clients(one)
        yield from _results(one)


def _state(one: Snapshot) -> Iterator[Metric]:
    up = one.state in (RUNNING, SILENCE)
    yield GaugeMetricFamily("catchment_up", "Whether a process carries the run on.", value=up)
    finished = one.state == FINISHED
    yield GaugeMetricFamily("catchment_finished", "Whether the run is finished.", value=finished)
    about = {name: (one.facts or {}).get(name, "") for name in ("title", "engine", "algorithm")}
    info = InfoMetricFamily("catchment_run", "The run's folder, title, engine and algorithm.")
    info.add_metric([], {"folder": one.folder, **about})
    yield info
    states = StateSetMetricFamily("catchment_state", "What the run is doing.")
    states.add_metric([], {name: name == one.state for name in STATES})
    yield states
    stage = GaugeMetricFamily("catchment_stage", "1 for the stage under way.", labels=["stage"])
    for known in one.stages:
        stage.add_metric([known.name], known.state == "now")
    yield stage
    seen = "Unix time of the run's last sign of life."
    yield GaugeMetricFamily("catchment_last_sign_timestamp_seconds", seen, value=one.seen)


def _traffic(one: Snapshot) -> Iterator[Metric]:
    yield _counted("catchment_rounds", "Finished rounds.", one.n_rounds)
    yield _counted("catchment_bytes_up", "Bytes that clients sent.", one.bytes_up)
    yield _counted("catchment_bytes_down", "Bytes that were sent to clients.", one.bytes_down)


def _counted(name: str, says: str, by_stage: Mapping[str, int] | None) -> Metric:
    family = CounterMetricFamily(name, says, labels=["stage"])
    for stage, value in (by_stage or {}).items():
        family.add_metric([stage], value)
    return family


def _clients(one: Snapshot) -> Iterator[Metric]:
    last = one.rounds[0] if one.rounds else None
    now = one.progress
    asked, used = (last.asked, last.used) if last else (0, 0)
    yield GaugeMetricFamily("catchment_clients_asked", "In the last finished round.", value=asked)
    yield GaugeMetricFamily("catchment_clients_used", "In the last finished round.", value=used)
    says = "Clients that are done with the round under way."
    yield GaugeMetricFamily("catchment_clients_done", says, value=now.done if now else 0)
    refused = CounterMetricFamily(
        "catchment_clients_refused", "Answers that were not used, by reason.", labels=["code"]
    )
    for code, count in (one.refused or {}).items():
        refused.add_metric([code], count)
    yield refused


def _results(one: Snapshot) -> Iterator[Metric]:
    epsilon = GaugeMetricFamily(
        "catchment_epsilon", "Spent by the rounds so far.", labels=["stage", "unit", "delta"]
    )
    for spent in one.spent:
        epsilon.add_metric([spent.stage, spent.unit, f"{spent.delta:g}"], spent.epsilon)
    yield epsilon
    score = GaugeMetricFamily("catchment_score", "Of all test rows together.", labels=["metric"])
    for metric, value in (one.scores or {}).items():
        if value is not None:
            score.add_metric([metric], value)
    yield score
    worst = GaugeMetricFamily("catchment_score_worst", "Of the worst client.", labels=["metric"])
    if one.worst is not None and one.worst[1] is not None:
        worst.add_metric([one.metric], one.worst[1])
    yield worst
    figure = GaugeMetricFamily(
        "catchment_figure", "After the last round of a stage.", labels=["stage", "name"]
    )
    last = {}
    for known in reversed(one.rounds):
        last[known.stage] = known.figures
    for stage, figures in last.items():
        for name, value in figures.items():
            if value is not None:
                figure.add_metric([stage, name], value)
    yield figure
