"""A new keyword, brought by one speaker in one upload: FSDD by speaker, a frozen encoder.

All speakers have learned all words but one together. Then one of them brings the last word, and the
model grows by `+` (`catchment.add_clients`); the others are not asked. Every word is the new one in
turn, and every speaker brings it in turn. Recordings 0 to 4 are the publisher's test set.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Integers, Run
from catchment.federation import Result
from catchment.federation.learn import UnknownThreshold
from catchment.readout import KnownClasses, RidgeStatistics, chosen_readout
from catchment.wire import replace_file
from catchment_research.learn import BalancedRidge, among_by_class
from reproductions.arena import macro_f1
from reproductions.keywords_baselines import Softmax, fine_tuned, pooled_outputs, softmax_of
from reproductions.keywords_data import Clips, Embedded, Words, of_word, said
from reproductions.map_values import class_counts
from reproductions.study import environment

RATE = 0.05
GROWN, BALANCED, GAUSSIAN = "grown", "grown, classes weighed alike", "grown, Gaussian classes"
MEANS, MAJORITY, ALONE = "nearest class mean", "most frequent word", "the bringer alone"
TUNED, TUNED_ON = "fine-tuned until its clips are right", "fine-tuned for 100 epochs"
TUNED_FAST = "fine-tuned for 100 epochs, ten times the rate"
EVERYBODY = "everybody brings it"
Right = tuple[int, int]  # clips of the new word, clips of old words
Outputs = Callable[[Array], Array]
PREPARE = ct.Preprocessing(scale="none")


@dataclass(frozen=True, kw_only=True)
class Brought:
    """One speaker's upload of one word: clips that are right, by method, and what is equal.

    New clips are those of the other speakers, old ones everybody's. `f1` is the macro-F1 of all
    words on both together. `start`, `pooled` and `retired`
    are the largest differences, relative to the largest value: of weights from a run with the word
    from the start, of outputs on test clips from scikit-learn's ridge on all rows in one place, and
    of weights after the word was retired from those before it came.
    """

    right: dict[str, Right]
    f1: dict[str, float]
    start: float
    pooled: float
    retired: float
    bytes_up: int
    ridge: float


@dataclass(frozen=True, kw_only=True)
class WordResult:
    """One word: how the model did without it, and each speaker's way to bring it.

    `auroc` tells the new word from the others before it came, and `told` has the shares of new and
    of old clips that are called unknown at the rate, by kind of covariance.
    """

    word: str
    n_new: int
    n_old: int
    before: dict[str, int]
    auroc: dict[str, float]
    told: dict[str, tuple[float, float]]
    brought: dict[str, Brought]
    seconds: float = 0.0


@dataclass(frozen=True)
class KeywordsResult:
    """All words so far, and how it was run."""

    words: tuple[WordResult, ...] = ()
    quick: bool = False
    environment: dict[str, Any] = field(default_factory=environment)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def load_keywords(path: Path) -> KeywordsResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    words = []
    for one in content["words"]:
        brought = {who: Brought(**cell) for who, cell in one["brought"].items()}
        words.append(WordResult(**{**one, "brought": brought}))
    return KeywordsResult(**{**content, "words": tuple(words)})


def keywords(
    words: Words,
    *,
    quick: bool = False,
    earlier: KeywordsResult | None = None,
    kept: Callable[[KeywordsResult], None] | None = None,
    began: Callable[[str], None] | None = None,
) -> KeywordsResult:
    """Return the result, going on from words that are there already."""
    result = replace(earlier or KeywordsResult(), quick=quick)
    done = {one.word for one in result.words}
    names = words.names[: 2 if quick else None]
    for k, word in enumerate(names):
        if word in done:
            continue
        if began is not None:
            began(f"{k + 1} of {len(names)}: {word}")
        start = time.perf_counter()
        found = replace(_word(words, word), seconds=time.perf_counter() - start)
        result = replace(result, words=(*result.words, found))
        if kept is not None:
            kept(result)
    return result


@dataclass(frozen=True)
class Federation:
    """What everybody learned without a word, in a folder, and the clips on which all is tested."""

    word: str
    early: Clips
    run: Run
    by_class: Result[Any, Any]
    folder: Path
    test: Clips

    @property
    def old(self) -> tuple[str, ...]:
        assert self.run.model.classes is not None
        return self.run.model.classes

    def clips(self, bringer: str | None) -> tuple[list[ct.Recording], list[ct.Recording]]:
        """Return test clips of the new word by others than the bringer, and of the old ones."""
        new = of_word(self.test, self.word)
        old = of_word(self.test, self.word, other=True)
        return (
            [one for speaker, held in new.items() if speaker != bringer for one in held],
            [one for held in old.values() for one in held],
        )

    def counted(self, outputs: Outputs, bringer: str | None) -> Integers:
        """Return what `class_counts` counts (K, 3) of old words and, last, of the new one."""
        names = (*self.old, self.word)
        held = [one for part in self.clips(bringer) for one in part]
        label = np.array([names.index(said(one)) for one in held])
        return class_counts(label, outputs(in_fixed_point(held)).argmax(axis=1), len(names))


def _right(counts: Integers) -> Right:
    """Return how many clips of the new word and of old ones have the highest output."""
    return int(counts[-1, 0]), int(counts[:-1, 0].sum())


def in_fixed_point(held: Sequence[ct.Recording]) -> Array:
    """Return the rows (n, F) of clips as the map gives them."""
    return np.concatenate(Embedded().rows([one.u for one in held]))


def _labeled(clips: Clips, names: tuple[str, ...]) -> Clips:
    return {
        speaker: [ct.Recording.labeled(one.u, said(one), names) for one in held]
        for speaker, held in clips.items()
    }


def _word(words: Words, word: str) -> WordResult:
    old = tuple(name for name in words.names if name != word)
    early = _labeled(of_word(words.train, word, other=True), old)
    brings = of_word(words.train, word)
    with TemporaryDirectory() as place:
        folder = Path(place) / "first"
        pipeline = ct.Pipeline(PREPARE, Embedded())
        run = ct.federate(pipeline, early, classes=old, out=folder)
        by_class = BalancedRidge(
            features=run.model.features, classes=old, ridge=float(np.max(run.model.readout.ridge))
        )
        sums = ct.federate(ct.Plan(algorithm=by_class, preprocessing=PREPARE), early)
        first = Federation(word, early, run, sums, folder, words.test)
        old_clips = [one for held in early.values() for one in held]
        logistic = softmax_of(in_fixed_point(old_clips), [said(one) for one in old_clips], old)
        everybody = _everybody(first, words)
        brought = {}
        for speaker in words.speakers:
            others = {EVERYBODY: everybody, **_tuned(logistic, in_fixed_point(brings[speaker]))}
            brought[speaker] = _brought(first, speaker, brings[speaker], others)
        auroc, told = _unknown(first)
        new, known = first.clips(words.speakers[0])
    return WordResult(
        word=word,
        n_new=len(new),
        n_old=len(known),
        before={
            GROWN: _right(first.counted(run.model.readout, None))[1],
            MEANS: _right(first.counted(_means(run.statistics), None))[1],
            TUNED: _right(first.counted(logistic.scores, None))[1],
        },
        auroc=auroc,
        told=told,
        brought=brought,
    )


def _tuned(start: Softmax, rows: Array) -> dict[str, Outputs]:
    """Return the readout after descents on the new word's rows of one speaker."""
    return {
        TUNED: fine_tuned(start, rows, epochs=None),
        TUNED_ON: fine_tuned(start, rows, epochs=100),
        TUNED_FAST: fine_tuned(start, rows, epochs=100, rate=0.1),
    }


