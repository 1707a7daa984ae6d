"""The methods of analytic federated learning, each a plan, against its own formula written out.

The formulas are those of the papers, in numpy, on the rows of all clients or on each client's own:
AFL (He et al., CVPR 2025), FED3R (Fani et al., ICML 2024), RanPAC (McDonnell et al., NeurIPS 2023),
FedCGS (Guan et al., AAAI 2025). scikit-learn has the heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.linalg import inv
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid

import catchment as ct
from catchment import Array
from catchment.data import Recording
from catchment.errors import FederationError, SingularError
from catchment.features import FeatureMap, RandomFourierFeatures
from catchment.federation import Plan, Result, Rows
from catchment.federation.learn import FederatedRidge, RidgeState, Unlearned, unlearn
from catchment.federation.runs import unlearn_from_run
from catchment.plans import About, parse_plan
from catchment.privacy import Clip, GaussianNoise
from catchment.readout import LDA, CosineHead, Model, Readout, RidgeStatistics, load_model

CLASSES = ("sit", "walk", "run")
CLOSE = 1e-9


@dataclass(frozen=True)
class Moments(FeatureMap):
    """The mean and the spread of each of three channels: a small map of one's own."""

    bits: int | None = None
    n_features = 6
    bounds = np.full(6, 8.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.concatenate([u.mean(axis=0), u.std(axis=0)])[None] for u in inputs]


@dataclass(frozen=True)
class RandomProjection(FeatureMap):
    """Moments through a frozen random layer, then ReLU (RanPAC) or a cosine (FED3R-RF)."""

    width: int = 20
    activation: str = "relu"
    bounds = property(lambda self: np.full(self.n_features, 60.0))
    n_features = property(lambda self: self.width)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        rng = np.random.default_rng(11)
        W, b = rng.normal(size=(6, self.width)), rng.uniform(0, 2 * np.pi, self.width)
        z = np.concatenate(Moments().rows(inputs))
        if self.activation == "relu":
            return list(np.maximum(z @ W, 0.0)[:, None])
        return list((np.sqrt(2 / self.width) * np.cos(z @ W + b))[:, None])


def make_clients(
    names: str = "abcde",
    classes: tuple[str, ...] = CLASSES,
    only: Sequence[str] = (),
    n_rows: int = 50,
) -> dict[str, list[Recording]]:
    """Return clients with about 50 short recordings each, of classes in different proportions."""
    made = {}
    for name in names:
        rng = np.random.default_rng(ord(name))
        share = rng.dirichlet(np.ones(len(only or classes)))
        labels = rng.choice(list(only or classes), size=n_rows + ord(name) % 7, p=share)
        made[name] = [
            Recording.labeled(
                rng.normal(size=(12, 3)) * (1 + 0.3 * (len(str(label)) == 3))
                + 0.4 * np.cos(len(str(label)) + ord(str(label)[0]) + np.arange(3)),
                str(label),
                classes,
            )
            for label in labels
        ]
    return made


CLIENTS = make_clients()
MAP: FeatureMap = Moments()
WHOLE: FeatureMap = Moments(bits=12)


def rows_of(features: FeatureMap, clients: dict[str, list[Recording]]) -> list[tuple[Array, Array]]:
    return [Rows.of(features, clients[name]).pair for name in sorted(clients)]


def pooled(features: FeatureMap, clients: dict[str, list[Recording]]) -> tuple[Array, Array]:
    parts = rows_of(features, clients)
    return np.concatenate([z for z, _ in parts]), np.concatenate([y for _, y in parts])


def learned(
    features: FeatureMap = MAP, clients: dict[str, list[Recording]] = CLIENTS, **settings: Any
) -> Result[Any, Model]:
    settings = dict[str, Any](ridge=0.5, classes=CLASSES) | settings
    return ct.federate(
        Plan(algorithm=FederatedRidge(features=features, **settings)), clients, threads=1
    )


