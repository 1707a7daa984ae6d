"""A federation by files: every client writes one signed file, and whoever has them adds them.

    contribute   what a client answers to a stage of the plan, as a file; its ledger is charged
    combine      the run of a plan on such files: the same messages, sums and model as `run_plan`
    assist       the helper's answer to a batch, in plans with two servers
    kit          a folder for each client with all that it needs but its data

The first stage of a plan asks for nothing that a client could not know, so that it makes the
request for itself. A later one (the training after a federated scale, say) needs what the stage
before has found: `combine` writes a request, and a client answers it by a second file.

A contribution is a message of the usual codec, with its checksum and limits, signed by the client's
Ed25519 key. It names the request it answers by its SHA-256: what was made for another plan, map,
column or version answers nothing here, and is named with its file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np

from catchment.data.units import ALL, Units, units_of_files
from catchment.engine.local import Source, data_of
from catchment.errors import CatchmentError, FederationError, IntegrityError
from catchment.federation.algorithm import RoundContext
from catchment.federation.client import Node, Request, digest_of
from catchment.federation.measure.evaluation import Scores
from catchment.federation.messages import TRAINING, Engine, Reply, check_client_names
from catchment.federation.runs.folder import is_begun, locked, remove_run
from catchment.federation.runs.read import read_run
from catchment.federation.workflow import SCALING, AnyPlan, Engines, StageInputs, Workflow
from catchment.plans.data import About, Files, PlanData, arrange
from catchment.plans.file import PlanFile, own_kinds, read_plan, refuse_weeks
from catchment.plans.run import Finished, PlanRun, opened
from catchment.plugins import plugin
from catchment.privacy.ledger import PrivacyLedger
from catchment.privacy.policy import NAME as POLICY
from catchment.privacy.policy import OwnData, PlainRules, check_floors, policy_of, template
from catchment.privacy.secure_aggregation.client_store import FileMemory
from catchment.privacy.secure_aggregation.protection import SecureAggregation, is_name
from catchment.wire import Message, digest, plain_text, split
from catchment.wire.messages import replace_file

CONTRIBUTION, REQUEST = "contribution", "contribution-request"
SIGNED = b"catchment-contribution-1"
ENGINE = "files"
PLAN_FILE, KEYS_FILE, PAGE = "plan.toml", "identities.json", "README.txt"
FACTS = dict.fromkeys(("client", "key", "plan", "stage", "answers", "tells"), str) | {"round": int}
MOST_FACTS = 1 << 16  # bytes of all that is said beside a client's message


class AwaitedError(FederationError):
    """A run by files needs something before it can go on; `content` is to be sent to get it.

    Its notes say which files are not in that, and why.
    """

    def __init__(self, message: str, content: bytes, *, suffix: str) -> None:
        super().__init__(message)
        self.content, self.suffix = content, suffix


@dataclass(frozen=True, eq=False, kw_only=True)
class Contribution:
    """What one client sends, as a file.

    Parameters
    ----------
    client, key
        Who made it, and its public Ed25519 key in hexadecimal.
    plan, stage, round
        What it is for: the fingerprint of the plan file, and where in its workflow.
    answers
        SHA-256 of the request that it answers.
    tells
        In one sentence what its numbers are.
    reply
        The client's message.
    signature
        Of all that, by the key.
    """

    client: str
    key: str
    plan: str
    stage: str
    round: int
    answers: str
    tells: str
    reply: bytes
    signature: bytes = b""

    @property
    def facts(self) -> dict[str, Any]:
        """All that is signed beside the message."""
        return {name: getattr(self, name) for name in FACTS}

    @property
    def message(self) -> Message:
        """The client's message, opened; IntegrityError if it is damaged."""
        return Message.from_bytes(self.reply)

    def _signed(self) -> bytes:
        return json.dumps(self.facts, sort_keys=True).encode() + digest(self.reply)

    def to_bytes(self) -> bytes:
        """Return it as the content of its file."""
        facts = self.facts | {"signature": self.signature.hex()}
        return Message(CONTRIBUTION, facts, (np.frombuffer(self.reply, np.uint8),)).to_bytes()

    @classmethod
    def read(cls, path: str | Path) -> Contribution:
        """Return the contribution in a file; IntegrityError unless it is whole and signed."""
        return cls.from_bytes(Path(path).read_bytes())

    @classmethod
    def from_bytes(cls, content: bytes) -> Contribution:
        """Return the contribution that is a file's content, as `read` does."""
        from catchment.privacy.secure_aggregation.keys import verify

        # What a stranger sends takes no more memory than the file is long.
        parts = Message.from_bytes(content, limit=len(content), header_limit=MOST_FACTS)
        facts: dict[str, Any] = dict(parts.expect(CONTRIBUTION, 1).facts)
        try:
            signature = bytes.fromhex(str(facts.pop("signature")))
            if {name: type(fact) for name, fact in facts.items()} != FACTS:
                raise TypeError("it says other things of itself")
            made = cls(**facts, reply=parts.arrays[0].tobytes(), signature=signature)
            check_client_names([made.client])
            verify(made.key, signature, SIGNED, made._signed())
        except (TypeError, ValueError, KeyError) as error:
            raise IntegrityError(
                f"it is no contribution that this version reads: {error}"
            ) from error
        return made

    def check(self, plan: str, identities: Mapping[str, str]) -> None:
        """Raise IntegrityError unless it is for a plan, and signed by a known key if any is."""
        if self.plan != plan:
            raise IntegrityError("it was made for another plan")
        if self.stage not in (SCALING, TRAINING):
            raise IntegrityError(f"nothing is added by files for {plain_text(self.stage, 40)!r}")
        if identities and identities.get(self.client) != self.key:
            raise IntegrityError(f"{self.client} is not registered with the key that signed it")

    def save(self, path: str | Path) -> Path:
        """Write the file, whole or not at all, and return its path."""
        replace_file(Path(path), self.to_bytes())
        return Path(path)