def _brought(
    first: Federation,
    speaker: str,
    clips: Sequence[ct.Recording],
    others: Mapping[str, Outputs],
) -> Brought:
    """Return what comes of one speaker's upload of the new word, and how other methods do."""
    word, names = first.word, (*first.old, first.word)
    late = {f"{speaker} again": [ct.Recording.labeled(one.u, word, (word,)) for one in clips]}
    out = first.folder.parent / speaker
    grown = ct.add_clients(first.folder, late, out=out, use=[Embedded])
    assert grown.classes == names
    back = ct.remove_class(out, word, use=[Embedded])
    always = ct.federate(ct.Pipeline(PREPARE, Embedded()), first.early | late, classes=names)
    ridge = float(np.max(grown.readout.ridge))
    rows = [one for held in first.early.values() for one in held] + late[f"{speaker} again"]
    tests = in_fixed_point([one for held in first.clips(None) for one in held])
    pooled = pooled_outputs(in_fixed_point(rows), [said(one) for one in rows], names, ridge, tests)
    sums = always.training.state.by_client
    alone = sums[speaker] + sums[f"{speaker} again"]
    total = always.statistics
    majority = int(np.argmax(total.floats.target_sum))
    methods: dict[str, Outputs] = {
        **others,
        GROWN: grown.readout,
        BALANCED: _balanced(first, late),
        GAUSSIAN: lambda z: -KnownClasses.of(total, standardize=True).distances(z),
        MEANS: _means(total),
        MAJORITY: lambda z: np.tile(np.eye(len(names))[majority], (len(z), 1)),
        ALONE: chosen_readout(alone, "gcv", classes=True, standardize=True)[1],
    }
    counted = {name: first.counted(outputs, speaker) for name, outputs in methods.items()}
    return Brought(
        right={name: _right(counts) for name, counts in counted.items()},
        f1={name: macro_f1(counts) for name, counts in counted.items()},
        start=_apart(grown.readout.weights, always.model.readout.weights),
        pooled=_apart(grown.readout(tests), pooled),
        retired=_apart(back.readout.weights, first.run.model.readout.weights),
        bytes_up=always.records[0].bytes_up // len(sums),
        ridge=ridge,
    )