def forgotten(run: Result[Any, Any], client: str) -> Unlearned[RidgeState]:
    assert isinstance(run.plan.algorithm, FederatedRidge)
    return unlearn(run.plan.algorithm, run.state, client)


def solved(left: Unlearned[RidgeState]) -> tuple[RidgeStatistics, Readout]:
    assert left.state.total is not None
    assert left.state.readout is not None
    return left.state.total, left.state.readout


def close(one: ArrayLike, other: ArrayLike) -> bool:
    """Whether two results agree to 1e-9 of the larger one's largest entry."""
    a, b = np.asarray(one), np.asarray(other)
    return bool(np.abs(a - b).max() <= CLOSE * max(np.abs(b).max(), 1e-300))


def aggregated_by_afl(
    parts: Sequence[tuple[Array, Array]], temporary: float, ridge: float
) -> Array:
    """Return AFL's weights: local solutions joined pair by pair, the temporary ridge taken out.

    Client k sends W_k = R_k Z_k'Y_k and C_k = Z_k'Z_k + temporary I, with R_k = C_k^-1. The
    absolute aggregation law joins two of them, and in the end what was added is restored.
    """
    eye = np.eye(parts[0][0].shape[1])
    sent = [(inv(z.T @ z + temporary * eye) @ z.T @ y, z.T @ z + temporary * eye) for z, y in parts]
    W, C = sent[0]
    for W_k, C_k in sent[1:]:
        R, R_k, both = inv(C), inv(C_k), inv(C + C_k)
        W = (eye - R @ C_k + R @ C_k @ both @ C_k) @ W + (eye - R_k @ C + R_k @ C @ both @ C) @ W_k
        C = C + C_k
    return np.asarray(inv(C - (len(parts) * temporary - ridge) * eye) @ C @ W)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_afl_is_the_ridge_through_the_origin(ridge: float) -> None:
    run = learned(ridge=ridge, intercept=False)
    formula = aggregated_by_afl(rows_of(MAP, CLIENTS), temporary=1.0, ridge=ridge)
    assert close(run.model.readout.weights, formula)
    assert not run.model.readout.intercept.any()


def test_afl_does_not_depend_on_how_the_data_are_cut() -> None:
    everything = {"all": [r for name in sorted(CLIENTS) for r in CLIENTS[name]]}
    alone = learned(clients=everything, store_per_client=False, intercept=False)
    assert close(learned(intercept=False).model.readout.weights, alone.model.readout.weights)


def test_fed3r_is_the_ridge_with_weights_of_unit_length() -> None:
    A = np.zeros((6, 6))
    b = np.zeros((6, 3))
    for z, y in rows_of(MAP, CLIENTS):
        A, b = A + z.T @ z, b + z.T @ y
    W = inv(A + 0.01 * np.eye(6)) @ b
    run = learned(ridge=0.01, intercept=False, head=CosineHead())
    assert close(run.model.readout.weights, W / np.linalg.norm(W, axis=0))


@pytest.mark.parametrize("activation", ["relu", "cos"])
def test_a_random_layer_of_ones_own_is_a_map_like_any_other(activation: str) -> None:
    features = RandomProjection(activation=activation)
    z = np.concatenate(Moments().rows([r.u for name in sorted(CLIENTS) for r in CLIENTS[name]]))
    _, y = pooled(MAP, CLIENTS)
    rng = np.random.default_rng(11)
    projection, phase = rng.normal(size=(6, 20)), rng.uniform(0, 2 * np.pi, 20)
    if activation == "relu":
        h = np.maximum(z @ projection, 0.0)
    else:
        h = np.sqrt(2 / 20) * np.cos(z @ projection + phase)
    W = inv(h.T @ h + 2.0 * np.eye(20)) @ h.T @ y
    assert close(learned(features, ridge=2.0, intercept=False).model.readout.weights, W)


