"""Which upload a federation takes, that it says why, and that no result depends on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import EchoState, Recording, federate
from catchment.data import synthetic_wearables
from catchment.federation import messages_of, read_run
from catchment.federation.learn import FederatedRidge
from catchment.plans import parse_plan, run_plan
from catchment.privacy import SecureAggregation
from catchment_research.learn import ConjugateGradients

MAP = EchoState(50, seed=1)


def users(n_users: int = 5, windows: int = 24) -> dict[str, list[Recording]]:
    return synthetic_wearables(n_users=n_users, windows_per_user=windows, steps=30)


def test_the_cheapest_upload_has_the_digest_and_the_model_of_plain_statistics() -> None:
    plain, auto = (federate(MAP, users(), upload=upload) for upload in ("statistics", "auto"))
    assert auto.statistics.digest() == plain.statistics.digest()
    assert auto.model.readout.weights.tobytes() == plain.model.readout.weights.tobytes()
    assert auto.records[0].bytes_up < plain.records[0].bytes_up


def test_where_statistics_are_smaller_the_messages_are_what_they_were(tmp_path: Path) -> None:
    """More rows than features: the same bytes, message by message."""
    few = EchoState(5, seed=1)
    sent = []
    for upload in ("statistics", "auto"):
        federate(few, users(windows=60), upload=upload, out=tmp_path / upload)
        kept = messages_of(tmp_path / upload)
        sent.append({one.client: one.sha256 for one in kept if one.stage == "training"})
    assert sent[0] == sent[1]


def test_a_run_says_in_one_sentence_which_upload_was_taken_and_why() -> None:
    run = federate(MAP, users(), upload="auto")
    assert run.upload.endswith("in the smaller of two forms that say exactly the same")
    assert run.upload in run.explain()
    assert federate(MAP, users()).upload == "clients send statistics"


def test_gradients_end_in_the_readout_of_statistics() -> None:
    exact = federate(MAP, users(), ridge=2.0, upload="statistics").model.readout
    run = federate(MAP, users(), ridge=2.0, upload=ConjugateGradients)
    distance = np.linalg.norm(run.model.readout.weights - exact.weights)
    assert distance < 1e-9 * np.linalg.norm(exact.weights)
    assert len(run.records) > 2
    chosen = federate(MAP, users(n_users=8), upload=ConjugateGradients)
    assert isinstance(chosen.training.plan.algorithm, ConjugateGradients)
    assert chosen.training.plan.algorithm.ridge == "folds"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"upload": "least"}, "upload is 'least'; give 'auto', 'statistics' or 'autocovariances'"),
        (
            {"protections": [SecureAggregation({"a": "00" * 32})], "ridge": "leave-one-group-out"},
            "pass ridge='leave-one-client-out'",
        ),
        ({"upload": ConjugateGradients, "row_stride": 2}, "use upload='statistics'"),
    ],
)
def test_uploads_that_cannot_be_are_refused_at_once(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        federate(MAP, users(), **settings)


def test_features_in_floating_point_are_sent_as_statistics() -> None:
    plain = EchoState(50, seed=1, bits=None)
    run = federate(plain, users(), upload="auto")
    assert run.records[0].bytes_up == federate(plain, users()).records[0].bytes_up
    assert isinstance(run.training.plan.algorithm, FederatedRidge)


PLAN = """
[data]
source = "wearables"
users = 6
windows_per_user = 20
[features]
units = 40
[learn]
algorithm = "ridge"
{}
"""


def test_a_plan_file_chooses_its_upload_too(tmp_path: Any) -> None:
    facts = []
    for k, said in enumerate(('upload = "auto"', "")):
        run_plan(parse_plan(PLAN.format(said)), tmp_path / str(k))
        facts.append(read_run(tmp_path / str(k)).facts["upload"])
    assert "the smaller of two forms" in facts[0]
    assert facts[1] == "clients send statistics"
    with pytest.raises(ValueError, match="upload in"):
        parse_plan(PLAN.format('upload = "least"'))


def test_the_figures_of_the_guide_are_those_of_the_benchmark() -> None:
    root = Path(__file__).parents[5]
    measured = (root / "benchmarks" / "results" / "uploads.md").read_text(encoding="utf-8")
    guide = (root / "docs" / "guides" / "uploads.md").read_text(encoding="utf-8")
    shown = [line for line in guide.splitlines() if line.startswith(("| reservoir", "| MiniRo"))]
    assert len(shown) == 8
    assert set(shown) <= set(measured.splitlines())
    rows = json.loads((root / "benchmarks" / "results" / "uploads.json").read_text())["rows"]
    assert all(row["same digest"] and row["distance of gradients"] < 1e-9 for row in rows)
