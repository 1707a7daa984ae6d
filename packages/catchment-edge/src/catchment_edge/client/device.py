"""A small device as a client: it makes its own upload, and everything after that is as always.

What it says of itself tells whether it is one for a plan. What it is asked for is what a client's
recordings would be asked for: the moments of its inputs in the stage that fits the scale, its ridge
statistics in the training. The answer is read as a server reads it, before a client's protections
(clipping, noise, the masks of secure aggregation) are put on it here. The gateway, which is this
process, therefore sees the device's statistics; it never sees a sample.

A device that is asked again under the same number sends the same bytes. So a gateway remembers the
last question that a device answered with its sums: the number stays the same while the question
does, whoever asks again, and goes on when another round asks for more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from catchment import Array
from catchment.data import Preprocessing, Scaler
from catchment.errors import DeviceError, FingerprintError, IntegrityError
from catchment.features import FeatureMap
from catchment.federation import (
    Asked,
    Delivery,
    Elsewhere,
    Memory,
    Plan,
    Receipt,
    RoundContext,
    Upload,
    Workflow,
    claimed,
)
from catchment.federation.learn import (
    FederatedRidge,
    FederatedScaling,
    FederatedYuleWalker,
    SentMoments,
)
from catchment.readout import (
    Autocovariances,
    FixedPoint,
    Model,
    RidgeStatistics,
    load,
    packed_length,
)
from catchment.wire import Message
from catchment_edge.client import link as kinds
from catchment_edge.client.link import Address, Link, opened

if TYPE_CHECKING:
    from catchment_edge.client.vault import DeviceVault, Masked

VERSION = 1
NUMBERS = ("float32", "whole", "q15")
FLAGS = ("classes", "per_step", "needs_scale", "has_readout", "masks")  # from the lowest bit on
LAYOUT = struct.Struct("<BBHHIB32s32s")
NO_WORKFLOW = "00" * 32
KEY = "device"
AnyPlan = Plan[Any, Any, Any]
SLACK = 1 << 16  # bytes of a message beside its numbers
MOST_ROWS = 1 << 20  # that a device may predict at once
NEW_ONLY = 1
ROUND = struct.Struct("<I")
ASK = struct.Struct("<IB")


@dataclass(frozen=True, kw_only=True)
class DeviceHello:
    """What a device says of itself.

    Parameters
    ----------
    number
        The form of its arithmetic: "whole", "q15" or "float32".
    channels, outputs, features
        How many there are of each.
    classes
        Whether its outputs are classes; else they are numbers.
    per_step
        Whether every step gives a row; else there is one per recording or window.
    needs_scale
        Whether it must be told a scale before it can train.
    has_readout
        Whether it can predict.
    masks
        Whether its sums leave it only under the masks of secure aggregation.
    fingerprint, workflow
        SHA-256, in hexadecimal, of its feature map and of the plan it was exported from; zeros
        for one that was exported without a plan.
    """

    number: str
    channels: int
    outputs: int
    features: int
    classes: bool
    per_step: bool
    needs_scale: bool
    has_readout: bool
    fingerprint: str
    workflow: str = NO_WORKFLOW
    masks: bool = False

    @classmethod
    def from_bytes(cls, payload: bytes) -> DeviceHello:
        """Return what came; DeviceError if it is of another length or version."""
        if not payload or payload[0] != VERSION or len(payload) != LAYOUT.size:
            version = payload[0] if payload else "none"
            raise DeviceError(
                "version",
                f"the device speaks version {version} in {len(payload)} bytes, this is version "
                f"{VERSION} in {LAYOUT.size}; export its firmware again",
            )
        _, form, channels, outputs, features, flags, fingerprint, workflow = LAYOUT.unpack(payload)
        if form >= len(NUMBERS):
            raise DeviceError("version", f"the device has numbers of form {form}; export it again")
        return cls(
            number=NUMBERS[form],
            channels=channels,
            outputs=outputs,
            features=features,
            fingerprint=fingerprint.hex(),
            workflow=workflow.hex(),
            **{name: bool(flags >> k & 1) for k, name in enumerate(FLAGS)},
        )

    def to_bytes(self) -> bytes:
        """Return it as a device sends it.

        >>> hello = DeviceHello(
        ...     number="whole", channels=3, outputs=4, features=50, classes=True, per_step=False,
        ...     needs_scale=True, has_readout=False, fingerprint="ab" * 32
        ... )
        >>> len(hello.to_bytes()), DeviceHello.from_bytes(hello.to_bytes()) == hello
        (75, True)
        """
        flags = sum(bool(getattr(self, name)) << k for k, name in enumerate(FLAGS))
        return LAYOUT.pack(
            VERSION,
            NUMBERS.index(self.number),
            self.channels,
            self.outputs,
            self.features,
            flags,
            bytes.fromhex(self.fingerprint),
            bytes.fromhex(self.workflow),
        )

    def check_workflow(self, workflow: str, told_scale: bool | None) -> None:
        """Raise DeviceError if the device was exported from another plan.

        Parameters
        ----------
        workflow
            Fingerprint of the plan; nothing if it is not one of a file.
        told_scale
            Whether its scale is found by all clients and told to them; None if that is not known.
        """
        if workflow and self.workflow not in (NO_WORKFLOW, workflow):
            raise DeviceError(
                "plan",
                f"the device was exported from the plan {self.workflow[:12]}, this is "
                f"{workflow[:12]}; export it from this plan and flash it again",
            )
        if told_scale not in (None, self.needs_scale):
            has = "has to be told its scale" if self.needs_scale else "has a scale of its own"
            raise DeviceError(
                "plan", f"the device {has}, which is not so in the plan; export it from this plan"
            )

    def check_channels(self, channels: int | None) -> None:
        """Raise DeviceError if the device has other channels than the plan."""
        if channels not in (None, self.channels):
            raise DeviceError(
                "shape",
                f"the device has {self.channels} channels, the plan {channels}; export it from "
                "this plan",
            )

    def check_lags(self, features: FeatureMap) -> None:
        """Raise if the device does not sum autocovariances of this many lags."""
        if self.features or self.fingerprint != features.fingerprint:
            raise FingerprintError(
                f"the device has {self.features} features of the map {self.fingerprint[:12]}, the "
                f"plan sums autocovariances of {features.fingerprint[:12]}; export it from this "
                "plan and flash it again"
            )
        self.check_channels(features.n_inputs)

    def check_map(self, features: FeatureMap, *, classes: bool, plan: Plan[Any, Any, Any]) -> None:
        """Raise if the device has another feature map, or other outputs, than the plan trains."""
        if self.fingerprint != features.fingerprint:
            raise FingerprintError(
                f"the device has the feature map {self.fingerprint[:12]}, the plan trains "
                f"{features.fingerprint[:12]}; export it from this plan and flash it again"
            )
        self.check_channels(features.n_inputs)
        ours = {
            "features": (self.features, features.n_features),
            "outputs": (self.outputs, plan.n_targets or self.outputs),
            "classes": (self.classes, classes),
            "per_step": (self.per_step, features.per_step),
        }
        for name, (here, planned) in ours.items():
            if here != planned:
                raise DeviceError(
                    "shape",
                    f"{name} of the device is {here}, of the plan {planned}; export it from this "
                    "plan",
                )


@dataclass(frozen=True)
class Question:
    """What a device is asked at a round of the training.

    Parameters
    ----------
    token
        The same text for the same question.
    begun
        The plan under which the sum of increments was begun.
    missed
        Whether the server says that the last increment did not come into the sum.
    new_only
        Whether it is asked for what is new, or for the sums of all it has seen.
    """

    token: str
    begun: str = ""
    missed: bool = False
    new_only: bool = False

    def counts(self, known: Answered) -> bool:
        """Return whether an earlier answer is in the sum that this question goes on from."""
        same_sum = self.new_only and known.new_only and known.token.split()[0] == self.begun
        return same_sum and known.sent and not self.missed


@dataclass(frozen=True)
class Answered:
    """The number under which a device was asked, for which round, and how far that came.

    `sent` says that its answer was good and went on its way, `counted` that it is in a sum, and
    `new_only` that it was what is new since the last one that counted.

    >>> memory = {}
    >>> Answered(3, "plan 0").keep(memory)
    >>> Answered.of(memory)
    Answered(round=3, token='plan 0', sent=False, counted=False, new_only=False)
    """

    round: int
    token: str
    sent: bool = False
    counted: bool = False
    new_only: bool = False

    @classmethod
    def of(cls, memory: Memory) -> Answered | None:
        """Return what is remembered, None if nothing is."""
        if KEY not in memory:
            return None
        try:
            return cls(**json.loads(memory[KEY]))
        except (ValueError, TypeError) as error:
            raise IntegrityError("what this client remembers of its device is damaged") from error

    def keep(self, memory: Memory) -> None:
        memory[KEY] = json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class EdgeClient(Elsewhere):
    """A small device in the place of a client's recordings.

    Parameters
    ----------
    address
        "tcp://127.0.0.1:7007", or "serial:///dev/ttyACM0?baud=115200". After the question mark may
        also stand `timeout`, seconds without a byte in the middle of an answer (10); `patience`,
        seconds for the device to read its sensor and answer (600); and, for a host that is not
        this machine, `network=yes`: nothing hides what goes over that line.

    >>> EdgeClient("tcp://127.0.0.1:7007?patience=60").address
    'tcp://127.0.0.1:7007?patience=60'
    """

    address: str
    _place: Address = field(init=False, repr=False, compare=False)
    _workflow: str = field(default="", init=False, repr=False, compare=False)
    _told_scale: bool | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", Address.of(self.address))

    def within(self, workflow: Workflow, *, of_plan_file: bool = True) -> EdgeClient:
        """Return the device as one of a workflow: one that was exported from another is refused.

        Parameters
        ----------
        of_plan_file
            Whether the workflow is that of a plan file, as that of an export is.
        """
        bound = EdgeClient(self.address)
        object.__setattr__(bound, "_workflow", workflow.fingerprint if of_plan_file else "")
        object.__setattr__(bound, "_told_scale", not workflow.preprocessing.is_fitted)
        return bound

    @property
    def place(self) -> str:
        """Its host and port, or its serial line."""
        return self._place.place

    def hello(self) -> DeviceHello:
        """Return what the device says of itself."""
        with self._talk() as (_, said):
            return said

    def upload(
        self, plan: AnyPlan, received: Message, context: RoundContext, memory: Memory
    ) -> Upload:
        """Return what the device sends at a stage of a plan, read and checked as a server does.

        Parameters
        ----------
        received
            The algorithm's own request, which only a delivery has.
        memory
            What this client remembers: what the device was asked last, and whether it counted.
        """
        algorithm = plan.algorithm
        match algorithm:
            case FederatedScaling():
                return self._moments(algorithm, context)
            case FederatedRidge():
                return self._statistics(plan, algorithm, received, context, memory)
            case FederatedYuleWalker():
                return self._lags(plan, algorithm, received, context, memory)
            case Delivery():
                return self._delivered(algorithm, received, context, memory)
        raise DeviceError(
            "plan",
            f"a device sums statistics for a ridge, or autocovariances, and cannot take part in "
            f'{type(algorithm).__name__}; use algorithm = "ridge" and upload = "statistics", or '
            "leave the device out",
        )

    def vault(self, plan: AnyPlan, memory: Memory) -> DeviceVault | None:
        """Return where the secrets of secure aggregation is, None if they are the gateway's.

        The moments of inputs, from which a scale is found, are masked by the gateway always.
        """
        if plan.masking is None or not isinstance(plan.algorithm, FederatedRidge):
            return None
        if not self.hello().masks:
            return None
        from catchment_edge.client.vault import DeviceVault

        return DeviceVault(self, memory)

    def masked(self, ask: Masked, memory: Memory) -> bytes:
        """Return the device's sums under the masks of secure aggregation, as they left it."""
        asked = Answered.of(memory)
        assert asked is not None  # `upload` noted the question
        with self.link() as link:
            message = ask(link, asked.round, asked.new_only)
        replace(asked, sent=True).keep(memory)
        return message

    @contextmanager
    def link(self) -> Iterator[Link]:
        """Open a conversation with the device."""
        with self._talk() as (link, _):
            yield link

    def counted(self, plan: AnyPlan, round_: int, memory: Memory) -> None:
        """Tell the device that its last sums were counted; later, if it does not hear it now."""
        known = Answered.of(memory)
        if known is not None and isinstance(plan.algorithm, FederatedRidge | FederatedYuleWalker):
            replace(known, counted=True).keep(memory)
            with self._talk() as (link, _):
                _settle(link, known.round, memory)

    def keep(self, model: Model) -> None:
        """Send the readout of a model down, with which the device predicts from then on."""
        with self._talk() as (link, said):
            self._send(link, said, model)

    def predict(self) -> list[Array]:
        """Return the scores (n, K) of each recording that the device's sensor has next."""
        with self._talk() as (link, said):
            if not said.has_readout:
                raise DeviceError(
                    "readout", "the device has no readout yet; train, or send it one with keep"
                )
            row = np.dtype([("recording", "<u4"), ("row", "<u4"), ("scores", "<f4", said.outputs)])
            limit = MOST_ROWS * row.itemsize
            parts = link.collect(kinds.PREDICT, b"", part=kinds.ROW, limit=limit)
            found: dict[int, list[Array]] = {}
            for part in parts:
                if len(part) != row.itemsize:
                    raise DeviceError(
                        "shape",
                        f"a row of {len(part)} bytes came, {said.outputs} scores have "
                        f"{row.itemsize}; export the device again",
                    )
                one = np.frombuffer(part, row)[0]
                scores = one["scores"].reshape(-1).astype(np.float64)
                found.setdefault(int(one["recording"]), []).append(scores)
        return [np.array(found[number]) for number in sorted(found)]

    @contextmanager
    def _talk(self) -> Iterator[tuple[Link, DeviceHello]]:
        with opened(self._place) as line:
            link = Link(line, self._place)
            said = DeviceHello.from_bytes(link.greet())
            said.check_workflow(self._workflow, self._told_scale)
            yield link, said

    def _moments(self, algorithm: FederatedScaling, context: RoundContext) -> SentMoments:
        with self._talk() as (link, said):
            said.check_channels(algorithm.channels)
            parts = _collected(link, kinds.MOMENTS, ROUND.pack(context.round), SLACK)
        came = algorithm.read_update(parts, context)
        if not came.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        _note(context, [parts.to_bytes()])
        return came

    def _statistics(
        self,
        plan: AnyPlan,
        algorithm: FederatedRidge,
        received: Message,
        context: RoundContext,
        memory: Memory,
    ) -> RidgeStatistics:
        features, classes = algorithm.features, algorithm.classes is not None
        question = _question(algorithm, received, context)
        # Sums of all that it has seen grow while map and scale stay; others begin anew.
        sums = [] if question.new_only else [(features.fingerprint, plan.preprocessing.fingerprint)]
        with self._talk() as (link, said):
            said.check_map(features, classes=classes, plan=plan)
            self._scale(link, said, plan.preprocessing)
            asked = self._asked(link, question, memory)
            if said.masks:
                asked.keep(memory)
                _note(context, sums or [asked.token])
                return _unseen(plan, algorithm, said.outputs)
            limit = most_bytes(
                FixedPoint.of(features, classes=classes), said.features, said.outputs
            )
            ask = ASK.pack(asked.round, NEW_ONLY if algorithm.carries else 0)
            asked.keep(memory)
            parts = _collected(link, kinds.TRAIN, ask, limit)
            algorithm.read_update(parts, context)
            came = RidgeStatistics.from_message(parts)
            if not came.n_rows:
                _check_empty(link, asked, memory)
        if came.n_targets != said.outputs:
            raise DeviceError(
                "shape", f"{came.n_targets} targets came, the device has {said.outputs} outputs"
            )
        claimed(came).check(plan.limits)
        _note(context, [*sums, parts.to_bytes()])
        replace(asked, sent=True).keep(memory)
        return came

    def _lags(
        self,
        plan: AnyPlan,
        algorithm: FederatedYuleWalker,
        received: Message,
        context: RoundContext,
        memory: Memory,
    ) -> Autocovariances:
        question = _question(algorithm, received, context)
        with self._talk() as (link, said):
            said.check_lags(algorithm.features)
            self._scale(link, said, plan.preprocessing)
            asked = self._asked(link, question, memory)
            asked.keep(memory)
            ask = ASK.pack(asked.round, NEW_ONLY if question.new_only else 0)
            parts = _collected(link, kinds.TRAIN, ask, SLACK + 24 * algorithm.n_lags)
            algorithm.read_update(parts, context)
            came = Autocovariances.from_message(parts)
            if not came.n_rows:
                _check_empty(link, asked, memory)
        _note(context, [parts.to_bytes()])
        replace(asked, sent=True).keep(memory)
        return came

    @staticmethod
    def _asked(link: Link, question: Question, memory: Memory) -> Answered:
        """Return under which number the device is asked: the same again if the question is."""
        known, token, number = Answered.of(memory), question.token, 0
        if known is not None:
            if known.counted or (known.token != token and question.counts(known)):
                _settle(link, known.round, memory)
            elif known.token == token:
                return known
            else:
                number = known.round + 1
        return Answered(number, token, new_only=question.new_only)

    def _delivered(
        self, algorithm: Delivery, received: Message, context: RoundContext, memory: Memory
    ) -> Receipt:
        receipt = algorithm.client_update(received, tuple, context)
        known = Answered.of(memory)
        with self._talk() as (link, said):
            # Of increments the next request says whether they came into the sum.
            if known is not None and known.sent and (known.counted or not known.new_only):
                _settle(link, known.round, memory)
            if not said.features:
                return receipt  # one of autocovariances predicts nothing
            model = load(received.arrays[0].tobytes())
            if not isinstance(model, Model):
                raise IntegrityError(f"a device takes a model, and a {type(model).__name__} came")
            self._send(link, said, model)
        return receipt

    def _send(self, link: Link, said: DeviceHello, model: Model) -> None:
        weights, intercept = model.readout.weights, model.readout.intercept
        same = said.fingerprint == model.features.fingerprint
        if not same or weights.shape != (said.features, said.outputs):
            raise DeviceError(
                "map",
                f"the model has {weights.shape[0]} features of the map "
                f"{model.features.fingerprint[:12]}, the device {said.features} of "
                f"{said.fingerprint[:12]}; export the device from the model's plan",
            )
        self._scale(link, said, model.preprocessing)
        numbers = np.concatenate([weights.reshape(-1), intercept.reshape(-1)])
        link.command(kinds.READOUT, numbers.astype("<f8").tobytes())

    @staticmethod
    def _scale(link: Link, said: DeviceHello, preprocessing: Preprocessing) -> None:
        """Tell the device the scale, if it was exported without one."""
        scale = preprocessing.scale
        if not said.needs_scale:
            return
        if isinstance(scale, Scaler):
            numbers = np.concatenate([scale.mean, scale.scale]).astype("<f8")
            link.command(kinds.SCALE, numbers.tobytes())
            return
        raise DeviceError(
            "scale",
            f"the device waits for a scale, and the plan has scale = {scale!r}; export it from "
            "this plan",
        )