@dataclass(frozen=True)
class Given3(FeatureMap):
    """The mean of each channel as it is: a map through which a test can put any row."""

    n_features = 3
    bounds = np.full(3, 8.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [u.mean(axis=0)[None] for u in inputs]


def test_ranpac_is_the_ridge_on_rectified_random_features() -> None:
    layer = RandomFourierFeatures(Given3(), features=9, activation="relu", seed=3, bits=None)
    features = layer.build(3, per_step=False, classes=True)
    ones = [np.eye(3)[[k]] for k in range(3)]
    # max(0, w) - max(0, -w) = w: the frozen matrix, read off the map itself.
    R = np.concatenate(features.rows(ones)) - np.concatenate(features.rows([-u for u in ones]))
    z, y = pooled(Given3(), CLIENTS)
    h = np.maximum(np.round(z * 2**14) / 2**14 @ R, 0.0)  # what enters is rounded to 14 digits
    W = inv(h.T @ h + 2.0 * np.eye(9)) @ h.T @ y
    assert np.abs(R).min() > 0
    assert close(learned(features, ridge=2.0, intercept=False).model.readout.weights, W)


def test_fed3r_rf_is_the_ridge_on_random_cosines() -> None:
    described = RandomFourierFeatures(Given3(), features=15, scale=0.5, seed=3, bits=None)
    features = described.build(3, per_step=False, classes=True)
    h, y = pooled(features, CLIENTS)
    W = inv(h.T @ h + 0.5 * np.eye(15)) @ h.T @ y
    run = learned(features, intercept=False, head=CosineHead())
    assert close(run.model.readout.weights, W / np.linalg.norm(W, axis=0))


@pytest.mark.parametrize("gamma", [0.0, 0.05])
def test_fedcgs_is_a_gaussian_head_with_the_covariance_of_all_rows(gamma: float) -> None:
    n, A, B, sums = np.zeros(3), np.zeros(6), np.zeros((6, 6)), np.zeros((3, 6))
    for z, y in rows_of(MAP, CLIENTS):
        n, A, B, sums = n + y.sum(axis=0), A + z.sum(axis=0), B + z.T @ z, sums + y.T @ z
    N, mu = n.sum(), A / n.sum()
    cov = (B - np.outer(mu, A) - np.outer(A, mu) + N * np.outer(mu, mu)) / (N - 1)
    P = inv(cov + gamma * np.eye(6))
    means = sums / n[:, None]
    head = LDA(covariance="total", shrinkage=0.0, ridge=gamma)
    readout = learned(head=head).model.readout
    assert close(readout.weights, P @ means.T)
    bias = np.log(n / N) - 0.5 * np.einsum("kf,fg,kg->k", means, P, means)
    assert close(readout.intercept, bias)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2, 1.0])
def test_the_gaussian_head_is_linear_discriminant_analysis(shrinkage: float) -> None:
    z, y = pooled(MAP, CLIENTS)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage)
    oracle.fit(z, y.argmax(axis=1))
    model = learned(head=LDA(shrinkage=shrinkage)).model
    assert close(model.readout.weights.T, oracle.coef_)
    assert close(model.readout.intercept, oracle.intercept_)
    new = make_clients("z")["z"]
    z_new = np.concatenate(MAP.rows([r.u for r in new]))
    assert close(model.predict_proba(new), oracle.predict_proba(z_new))
    assert model.predict(new) == [CLASSES[k] for k in oracle.predict(z_new)]


def test_oas_shrinkage_comes_from_the_sums() -> None:
    z, y = pooled(MAP, CLIENTS)
    labels = y.argmax(axis=1)
    means = np.array([z[labels == k].mean(axis=0) for k in range(3)])
    centered = z - means[labels]
    cov = OAS(assume_centered=True).fit(centered).covariance_
    readout = learned(head=LDA()).model.readout
    assert close(readout.weights, np.linalg.solve(cov, means.T))


