"""From a reservoir's features to a soft prompt, and from the prompt's gradient back.

    b = W_out z,    p = p0 + P b,    dL/dW_out = (P'g) z',    dL/dP = g b',    g = dL/dp

z are the features of one context, b a bottleneck of k numbers, p the prompt: m vectors of the width
d of a language model's embeddings. P is made from a seed, so that whoever knows the seed can apply
it: b crosses the network instead of p. p0 are the embeddings of words: given ones, or such as the
seed picks. It is never zero, for there a model that normalizes its inputs has no useful gradient.

Without a reservoir z is the constant one and W_out a single column: every example has the same
prompt p0 + P b, in a subspace that a seed has chosen, and k numbers are trained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from catchment import Array, Integers, frozen, refuse_nonfinite
from catchment.arrays import PositiveFloat, PositiveInt, Seed, check_fields
from catchment.features import FeatureMap
from catchment.features.echo_state import Purpose, Words, integers, signs
from catchment_research.learn.optimizers import Arrays


@dataclass(frozen=True, eq=False)
class Example:
    """What a client holds of one example; the language model never sees `u`.

    Parameters
    ----------
    label
        Which of the label words is right; or which of the choices.
    u
        (T, I) signal that the reservoir reads; None where there is no reservoir.
    context
        (n,) tokens that follow the prompt and that the language model does see; may be empty.
    z, read_by
        (F,) features of the signal, where they have been computed before, and the fingerprint of
        what computed them; `EdgeController.prepared` fills them in.
    choices
        Tokens of each answer that is possible here, of any lengths; one alone if the answer is
        free. None where label words are asked about.
    """

    label: int
    u: Array | None = None
    context: Sequence[int] | Integers = ()
    z: Array | None = None
    read_by: str = ""
    choices: Sequence[Sequence[int] | Integers] = ()


@dataclass(frozen=True, kw_only=True)
class Projection:
    """P and p0, as both sides make them from a few numbers.

    Parameters
    ----------
    bottleneck
        k numbers per prompt.
    length, width
        m vectors of d numbers; d is the language model's.
    seed
        Of P, whose entries are +scale or -scale.
    scale
        About the spread of the language model's own embeddings serves well.
    words
        Tokens whose embeddings p0 is made of, one for each vector; without, the seed picks them.

    >>> P = Projection(bottleneck=2, length=3, width=4, seed=1)
    >>> P.matrix.shape, P.prompts(np.zeros((5, 2))).shape
    ((12, 2), (5, 3, 4))
    """

    bottleneck: PositiveInt
    length: PositiveInt
    width: PositiveInt
    seed: Seed = 0
    scale: PositiveFloat = 1.0
    words: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "words", tuple(int(word) for word in self.words))
        if self.words and len(self.words) != self.length:
            raise ValueError(
                f"{len(self.words)} words begin a prompt of {self.length} vectors; pass one each"
            )

    @cached_property
    def matrix(self) -> Array:
        """P (m d, k), the same bits on every machine."""
        rng = Words(seed=self.seed, layer=0, purpose=Purpose.PROMPT)
        n = self.length * self.width
        return frozen(self.scale * signs(rng, n * self.bottleneck).reshape(n, self.bottleneck))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the settings, in hexadecimal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def first_words(self, vocabulary: int) -> tuple[int, ...]:
        """Return the tokens (m,) of p0, of a model with this vocabulary.

        >>> P = Projection(bottleneck=2, length=3, width=4, seed=1)
        >>> P.first_words(1000) == P.first_words(1000)
        True
        """
        rng = Words(seed=self.seed, layer=1, purpose=Purpose.PROMPT)
        return self.words or tuple(integers(rng, self.length, vocabulary).tolist())

    def prompts(self, codes: Array, matrix: Array | None = None) -> Array:
        """Return P b (n, m, d) of bottlenecks (n, k), without p0.

        Parameters
        ----------
        codes
            (n, k) bottlenecks b.
        matrix
            P (m d, k) if it has been trained.
        """
        P = self.matrix if matrix is None else matrix
        return (codes @ P.T).reshape(len(codes), self.length, self.width)

    def pull_back(self, gradients: Array, matrix: Array | None = None) -> Array:
        """Return P'g (..., k) of gradients (..., m, d) with respect to prompts."""
        P = self.matrix if matrix is None else matrix
        return gradients.reshape(*gradients.shape[:-2], self.length * self.width) @ P