def contribute(
    plan: str | Path,
    data: str | Path,
    *,
    name: str,
    keys: str | Path,
    request: str | Path | None = None,
    identities: str | Path | None = None,
    clear: bool = False,
) -> Contribution:
    """Return what a client sends for a stage of a plan; its privacy ledger has it from then on.

    Parameters
    ----------
    plan
        The plan file.
    data
        The client's own files: a folder, a file or a pattern. Or the address of its device, which
        masks its sums by itself where it was exported so.
    name
        What the client is called.
    keys
        The client's private folder, with its key, its privacy ledger and, if there is one, its
        `policy.toml`; it is made at the first use.
    request
        What `combine` wrote for a later stage; the plan's first stage if not given.
    identities
        Public keys of all clients, a JSON object, where the plan has secure aggregation.
    clear
        Whether statistics may leave without secure aggregation, as clear = true in the policy.
    """
    from catchment.privacy.secure_aggregation.keys import new_identity, sign

    check_client_names([name])
    file = by_files(plan)
    policy = policy_of({"keys": str(keys), "allow-plain-statistics": clear})
    workflow = _assisted(file.workflow(file.about(), known_keys(file, identities)), {}, {})
    check_floors(policy, workflow.protections)
    if request is None:
        stage, asked = first_request(workflow)
    else:
        parts = Message.from_bytes(Path(request).read_bytes()).expect(REQUEST, 1)
        stage, asked = str(parts.facts.get("stage")), parts.arrays[0].tobytes()
    known = StageInputs.from_message(
        Request.from_bytes(asked, name).stage_inputs, own_kinds(file), of=workflow, stage=stage
    )
    own = workflow.plan(stage, known)
    turn = Request.from_bytes(asked, name, own)
    if own.masking is None:
        # The client's own rule on thin statistics is no part of the plan: it changes no byte.
        own = replace(own, protections=(PlainRules(), *own.protections))
    turn = replace(turn, plan=own.fingerprint())
    memory = FileMemory(Path(keys) / "memory")
    source, units = _own(file, name, str(data), policy.data, workflow)
    ledger = PrivacyLedger(memory, policy, units)
    with closing(locked(memory.folder)):  # a ledger has one writer
        key = new_identity(memory)
        reply = Node(name, own, source, memory, ledger).answer(turn.to_bytes())
    if (made := Message.from_bytes(reply)).kind == "refusal":
        raise FederationError(str(made.facts.get("reason")))
    contribution = Contribution(
        client=name,
        key=key,
        plan=file.fingerprint,
        stage=stage,
        round=turn.context.round,
        answers=digest(asked).hex(),
        tells=workflow.upload(known) if stage == TRAINING else "sums for a shared scale",
        reply=reply,
    )
    return replace(contribution, signature=sign(memory, SIGNED, contribution._signed()))