def test_full_shrinkage_with_equal_priors_is_the_nearest_class_mean() -> None:
    z, y = pooled(MAP, CLIENTS)
    oracle = NearestCentroid().fit(z, y.argmax(axis=1))
    model = learned(head=LDA(shrinkage=1.0, priors="equal")).model
    new = make_clients("uvwxyz")
    z_new, _ = pooled(MAP, new)
    said = [name for client in sorted(new) for name in model.predict(new[client])]
    assert said == [CLASSES[k] for k in oracle.predict(z_new)]


def test_a_gaussian_head_costs_no_byte_more_than_a_ridge() -> None:
    sent = [learned(head=head).records[0].bytes_up for head in (None, LDA(), CosineHead())]
    assert sent[0] == sent[1] == sent[2]


def test_a_head_survives_its_file(tmp_path: Path) -> None:
    model = learned(head=LDA()).model
    same = load_model(model.save(tmp_path / "lda.safetensors"), use=[Moments])
    new = make_clients("z")["z"]
    assert (same.predict_proba(new) == model.predict_proba(new)).all()
    scores = [ct.evaluate(one, make_clients("xyz")) for one in (same, model)]
    assert str(scores[0]) == str(scores[1])


def test_a_class_without_rows_is_never_predicted() -> None:
    seen = make_clients("abc", only=("sit", "walk"))
    model = learned(clients=seen, head=LDA()).model
    assert model.predict_proba(make_clients("z")["z"])[:, 2].max() == 0.0


def test_features_that_repeat_each_other_need_shrinkage() -> None:
    z, y = pooled(MAP, CLIENTS)
    twice = RidgeStatistics.from_states(np.hstack([z, z]), y)
    with pytest.raises(SingularError, match="pass shrinkage='oas'"):
        LDA(shrinkage=0.0).solve(twice)
    assert np.isfinite(LDA(shrinkage=0.1).solve(twice).weights).all()


HEADS: dict[str, dict[str, Any]] = {
    "afl": {"intercept": False},
    "fed3r": {"intercept": False, "head": CosineHead()},
    "fedcgs": {"head": LDA(covariance="total", shrinkage=0.0, ridge=0.01)},
    "lda": {"head": LDA()},
}


@pytest.mark.parametrize("name", HEADS)
def test_every_head_comes_from_secure_aggregation_to_the_bit(name: str) -> None:
    plain = learned(WHOLE, **HEADS[name])
    algorithm = FederatedRidge(
        features=WHOLE, ridge=0.5, classes=CLASSES, store_per_client=False, **HEADS[name]
    )
    keys = ct.generate_keys(CLIENTS)
    plan = Plan(algorithm=algorithm, protections=(ct.SecureAggregation(keys, min_clients=3),))
    hidden = ct.federate(plan, CLIENTS, threads=1)
    assert hidden.state.total is not None
    assert hidden.state.total.digest() == plain.state.total.digest()
    assert (hidden.model.readout.weights == plain.model.readout.weights).all()
    assert (hidden.model.readout.intercept == plain.model.readout.intercept).all()


@pytest.mark.parametrize("name", HEADS)
def test_every_head_forgets_a_client_to_the_bit(name: str) -> None:
    run = learned(WHOLE, **HEADS[name])
    without = forgotten(run, "c")
    others = {client: held for client, held in CLIENTS.items() if client != "c"}
    never = learned(WHOLE, others, **HEADS[name])
    assert without.certificate.how == "equality"
    total, readout = solved(without)
    assert total.digest() == never.state.total.digest()
    assert (readout.weights == never.model.readout.weights).all()
    assert (readout.intercept == never.model.readout.intercept).all()


FOUR = (*CLASSES, "swim")
LATER = make_clients("fg", classes=("swim", "run"))  # a class that nobody had before
RAW = ct.Pipeline(ct.Preprocessing(scale="none"), Moments(bits=12))


