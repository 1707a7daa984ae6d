"""Metrics as Prometheus's own parser reads them, and what is said where the library is missing."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import pytest

from catchment.federation import read_run
from catchment_lab.watch import look, watching
from tests.watch.runs import run_in
from tests.watch.test_server import ask


def test_prometheus_reads_them(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    folder = tmp_path / "run"
    run_in(folder, lambda: None, rounds=3, rude='ann "x"', noisy=True)
    with watching(folder) as server:
        status, headers, content = ask(server, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(content.decode())
        for sample in family.samples
    }
    run = read_run(folder)
    records = run.rounds["training"]
    stage = ("stage", "training")
    assert found[("catchment_rounds_total", stage)] == 3
    assert found[("catchment_bytes_up_total", stage)] == sum(one.bytes_up for one in records)
    assert found[("catchment_bytes_down_total", stage)] == sum(one.bytes_down for one in records)
    assert found[("catchment_clients_refused_total", ("code", "no-answer"))] == 3
    assert found[("catchment_clients_asked",)] == found[("catchment_clients_used",)] == 2
    assert found[("catchment_epsilon", ("delta", "1e-05"), stage, ("unit", "client"))] == 2.0
    for metric, value in run.scores[""].items():
        assert found[("catchment_score", ("metric", metric))] == value
    norm = ("name", "weight norm")
    assert found[("catchment_figure", norm, stage)] == records[-1].figures["weight norm"]
    assert (found[("catchment_up",)], found[("catchment_finished",)]) == (0, 1)
    assert found[("catchment_state", ("catchment_state", "finished"))] == 1
    assert not any("ann" in str(key) for key in found)


def test_of_a_run_that_has_not_begun(tmp_path: Path) -> None:
    metrics = pytest.importorskip("catchment_lab.watch.metrics")
    content = metrics.exposition(look(tmp_path / "none")).decode()
    assert "catchment_up 0.0\n" in content
    assert 'catchment_state{catchment_state="waiting"} 1.0' in content


def test_without_the_library_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "catchment_lab.watch.metrics", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with watching(tmp_path / "run") as server:
        status, _, content = ask(server, "/metrics")
        assert (status, ask(server, "/")[0]) == (501, 200)
    assert b'pip install "catchment[lab]"' in content