def _own(
    file: PlanFile, name: str, data: str, about: OwnData, workflow: Workflow
) -> tuple[Any, Any]:
    """Return where a client's recordings are, in files or on a device, and their units."""
    if data.startswith(("tcp://", "serial://")):
        return plugin("engines", "device", needed_for="devices")(data).within(workflow), ALL
    files = own_files(file, data)
    units = units_of_files(replace(files, leave_out=()).paths(Path()), about.parts, about.date)
    held = own_data(file, {name: OwnFiles(files, units)}, file.about())
    return data_of(held.train[name]), lambda: units


def by_files(plan: str | Path) -> PlanFile:
    """Return a plan that can be run by files; ValueError if it cannot."""
    file = read_plan(plan)
    refuse_weeks(file)
    if file.run.intervals:
        raise ValueError(
            "intervals are counted where all data are; leave them out of [run], and call "
            "catchment.calibrate with clients that did not train"
        )
    return file


def known_keys(file: PlanFile, identities: str | Path | None) -> dict[str, str]:
    """Return the public keys of all clients; ValueError if secure aggregation is without them."""
    if identities is None and file.is_secret:
        raise ValueError(
            "the plan has secure aggregation, which needs the public keys of all clients; pass "
            "--identities identities.json"
        )
    return {} if identities is None else json.loads(Path(identities).read_text(encoding="utf-8"))


def first_request(workflow: Workflow) -> tuple[str, bytes]:
    """Return the first stage of a workflow and its request, as every client can make it."""
    known, stage = workflow.start(), workflow.stages[0]
    plan = workflow.plan(stage, known)
    told = known.parts()
    context = RoundContext(0, (), plan.seed, plan=plan.fingerprint(), told=digest_of(told))
    payload = plan.algorithm.broadcast(plan.algorithm.start(), context)
    return stage, Request(context.plan, context, "update", payload, told).to_bytes()


def own_files(file: PlanFile, data: str | Path) -> Files:
    """Return how a client's own files are read, as the plan reads its files."""
    if not isinstance(file.origin, Files):
        raise ValueError(
            f"the plan's data come from {file.source!r}, and a client has files of its own; write "
            'files = "*.csv" in the place of the source'
        )
    if file.sharing.split not in (None, "natural"):
        raise ValueError(
            f"split is {file.sharing.split!r}, which deals all clients' data anew; no client can "
            "do that, leave it out"
        )
    if (file.preprocessing.by_duration or file.preprocessing.rate) and not file.origin.time:
        raise ValueError(
            "the plan counts in seconds and names no column of times; write time = ... in [data]"
        )
    per_step = file.about().per_step or file.preprocessing.window is not None
    return replace(file.origin, files=str(data), per_step=per_step)


@dataclass(frozen=True)
class OwnFiles:
    """The recordings of all of a client's files, in the order of their names.

    `within` is entered while they are read, for whoever says errors otherwise.
    """

    how: Files
    units: Units
    within: Callable[[], AbstractContextManager[None]] = nullcontext

    def __call__(self) -> list[Any]:
        with self.within():
            found = self.how.read(self.how.paths(Path()))
        return [one for name in sorted(found) for one in found[name]]


