"""A federation by files: the same model as of one process, and refusals with their names."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.cli import main
from catchment.errors import FederationError, IntegrityError, RuleError
from catchment.federation.runs import locked
from catchment.plans import (
    AwaitedError,
    Contribution,
    assist,
    combine,
    contribute,
    kit,
    read_plan,
    run_plan,
)
from catchment.privacy import (
    FileMemory,
    Helper,
    PrivacyLedger,
    SecureAggregation,
    new_helper,
    new_identity,
    read_policy,
)
from catchment.privacy.secure_aggregation import Outline, content_digest, sign
from catchment.wire import Message, join, split

PLAN = """
[data]
files = "p*.csv"
label = "activity"
inputs = ["ax", "ay"]
classes = ["rest", "walk"]
per_step = true
test = "folds"

[preprocessing]
scale = "{scale}"

[features]
map = "echo_state"
units = 8

[run]
baselines = []
"""
TWO_SERVERS = """
[[protections]]
name = "secure_aggregation"
servers = 2
min_clients = {least}
bits = 64
bound = 1e9
rows_per_feature = 2
"""


def people(folder: Path, n: int) -> list[str]:
    """Write the recordings of people who rest and walk, a file each, and return their names."""
    folder.mkdir(exist_ok=True)
    names = [f"p{k:02d}" for k in range(n)]
    for k, name in enumerate(names):
        rng = np.random.default_rng(k)
        rows = ["ax,ay,activity"]
        for activity, size in (("rest", 0.1), ("walk", 1.0)) * 2:
            u = size * np.sin(np.arange(100) / 4)[:, None] * [1, 0.5] + rng.normal(0, 0.2, (100, 2))
            rows += [f"{a:.3f},{b:.3f},{activity}" for a, b in u]
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return names


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def made(plan: Path, names: list[str], **more: Path) -> dict[str, Path]:
    """Return the files that clients contribute, in the clear."""
    folder, paths = plan.parent, {}
    for name in names:
        one = contribute(
            plan,
            folder / f"{name}.csv",
            name=name,
            keys=folder / f"{name}.keys",
            clear=True,
            **more,
        )
        paths[name] = one.save(folder / f"{name}.contribution")
    return paths


def sha(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("n", [4, pytest.param(12, marks=pytest.mark.long)])
def test_contributions_of_as_many_processes_give_the_model_of_one(tmp_path: Path, n: int) -> None:
    names = people(tmp_path, n)
    plan = written(tmp_path, PLAN.format(scale="own"))
    command = [sys.executable, "-m", "catchment.cli", "contribute", str(plan)]
    sites = [
        subprocess.Popen(
            [*command, f"{name}.csv", "--name", name, "--clear"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in names
    ]
    for site in sites:
        said, _ = site.communicate()
        assert site.returncode == 0, said
        assert "in the clear: statistics are not anonymous" in said
    combine(tmp_path.glob("*.contribution"), plan, out=tmp_path / "files")
    run_plan(read_plan(plan), tmp_path / "one")
    assert sha(tmp_path / "files") == sha(tmp_path / "one")


def test_a_late_file_joins_and_a_withdrawn_one_leaves(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    paths = made(plan, people(tmp_path, 5))
    for left in ("p04", "p01"):
        out = tmp_path / "files"
        combine(paths.values(), plan, out=out, without=[left])
        kept = (tmp_path / f"{left}.csv").rename(tmp_path / f"{left}.away")
        run_plan(read_plan(plan), tmp_path / f"without {left}")
        kept.rename(tmp_path / f"{left}.csv")
        assert sha(out) == sha(tmp_path / f"without {left}")
    combine(paths.values(), plan, out=tmp_path / "files")
    run_plan(read_plan(plan), tmp_path / "all")
    assert sha(tmp_path / "files") == sha(tmp_path / "all")


def test_a_federated_scale_takes_a_second_contribution_and_names_who_missed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = written(tmp_path, PLAN.format(scale="federated"))
    names = people(tmp_path, 3)
    first = made(plan, names)
    moments = [path.rename(path.with_suffix(".moments")) for path in first.values()]
    with pytest.raises(AwaitedError, match="needs a second contribution") as awaited:
        combine(moments, plan, out=tmp_path / "files")
    assert not (tmp_path / "files").exists()
    request = tmp_path / "run.request"
    request.write_bytes(awaited.value.content)
    second = made(plan, names, request=request)
    done = combine([*moments, *second.values()], plan, out=tmp_path / "files")
    assert done.absent == []
    run_plan(read_plan(plan), tmp_path / "one")
    assert sha(tmp_path / "files") == sha(tmp_path / "one")
    files = [*moments, second["p00"], second["p02"]]
    done = combine(files, plan, out=tmp_path / "files")
    assert (done.absent, done.finished.run.latest["training"][-1].n_used) == (["p01"], 2)
    with pytest.raises(SystemExit) as ended:
        main(["combine", *map(str, files), "--plan", str(plan), "--out", str(tmp_path / "files"),
              "--strict"])  # fmt: skip
    assert ended.value.code == 1
    assert "p01 sent no second contribution" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    typed = ["contribute", "plan.toml", "p01.csv", "--name", "p01", "--clear"]
    for more in ([], ["--request", "run.request"]):
        with pytest.raises(SystemExit) as ended:
            main([*typed, *more])
        assert ended.value.code == 0
    told = [Contribution.read(f"p01{one}.contribution").stage for one in ("", ".second")]
    assert told == ["scaling", "training"]


def tables(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    """Return the rows of a run's database, and in `columns` what they hold."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as file:
        named = [
            one for (one,) in file.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        found = {name: set(file.execute(f"SELECT * FROM {name}")) for name in named}
        found["columns"] = {
            (n, *one) for n in named for one in file.execute(f"PRAGMA table_info({n})")
        }
    return found


# What a run by files has otherwise than `catchment run`, as docs/guides/by-files.md lists it.
OTHER_FACTS = {"engine", "started", "finished", "undelivered", "folds", "metric", "test_clients"}
AFTER = {"delivery", "evaluation"}
SCORES = {"scores", "comparison", "confusion", "confusions"}


@pytest.mark.parametrize("scale", ["own", "federated"])
def test_the_folder_is_that_of_a_run_but_for_what_the_guide_lists(
    tmp_path: Path, scale: str
) -> None:
    plan = written(tmp_path, PLAN.format(scale=scale))
    names = people(tmp_path, 3)
    first = made(plan, names)
    files = list(first.values())
    if scale == "federated":
        files = [path.rename(path.with_suffix(".moments")) for path in files]
        request = tmp_path / "run.request"
        with pytest.raises(AwaitedError) as awaited:
            combine(files, plan, out=tmp_path / "files")
        request.write_bytes(awaited.value.content)
        files += made(plan, names, request=request).values()
    combine(files, plan, out=tmp_path / "files")
    run_plan(read_plan(plan), tmp_path / "one")
    held, other = (
        {one.relative_to(place).as_posix(): one.read_bytes() for one in place.rglob("*.*")}
        for place in (tmp_path / "files", tmp_path / "one")
    )
    assert {name for name in other if held.get(name) != other[name]} == {
        "run.sqlite", "states/delivery-000000.bin",
    }  # fmt: skip
    assert held.keys() < other.keys()
    by_files, by_run = tables(tmp_path / "files"), tables(tmp_path / "one")
    assert by_files.keys() == by_run.keys()
    for name, rows in by_run.items():
        mine = by_files[name]
        if name == "facts":
            assert {fact for fact, _ in rows ^ mine} <= OTHER_FACTS
        elif name == "rounds":  # the fifth column is seconds
            assert {(*one[:4], *one[5:]) for one in mine} == {
                (*one[:4], *one[5:]) for one in rows if one[0] not in AFTER
            }
        elif name in ("stages", "messages", "digests", "figures", "refusals"):
            assert mine == {one for one in rows if one[0] not in AFTER}, name
        elif name == "kinds":
            assert {one[0] for one in rows ^ mine} == {"receipt"}
        elif name in SCORES:
            assert not mine
        else:
            assert mine == rows, name


def test_what_is_refused_is_named_with_its_file(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    paths = made(plan, people(tmp_path, 4))
    flipped = bytearray(paths["p00"].read_bytes())
    flipped[-9] ^= 1
    paths["p00"].write_bytes(flipped)
    other = tmp_path / "other"
    other.mkdir()
    people(other, 2)
    (other / "p01.contribution").unlink(missing_ok=True)
    elsewhere = made(written(other, PLAN.format(scale="own").replace("8", "9")), ["p01"])
    done = combine([*paths.values(), *elsewhere.values()], plan, out=tmp_path / "files")
    assert done.refused == {
        str(paths["p00"]): "the message is damaged: its checksum does not match",
        str(elsewhere["p01"]): "it was made for another plan",
    }
    assert done.finished.run.latest["training"][-1].n_used == 3


def test_two_different_contributions_of_one_client_are_refused(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    paths = made(plan, people(tmp_path, 3))
    stranger = contribute(
        plan, tmp_path / "p02.csv", name="p00", keys=tmp_path / "stranger", clear=True
    ).save(tmp_path / "again.contribution")
    with pytest.raises(FederationError, match=r"p00 has two different contributions, .*again.*p00"):
        combine([*paths.values(), stranger], plan, out=tmp_path / "files")
    known = tmp_path / "identities.json"
    known.write_text(json.dumps({n: Contribution.read(p).key for n, p in paths.items()}))
    done = combine([*paths.values(), stranger], plan, out=tmp_path / "files", identities=known)
    assert list(done.refused) == [str(stranger)]
    assert "not registered with the key" in done.refused[str(stranger)]


def test_a_signature_covers_every_fact(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    (path,) = made(plan, people(tmp_path, 1)).values()
    one = Contribution.read(path)
    for name, value in one.facts.items():
        other: dict[str, Any] = {name: f"{value}0" if isinstance(value, str) else value + 1}
        changed = replace(one, **other)
        changed.save(path)
        with pytest.raises((IntegrityError, ValueError)):
            Contribution.read(path)


def test_nothing_leaves_in_the_clear_unasked_or_thin(tmp_path: Path) -> None:
    people(tmp_path, 1)
    plan = written(tmp_path, PLAN.format(scale="own"))
    given: dict[str, Any] = {"name": "p00", "keys": tmp_path / "keys"}
    with pytest.raises(RuleError, match="no secure aggregation"):
        contribute(plan, tmp_path / "p00.csv", **given)
    plan = written(tmp_path, PLAN.format(scale="own").replace("units = 8", "units = 80"))
    with pytest.raises(FederationError, match=r"so few rows for 82 features .* servers = 2"):
        contribute(plan, tmp_path / "p00.csv", clear=True, **given)


# The same as with two servers, but in the clear: with the ridge that a sum alone lets be chosen.
SUMS = PLAN.format(scale="own") + '\n[learn]\nalgorithm = "ridge"\nridge = "gcv"\n'


class Sites:
    """A kit whose clients have contributed under secure aggregation with two servers."""

    def __init__(self, folder: Path, n: int = 4, least: int = 3, text: str = PLAN) -> None:
        folder.mkdir(exist_ok=True)
        self.names = people(folder / "data", n)
        whole = text.replace("{scale}", "own") + TWO_SERVERS.format(least=least)
        self.folder = kit(written(folder, whole), self.names, folder / "kits")
        self.plan, self.keys = self.folder / "plan.toml", self.folder / "identities.json"
        self.paths: dict[str, Path] = {}
        for name in self.names:
            own = self.folder / name
            one = contribute(
                own / "plan.toml",
                folder / "data" / f"{name}.csv",
                name=name,
                keys=own / "keys",
                identities=own / "identities.json",
            )
            self.paths[name] = one.save(self.folder / f"{name}.contribution")

    def batch(self, names: list[str] | None = None) -> Path:
        """Return the batch that the leader writes for these clients."""
        paths = [self.paths[name] for name in names or self.names]
        with pytest.raises(AwaitedError, match="the helper takes the masks off") as awaited:
            combine(paths, self.plan, out=self.folder / "run", identities=self.keys)
        path = self.folder / "run.batch"
        path.write_bytes(awaited.value.content)
        return path

    def answer(self, batch: Path) -> Path:
        keys = self.folder / "helper" / "keys"
        path = batch.with_suffix(".answer")
        path.write_bytes(assist(batch, self.plan, keys=keys, identities=self.keys))
        return path

    def helper(self, today: date | None = None) -> Helper:
        identities = json.loads(self.keys.read_text())
        file = read_plan(self.plan)
        (agreed,) = file.workflow(file.about(), identities).protections
        assert isinstance(agreed, SecureAggregation)
        return Helper(FileMemory(self.folder / "helper" / "keys"), agreed, today=today)


def test_two_servers_give_the_model_of_one_process(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    answer = sites.answer(sites.batch())
    out = sites.folder / "run"
    combine(sites.paths.values(), sites.plan, out=out, identities=sites.keys, answers=[answer])
    run_plan(read_plan(written(tmp_path / "data", SUMS)), tmp_path / "one")
    assert sha(out) == sha(tmp_path / "one")


def test_a_masked_contribution_is_hardly_longer_than_its_numbers(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 3)
    one = Contribution.read(sites.paths["p00"])
    numbers, sealed = one.message.arrays
    assert numbers.dtype == np.uint64
    assert sealed.size == 80 + 64  # the seed in its box, and a signature
    # What the leader holds of one client tells nothing: it is as a uniform number is.
    high = np.unpackbits(numbers.view(np.uint8)).mean()
    assert abs(high - 0.5) < 5 * 0.5 / np.sqrt(numbers.size * 64)


@pytest.mark.parametrize("units", [30, 100])
def test_a_masked_contribution_has_at_most_a_twentieth_more_bytes_than_a_clear_one(
    tmp_path: Path, units: int
) -> None:
    text = PLAN.replace("units = 8", f"units = {units}")
    sites = Sites(tmp_path, 3, text=text)
    own = sites.folder / "own"
    own.mkdir()
    learn = '\n[learn]\nalgorithm = "ridge"\nridge = "gcv"\n'
    more = {"name": "p00", "keys": own / "keys", "clear": True}
    rows = (tmp_path / "data" / "p00.csv").read_text().splitlines()
    (own / "long.csv").write_text(
        "\n".join(rows[:1] + rows[1:] * 6) + "\n"
    )  # the rule on thin ones
    plan = written(own, text.replace("{scale}", "own") + learn)
    clear = contribute(plan, own / "long.csv", **more)  # type: ignore[arg-type]
    # The clear upload, of whose numbers each takes the 8 bytes that it takes in the ring of 64.
    arrays = tuple(array.view(np.uint64) for array in clear.message.arrays)
    upload = replace(clear, reply=replace(clear.message, arrays=arrays).to_bytes())
    length = sites.paths["p00"].stat().st_size
    assert 1 < length / len(upload.to_bytes()) <= 1.05
    # And of an upload that is numbers and a name, no more than this.
    numbers = np.zeros(sum(array.size for array in arrays), np.uint64)
    bare = replace(clear, reply=Message("statistics", {}, (numbers,)).to_bytes())
    assert length - len(bare.to_bytes()) <= 500


def test_a_fifth_that_is_lost_at_any_moment_changes_nothing_but_the_set(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 5)
    file = read_plan(written(tmp_path / "data", SUMS))
    run_plan(file, tmp_path / "five")
    # After their contributions nobody is needed: one is gone before the batch is answered.
    batch = sites.batch()
    shutil.rmtree(sites.folder / "p04")
    answer = sites.answer(batch)
    out = sites.folder / "run"
    combine(sites.paths.values(), sites.plan, out=out, identities=sites.keys, answers=[answer])
    assert sha(out) == sha(tmp_path / "five")
    # Before it, or on its way: the sum is that of the four others.
    less = Sites(tmp_path / "less", 5)
    batch = less.batch(less.names[:4])
    answer = less.answer(batch)
    out = less.folder / "run"
    paths = [less.paths[name] for name in less.names[:4]]
    combine(paths, less.plan, out=out, identities=less.keys, answers=[answer])
    (tmp_path / "data" / "p04.csv").unlink()
    run_plan(file, tmp_path / "four")
    assert sha(out) == sha(tmp_path / "four")


def test_a_run_stays_until_the_next_one_is_finished(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 6)
    out = sites.folder / "run"
    early = [sites.paths[name] for name in sites.names[:3]]
    given: dict[str, Any] = {"out": out, "identities": sites.keys}
    first = sites.answer(sites.batch(sites.names[:3])).rename(tmp_path / "first.answer")
    combine(early, sites.plan, **given, answers=[first])
    (out / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in out.rglob("*.*")}
    with pytest.raises(AwaitedError) as awaited:
        combine(sites.paths.values(), sites.plan, **given, answers=[first])
    assert {path.name: path.read_bytes() for path in out.rglob("*.*")} == before
    late = tmp_path / "late.batch"
    late.write_bytes(awaited.value.content)
    answers = [first, sites.answer(late)]
    done = combine(sites.paths.values(), sites.plan, **given, answers=answers)
    assert done.finished.run.latest["training"][-1].n_used == 6
    assert {path.name for path in out.rglob("*.*")} == set(before)
    assert not [path for path in sites.folder.iterdir() if "next" in path.name]


def test_a_contribution_made_twice_is_the_same_file(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 3)
    data, own = tmp_path / "data" / "p00.csv", sites.folder / "p00" / "keys"
    again = contribute(sites.plan, data, name="p00", keys=own, identities=sites.keys)
    assert again.to_bytes() == sites.paths["p00"].read_bytes()


def test_a_kit_is_not_made_for_a_window_in_seconds_without_times(tmp_path: Path) -> None:
    text = PLAN.format(scale="own").replace("[features]", 'window = "2s"\n\n[features]')
    plan = written(tmp_path, text)
    with pytest.raises(ValueError, match="names no column of times"):
        kit(plan, ["ann"], tmp_path / "kits")
    plan.write_text(text.replace("per_step", 'time = "t"\nper_step'))
    assert kit(plan, ["ann"], tmp_path / "kits").is_dir()


def test_the_helper_refuses_a_batch_that_overlaps_an_earlier_one(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    first = sites.answer(sites.batch()).read_bytes()
    assert sites.answer(sites.batch()).read_bytes() == first
    with pytest.raises(RuleError, match="p00 was in another batch of this plan"):
        sites.answer(sites.batch(["p00", "p01", "p02"]))


def test_an_answer_that_the_plan_s_helper_did_not_sign_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = Sites(tmp_path)
    batch = sites.batch()
    good = sites.answer(batch)
    parts = Message.from_bytes(good.read_bytes())
    (masks,) = parts.arrays
    shutil.copytree(sites.folder / "helper", tmp_path / "other")
    memory = FileMemory(tmp_path / "other" / "keys")
    del memory["secure-sum/identity"]  # it opens the same seeds, and signs with a key of its own
    other = assist(batch, sites.plan, keys=memory.folder, identities=sites.keys)
    unsigned = {name: fact for name, fact in parts.facts.items() if name != "signature"}
    forged = {
        "changed": replace(parts, arrays=(masks + np.uint64(1),)).to_bytes(),
        "fewer": replace(parts, facts={**parts.facts, "clients": ["p00"]}).to_bytes(),
        "elsewhere": replace(parts, facts={**parts.facts, "plan": "00" * 32}).to_bytes(),
        "unsigned": replace(parts, facts=unsigned).to_bytes(),
        "another": other,
    }
    out, said = sites.folder / "run", "the plan's helper did not sign this answer"
    paths = [tmp_path / f"{name}.answer" for name in forged]
    for path, content in zip(paths, forged.values(), strict=True):
        path.write_bytes(content)
    damaged = tmp_path / "damaged.answer"
    damaged.write_bytes(good.read_bytes()[:-1] + b"?")
    given: dict[str, Any] = {"out": out, "identities": sites.keys}
    with pytest.raises(AwaitedError) as awaited:
        combine(sites.paths.values(), sites.plan, **given, answers=[*paths, damaged])
    assert awaited.value.content == batch.read_bytes()
    assert awaited.value.__notes__ == [
        *(f"{path} was refused: {said}" for path in paths),
        f"{damaged} was refused: the message is damaged: its checksum does not match",
    ]
    done = combine(sites.paths.values(), sites.plan, **given, answers=[*paths, good])
    assert done.refused == {str(path): said for path in paths}
    run_plan(read_plan(written(tmp_path / "data", SUMS)), tmp_path / "one")
    assert sha(out) == sha(tmp_path / "one")
    # An answer to other files of the same plan, named among the contributions.
    few = [str(sites.paths[name]) for name in sites.names[:3]]
    main_args = ["combine", *few, str(good), "--plan", str(sites.plan), "--out", str(out)]
    with pytest.raises(SystemExit):
        main([*main_args, "--identities", str(sites.keys)])
    assert f"{good} was refused: the helper answered another batch" in capsys.readouterr().err


def test_who_came_late_joins_with_two_servers_in_a_batch_of_their_own(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 6)
    first = sites.answer(sites.batch(sites.names[:3])).rename(tmp_path / "first.answer")
    given: dict[str, Any] = {"out": sites.folder / "run", "identities": sites.keys}
    early = [sites.paths[name] for name in sites.names[:4]]
    with pytest.raises(FederationError, match="for all but 1, and a batch has 3 or more"):
        combine(early, sites.plan, **given, answers=[first])
    with pytest.raises(AwaitedError) as awaited:
        combine(sites.paths.values(), sites.plan, **given, answers=[first])
    late = tmp_path / "late.batch"
    late.write_bytes(awaited.value.content)
    second = sites.answer(late)
    combine(sites.paths.values(), sites.plan, **given, answers=[second, first])
    run_plan(read_plan(written(tmp_path / "data", SUMS)), tmp_path / "six")
    assert sha(sites.folder / "run") == sha(tmp_path / "six")


def test_the_helper_holds_a_leader_to_what_clients_signed(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    content = sites.batch().read_bytes()
    named = split(Message.from_bytes(content), "secure-batch")
    few = join("secure-batch", {name: named[name] for name in ("p00", "p01")})
    with pytest.raises(RuleError, match="2 clients, this client asks for 3 or more"):
        sites.helper().answer(few.to_bytes())
    lowered: dict[str, Message] = {}
    for name in ("p00", "p01"):
        terms = named[name].facts["terms"]
        assert isinstance(terms, Mapping)
        facts = {**named[name].facts, "terms": {**terms, "min_clients": 2}}
        lowered[name] = replace(named[name], facts=facts)
    with pytest.raises(IntegrityError, match="a signature does not fit"):
        sites.helper().answer(join("secure-batch", lowered).to_bytes())
    late = datetime.now(UTC).date() + timedelta(days=120)
    with pytest.raises(RuleError, match="was for use until"):
        sites.helper(today=late).answer(content)
    stranger = join("secure-batch", {**named, "eve": named["p00"]})
    with pytest.raises(IntegrityError, match="eve"):
        sites.helper().answer(stranger.to_bytes())


def test_a_leader_does_not_combine_below_the_floor(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 4, least=3)
    with pytest.raises(FederationError, match="2 clients contributed, and a batch has 3 or more"):
        combine(
            [sites.paths["p00"], sites.paths["p01"]],
            sites.plan,
            out=sites.folder / "run",
            identities=sites.keys,
        )


def test_one_server_is_refused_by_files(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 3)
    text = "\n".join(
        line for line in sites.plan.read_text().splitlines() if line[:6] not in ("server", "helper")
    )
    sites.plan.write_text(text)
    own: dict[str, Any] = {"keys": sites.folder / "p00" / "keys", "identities": sites.keys}
    with pytest.raises(ValueError, match="asks clients seven times"):
        contribute(sites.plan, tmp_path / "data" / "p00.csv", name="p00", **own)


def test_noise_of_the_clients_goes_through_two_servers_and_into_each_ledger(tmp_path: Path) -> None:
    noise = """
[learn]
algorithm = "ridge"
ridge = 0.0
store_per_client = false

[[protections]]
name = "gaussian_noise"
epsilon = 4.0
delta = 1e-5
clip = { bound = 8.0, target_scale = 3.0 }
distributed = true
min_clients = 3
small_cohort = true
"""
    text = PLAN.replace('"folds"', "0.25") + noise
    sites = Sites(tmp_path, 4, text=text)
    answer = sites.answer(sites.batch())
    out = sites.folder / "run"
    combine(sites.paths.values(), sites.plan, out=out, identities=sites.keys, answers=[answer])
    exact = Sites(tmp_path / "exact", 4)
    plain = exact.folder / "run"
    combine(
        exact.paths.values(), exact.plan, out=plain, identities=exact.keys,
        answers=[exact.answer(exact.batch())],
    )  # fmt: skip
    assert sha(out) != sha(plain)
    for name in sites.names:
        (entry,) = PrivacyLedger(FileMemory(sites.folder / name / "keys" / "memory")).entries()
        assert (entry.epsilon, entry.delta) == (4.0, 1e-5)
        assert not entry.is_exact


def forged(one: Contribution, folder: Path, **facts: Any) -> Path:
    """Return a contribution with other facts, signed by a key of nobody's."""
    memory = FileMemory(folder)
    one = replace(one, **{"key": new_identity(memory), **facts})
    one = replace(one, signature=sign(memory, b"catchment-contribution-1", one._signed()))
    return one.save(folder.with_suffix(".contribution"))


@pytest.mark.parametrize("name", ["../../x", "a\x1b[2J", "x" * 300, "", 3, None, {"a": 1}])
def test_a_forged_name_costs_only_the_file_that_has_it(tmp_path: Path, name: object) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    paths = made(plan, people(tmp_path, 2))
    bad = forged(Contribution.read(paths["p00"]), tmp_path / "eve", client=name)
    done = combine([*paths.values(), bad], plan, out=tmp_path / "files")
    assert list(done.refused) == [str(bad)]
    assert str(done.refused[str(bad)]).isprintable()
    assert done.finished.run.latest["training"][-1].n_used == 2


def test_two_people_cannot_have_one_key_and_a_file_is_for_a_stage_that_is_there(
    tmp_path: Path,
) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    paths = made(plan, people(tmp_path, 2))
    own = FileMemory(tmp_path / "p00.keys" / "memory")
    again = replace(Contribution.read(paths["p00"]), client="pete")
    again = replace(again, signature=sign(own, b"catchment-contribution-1", again._signed()))
    second = again.save(tmp_path / "pete.contribution")
    other = forged(Contribution.read(paths["p01"]), tmp_path / "eve", client="eve", stage="tea")
    done = combine([*paths.values(), second, other], plan, out=tmp_path / "files")
    assert done.refused == {
        str(second): "pete signed it with the key of p00",
        str(other): "nothing is added by files for 'tea'",
    }


def test_what_is_inspected_moves_no_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = written(tmp_path, PLAN.format(scale="own"))
    (path,) = made(plan, people(tmp_path, 1)).values()
    told = forged(Contribution.read(path), tmp_path / "eve", tells="\x1b[2J\x1b[Hnothing at all")
    with pytest.raises(SystemExit):
        main(["inspect", str(told)])
    said = capsys.readouterr().out
    assert "?[2J?[Hnothing at all" in said
    assert "\x1b" not in said


def test_a_file_takes_no_more_memory_than_it_is_long(tmp_path: Path) -> None:
    facts = dict.fromkeys(("client", "key", "plan", "stage", "answers", "tells"), "a")
    bomb = Message("contribution", facts, (np.zeros(1 << 20, np.int64),)).to_bytes()
    assert len(bomb) < 1 << 20
    with pytest.raises(IntegrityError, match=r"would take more than \d+ bytes unpacked"):
        Contribution.from_bytes(bomb)
    wide = Message("contribution", {**facts, "tells": "a" * 70_000}, ()).to_bytes()
    with pytest.raises(IntegrityError, match="header claims"):
        Contribution.from_bytes(wide)


@pytest.mark.parametrize("later_first", [False, True])
def test_two_plans_over_the_same_data_go_with_the_same_clients(
    tmp_path: Path, later_first: bool
) -> None:
    sites = Sites(tmp_path, 4)
    one = sites.batch()
    other = sites.folder / "other.toml"
    text = sites.plan.read_text()
    other.write_text(f'{text}\n[learn]\nalgorithm = "ridge"\nridge = 0.5\n')
    elsewhere = sites.folder / "elsewhere.toml"
    key = next(line for line in text.splitlines() if line.startswith("helper"))
    elsewhere.write_text(text.replace(key, f'helper = "{new_helper({})}"'))

    def sent(plan: Path, name: str) -> Path:
        keys, data = sites.folder / name / "keys", tmp_path / "data" / f"{name}.csv"
        made = contribute(plan, data, name=name, keys=keys, identities=sites.keys)
        return made.save(sites.folder / f"{name}.second")

    # Another helper knows nothing of the first one's batches: the client itself refuses.
    with pytest.raises(FederationError, match="a sum without noise over another set"):
        sent(elsewhere, "p00")
    paths = [sent(other, name) for name in sites.names[:3]]
    with pytest.raises(AwaitedError) as awaited:
        combine(paths, other, out=sites.folder / "other", identities=sites.keys)
    two = sites.folder / "other.batch"
    two.write_bytes(awaited.value.content)
    # The difference of these sums would be p03 alone, whichever is asked for first.
    first, second = (two, one) if later_first else (one, two)
    sites.answer(first)
    with pytest.raises(RuleError, match="p00 was in another batch of this plan, or of one that"):
        sites.answer(second)


def test_one_client_s_terms_do_not_end_a_batch_and_who_is_left_out_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = Sites(tmp_path, 5)
    one = Contribution.read(sites.paths["p03"])
    numbers, sealed = one.message.arrays
    box = sealed[:80].tobytes()
    whole = split(Message.from_bytes(sites.batch().read_bytes()), "secure-batch")
    terms = {**whole["p03"].facts["terms"], "min_clients": 1_000_000}  # type: ignore[dict-item]
    memory = FileMemory(sites.folder / "p03" / "keys" / "memory")
    content = content_digest(Outline.from_fact(one.message.facts["outline"]), numbers)
    about = json.dumps(["catchment-two-servers-1", terms], sort_keys=True, separators=(",", ":"))
    signature = sign(memory, about.encode(), content + box + b"[]")
    sealed = np.frombuffer(box + signature, np.uint8)
    told = Message("secure-single", one.message.facts, (numbers, sealed))
    lying = replace(one, reply=told.to_bytes())
    lying = replace(lying, signature=sign(memory, b"catchment-contribution-1", lying._signed()))
    lying.save(sites.paths["p03"])
    flipped = bytearray(sites.paths["p04"].read_bytes())
    flipped[-9] ^= 1
    sites.paths["p04"].write_bytes(flipped)
    given = ["--plan", str(sites.plan), "--identities", str(sites.keys), "--strict"]
    with pytest.raises(SystemExit) as ended:
        main(["combine", *map(str, sites.paths.values()), *given, "--out", str(tmp_path / "run")])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "p03 was left out: a signature does not fit its message" in said
    assert "p04.contribution was refused: the message is damaged" in said
    batch = Message.from_bytes((tmp_path / "run.batch").read_bytes())
    assert sorted(split(batch, "secure-batch")) == ["p00", "p01", "p02"]


def test_a_helper_answers_one_batch_at_a_time(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    batch = sites.batch()
    with (
        closing(locked(sites.folder / "helper" / "keys")),
        pytest.raises(FederationError, match="is in use"),
    ):
        sites.answer(batch)
    with (
        closing(locked(sites.folder / "p00" / "keys" / "memory")),
        pytest.raises(FederationError, match="is in use"),
    ):
        contribute(
            sites.plan, tmp_path / "data" / "p00.csv", name="p00",
            keys=sites.folder / "p00" / "keys", identities=sites.keys,
        )  # fmt: skip
    assert sites.answer(batch).is_file()


@pytest.mark.parametrize(
    "names",
    [["A", "a"], ["helper"], ["a; rm x"], ["a", "a/b"], ["plan.toml"], ["../x"], ["a.", "a"], []],
)
def test_a_kit_has_a_folder_for_each_name_or_none_at_all(tmp_path: Path, names: list[str]) -> None:
    plan = written(tmp_path, PLAN.format(scale="own") + TWO_SERVERS.format(least=3))
    with pytest.raises(ValueError, match="client"):
        kit(plan, [*names, "b"] if names else [], tmp_path / "kits")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_a_kit_that_cannot_be_made_leaves_no_key_behind(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own").replace("echo_state", "echoes"))
    with pytest.raises(ValueError, match="echoes"):
        kit(plan, ["a", "b", "c"], tmp_path / "kits")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]
    kit(written(tmp_path, PLAN.format(scale="own")), ["a"], tmp_path / "kits")
    with pytest.raises(FileExistsError, match="is there already, and may hold keys"):
        kit(plan, ["a"], tmp_path / "kits")


def test_a_kit_s_folder_has_plan_policy_key_and_a_page_with_the_columns(tmp_path: Path) -> None:
    plan = written(tmp_path, PLAN.format(scale="own") + TWO_SERVERS.format(least=4))
    folder = kit(plan, ["ann", "bob", "cid", "dan"], tmp_path / "kits")
    assert sorted(path.name for path in (folder / "ann").iterdir()) == [
        "README.txt", "data", "identities.json", "keys", "plan.toml",
    ]  # fmt: skip
    policy = read_policy(folder / "ann" / "keys" / "policy.toml")
    assert (policy.min_clients, policy.rows_per_feature, policy.clear) == (4, 2.0, False)
    keys = json.loads((folder / "ann" / "identities.json").read_text())
    assert keys["ann"] == new_identity(FileMemory(folder / "ann" / "keys" / "memory"))
    page = (folder / "ann" / "README.txt").read_text()
    assert "ax, ay, activity (activity is one of: rest, walk)" in page
    # A site that asks for more than the plan gives does not contribute.
    (folder / "ann" / "keys" / "policy.toml").write_text("min_clients = 5\n")
    people(tmp_path / "data", 1)
    with pytest.raises(RuleError, match="asks for 5 or more"):
        contribute(
            folder / "plan.toml", tmp_path / "data" / "p00.csv", name="ann",
            keys=folder / "ann" / "keys", identities=folder / "identities.json",
        )  # fmt: skip


class Killed(BaseException):
    """A process that ends here."""


@pytest.mark.parametrize("after", [False, True])
def test_whoever_is_killed_at_any_file_loses_nothing_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    sites = Sites(tmp_path, 3)
    own = sites.folder / "p00"
    whole = Path.replace
    count = [0]

    def replaced(self: Path, target: Path) -> Path:
        count[0] -= 1
        if count[0] == 0 and not after:
            raise Killed
        found = whole(self, target)
        if count[0] == 0:
            raise Killed
        return found

    monkeypatch.setattr(Path, "replace", replaced)

    def until_done(act: Any) -> tuple[Any, int]:
        """Return what an act gives when it was ended at its first file, its second, and so on."""
        for at in range(1, 60):
            count[0] = at
            try:
                return act(), at
            except Killed:
                continue
            finally:
                count[0] = 0
        raise AssertionError("it never came to its end")

    def sent() -> bytes:
        given = {"name": "p00", "keys": own / "keys", "identities": sites.keys}
        made = contribute(sites.plan, tmp_path / "data" / "p00.csv", **given)  # type: ignore[arg-type]
        return made.save(sites.paths["p00"]).read_bytes()

    memory = FileMemory(own / "keys" / "memory")
    for name in [name for name in memory if "identity" not in name]:
        del memory[name]  # as before its contribution
    sites.paths["p00"].unlink()
    first, n_client = until_done(sent)
    assert Contribution.from_bytes(first).message.arrays[0].tobytes() == (
        Contribution.from_bytes(sent()).message.arrays[0].tobytes()  # no second mask
    )
    assert len(PrivacyLedger(memory).entries()) == 1
    batch, n_leader = until_done(sites.batch)
    answer, n_helper = until_done(lambda: sites.answer(batch))
    content = answer.read_bytes()
    assert sites.answer(sites.batch()).read_bytes() == content
    out = sites.folder / "run"
    given: dict[str, Any] = {"out": out, "identities": sites.keys, "answers": [answer]}
    _, n_last = until_done(lambda: combine(sites.paths.values(), sites.plan, **given))
    assert min(n_client, n_helper, n_last) > 2
    assert n_leader >= 1
    run_plan(read_plan(written(tmp_path / "data", SUMS)), tmp_path / "one")
    assert sha(out) == sha(tmp_path / "one")
    assert not list(sites.folder.rglob("*.contribution.*"))  # drafts
