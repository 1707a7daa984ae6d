"""Names that files and messages keep.

A class or a setting may get a better name; what was written under the older one must stay readable,
and a fingerprint must stay what it was. So models, messages and plans' fingerprints keep the name
of the first release, and this table is the one place that knows both.
"""

from typing import Any

KEPT = {
    # classes
    "AppendNorm": "WithNorm",
    "ContributionBound": "InfluenceCap",
    "CosineHead": "Unit",
    "DetectorState": "NormalState",
    "Dummy": "Guess",
    "FeatureUnion": "Concat",
    "FederatedAnomalyDetector": "FederatedNormal",
    "LDA": "Gaussian",
    "LowRankUpload": "SmallestUpload",
    "MahalanobisDetector": "NormalModel",
    "Preprocessing": "Prepare",
    "RandomFourierFeatures": "RandomFourier",
    "RandomProjection": "Projected",
    "RecordLevel": "PerSequence",
    "SecureAggregation": "SecureSum",
    "ServerOptimizer": "ServerOptimiser",
    "StochasticQuantization": "RoundedUpload",
    # maps, as plan files name them
    "append_norm": "with_norm",
    "feature_union": "concat",
    "random_fourier_features": "random_fourier",
    "random_projection": "projected",
    # settings
    "client_fraction": "share",
    "false_positive_rate": "false_alarms",
    "preprocessing": "prepare",
    "standardize": "standardise",
    "standardized": "standardised",
    "store_per_client": "keep_clients",
}
_NEW = {old: new for new, old in KEPT.items()}


def kept(name: str) -> str:
    """Return a name as files and messages have it.

    >>> kept("standardize"), kept("seed")
    ('standardise', 'seed')
    """
    return KEPT.get(name, name)


def today(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts under the names of today; for `json.loads(text, object_hook=today)`.

    >>> today({"share": 0.5, "seed": 1})
    {'client_fraction': 0.5, 'seed': 1}
    """
    return {renamed(name): value for name, value in facts.items()}


def renamed(name: str) -> str:
    """Return the name of today for one that a file or a message has.

    >>> renamed("standardise"), renamed("seed")
    ('standardize', 'seed')
    """
    return _NEW.get(name, name)