def test_a_new_class_is_a_column_that_joins_by_adding() -> None:
    first = ct.federate(RAW, CLIENTS, threads=1)
    grown = ct.federate(RAW, LATER, onto=first, threads=1)
    always = ct.federate(RAW, CLIENTS | LATER, classes=FOUR, threads=1)
    assert first.model.classes == CLASSES
    assert grown.model.classes == FOUR
    assert grown.statistics.digest() == always.statistics.digest()
    assert (grown.model.readout.weights == always.model.readout.weights).all()
    assert (grown.model.readout.intercept == always.model.readout.intercept).all()
    assert [record.n_used for record in grown.records] == [2]


def test_a_joined_sum_is_the_formula_of_all_rows() -> None:
    grown = ct.federate(RAW, LATER, onto=ct.federate(RAW, CLIENTS, threads=1), ridge=0.5, threads=1)
    placed = {n: [r.among(FOUR) for r in held] for n, held in (CLIENTS | LATER).items()}
    z, y = pooled(grown.model.features, placed)
    assert y.sum(axis=0).min() > 0
    zc, yc = z - z.mean(axis=0), y - y.mean(axis=0)
    W = np.linalg.solve(zc.T @ zc + 0.5 * np.eye(6), zc.T @ yc)
    assert close(grown.model.readout.weights, W)


def test_classes_in_another_order_join_where_they_belong() -> None:
    names = ("swim", "walk", "run", "sit")
    first = ct.federate(RAW, CLIENTS, threads=1)
    grown = ct.federate(RAW, LATER, onto=first, classes=names, threads=1)
    always = ct.federate(RAW, CLIENTS | LATER, classes=names, threads=1)
    assert grown.statistics.digest() == always.statistics.digest()


def test_a_client_that_joined_leaves_by_subtracting() -> None:
    first = ct.federate(RAW, CLIENTS, threads=1)
    grown = ct.federate(RAW, LATER, onto=first, threads=1)
    left = forgotten(grown.training, "g")
    rest = CLIENTS | {"f": LATER["f"]}
    never = ct.federate(RAW, rest, classes=FOUR, threads=1)
    total, readout = solved(left)
    assert total.digest() == never.statistics.digest()
    assert (readout.weights == never.model.readout.weights).all()


def test_secure_aggregation_joins_an_earlier_one() -> None:
    later = make_clients("fghi", classes=("swim", "run"))
    early, late = ct.generate_keys(CLIENTS), ct.generate_keys(later)
    first = ct.federate(
        RAW, CLIENTS, protections=[ct.SecureAggregation(early, min_clients=3)], ridge=0.5, threads=1
    )
    grown = ct.federate(
        RAW,
        later,
        protections=[ct.SecureAggregation(late, min_clients=3)],
        onto=first,
        ridge=0.5,
        threads=1,
    )
    always = ct.federate(RAW, CLIENTS | later, classes=FOUR, ridge=0.5, threads=1)
    assert grown.statistics.digest() == always.statistics.digest()
    assert (grown.model.readout.weights == always.model.readout.weights).all()


def test_a_scale_that_was_fitted_stays() -> None:
    scaled = ct.Pipeline(ct.Preprocessing(scale="federated"), Moments(bits=12))
    first = ct.federate(scaled, CLIENTS, threads=1)
    grown = ct.federate(scaled, LATER, onto=first, threads=1)
    fitted = ct.Pipeline(first.model.preprocessing, Moments(bits=12))
    always = ct.federate(fitted, CLIENTS | LATER, classes=FOUR, threads=1)
    assert grown.statistics.digest() == always.statistics.digest()


