"""Other classifiers on the very rows of the default map, all training people's in one place.

    python -m reproductions.map_pooled --out results

writes maps_pooled.json, which `python -m reproductions maps` puts into its tables: scikit-learn's
logistic regression, extra trees and gradient boosting on the 510 columns whose ridge is the row
"default, 510", with the same folds and every person scaled alone. How strongly logistic regression
is held back, a third of the training people decide; trees have scikit-learn's settings. Cells
that the file has already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers
from catchment.features import DefaultMap
from reproductions.map_sets import PEOPLE, folded, people_folds
from reproductions.map_values import MapCell, cell_of
from reproductions.maps import ClientRows, Prepared, rows_of

STRENGTHS = (0.003, 0.03, 0.3)
LOGISTIC = "logistic regression on the default's columns, pooled"
TREES = "extra trees on the default's columns, pooled"
BOOSTED = "gradient boosting on the default's columns, pooled"
READOUTS = (LOGISTIC, TREES, BOOSTED)
FILE = "maps_pooled.json"


def classifier(method: str, strength: float = 1.0) -> Any:
    """Return scikit-learn's classifier, not fitted."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if method == LOGISTIC:
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=150))
    if method == TREES:
        return ExtraTreesClassifier(300, random_state=0)
    return HistGradientBoostingClassifier(random_state=0)


def pooled_cell(prepared: Prepared, rows: dict[str, ClientRows], method: str) -> MapCell:
    """Return what a classifier on all training people's rows says of every test person."""
    data = prepared.data
    said: dict[str, Integers] = {}
    chosen, begun = [], time.process_time()
    for fold, tested in enumerate(data.folds):
        training = data.training(fold)
        strength = _strength(rows, training) if method == LOGISTIC else 1.0
        model = classifier(method, strength).fit(*_together(rows, training))
        said |= {name: np.asarray(model.predict(rows[name].z)) for name in tested}
        chosen.append(f"C {strength:g}" if method == LOGISTIC else "as it comes")
    return MapCell(
        set=data.name,
        method=method,
        seed=0,
        **prepared.outcome(said),
        columns=next(iter(rows.values())).z.shape[1],
        server_seconds=(time.process_time() - begun) / len(data.folds),
        chosen=tuple(chosen),
    )


def _together(rows: dict[str, ClientRows], people: Sequence[str]) -> tuple[Array, Integers]:
    z = np.concatenate([rows[name].z for name in people])
    return z, np.concatenate([rows[name].label for name in people])


def _strength(rows: dict[str, ClientRows], training: Sequence[str]) -> float:
    right = dict.fromkeys(STRENGTHS, 0)
    for left in people_folds(training, 3)[:1]:
        z, label = _together(rows, [name for name in training if name not in left])
        for strength in STRENGTHS:
            model = classifier(LOGISTIC, strength).fit(z, label)
            own, true = _together(rows, left)
            right[strength] += int((model.predict(own) == true).sum())
    return max(STRENGTHS, key=right.__getitem__)


def main() -> None:
    """Compute the cells that the file does not have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--sets", default=",".join(PEOPLE))
    parser.add_argument("--methods", default=";".join(READOUTS))
    given = parser.parse_args()
    path = given.out / FILE
    cells = [cell_of(one) for one in json.loads(path.read_text())] if path.is_file() else []
    for method in given.methods.split(";"):
        for name in given.sets.split(","):
            if any((one.set, one.method) == (name, method) for one in cells):
                continue
            prepared = Prepared.of(folded(name))
            features = DefaultMap().build(prepared.n_inputs, per_step=False, classes=True)
            cells.append(pooled_cell(prepared, rows_of(features, prepared), method))
            print(f"{name}, {method}: {cells[-1].accuracy:.4f}", flush=True)
            kept = [{k: v for k, v in asdict(one).items() if v == v} for one in cells]
            path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