def own_data(file: PlanFile, held: Mapping[str, Source], about: About) -> PlanData:
    """Return clients' own data, what trains apart from what the plan keeps for a test.

    Where the plan tests whole clients, by folds too, who contributes trains on all of its data.
    """
    if file.sharing.test == "folds" or file.sharing.tests_of(about) == "clients":
        return PlanData(held, {}, about)
    natural = replace(file.sharing, split="natural")
    return arrange(PlanData(held, {}, about), natural, washout=file.washout)


@dataclass(frozen=True, eq=False)
class FilesEngine(Engine):
    """Answers requests by the contributions to one stage, if that is what they answer."""

    stage: str
    found: Mapping[str, Contribution]
    everybody: Sequence[str]

    def clients(self) -> Sequence[str]:
        return sorted(self.found) or self.everybody

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for client, request in requests.items():
            if not self.found:
                content = Message(
                    REQUEST, {"stage": self.stage}, (np.frombuffer(request, np.uint8),)
                )
                raise AwaitedError(
                    f"the {self.stage} needs a second contribution of each client",
                    content.to_bytes(),
                    suffix=".request",
                )
            one = self.found.get(client)
            if one is None or one.answers != digest(request).hex():
                why = "its contribution answers another request: of another plan, version or stage"
                yield Reply(client, None, why)
            else:
                yield Reply(client, one.reply)


@dataclass(frozen=True, kw_only=True, eq=False)
class FilesEngines(Engines):
    """The clients of a workflow as contributions, by stage and client."""

    found: Mapping[str, Mapping[str, Contribution]]

    name = ENGINE

    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        everybody = sorted({name for one in self.found.values() for name in one})
        return FilesEngine(stage, self.found.get(stage, {}), everybody)


@dataclass(frozen=True, eq=False)
class FilesRun(PlanRun):
    """A plan's run on contributions: nobody is there to be given the model, or to test it."""

    def _deliver(self, known: StageInputs, place: Any) -> None:
        self.store.write_facts({"undelivered": "contributions came as files; send the model back"})


@dataclass(frozen=True, eq=False)
class Combined:
    """A run on contributions; the files that are not in it, with reasons; who missed the second."""

    finished: Finished
    refused: Mapping[str, str] = field(default_factory=dict)
    absent: Sequence[str] = ()


def combine(
    contributions: Iterable[str | Path],
    plan: str | Path,
    *,
    out: str | Path,
    identities: str | Path | None = None,
    without: Iterable[str] = (),
    answers: Iterable[str | Path] = (),
) -> Combined:
    """Return the run of a plan on contributions, kept in a folder as any run.

    Run again when a file came late or a client withdrew: the folder then holds the run of the files
    that are named, and until that is finished the one before. AwaitedError if something must be
    sent and answered first; its content is to be written to a file: a request to all clients, or a
    batch to the helper.

    Parameters
    ----------
    contributions
        The files.
    plan
        The plan file.
    out
        The run's folder.
    identities
        Public keys of all clients, a JSON object: who is not among them, or signs with another key,
        is refused. Without it the first key that a name comes with is taken.
    without
        Clients whose contributions are left out.
    answers
        The helper's answers to batches, in plans with two servers.
    """
    file = by_files(plan)
    trusted = known_keys(file, identities)
    found, refused = _sorted(contributions, file, trusted, set(without))
    if not any(found.values()):
        reasons = "; ".join(f"{path}: {why}" for path, why in refused.items())
        raise FederationError(f"there is no contribution to combine; {reasons or 'name some'}")
    about = file.about()
    read = {str(path): Path(path).read_bytes() for path in answers}
    workflow = _assisted(file.workflow(about, trusted), read, refused)
    engines = FilesEngines(found=found)
    folder, place = Path(out), Path(out).with_name(f"{Path(out).name}.next")
    before = read_run(folder).facts if is_begun(folder) else {}
    if before.get("engine") != ENGINE or "finished" not in before:
        place = folder
    # One that waits for the helper goes on: begun anew, its noise would be charged twice.
    waiting = is_begun(place) and read_run(place).facts.get("engine") == ENGINE
    with opened(file, place, resume=waiting) as store:
        run = FilesRun(file, workflow, about, engines, store, Scores)
        try:
            done = run.run()
        except FederationError as error:
            for path, why in refused.items():
                error.add_note(f"{path} was refused: {why}")
            raise
        run.finish(done)
    if place != folder:
        remove_run(folder)
        folder.mkdir(exist_ok=True)
        for one in sorted(place.iterdir()):
            one.replace(folder / one.name)
        place.rmdir()
    absent = found.get(SCALING, {}).keys() - found[TRAINING].keys()
    return Combined(Finished(read_run(folder), done.model, done.scores), refused, sorted(absent))