def test_another_head_needs_no_other_upload() -> None:
    ridge = ct.federate(RAW, CLIENTS, threads=1)
    gaussian = ct.federate(RAW, CLIENTS, head=LDA(), threads=1)
    again = LDA().solve(ridge.statistics)
    assert ridge.statistics.digest() == gaussian.statistics.digest()
    assert (again.weights == gaussian.model.readout.weights).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"what": ct.Pipeline(ct.Preprocessing(scale="none"), Moments(bits=11))},
            "another feature map",
        ),
        ({"clients": {"a": CLIENTS["a"]}}, "a client counts once"),
        ({"classes": ("swim", "run")}, "name all of the earlier ones"),
        ({"out": "somewhere"}, "save the model"),
    ],
)
def test_what_cannot_join_is_refused(changed: dict[str, Any], words: str) -> None:
    first = ct.federate(RAW, CLIENTS, threads=1)
    settings: dict[str, Any] = {"what": RAW, "clients": LATER} | changed
    with pytest.raises((ValueError, FederationError), match=words):
        ct.federate(settings.pop("what"), settings.pop("clients"), onto=first, **settings)


IN_A_PLAN = {
    "afl": 'algorithm = "ridge"\nridge = 0.5\nintercept = false',
    "fed3r": 'algorithm = "ridge"\nridge = 0.5\nintercept = false\nhead = "cosine"',
    "fedcgs": 'algorithm = "ridge"\n'
    'head = {name = "lda", covariance = "total", shrinkage = 0, ridge = 0.01}',
    "lda": 'algorithm = "ridge"\nhead = "lda"',
}


@pytest.mark.parametrize("name", IN_A_PLAN)
@pytest.mark.parametrize("hidden", [False, True])
def test_every_method_is_a_few_lines_of_a_plan(name: str, hidden: bool) -> None:
    text = f'[data]\nsource = "wearables"\n[learn]\n{IN_A_PLAN[name]}\n'
    file = parse_plan(text + ('[[protections]]\nname = "secure_aggregation"\n' if hidden else ""))
    algorithm = file.workflow(About(("x", "y", "z"), CLASSES), n_clients=5).learn((WHOLE,))
    assert isinstance(algorithm, FederatedRidge)
    run = ct.federate(Plan(algorithm=algorithm), CLIENTS, threads=1)
    meant = learned(WHOLE, **HEADS[name])
    assert algorithm.store_per_client is not hidden
    assert (run.model.readout.weights == meant.model.readout.weights).all()
    assert (run.model.readout.intercept == meant.model.readout.intercept).all()


def test_a_kept_run_with_a_gaussian_head_forgets_a_client(tmp_path: Path) -> None:
    run = ct.federate(RAW, CLIENTS, head=LDA(), out=tmp_path / "run", threads=1)
    found = unlearn_from_run(tmp_path / "run", "c", run.model)
    others = {client: held for client, held in CLIENTS.items() if client != "c"}
    never = ct.federate(RAW, others, head=LDA(), threads=1)
    assert found.certificate.how == "equality"
    new = make_clients("z")["z"]
    assert isinstance(found.model, Model)
    assert (found.model.predict_proba(new) == never.model.predict_proba(new)).all()


def test_a_head_for_classes_refuses_numbers_and_noise() -> None:
    with pytest.raises(ValueError, match="a head for classes"):
        FederatedRidge(features=MAP, head=LDA())
    private = FederatedRidge(
        features=MAP, classes=CLASSES, store_per_client=False, ridge=0.0, head=LDA()
    )
    noise = GaussianNoise(epsilon=1.0, delta=1e-5, clip=Clip(bound=1.0))
    with pytest.raises(ValueError, match="leave the head out"):
        Plan(algorithm=private, protections=(noise,))


def test_clients_with_numbers_join_too() -> None:
    rng = np.random.default_rng(5)
    clients = {
        name: [Recording(rng.normal(size=(9, 3)), np.array([float(k)])) for k in range(12)]
        for name in "abcdef"
    }
    early, late = ({name: clients[name] for name in names} for names in ("abcd", "ef"))
    grown = ct.federate(RAW, late, onto=ct.federate(RAW, early, threads=1), threads=1)
    always = ct.federate(RAW, clients, threads=1)
    assert grown.statistics.digest() == always.statistics.digest()
    assert (grown.model.readout.weights == always.model.readout.weights).all()
