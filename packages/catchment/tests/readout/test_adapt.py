"""Laws of adapting without labels: the rule, and that sums, ranks and files do not change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Recording, federate, fit, load
from catchment.arrays import Array, Integers
from catchment.data import synthetic_wearables
from catchment.privacy import Clip, GaussianNoise
from catchment.readout import (
    LDA,
    Model,
    OnlineAdaptation,
    Readout,
    RidgeStatistics,
    SelfTraining,
    adaptable,
    described,
    scale_of,
    self_train,
    solve_readout,
    to_bytes,
)

Rows = tuple[Array, Integers, Array]


def rows(n_features: int = 12, n_new: int = 30, seed: int = 0) -> Rows:
    """Return training rows with labels, and a new person's rows, which lie a little elsewhere."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(3, n_features))
    label = rng.integers(3, size=200)
    z = centers[label] + rng.normal(size=(200, n_features))
    own = centers[rng.integers(3, size=n_new)] + 0.5 + rng.normal(size=(n_new, n_features))
    return z, label, own


def trained(z: Array, label: Integers, ridge: float = 3.0) -> tuple[RidgeStatistics, Readout]:
    s = RidgeStatistics.from_states(z, np.eye(3)[label])
    return s, solve_readout(s, ridge, scale=np.asarray(z.std(axis=0)))


def by_hand(z: Array, label: Integers, new: Array, rule: SelfTraining, ridge: float) -> Array:
    """Return the scores (n, 3) that the rule of the module's docstring gives, with scikit-learn.

    Training rows weigh 1, kept rows what their class leaves each of them; all rows are pooled.
    """
    scale, n = z.std(axis=0), len(z)
    fitted = Ridge(alpha=ridge).fit(z / scale, np.eye(3)[label])
    for _ in range(rule.iterations):
        scores = fitted.predict(new / scale)
        ordered = np.sort(scores, axis=1)
        margin, named = ordered[:, -1] - ordered[:, -2], scores.argmax(axis=1)
        kept, weight = [], []
        for one in range(3):
            own = [k for k in np.argsort(-margin, kind="stable") if named[k] == one]
            clear = own[: int(np.ceil(rule.share * len(own)))]
            kept += clear
            each = min(rule.most, rule.weight * (n / 3) / max(len(clear), 1))
            weight += [each * min(1.0, len(new) / rule.enough)] * len(clear)
        X = np.vstack([z, new[kept]]) / scale
        Y = np.eye(3)[np.concatenate([label, named[kept]])]
        w = np.concatenate([np.ones(n), np.round(np.array(weight) * 1024) / 1024])
        fitted = Ridge(alpha=ridge).fit(X, Y, sample_weight=w)
    return np.asarray(fitted.predict(new / scale))


@pytest.mark.parametrize("n_new", [5, 12, 60], ids=["rank below", "as many", "solved anew"])
@pytest.mark.parametrize(
    "rule",
    [
        SelfTraining(renamed=0),
        SelfTraining(share=0.5, weight=0.4, most=3.0, enough=10, renamed=0),
    ],
)
def test_equals_ridge_on_all_rows_with_the_kept_ones_weighted(
    n_new: int, rule: SelfTraining
) -> None:
    z, label, new = rows(n_new=n_new)
    s, readout = trained(z, label)
    found = self_train(s, readout, new, rule, standardize=True)
    np.testing.assert_allclose(found.readout(new), by_hand(z, label, new, rule, 3.0), atol=1e-7)


def test_with_fewer_rows_renamed_than_the_gate_asks_the_readout_is_the_same_object() -> None:
    z, label, new = rows(n_new=60)
    s, readout = trained(z, label)
    rule = SelfTraining(weight=0.4, most=1e9, enough=10, renamed=0)
    by_rule = by_hand(z, label, new, rule, 3.0).argmax(axis=1)
    n = int((by_rule != readout(new).argmax(axis=1)).sum())
    assert n > 1
    for renamed, stays in ((n, False), (n + 1, True)):
        found = self_train(s, readout, new, replace(rule, renamed=renamed), standardize=True)
        assert (found.readout is readout) == stays
        assert found.n_renamed == (0 if stays else n)
        assert (len(found.kept) == 0) == stays
        expected = readout(new).argmax(axis=1) if stays else by_rule
        np.testing.assert_array_equal(found.after, expected)


def test_no_rows_leave_the_readout_as_it_is_to_the_bit() -> None:
    z, label, new = rows()
    s, readout = trained(z, label)
    found = self_train(s, readout, new[:0], standardize=True)
    assert found.readout is readout
    assert len(found.kept) == found.n_renamed == 0


def test_own_outputs_teach_nothing() -> None:
    # Why rows are kept by their margin, and why nothing like it exists for numbers.
    z, label, new = rows()
    s, readout = trained(z, label)
    own = RidgeStatistics.from_states(new, readout(new), weight=np.full(len(new), 5.0))
    again = solve_readout(s + own, 3.0, scale=np.asarray(z.std(axis=0)))
    np.testing.assert_allclose(again.weights, readout.weights, atol=1e-10)
    np.testing.assert_allclose(again.intercept, readout.intercept, atol=1e-10)


def test_a_class_that_comes_all_day_weighs_no_more_than_one_that_came_once() -> None:
    rule = SelfTraining(share=0.7, most=1e9, enough=94)
    scores = np.eye(3)[[0] * 90 + [1] * 3 + [2]] * 1.0
    kept, label, weight = rule.kept(scores, 1000.0)
    each = [weight[label == one].sum() / 1024 for one in range(3)]
    np.testing.assert_allclose(each, 100.0, rtol=1e-3)
    assert len(kept) == 63 + 3 + 1
    few = SelfTraining(most=20.0, enough=94).kept(scores, 1000.0)
    assert few[2][few[1] == 2].tolist() == [20 * 1024]
    half = SelfTraining(most=20.0, enough=2 * 94).kept(scores, 1000.0)
    assert half[2][half[1] == 2].tolist() == [10 * 1024]


