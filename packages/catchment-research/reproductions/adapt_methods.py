"""What can be done for a new person with the two matrices of `reproductions.adapt`: scores and Q.

The published ideas that self-training is compared with, in the same space: entropy minimization of
the readout, class means estimated anew, label propagation, and labels that the person gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from catchment import Array, Integers
from catchment.readout import Readout, RidgeStatistics, SelfTraining, rescaled, scale_of

UNIT = 1024
LABELS = (1, 2, 5, 10, 20)
WINDOWS = (1, 2, 5, 10, 20, 50, 100, 200)
MINUTES = (1, 5)
SECONDS = {"uci_har": 2.56, "motionsense": 2.56, "hhar": 2.56, "wisdm_watch": 10.0}
DOMINANT = 0.9


@dataclass(frozen=True, eq=False)
class Person:
    """A person's windows as a readout sees them.

    Parameters
    ----------
    S0
        (n, K) scores.
    Q
        (n, n) how much what is learned of one window says of another, in units of training rows.
    X
        (n, F) features about the training mean and in its scale.
    centers
        (K, n) of each class mean of the training with each window, as Q; `norms` (K,) of the means.
    per_class
        Training rows of a mean class.
    """

    S0: Array
    Q: Array
    X: Array
    label: Integers
    centers: Array
    norms: Array
    per_class: float

    @classmethod
    def of(cls, total: RidgeStatistics, readout: Readout, z: Array, label: Integers) -> Person:
        scale = scale_of(total, True)
        assert scale is not None
        divided = rescaled(total, scale)
        G, _ = divided.moments()
        G[np.diag_indices_from(G)] += float(np.mean(readout.ridge))
        factor = cho_factor(G, lower=True)
        mean = divided.feature_sum / divided.weight
        X = z / scale - mean
        means = (divided.cross / divided.target_sum).T - mean
        half = cho_solve(factor, X.T)
        norms = np.einsum("kf,fk->k", means, cho_solve(factor, means.T))
        per_class = total.weight / total.n_targets
        Q = X @ half + 1.0 / total.weight
        return cls(readout(z), Q, X, label, means @ half, norms, per_class)

    def __len__(self) -> int:
        return len(self.S0)

    def right(self, scores: Array, rows: Integers | None = None) -> tuple[float, float]:
        """Return how many windows are right, and of how many."""
        rows = np.arange(len(self)) if rows is None else rows
        return float((scores[rows].argmax(1) == self.label[rows]).sum()), float(len(rows))

    def learned(self, rows: Integers, label: Integers, weight: Array) -> Array:
        """Return the scores (n, K) once some windows count as labeled."""
        system = self.Q[np.ix_(rows, rows)] + np.diag(1.0 / weight)
        left = np.eye(self.S0.shape[1])[label] - self.S0[rows]
        return self.S0 + self.Q[:, rows] @ cho_solve(cho_factor(system), left)

    def adapted(self, rule: SelfTraining, among: Integers | None = None) -> Array:
        """Return the scores (n, K) of all windows after a rule saw those `among` them."""
        rows = np.arange(len(self)) if among is None else among
        return self.gated(self.moved(rule, rows), rule, rows)

    def gated(self, scores: Array, rule: SelfTraining, rows: Integers) -> Array:
        """Return scores, or the first ones if too few of the rows are renamed."""
        renamed = (scores[rows].argmax(1) != self.S0[rows].argmax(1)).sum()
        return scores if renamed >= rule.renamed else self.S0

    def moved(self, rule: SelfTraining, rows: Integers) -> Array:
        """Return the scores (n, K) of all windows after a rule saw rows, however few change."""
        scores = self.S0
        for _ in range(rule.iterations):
            kept, label, weight = rule.kept(scores[rows], self.per_class)
            scores = self.learned(rows[kept], label, weight / UNIT)
        return scores

    def gain(self, scores: Array) -> float:
        """Return how many points of accuracy scores gain on the first ones, in hundreds."""
        return (self.right(scores)[0] - self.right(self.S0)[0]) / len(self)

    def gains(self, rules: Sequence[SelfTraining]) -> list[float]:
        """Return how many points of accuracy each rule gains, in hundreds."""
        rows, found, moved = np.arange(len(self)), list[float](), dict[SelfTraining, Array]()
        for rule in rules:
            alike = replace(rule, renamed=0)  # what differs in this alone is solved once
            if alike not in moved:
                moved[alike] = self.moved(rule, rows)
            found.append(self.gain(self.gated(moved[alike], rule, rows)))
        return found

    def first_form(self) -> Array:
        """Return the scores of the rule that this began with: half of a class, weight 5 a row."""
        scores, rule = self.S0, SelfTraining(share=0.5)
        for _ in range(5):
            kept, label, _ = rule.kept(scores, self.per_class)
            scores = self.learned(kept, label, np.full(len(kept), 5.0))
        return scores

    def split(self, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """Return two halves of the windows, drawn."""
        drawn = rng.permutation(len(self))
        return np.sort(drawn[: len(self) // 2]), drawn[len(self) // 2 :]


def entropy(person: Person, rate: float = 30.0, steps: int = 20, sharp: float = 0.2) -> Array:
    """Return scores after steps down the mean entropy, preconditioned as the ridge is."""
    scores = person.S0
    for _ in range(steps):
        p = softmax(scores / sharp, axis=1)
        log = np.log(np.maximum(p, 1e-12))
        H = -(p * log).sum(axis=1, keepdims=True)
        slope = -p * (log + H) / sharp / len(p)
        scores = scores - rate * person.Q @ slope
    return scores


def class_means(person: Person, share: float = 0.5, steps: int = 5) -> Array:
    """Return minus the squared distance to class means, moved to the person's own.

    Means are those of the training and of the windows that are nearest to them, each with a share.
    """
    K = len(person.centers)
    own = np.diag(person.Q)
    distance = own[:, None] - 2 * person.centers.T + person.norms
    start = person.S0.argmax(axis=1)
    label = start
    for _ in range(steps):
        for k in range(K):
            rows = np.flatnonzero(label == k)
            if not len(rows):
                continue
            cross = person.Q[:, rows].mean(axis=1)
            inner = person.Q[np.ix_(rows, rows)].mean()
            to = (1 - share) * person.centers[k] + share * cross
            norm = (1 - share) ** 2 * person.norms[k] + share**2 * inner
            norm += 2 * share * (1 - share) * person.centers[k][rows].mean()
            distance[:, k] = own - 2 * to + norm
        label = distance.argmin(axis=1)
    return -distance


def propagation(person: Person, neighbors: int = 10, alpha: float = 0.5) -> Array:
    """Return labels spread over a graph of nearest windows (Zhou et al. 2004)."""
    squares = (person.X**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares - 2 * person.X @ person.X.T, 0.0)
    np.fill_diagonal(apart, np.inf)
    k = min(neighbors, len(apart) - 1)
    near = np.argpartition(apart, k - 1, axis=1)[:, :k]
    reach = np.median(np.take_along_axis(apart, near, axis=1)) + 1e-12
    W = np.zeros_like(apart)
    rows = np.arange(len(W))[:, None]
    W[rows, near] = np.exp(-apart[rows, near] / reach)
    W = np.maximum(W, W.T)
    d = np.sqrt(W.sum(axis=1) + 1e-12)
    S = W / d[:, None] / d
    return np.linalg.solve(np.eye(len(S)) - alpha * S, softmax(person.S0 / 0.2, axis=1))


# By method: what it does, and the settings that training people left out choose from.
BASELINES: dict[str, tuple[Callable[..., Array], tuple[dict[str, float], ...]]] = {
    "entropy minimization": (
        entropy,
        tuple({"rate": r, "sharp": s} for r in (3.0, 10.0, 30.0, 100.0) for s in (0.1, 0.2)),
    ),
    "class means anew": (class_means, tuple({"share": s} for s in (0.1, 0.25, 0.5, 0.75))),
    "label propagation": (propagation, tuple({"alpha": a} for a in (0.3, 0.6, 0.9))),
}


def with_labels(
    person: Person, rule: SelfTraining, rng: np.random.Generator
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield what labels of k windows of each class do for all other windows, and no labels there.

    They weigh as the rule has its kept rows. Of a class at most half the windows are labeled.
    """
    order = rng.permutation(len(person))
    for k in LABELS:
        given: list[int] = []
        for one in np.unique(person.label):
            rows = order[person.label[order] == one]
            given += rows[: min(k, len(rows) // 2)].tolist()
        rows = np.array(sorted(given), dtype=np.intp)
        others = np.setdiff1d(np.arange(len(person)), rows)
        counts = np.bincount(person.label[rows])[person.label[rows]]
        weight = np.minimum(rule.most, rule.weight * person.per_class / counts)
        scores = person.learned(rows, person.label[rows], weight)
        yield f"{k} labels", person.right(scores, others)
        yield f"{k} labels: as trained", person.right(person.S0, others)
        yield f"{k} labels: adapted", person.right(person.adapted(rule), others)


def online(
    person: Person, own: Integers, others: Integers, rule: SelfTraining, seconds: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield what the first of other windows, in random order, do for windows never adapted to.

    A window lasts some seconds.
    """
    looked = {f"online: {n} windows": n for n in WINDOWS}
    looked |= {f"online: {m} minutes": round(60 * m / seconds) for m in MINUTES}
    for method, n in looked.items():
        seen = np.sort(others[:n])
        yield method, person.right(person.adapted(rule, among=seen), own)


def shifted(
    person: Person, rule: SelfTraining, rng: np.random.Generator
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield sums over classes: one is never done; one is done nearly all the time."""
    every = np.arange(len(person))
    found: dict[str, list[tuple[float, float]]] = {}
    for one in np.unique(person.label):
        own, others = every[person.label == one], every[person.label != one]
        scores = person.adapted(rule, among=others)
        found.setdefault("missing: the others", []).append(person.right(scores, others))
        found.setdefault("missing: as trained", []).append(person.right(person.S0, others))
        found.setdefault("missing: when it comes", []).append(person.right(scores, own))
        found.setdefault("missing: came, as trained", []).append(person.right(person.S0, own))
        few = max(1, round(len(own) * (1 - DOMINANT) / DOMINANT))
        seen = np.sort(np.concatenate([own, rng.permutation(others)[:few]]))
        scores = person.adapted(rule, among=seen)
        found.setdefault("dominant: all windows", []).append(person.right(scores))
    for method, pairs in found.items():
        right, n = np.sum(pairs, axis=0)
        yield method, (float(right), float(n))
