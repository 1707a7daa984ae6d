"""Names that files and messages keep.

A class or a setting may get a better name; what was written under the older one must stay readable,
and a fingerprint must stay what it was. So models, messages and plans' fingerprints keep the name
of the first release, and these tables are the one place that knows both.

>>> KEPT.get("standardize"), TODAY.get("standardise")
('standardise', 'standardize')
"""

import re
from collections.abc import Mapping
from typing import Any

CLASSES = {
    "AppendNorm": "WithNorm",
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
}
# Maps, as plan files name them.
MAPS = {
    "append_norm": "with_norm",
    "feature_union": "concat",
    "random_fourier_features": "random_fourier",
    "random_projection": "projected",
}
RIDGES = {"leave-one-client-out": "clients", "leave-one-group-out": "groups"}
SETTINGS = {
    "feature_bits": "feature_grid",
    "false_positive_rate": "false_alarms",
    "preprocessing": "prepare",
    "optimizer": "optimiser",
    "standardize": "standardise",
    "store_per_client": "keep_clients",
}
KEPT = CLASSES | MAPS | RIDGES | SETTINGS
KEPT |= {"client_fraction": "share", "standardized": "standardised"}
# Settings of maps and reservoirs only: `bits` is also one of what is rounded on its way.
KEPT_SETTINGS = KEPT | {"bits": "grid", "range": "input_range"}
# Settings that are gone, and what was meant where they were not set: as fingerprints have them.
GONE: Mapping[str, Mapping[str, Any]] = {
    "FederatedRidge": {"per_output": False, "forgetting": 1.0, "window": None},
    "Candidates": {"halvings": 0, "per_output": False},
    "BalancedRidge": {"per_output": False},
}
TODAY = {old: new for new, old in KEPT_SETTINGS.items()}
# Words that plans had in the first release: keys of a table or of any, and values.
OLD_WORDS = {
    **{f".{old}": new for new, old in SETTINGS.items()},
    **{f"map={old}": new for new, old in MAPS.items()},
    **{f"ridge={old}": new for new, old in RIDGES.items()},
    **dict.fromkeys(("features.grid", "maps.grid", "of.grid", "candidates.grid"), "bits"),
    ".input_range": "range",
    ".protect": "protections",
    "run.share": "client_fraction",
    "algorithm=normal": "anomaly",
    "name=secure_sum": "secure_aggregation",
    "name=smallest": "low_rank",
    "name=rounded": "stochastic_quantization",
    "head=gaussian": "lda",
    "head=unit": "cosine",
    "name=gaussian": "lda",
    "name=unit": "cosine",
    "baselines=random": "uniform",
    "baselines=majority": "most_frequent",
    "baselines=centralised": "centralized",
    "baselines=personalised": "personalized",
}
# The other way round: a plan's fingerprint is what it was.
FIRST_WORDS = {
    re.sub(r"[^.=]+$", new, old): re.split("[.=]", old)[1] for old, new in OLD_WORDS.items()
}


def today(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts under the names of today; for `json.loads(text, object_hook=today)`.

    >>> today({"share": 0.5, "seed": 1})
    {'client_fraction': 0.5, 'seed': 1}
    """
    found = {TODAY.get(name, name): value for name, value in facts.items()}
    if isinstance(found.get("ridge"), str):
        found["ridge"] = TODAY.get(found["ridge"], found["ridge"])
    if "devices" in found:
        found["deterministic"] = found.pop("devices") == "same"
    return found


def renamed_tables(
    tables: Mapping[str, object], words: Mapping[str, str] = OLD_WORDS
) -> dict[str, Any]:
    """Return a plan's tables in the words of today, as plans of the first release have others.

    >>> renamed_tables({"protect": [{"name": "secure_sum", "min_clients": 3}]})
    {'protections': [{'name': 'secure_aggregation', 'min_clients': 3}]}
    """

    def word(path: str, value: object) -> Any:
        match value:
            case Mapping():
                keys = {key: words.get(f"{path}.{key}", words.get(f".{key}", key)) for key in value}
                return {keys[key]: word(key, one) for key, one in value.items()}
            case list():
                return [word(path, one) for one in value]
            case str():
                return words.get(f"{path}={value}", value)
        return value

    found: dict[str, Any] = word("", tables)
    return found
