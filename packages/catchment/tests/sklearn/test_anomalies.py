"""The detector of anomalies with scikit-learn's manners."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.covariance import OAS
from sklearn.utils.estimator_checks import parametrize_with_checks

from catchment.sklearn import AnomalyDetector, EchoStateFeatures

IN_ORDER = "without a pool the samples are the steps of one sequence, whose states depend on order"
BY_OTHERS = "the threshold is that of samples left out: training samples may all lie within it"
FAILED = {
    "check_outliers_fit_predict": BY_OTHERS,
    "check_outliers_train": BY_OTHERS,
    "check_methods_sample_order_invariance": IN_ORDER,
    "check_methods_subset_invariance": IN_ORDER,
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [AnomalyDetector(10)],
    expected_failed_checks=lambda _: FAILED,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_scores_are_those_of_scikit_learn_on_the_features() -> None:
    rng = np.random.default_rng(0)
    u = np.sin(np.arange(300) / 5)[:, None] + 0.1 * rng.normal(size=(300, 1))
    z = EchoStateFeatures(20).fit(u).transform(u)
    detector = AnomalyDetector(20, washout=0, false_positive_rate=0.05).fit(u)
    theirs = OAS().fit(z).mahalanobis(z) / z.shape[1]
    np.testing.assert_allclose(-detector.score_samples(u), theirs, rtol=1e-6)
    assert (detector.predict(u) == -1).mean() <= 0.05
    assert ((detector.decision_function(u) < 0) == (detector.predict(u) == -1)).all()