def _balanced(first: Federation, late: Mapping[str, Any]) -> Outputs:
    """Return the readout of sums by class, old and new, each class with the same weight."""
    names = (*first.old, first.word)
    learned = first.by_class.plan.algorithm
    assert isinstance(learned, BalancedRidge)
    algorithm = replace(learned, classes=names)
    brings = {who: [one.among(names) for one in held] for who, held in late.items()}
    new = ct.federate(ct.Plan(algorithm=algorithm, preprocessing=PREPARE), brings).state
    state = among_by_class(first.by_class.state, first.old, names)
    assert state.total is not None
    assert new.total is not None
    whole = algorithm.solved(replace(state, total=state.total + new.total, by_client={}))
    return algorithm.result(whole).readout


def _everybody(first: Federation, words: Words) -> Outputs:
    names = (*first.old, first.word)
    everything = _labeled(words.train, names)
    run = ct.federate(ct.Pipeline(PREPARE, Embedded()), everything, classes=names)
    return run.model.readout


def _means(total: RidgeStatistics) -> Outputs:
    """Return minus the distances from class means, features divided by their spread."""
    known = KnownClasses.of(total, shrinkage=1.0, standardize=True)
    return lambda z: -known.distances(z)


def _unknown(first: Federation) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return how well the new word is told from the old ones before anybody brought it."""
    from sklearn.metrics import roc_auc_score

    new, old = first.clips(None)
    by_class = UnknownThreshold(
        model=first.run.model, sums=first.by_class.state.total, rate=RATE, summed=None
    )
    own = ct.federate(ct.Plan(algorithm=by_class, preprocessing=PREPARE), first.early).result
    shared = ct.reject_unknown(first.run, first.early, rate=RATE)
    truth = np.repeat([1, 0], [len(new), len(old)])
    auroc, told, z = {}, {}, in_fixed_point([*new, *old])
    for name, model in (("own", own), ("shared", shared)):
        far = model.known.nearest(z) / model.threshold
        auroc[name] = float(roc_auc_score(truth, far))
        told[name] = float((far[truth == 1] > 1).mean()), float((far[truth == 0] > 1).mean())
    highest = first.run.model.readout(z).max(axis=1)
    auroc["largest output"] = float(roc_auc_score(truth, -highest))
    return auroc, told


def _apart(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())