def _sorted(
    paths: Iterable[str | Path], file: PlanFile, trusted: Mapping[str, str], without: set[str]
) -> tuple[dict[str, dict[str, Contribution]], dict[str, str]]:
    """Return contributions by stage and client, and why files are not among them."""
    found: dict[str, dict[str, Contribution]] = {}
    places: dict[tuple[str, str], Path] = {}
    refused: dict[str, str] = {}
    holders: dict[bytes, str] = {}
    for path in sorted(map(Path, paths)):
        try:
            one = Contribution.read(path)
            if one.client in without:
                continue
            one.check(file.fingerprint, trusted)
            holder = holders.setdefault(bytes.fromhex(one.key), one.client)
            if holder != one.client:
                raise IntegrityError(f"{one.client} signed it with the key of {holder}")
        except (CatchmentError, OSError) as error:
            refused[str(path)] = str(error)
            continue
        of_stage = found.setdefault(one.stage, {})
        other = of_stage.setdefault(one.client, one)
        first = places.setdefault((one.stage, one.client), path)
        if other.reply != one.reply or other.key != one.key:
            raise FederationError(
                f"{one.client} has two different contributions, {first} and {path}; name one of "
                "them"
            )
    return found, refused


def _assisted(workflow: Workflow, read: dict[str, bytes], refused: dict[str, str]) -> Workflow:
    """Return the workflow with its helper's answers at hand, where it has two servers.

    What is used of them is taken out of `read`; why others are not is written into `refused`.
    """

    def assist(batch: bytes, agreed: SecureAggregation) -> bytes:
        from catchment.privacy.secure_aggregation.two_servers import BATCH, answered

        named = split(Message.from_bytes(batch), BATCH)
        for path, content in read.items():
            try:
                answered(agreed, named, content)
            except IntegrityError as error:
                refused[path] = str(error)
            else:
                refused.pop(path, None)
                return read.pop(path)
        if len(named) < agreed.min_clients:
            raise FederationError(
                f"the helper answered for all but {len(named)}, and a batch has "
                f"{agreed.min_clients} or more; wait until so many have come late, or leave them "
                "out with --without"
            )
        words = "the sum is masked, and the helper takes the masks off"
        raise AwaitedError(words, batch, suffix=".batch")

    protections = list(workflow.protections)
    for k, one in enumerate(protections):
        if not isinstance(one, SecureAggregation):
            continue
        if one.servers == 1:
            raise ValueError(
                "secure aggregation with one server asks clients seven times; by files use "
                "servers = 2 and the public key of a helper"
            )
        protections[k] = replace(one, assist=partial(assist, agreed=one))
    return replace(workflow, protections=tuple(protections))


def assist(
    batch: str | Path, plan: str | Path, *, keys: str | Path, identities: str | Path
) -> bytes:
    """Return the helper's answer to a batch, the content of a file for the leader.

    Parameters
    ----------
    batch
        What `combine` wrote.
    plan
        The plan file, whose secure aggregation names this helper.
    keys
        The helper's private folder: its key, and which clients were in which batch.
    identities
        Public keys of all clients, a JSON object.
    """
    from catchment.privacy.secure_aggregation.two_servers import Helper

    file = by_files(plan)
    workflow = file.workflow(file.about(), known_keys(file, identities))
    (agreed,) = (one for one in workflow.protections if isinstance(one, SecureAggregation))
    helper = Helper(FileMemory(Path(keys)), agreed)
    with closing(locked(Path(keys))):  # of two batches at once, one is the earlier
        return helper.answer(Path(batch).read_bytes(), file.fingerprint)