def test_order_of_rows_does_not_matter() -> None:
    z, label, new = rows()
    s, readout = trained(z, label)
    turned = np.random.default_rng(1).permutation(len(new))
    one = self_train(s, readout, new, standardize=True)
    other = self_train(s, readout, new[turned], standardize=True)
    np.testing.assert_allclose(one.readout.weights, other.readout.weights, atol=1e-9)


@pytest.fixture(scope="module")
def people() -> dict[str, list[Recording]]:
    return synthetic_wearables(6, 0, windows_per_user=40)


@pytest.fixture(scope="module")
def model(people: dict[str, list[Recording]]) -> Model:
    others = {name: own for name, own in people.items() if name != "user-000"}
    return federate("default", others, adaptable=True).model


def test_a_model_adapts_without_looking_at_targets(
    model: Model, people: dict[str, list[Recording]]
) -> None:
    own = people["user-000"]
    blind = [replace(one, y=None, classes=None) for one in own]
    rule = SelfTraining(renamed=0)
    made = model.adapt(blind, rule)
    assert to_bytes(made) == to_bytes(model.adapt(own, rule))
    assert not np.array_equal(made.readout.weights, model.readout.weights)


def test_in_fixed_point_the_readout_is_that_of_integers(
    model: Model, people: dict[str, list[Recording]]
) -> None:
    sums = model.statistics
    assert sums is not None
    assert sums.fixed is not None
    z = np.concatenate(model.pipeline.rows(people["user-000"]))
    rule = SelfTraining(share=1.0, weight=0.1, enough=1, iterations=1, renamed=0)
    found = self_train(sums, model.readout, z, rule, standardize=True)
    # By hand: every row counts, in 1/1024 of a training row.
    label = model.readout(z).argmax(axis=1)
    per_class = 0.1 * sums.weight / len(model.classes or ())
    weight = np.rint(1024 * np.minimum(20.0, per_class / np.bincount(label)[label]))
    y = np.eye(len(model.classes or ()))[label]
    name = sums.fingerprint
    own = RidgeStatistics.from_states(z, y, weight=weight, fingerprint=name, fixed=sums.fixed)
    total, ridge = sums.scaled(1024) + own, 1024 * model.readout.ridge
    expected = solve_readout(total, ridge, scale=scale_of(sums, True))
    np.testing.assert_array_equal(found.readout.weights, expected.weights)
    np.testing.assert_array_equal(found.label, label)


def test_the_sums_travel_in_the_file_and_nothing_else_changes(
    model: Model, people: dict[str, list[Recording]], tmp_path: Path
) -> None:
    assert model.statistics is not None
    own = people["user-000"]
    same = load(model.save(tmp_path / "model.safetensors"))
    assert isinstance(same, Model)
    assert same.adaptable
    assert same.statistics == model.statistics
    assert to_bytes(same.adapt(own)) == to_bytes(model.adapt(own))
    bare = replace(model, statistics=None, adaptable=False)
    sums = len(model.statistics.parts().to_bytes())
    assert 0 < len(to_bytes(model)) - len(to_bytes(bare)) - sums < 400
    # Kept as before where nobody asked for it: eight bytes a number.
    assert len(to_bytes(replace(model, adaptable=False))) > 1.5 * len(to_bytes(model))
    assert f"{sums:,} bytes" in described(model)


def test_adapting_again_begins_with_the_same_sums(
    model: Model, people: dict[str, list[Recording]]
) -> None:
    own = people["user-000"]
    once = model.adapt(own[:10])
    assert once.statistics is model.statistics
    assert once.adapt(own).predict(own[0]) in (model.classes or ())


def test_online_is_adapting_to_the_rows_that_count(
    model: Model, people: dict[str, list[Recording]]
) -> None:
    own = people["user-000"]
    online = OnlineAdaptation(base=model, length=15)
    assert online.model is model
    for one in own[:20]:
        online = online.update([one])
    expected = model.adapt(own[5:20])
    np.testing.assert_array_equal(online.model.readout.weights, expected.readout.weights)


def test_what_cannot_adapt_is_refused_in_a_sentence(
    model: Model, people: dict[str, list[Recording]]
) -> None:
    own, clients = people["user-000"], {"ann": people["user-001"], "bob": people["user-002"]}
    u = np.sin(np.arange(200) / 5)
    numbers = fit("default", [Recording(u[:-1], u[1:])])
    with pytest.raises(ValueError, match="predicts numbers, and its own outputs teach it nothing"):
        numbers.adapt([Recording(u)])
    with pytest.raises(ValueError, match="carries no sums to adapt with; train it with adaptable"):
        replace(model, statistics=None).adapt(own)
    with pytest.raises(ValueError, match="recording 0 has 1 channels"):
        model.adapt([Recording(u)])
    with pytest.raises(ValueError, match="only a ridge leaves the sums"):
        federate("default", clients, head=LDA(), adaptable=True)
    noise = GaussianNoise(epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0))
    with pytest.raises(ValueError, match="noise is to bound what the sums tell"):
        federate("default", clients, protections=[noise], adaptable=True)
    with pytest.raises(ValueError, match="numbers are predicted"):
        federate("default", {"ann": [Recording(u[:-1], u[1:])]}, adaptable=True)
    assert model.statistics is not None
    other = replace(model, readout=replace(model.readout, weights=1.01 * model.readout.weights))
    with pytest.raises(ValueError, match="was not solved from these sums by ridge regression"):
        adaptable(other, model.statistics)
