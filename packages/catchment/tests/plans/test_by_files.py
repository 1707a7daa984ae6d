"""A federation by files: the same model as of one process, and refusals with their names."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.errors import FederationError, IntegrityError, RuleError
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
from catchment.privacy import FileMemory, Helper, PrivacyLedger, SecureAggregation
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


def test_a_federated_scale_takes_a_second_contribution(tmp_path: Path) -> None:
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
    combine([*moments, *second.values()], plan, out=tmp_path / "files")
    run_plan(read_plan(plan), tmp_path / "one")
    assert sha(tmp_path / "files") == sha(tmp_path / "one")


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
    # The same, but with the ridge that a sum alone allows to be chosen.
    plain = PLAN.format(scale="own") + '\n[learn]\nalgorithm = "ridge"\nridge = "gcv"\n'
    run_plan(read_plan(written(tmp_path / "data", plain)), tmp_path / "one")
    assert sha(out) == sha(tmp_path / "one")


def test_a_masked_contribution_is_hardly_longer_than_its_numbers(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 3)
    one = Contribution.read(sites.paths["p00"])
    numbers, box, signature = one.message.arrays
    assert numbers.dtype == np.uint64
    assert (box.size, signature.size) == (80, 64)
    # What the leader holds of one client tells nothing: it is as a uniform number is.
    high = np.unpackbits(numbers.view(np.uint8)).mean()
    assert abs(high - 0.5) < 5 * 0.5 / np.sqrt(numbers.size * 64)


def test_a_masked_contribution_has_at_most_a_twentieth_more_bytes_than_a_clear_one(
    tmp_path: Path,
) -> None:
    sites = Sites(tmp_path, 3, text=PLAN.replace("units = 8", "units = 100"))
    one = Contribution.read(sites.paths["p00"])
    (clear,) = (array.nbytes for array in one.message.arrays[:1])  # the same numbers in that ring
    bare = Message("statistics", {}, (np.zeros(clear // 8, np.uint64),)).to_bytes()
    assert clear <= len(bare)
    assert sites.paths["p00"].stat().st_size <= 1.05 * len(bare)


def test_a_fifth_that_is_lost_at_any_moment_changes_nothing_but_the_set(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 5)
    plain = PLAN.format(scale="own") + '\n[learn]\nalgorithm = "ridge"\nridge = "gcv"\n'
    file = read_plan(written(tmp_path / "data", plain))
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


def test_the_helper_refuses_a_batch_that_overlaps_an_earlier_one(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    first = sites.answer(sites.batch()).read_bytes()
    assert sites.answer(sites.batch()).read_bytes() == first
    with pytest.raises(RuleError, match="p00 was in another batch of this plan"):
        sites.answer(sites.batch(["p00", "p01", "p02"]))


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
    plain = PLAN.format(scale="own") + '\n[learn]\nalgorithm = "ridge"\nridge = "gcv"\n'
    run_plan(read_plan(written(tmp_path / "data", plain)), tmp_path / "six")
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
        lowered[name] = replace(named[name], facts={"terms": {**terms, "min_clients": 2}})
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