@dataclass(frozen=True, kw_only=True)
class EdgeController:
    """What a client trains: W_out (k, F), and P too if it is not left as the seed made it.

    Parameters
    ----------
    projection
        P and p0.
    features
        One row per signal, so with a pool, from a frozen reservoir. None: the constant one, that
        is a prompt which is the same for every example.
    train_projection
        Whether P is trained. It then cannot be made from the seed elsewhere, and prompts of m d
        numbers must cross the network instead of k.

    >>> controller = EdgeController(projection=Projection(bottleneck=3, length=2, width=4))
    >>> z = controller.rows([Example(0), Example(1)])
    >>> controller.codes(controller.start(), z)
    array([[0., 0., 0.],
           [0., 0., 0.]])
    >>> controller.n_trained
    3
    """

    projection: Projection
    features: FeatureMap | None = None
    train_projection: bool = False

    def __post_init__(self) -> None:
        if self.features is not None and self.features.per_step:
            raise ValueError(
                "the features have a row per step, a prompt needs one per signal; pass a pool "
                "such as 'last'"
            )

    @property
    def n_features(self) -> int:
        return 1 if self.features is None else self.features.n_features

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of everything that is trained."""
        p = self.projection
        first = ((p.bottleneck, self.n_features),)
        return (*first, (p.length * p.width, p.bottleneck)) if self.train_projection else first

    @property
    def n_trained(self) -> int:
        """Numbers that are trained, and travel in every round."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def start(self) -> Arrays:
        """Return the values before training: W_out is zero, so every prompt is p0."""
        W_out = np.zeros(self.shapes[0])
        return (W_out, self.projection.matrix.copy()) if self.train_projection else (W_out,)

    def rows(self, examples: Sequence[Example]) -> Array:
        """Return the features z (n, F) of examples; they never change, so compute them once."""
        if self.features is None:
            return np.ones((len(examples), 1))
        known = [example.z for example in examples if example.z is not None]
        if known and len(known) == len(examples):
            if {example.read_by for example in examples} != {self.features.fingerprint}:
                raise ValueError(
                    "an example was prepared by other features than this controller's; prepare it "
                    "again"
                )
            return np.stack(known)
        signals = [example.u for example in examples if example.u is not None]
        if len(signals) < len(examples):
            raise ValueError("an example has no signal for the reservoir; pass u (steps, channels)")
        if not signals:
            return np.zeros((0, self.n_features))
        z = np.concatenate(self.features.rows(signals, threads=1))
        refuse_nonfinite(z, "features")
        return z

    def prepared(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples with their features, so that no round computes them again."""
        if self.features is None:
            return list(examples)
        pairs, by = zip(examples, self.rows(examples), strict=True), self.features.fingerprint
        return [replace(example, z=z, read_by=by) for example, z in pairs]

    def codes(self, values: Arrays, z: Array) -> Array:
        """Return bottlenecks b (n, k) of features (n, F)."""
        return z @ values[0].T

    def prompts(self, values: Arrays, z: Array) -> Array:
        """Return prompts (n, m, d) of features (n, F), without p0."""
        return self.projection.prompts(self.codes(values, z), self.matrix(values))

    def matrix(self, values: Arrays) -> Array | None:
        """Return P if it is trained; None if it is as the seed made it."""
        return values[1] if self.train_projection else None

    def gradient(self, values: Arrays, z: Array, gradients: Array) -> Arrays:
        """Return the gradient of every value, summed over examples.

        Parameters
        ----------
        z
            (n, F) features.
        gradients
            (n, m, d) with respect to the prompts; or (n, k) with respect to the bottlenecks, as
            a server that applies P itself returns them, if P is not trained.
        """
        if gradients.ndim == 2 and not self.train_projection:
            return (gradients.T @ z,)
        W_out = self.projection.pull_back(gradients, self.matrix(values)).T @ z
        if not self.train_projection:
            return (W_out,)
        return W_out, gradients.reshape(len(z), -1).T @ self.codes(values, z)