def kit(plan: str | Path, names: Iterable[str], out: str | Path) -> Path:
    """Write a folder for each client of a plan, and for its helper; return the folder of all.

    A client's folder has the plan, its private key and its policy, the public keys of all clients,
    a place for its recordings, and a page that says what to type. Whoever makes the kit has seen
    the private keys; where that must not be, clients make their own (`new_identity`).

    Parameters
    ----------
    plan
        The plan file. With `servers = 2` and no `helper` under its secure aggregation, a helper's
        key is made and written into the copies.
    names
        What the clients are called: letters, digits, ".", "_" and "-".
    out
        Where the folders are made; it must not exist yet.
    """
    from catchment.privacy.secure_aggregation.keys import new_identity
    from catchment.privacy.secure_aggregation.two_servers import new_helper

    folder, clients = Path(out), _folder_names(names)
    if folder.exists():
        raise FileExistsError(f"{folder} is there already, and may hold keys; choose another --out")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=".kit-", dir=folder.parent))
    try:
        text, lines = Path(plan).read_text(encoding="utf-8"), r"(?m)^([^\S\n]*)(servers\s*=\s*2.*)$"
        tables = [one for one in tomllib.loads(text).get("protections", []) if "servers" in one]
        if any(one["servers"] == 2 and not one.get("helper") for one in tables):
            public = new_helper(FileMemory(draft / "helper" / "keys"))
            text = re.sub(lines, rf'\1\2\n\1helper = "{public}"', text, count=1)
        keys = {name: new_identity(FileMemory(draft / name / "keys/memory")) for name in clients}
        for place in (draft, *filter(Path.is_dir, draft.iterdir())):
            _write(place / KEYS_FILE, json.dumps(keys, indent=1) + "\n")
            _write(place / PLAN_FILE, text)
        _fill(draft, clients, by_files(draft / PLAN_FILE), keys)
        if (draft / "helper").is_dir():
            _write(draft / "helper" / PAGE, _page("helper"))
        draft.rename(folder)
    finally:
        rmtree(draft, ignore_errors=True)
    return folder


def _fill(folder: Path, clients: Iterable[str], file: PlanFile, keys: Mapping[str, str]) -> None:
    """Give each client its policy, its page and a place for its recordings."""
    workflow, how = file.workflow(file.about(), keys), own_files(file, "data")
    least, more = {}, "--clear"
    for one in workflow.protections:
        if isinstance(one, SecureAggregation):
            least = {name: getattr(one, name) for name in ("min_clients", "rows_per_feature")}
            more = f"--identities {KEYS_FILE}"
    targets = (how.target,) if isinstance(how.target, str) else how.target or ()
    columns = (how.time, how.recording, *file.about().channels, how.label, *targets)
    needed = ", ".join(filter(None, columns))
    if how.label and how.classes != "auto":
        needed += f" ({how.label} is one of: {', '.join(map(str, how.classes))})"
    for name in clients:
        (folder / name / "data").mkdir()
        _write(folder / name / "keys" / POLICY, template(**least))
        page = _page("client").format(name=name, more=more, columns=needed)
        _write(folder / name / PAGE, page)


def _folder_names(names: Iterable[str]) -> list[str]:
    """Return names that are folders and words of a command line, on any system, or ValueError."""
    found = {"helper": "", PLAN_FILE: "", KEYS_FILE: ""}
    for name in dict.fromkeys(names):
        if not is_name(name) or found.setdefault(name.casefold().rstrip("."), name) != name:
            raise ValueError(
                f"a client is called {ascii(name)[:80]}; use 1 to 64 letters, digits, '.', '_', "
                "'-', not 'helper', and not another's name in other capitals"
            )
    if not any(found.values()):
        raise ValueError("there are no clients to make a kit for; name at least one")
    return list(filter(None, found.values()))


def _page(of: str) -> str:
    return Path(__file__).with_name(f"kit_{of}.txt").read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
