"""The anomaly study: scores by hand and by the publishers' own figures, choices, exactness."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score
from typer.testing import CliRunner

from catchment import EchoState, Plan, Recording, federate
from catchment.errors import MissingDataError
from catchment.federation.learn import FederatedAnomalyDetector
from catchment.readout import Counts
from reproductions.__main__ import app
from reproductions.anomaly_detectors import Rows, pooled_difference, scored
from reproductions.anomaly_maps import SKAB_FAMILIES, exponential
from reproductions.anomaly_nab import against_last, first_of_segment
from reproductions.anomaly_published import NAB_FINAL, on_these_files
from reproductions.anomaly_scoring import (
    PROFILES,
    auroc,
    best_threshold,
    f1,
    nab_score,
    worth,
)
from reproductions.anomaly_scoring import Rows as Counted
from reproductions.anomaly_skab import scaled, skab_scores, trailing
from reproductions.anomaly_tables import markdown
from reproductions.anomaly_values import Figures, difference, figures, load_anomaly
from reproductions.data.anomalies import Series, load_nab, load_skab, probation

ROOT = Path(__file__).parents[4]
RNG = np.random.default_rng(0)
STANDARD = PROFILES["standard"]


def series(n: int, windows: tuple[tuple[int, int], ...], n_train: int = 0) -> Series:
    times = np.datetime64("2020-01-01") + np.arange(n).astype("timedelta64[m]")
    return Series("a", np.zeros((n, 1)), times, windows, n_train)


def alarmed(n: int, *steps: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    alarms = np.zeros(n, dtype=bool)
    alarms[list(steps)] = True
    return alarms


def by_hand(y: float) -> float:
    return 2 / (1 + math.exp(5 * y)) - 1


def test_nab_scores_alarms_as_computed_by_hand() -> None:
    one = series(20, ((4, 7),), n_train=2)
    # Steps 0 and 1 are probation; 3 is before any window; 6 is the earliest inside, at -(7-6+1)/4;
    # 9 is 2 steps after the end of a window of 4, whose width counts one less.
    raw = worth(one, STANDARD).total(alarmed(20, 0, 3, 6, 7, 9)[2:], STANDARD)
    expected = -0.11 + by_hand(-0.5) / by_hand(-1.0) + 0.11 * by_hand(2 / 3)
    assert raw == pytest.approx(expected, rel=1e-12)
    far = worth(one, STANDARD).total(alarmed(20, 19)[2:], STANDARD)
    assert far == pytest.approx(-1.0 - 0.11, rel=1e-12)  # missed, and 4 widths behind


@pytest.mark.parametrize("profile", PROFILES.values())
def test_no_alarm_is_0_and_first_rows_of_windows_are_100(profile: tuple[float, ...]) -> None:
    corpus = [series(40, ((10, 14), (30, 33)), 5), series(25, ((12, 20),), 3)]
    none = [alarmed(40), alarmed(25)]
    perfect = [alarmed(40, 10, 30), alarmed(25, 12)]
    assert nab_score(corpus, none, profile) == pytest.approx(0.0)  # type: ignore[arg-type]
    assert nab_score(corpus, perfect, profile) == pytest.approx(100.0)  # type: ignore[arg-type]


def test_the_best_threshold_is_the_best_of_all() -> None:
    corpus = [series(60, ((20, 25), (45, 50)), 9), series(50, ((30, 34),), 7)]
    scores = [RNG.integers(0, 12, len(one.u)).astype(float) for one in corpus]
    best = best_threshold(corpus, scores, STANDARD)
    tried = [nab_score(corpus, [s >= t for s in scores], STANDARD) for t in range(14)]
    assert best.score == pytest.approx(max(tried))


# Published with a threshold of 1 after rounding to twelve digits: windowedGaussian_standard_scores.
PUBLISHED = {
    "realTraffic/speed_7578": 3.47059145681,
    "realTraffic/speed_t4013": 1.76631783122,
}


@pytest.fixture(scope="module")
def corpus() -> dict[str, Series]:
    try:
        return {one.name: one for one in load_nab()}
    except MissingDataError:
        pytest.skip("NAB is not on this machine")


def test_the_windowed_gaussian_has_the_score_that_nab_published(
    corpus: dict[str, Series],
) -> None:
    for name, published in PUBLISHED.items():
        x = corpus[name].u[:, 0]
        tail = np.zeros(len(x))
        for t in range(1, len(x)):
            deviation = float(x[:t].std()) or 1e-6
            away = abs(x[t] - x[:t].mean()) / deviation
            tail[t] = 1 - 0.5 * math.erfc(away / math.sqrt(2))
        alarms = (np.round(tail, 12) >= 1.0)[corpus[name].n_train :]
        raw = worth(corpus[name], STANDARD).total(alarms, STANDARD)
        assert raw == pytest.approx(published, abs=1e-9)


def test_rows_are_counted_as_scikit_learn_does() -> None:
    label, scores = RNG.random(200) > 0.6, RNG.integers(0, 9, 200).astype(float)
    counts = np.array(Counted.of(label, scores > 4))
    assert float(f1(counts)) == pytest.approx(f1_score(label, scores > 4))
    assert auroc(label, scores) == pytest.approx(roc_auc_score(label, scores))


def test_scores_are_changed_as_computed_plainly() -> None:
    scores = RNG.random(80)
    first, against, mean = (
        first_of_segment(scores, 7),
        against_last(scores, 7),
        trailing(scores, 7),
    )
    for t in range(80):
        before = scores[max(0, t - 7) : t]
        largest = before.max() if t else 0.0
        assert first[t] == (scores[t] if scores[t] > largest else 0.0)
        assert against[t] == (scores[t] / largest if t else 0.0)
        assert mean[t] == pytest.approx(scores[max(0, t - 6) : t + 1].mean())


def test_exponential_means_follow_their_recursion() -> None:
    u = RNG.normal(size=(30, 2))
    m = u[0]
    for t, found in enumerate(exponential(u, 0.1)):
        m = m if t == 0 else 0.9 * m + 0.1 * u[t]
        np.testing.assert_allclose(found, m, atol=1e-12)


def test_federated_scores_are_those_of_pooled_rows() -> None:
    mix = RNG.normal(size=(5, 5))
    clients = [Rows(RNG.normal(size=(90, 5)) @ mix + k, 10, 60) for k in range(4)]
    assert pooled_difference(clients, 0.05) < 1e-9
    stacked = np.concatenate([one.train for one in clients[1:]])
    z = (clients[0].z - stacked.mean(axis=0)) / stacked.std(axis=0)
    shrunk = 0.95 * np.corrcoef(stacked.T) + 0.05 * np.eye(5)
    expected = np.einsum("nf,fg,ng->n", z, np.linalg.inv(shrunk), z) / 5
    np.testing.assert_allclose(scored(clients, "left out", 0.05)[0].scores, expected, rtol=1e-9)


def test_the_library_has_the_federated_scores_of_the_study() -> None:
    try:
        runs = load_skab()[:5]
    except MissingDataError:
        pytest.skip("SKAB is not on this machine")
    option = SKAB_FAMILIES["reservoir"][1]
    found, _ = skab_scores(runs, option, "federated", 0, 0.1)
    inputs = scaled(runs, own=False)
    described = EchoState(100, leak_rate=0.1, input_scaling=0.5, bias=False, washout=option.washout)
    algorithm = FederatedAnomalyDetector(
        features=described.build(8, per_step=True), shrinkage=0.1, standardize=True, calibration=0
    )
    clients = {one.name: [Recording(u[: one.n_train])] for one, u in zip(runs, inputs, strict=True)}
    detector = federate(Plan(algorithm=algorithm, rounds=2), clients).result
    for u, one in zip(inputs, found, strict=True):
        np.testing.assert_allclose(
            -detector.score_samples(u), one.scores[option.washout :], rtol=1e-9
        )
    # Without rows held out, which the study has of its own.
    learned = [
        one.scores[option.washout : run.n_train] for one, run in zip(found, runs, strict=True)
    ]
    calm = Counts.of(np.concatenate(learned), algorithm.edges)
    assert detector.threshold == calm.conformal(0.99)[0]


def test_the_guide_says_what_was_measured() -> None:
    result = load_anomaly(ROOT / "results" / "anomaly.json")

    def skab(family: str, learner: str, what: str = "rows") -> Figures:
        return figures(result.of("skab", family, learner), what)

    def share(value: float) -> str:
        return f"{100 * value:.0f} %"

    alone, together = skab("inputs", "local"), skab("inputs", "federated")
    own = {c.family for c in result.cells if (c.data, c.learner) == ("skab", "local")}
    alone_best = max(skab(family, "local").f1 for family in own)
    assert alone_best == skab("forecast errors, lags", "local").f1
    _, low, high = difference(
        result.of("skab", "inputs", "federated"), result.of("skab", "inputs", "local")
    )
    assert low < 0 < high
    later = [
        share(skab("inputs", learner, "plain").false_positive_rate)
        for learner in ("federated", "left out", "local")
    ]
    nab = [cell for cell in result.cells if cell.data == "nab" and cell.learner != "-"]
    tried = {(cell.family, cell.learner) for cell in nab}
    honest = max(
        np.mean([c.figures["other files, standard"] for c in result.of("nab", *key)])
        for key in tried
    )
    best = max(map(on_these_files, NAB_FINAL))
    claims = [
        f"own mean has F1 {skab('reservoir', 'personal').f1:.3f}",
        f"trained locally on inputs, F1 is {alone.f1:.3f}; the always-alarm baseline has "
        f"{skab('always alarmed', '-').f1:.3f}",
        f"best local model, forecast errors of lags, has {alone_best:.3f}",
        f"federated, have {skab('trailing means', 'federated').f1:.3f}, as good as a federated "
        f"reservoir with {skab('reservoir', 'federated').f1:.3f}",
        f"not significant: false alarms fall from {share(alone.false_positive_rate)} to "
        f"{share(together.false_positive_rate)}, missed rows rise from {share(alone.missed)} to "
        f"{share(together.missed)}",
        f"{later[0]} of later normal rows exceed the federated threshold ({later[1]} for a run "
        f"that did not train), and {later[2]} exceed a local one",
        f"{honest:.1f} against {best:.1f}",
    ]
    guide = " ".join((ROOT / "docs/guides/anomalies.md").read_text(encoding="utf-8").split())
    assert [claim for claim in claims if claim not in guide] == []
    page = (ROOT / "results" / "anomaly.md").read_text(encoding="utf-8")
    assert page == markdown(result)


def test_sets_are_read_as_their_readmes_say(corpus: dict[str, Series]) -> None:
    assert (len(corpus), sum(len(one.windows) for one in corpus.values())) == (24, 66)
    assert probation(4000) == 600
    try:
        runs = load_skab()
    except MissingDataError:
        pytest.skip("SKAB is not on this machine")
    assert (len(runs), sum(len(one.u) for one in runs)) == (16, 18160)
    assert all(len(one.windows) == 1 and one.u.shape[1] == 8 for one in runs)


def test_a_quick_run_says_first_and_last_that_it_means_nothing(tmp_path: Path) -> None:
    try:
        load_skab()
    except MissingDataError:
        pytest.skip("SKAB is not on this machine")
    arguments = ["anomaly", "--quick", "--sets", "skab", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "anomaly-quick.md").read_text()
    assert page.count("mean nothing") == 2
    assert "always alarmed" in page