def _question(
    algorithm: FederatedRidge | FederatedYuleWalker, received: Message, context: RoundContext
) -> Question:
    """Return what a device is asked at a training round; DeviceError if it cannot answer that."""
    if algorithm.increments == "new":
        asked = Asked.from_message(received)
        missed = context.client in asked.missed
        return Question(f"{asked.begun} {asked.after}", asked.begun, missed=missed, new_only=True)
    if algorithm.increments not in (None, 1):
        raise DeviceError(
            "plan",
            f"increments is {algorithm.increments}, and a device cannot cut data that it does not "
            'have yet; write increments = "new"',
        )
    return Question(f"{context.plan} {context.round}")


def _note(context: RoundContext, items: Sequence[object]) -> None:
    """Note in the client's ledger what stands for data that only the device has.

    What was released before and shares an item without being the same has changed.
    """
    if context.ledger is not None:
        for _ in context.ledger.reading(lambda: items, apart=True)():
            pass


def _unseen(plan: AnyPlan, algorithm: FederatedRidge, outputs: int) -> RidgeStatistics:
    """Return empty statistics that stand for sums which the gateway never sees."""
    if plan.masking is None:
        raise DeviceError(
            "plan",
            "the device sends its sums under the masks of secure aggregation only, and the plan "
            "has none; add one, or export the device without --masks",
        )
    if plan.plain:
        raise DeviceError(
            "plan",
            f"{type(plan.plain[0]).__name__} changes what a client sends, and nobody but the "
            "device sees it; export the device without --masks, or leave that protection out",
        )
    features = algorithm.features
    fixed = FixedPoint.of(features, classes=algorithm.classes is not None)
    return RidgeStatistics.zero(features.n_features, outputs, algorithm.statistics_name, fixed)


