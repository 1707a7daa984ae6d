"""A ridge classifier as C by m2cgen and by emlearn, for `benchmarks.edge_peers`.

It runs by their interpreter and imports nothing of catchment: rows and labels come in a file, and
the C, scikit-learn's weights and its scores of the tested rows go into a folder.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import emlearn
import m2cgen
import numpy as np
import sklearn
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPRegressor


def as_network(ridge: Any, X: Any) -> Any:
    """Return the same sums as a network, which is all that emlearn has for them.

    It must have a hidden layer: the sums are that layer, and the outputs copy it.
    """
    K = len(ridge.intercept_)
    network = MLPRegressor(hidden_layer_sizes=(K,), activation="identity", max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged: its numbers are replaced
        network.fit(X, np.zeros((len(X), K)))
    network.coefs_ = [ridge.coef_.T.copy(), np.eye(K)]
    network.intercepts_ = [ridge.intercept_.copy(), np.zeros(K)]
    return network


def main(rows: str, place: str) -> None:
    folder = Path(place).resolve()
    with np.load(rows) as held:
        X, y, tested = held["X"], held["y"], held["tested"]
    ridge = RidgeClassifier(alpha=1.0).fit(X, y)
    (folder / "m2cgen_model.c").write_text(m2cgen.export_to_c(ridge))
    os.chdir(folder)  # emlearn compiles in a folder `tmp` of the one it is started in
    made = emlearn.convert(as_network(ridge, X), method="loadable", return_type="regressor")
    made.save(file=str(folder / "emlearn_model.h"), name="emlearn_model")
    np.savez(
        folder / "scikit.npz",
        weights=ridge.coef_.T,
        intercept=ridge.intercept_,
        scores=ridge.decision_function(tested),
    )
    versions = {module.__name__: module.__version__ for module in (m2cgen, emlearn, sklearn)}
    told = {"versions": versions, "include": str(emlearn.includedir)}
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
