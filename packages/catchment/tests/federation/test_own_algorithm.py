"""An algorithm of one's own: four methods and a dataclass of what clients send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from catchment import Array
from catchment.data import Recording
from catchment.engine import run_locally
from catchment.errors import FederationError, RuleError, TooFewClientsError
from catchment.federation import (
    Algorithm,
    Data,
    Plan,
    Requirements,
    RoundContext,
    RunFolder,
    read_run,
    run,
)
from catchment.federation.runs import in_words
from catchment.privacy import Clip, GaussianNoise, SecureAggregation, generate_keys
from catchment.privacy.secure_aggregation import check_rows
from catchment.wire import WEIGHT, Message
from examples.own.federated_pca import Axes, FederatedPCA, Products


def people(n: int = 4) -> dict[str, list[Recording]]:
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(5, 5))
    return {f"p{k}": [Recording(rng.normal(size=(30 + 5 * k, 5)) @ mixing + k)] for k in range(n)}


def same_axes(ours: Axes, clients: dict[str, list[Recording]]) -> None:
    rows = np.concatenate([r.u for held in clients.values() for r in held])
    theirs = PCA(n_components=2, svd_solver="full").fit(rows)
    np.testing.assert_allclose(ours.mean, theirs.mean_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.variances, theirs.explained_variance_, rtol=1e-10)
    signs = np.sign((ours.components * theirs.components_).sum(axis=1))
    aligned = ours.components * signs[:, None]
    np.testing.assert_allclose(aligned, theirs.components_, rtol=0, atol=1e-10)


def test_federated_pca_is_that_of_scikit_learn_on_pooled_rows() -> None:
    run = run_locally(Plan(algorithm=FederatedPCA()), people())
    same_axes(run.result, people())
    assert run.records[0].n_used == 4


def test_it_is_the_same_hidden_under_secure_aggregation() -> None:
    identities = generate_keys(people())
    memories = identities.memories
    masking = SecureAggregation(identities=identities, min_clients=3, rows_per_feature=5)
    plan = Plan(algorithm=FederatedPCA(), protections=(masking,))
    same_axes(run_locally(plan, people(), memories=memories).result, people())


def test_the_rule_on_rows_holds_for_it_too_because_its_fields_say_what_they_count() -> None:
    with pytest.raises(RuleError, match="too few rows for 5 features"):
        check_rows(Products(2, np.zeros(5), np.zeros((5, 5))), rows_per_feature=20, min_clients=3)
    identities = generate_keys(people())
    memories = identities.memories
    masking = SecureAggregation(identities=identities, min_clients=3, rows_per_feature=100)
    plan = Plan(algorithm=FederatedPCA(), protections=(masking,))
    with pytest.raises(TooFewClientsError, match="rows for 5 features"):
        run_locally(plan, people(), memories=memories)


def test_it_is_saved_and_goes_on_from_where_it_stopped(tmp_path: Path) -> None:
    plan = Plan(algorithm=FederatedPCA(), rounds=2)

    class StoppedError(Exception):
        pass

    def stop(round_: int, done: int, asked: int) -> None:
        if round_ == 1:
            raise StoppedError

    with RunFolder(tmp_path) as store, pytest.raises(StoppedError):
        run_locally(plan, people(), keeper=store.keeper("training", plan), watch=stop)
    with RunFolder(tmp_path, resume=True) as store:
        keeper = store.keeper("training", plan)
        resumed = keeper.resume()
        assert resumed is not None
        assert len(resumed[1]) == 1
        run = run_locally(plan, people(), keeper=keeper)
    same_axes(run.result, people())
    text = in_words(read_run(tmp_path), [])
    assert "training: products" in text
    assert "assume that all of it can be read" in text


def test_a_client_whose_sums_have_another_shape_or_are_not_finite_is_left_out() -> None:
    clients = people()
    clients["zz"] = [Recording(np.zeros((9, 4)))]
    clients["yy"] = [Recording(np.full((9, 5), np.nan))]
    run = run_locally(Plan(algorithm=FederatedPCA()), clients)
    assert {r.client: r.code for r in run.records[0].refused} == {
        "yy": "not-finite",
        "zz": "shape",
    }
    same_axes(run.result, people())


def test_what_makes_no_model_says_so_and_what_to_do() -> None:
    run = run_locally(Plan(algorithm=FederatedPCA()), people())
    with pytest.raises(FederationError, match=r"makes no single model but a Axes; use \.result"):
        _ = run.model


def test_what_is_not_said_is_asked_for() -> None:
    class Silent(Algorithm[Any, Any, Any]):
        def start(self) -> None:
            return None

        def client_update(self, received, data, context):  # type: ignore[no-untyped-def]
            return Products(1, np.zeros(1), np.zeros((1, 1)))

        def server_update(self, state, total, context):  # type: ignore[no-untyped-def]
            return total

        def result(self, state):  # type: ignore[no-untyped-def]
            return state

    assert Silent().requirements == Requirements()
    assert Silent().figures(None) == {}
    with pytest.raises(TypeError, match="annotate it with the dataclass that clients send"):
        Silent().read_update(Message("products"), RoundContext(0, ()))


def test_what_has_the_methods_but_not_the_base_is_told_which_base_to_take() -> None:
    class Alike:
        start = client_update = server_update = result = on_client = clients = ask = None

    other: Any = Alike()
    refused: dict[str, Callable[[], object]] = {
        "Algorithm": lambda: Plan(algorithm=other),
        "Protection": lambda: Plan(algorithm=FederatedPCA(), protections=(other,)),
        "Engine": lambda: run(Plan(algorithm=FederatedPCA()), other),
    }
    for base, asked in refused.items():
        with pytest.raises(TypeError, match=rf"Alike is no {base}; write `class Alike\({base}\)`"):
            asked()


@dataclass(frozen=True)
class Weighed:
    """A mean of one's own, to be."""

    levels: Array
    weight: Annotated[float, WEIGHT]


@dataclass(frozen=True)
class MeanLevel(Algorithm[Weighed | None, Weighed, Array]):
    """The mean input of all clients."""

    def start(self) -> Weighed | None:
        return None

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Weighed:
        u = np.concatenate([recording.u for recording in data()])
        return Weighed(u.sum(axis=0), float(len(u)))

    def server_update(
        self, state: Weighed | None, total: Weighed, context: RoundContext
    ) -> Weighed:
        return total

    def result(self, state: Weighed | None) -> Array:
        assert state is not None
        levels: Array = state.levels / state.weight
        return levels


def test_noise_can_be_added_to_a_mean_of_ones_own_because_it_says_what_its_weight_is() -> None:
    noise = GaussianNoise(
        epsilon=1e4, delta=1e-5, clip=Clip(bound=1e3), min_clients=4, small_cohort=True
    )
    noisy = run_locally(Plan(algorithm=MeanLevel(), protections=(noise,)), people()).result
    means = [np.concatenate([r.u for r in held]).mean(axis=0) for held in people().values()]
    np.testing.assert_allclose(noisy, np.mean(means, axis=0), atol=6 * noise.spread / 4)
    with pytest.raises(TooFewClientsError, match="not for 'products'"):
        run_locally(Plan(algorithm=FederatedPCA(), protections=(noise,)), people())