def _check_empty(link: Link, asked: Answered, memory: Memory) -> None:
    """Raise DeviceError for sums without a row, unless they are of what is new alone."""
    if not asked.new_only:
        _settle(link, asked.round, memory)  # so that it reads its sensor when asked again
        raise DeviceError(
            "empty",
            "the device's sums have no row; does its sensor have data to the end of a segment, one "
            "for the scale and one for the training?",
        )


def _settle(link: Link, round_: int, memory: Memory) -> None:
    """Tell the device that the sums of a question were counted, and forget the question."""
    try:
        link.command(kinds.ACKNOWLEDGED, ROUND.pack(round_))
    except DeviceError as error:
        if error.code != "refused":
            raise
        # It was reset since and knows nothing of the question, and so owes nothing.
    memory.pop(KEY, None)


def most_bytes(fixed: FixedPoint | None, n_features: int, n_targets: int) -> int:
    """Return the most bytes that a device's statistics can have as a message.

    >>> most_bytes(None, 100, 2)
    108376
    """
    F, K = n_features, n_targets
    entries = {
        "feature_sum": F,
        "target_sum": K,
        "gram": packed_length(F),
        "cross": F * K,
        "target_gram": packed_length(K),
    }
    limbs = dict.fromkeys(entries, 1) if fixed is None else fixed.limbs
    return SLACK + 8 * sum(limbs[name] * n for name, n in entries.items())


def _collected(link: Link, kind: str, payload: bytes, limit: int) -> Message:
    """Return a message that the device sends in parts; IntegrityError if it is damaged."""
    message = b"".join(link.collect(kind, payload, part=kinds.UPLOAD, limit=limit))
    return Message.from_bytes(message, limit=limit)
