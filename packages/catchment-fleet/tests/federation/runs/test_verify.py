"""A run's folder is what it says, and whatever is changed in it is found."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import catchment
from catchment import EchoState, FederatedRidge, Preprocessing, Recording
from catchment.data import synthetic_wearables
from catchment.federation import read_run
from catchment.federation.learn import Certificate, Digest, RidgeState
from catchment.federation.runs import (
    DATABASE,
    MODEL,
    PLAN,
    Verification,
    last_state,
    read_digests,
    unlearn_from_run,
)
from catchment.plans import parse_plan, run_plan, verify_run
from catchment.privacy import PlainStatisticsWarning
from catchment.readout import Readout, accumulate, load_model
from catchment.wire import Message
from tests.federation.runs.own_map import Waves
from tests.plans.test_flower import fleet

WAVES = """
[data]
source = "wearables"
users = 6
windows_per_user = 8
steps = 40
test = 0.25
[preprocessing]
scale = "own"
[features]
map = "tests.federation.runs.own_map:Waves"
channels = 6
[learn]
ridge = "leave-one-client-out"
"""
SECURE = WAVES.replace("user = 8", "user = 20").replace(
    'ridge = "leave-one-client-out"', "ridge = 0.1\nstore_per_client = false"
) + ('[[protections]]\nname = "secure_aggregation"\nmin_clients = 3\nrows_per_feature = 2.0\n')


def made(text: str, folder: Path) -> Path:
    run_plan(parse_plan(text), folder)
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in fixed point whose first client is forgotten."""
    folder = made(WAVES, tmp_path_factory.mktemp("runs") / "waves")
    name = min(read_run(folder).rows_by_client)
    found = unlearn_from_run(folder, name, load_model(folder / MODEL))
    found.model.save(folder / f"model-without-{name}.safetensors")
    (folder / "certificate.json").write_text(found.certificate.to_json())
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy to be tampered with."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def sql(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute(statement, values)
        database.commit()


def differing(found: Verification) -> list[str]:
    return [check.what for check in found.having("differs")]


def state_of(folder: Path) -> tuple[FederatedRidge, RidgeState]:
    model = load_model(folder / MODEL)
    algorithm = FederatedRidge(features=model.features, classes=model.classes)
    return algorithm, algorithm.load_state(last_state(folder, "training"))


def write_state(folder: Path, algorithm: FederatedRidge, state: RidgeState) -> None:
    """Put another state in the place of the one that is kept, with its hash."""
    content = algorithm.save_state(state).to_bytes()
    (path,) = (folder / "states").glob("training-*.bin")
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    sql(folder, "UPDATE rounds SET state_sha256 = ? WHERE stage = 'training'", sha256)


def test_a_run_in_fixed_point_is_what_it_says(original: Path) -> None:
    found = verify_run(original)
    assert found.agrees
    assert not found.having("cannot be checked"), found.text()
    clients = sorted(read_run(original).rows_by_client)
    by_name = {check.what: check for check in found.checks}
    for name in clients:
        assert by_name[f"{name} as kept"].sha256 == by_name[f"{name} from recordings"].sha256
    total = by_name["sum of all clients"].sha256
    assert by_name[f"{len(clients)} clients added up"].sha256 == total
    assert by_name["certificate: before"].sha256 == total
    assert by_name["certificate: after"].note == "before - removed, an equality"
    assert found.text().splitlines()[-1] == f"all {len(found.checks)} checks agree"
    assert json.loads(json.dumps(found.to_json()))["agrees"] is True


def test_digests_are_those_of_each_clients_statistics(original: Path) -> None:
    said = {one.client: one for one in read_digests(original, "training")}
    people = parse_plan(WAVES).load_data().train
    assert sorted(said) == ["", *sorted(people)]
    preprocessing, features = Preprocessing(scale="own"), Waves(6)
    parts = {}
    for name, source in people.items():
        recordings = source()  # type: ignore[operator]
        parts[name] = accumulate(features, preprocessing.apply(recordings))
    for name, part in parts.items():
        assert said[name] == Digest(name, part.digest(), True)
    backwards = sum((parts[name] for name in sorted(parts)[-2::-1]), parts[max(parts)])
    assert said[""].sha256 == backwards.digest()


def test_the_certificate_of_a_run_is_an_equality_with_a_run_without_the_client(
    original: Path, tmp_path: Path
) -> None:
    told = Certificate.from_json((original / "certificate.json").read_text())
    assert told.how == "equality"
    assert "catchment verify" in told.check
    people = parse_plan(WAVES).load_data().train
    rest = {name: source for name, source in people.items() if name != told.client}
    again = catchment.federate(
        catchment.Pipeline(Preprocessing(scale="own"), Waves(6)),
        {name: list(source()) for name, source in rest.items()},  # type: ignore[operator]
    )
    assert again.training.state.total.digest() == told.after


def flip(path: Path, place: int = -20) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


TAMPERED: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "plan": (
        lambda run: (run / PLAN).write_text((run / PLAN).read_text().replace("= 6", "= 7", 1)),
        {"plan.toml"},
    ),
    "settings": (
        lambda run: sql(run, "UPDATE stages SET settings = replace(settings, 'clients', 'gcv')"),
        {"settings of training"},
    ),
    "state": (
        lambda run: flip(next((run / "states").glob("training-*.bin"))),
        {"state file"},
    ),
    "model": (lambda run: flip(run / MODEL), {"model file", "model"}),
    "digest": (
        lambda run: sql(run, "UPDATE digests SET sha256 = 'ab' WHERE client = ''"),
        {"sum of all clients"},
    ),
    "client left out": (
        lambda run: sql(run, "INSERT INTO digests VALUES ('training', 0, 'zoe', 'ab', 1)"),
        {"zoe as kept"},
    ),
    "certificate, no JSON": (
        lambda run: (run / "certificate.json").write_text("{"),
        {"certificate"},
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_is_tampered_with_is_found(run: Path, name: str) -> None:
    change, expected = TAMPERED[name]
    change(run)
    found = verify_run(run)
    assert not found.agrees
    assert expected <= set(differing(found)), found.text()


@pytest.mark.parametrize("field", ["before", "after", "removed", "n_rows", "fingerprint"])
def test_a_certificate_that_says_something_else_is_found(run: Path, field: str) -> None:
    path = run / "certificate.json"
    told = json.loads(path.read_text())
    told[field] = 3 if field == "n_rows" else "0" * 64
    path.write_text(json.dumps(told))
    known = {"n_rows": "rows", "fingerprint": "features"}
    assert differing(verify_run(run)) == [f"certificate: {known.get(field, field)}"]


def test_a_certificate_of_another_client_is_found(run: Path) -> None:
    path = run / "certificate.json"
    told = json.loads(path.read_text())
    told["client"] = max(read_run(run).rows_by_client)
    path.write_text(json.dumps(told))
    assert {"certificate: removed", "certificate: after"} <= set(differing(verify_run(run)))


def test_statistics_of_a_client_that_were_changed_with_the_files_hash_are_found(run: Path) -> None:
    algorithm, state = state_of(run)
    name = max(state.by_client)
    forged = {**state.by_client, name: state.by_client[min(state.by_client)]}
    write_state(run, algorithm, replace(state, by_client=forged))
    bad = differing(verify_run(run))
    assert f"{name} as kept" in bad
    assert f"{len(forged)} clients added up" in bad
    assert f"{name} from recordings" not in bad


def test_a_forger_who_changes_every_hash_in_the_folder_is_found_by_the_recordings(
    run: Path,
) -> None:
    algorithm, state = state_of(run)
    (run / "certificate.json").unlink()
    name, other = max(state.by_client), min(state.by_client)
    forged = {**state.by_client, name: state.by_client[other]}
    total = sum((forged[key] for key in sorted(forged)[1:]), forged[other])
    again = algorithm.solved(RidgeState(total, forged))
    assert again.readout is not None
    write_state(run, algorithm, again)
    model = replace(load_model(run / MODEL), readout=again.readout)
    model.save(run / MODEL)
    sha256 = hashlib.sha256((run / MODEL).read_bytes()).hexdigest()
    sql(run, "UPDATE facts SET value = ? WHERE name = 'model_sha256'", sha256)
    for client, value in {"": total, **forged}.items():
        sql(run, "UPDATE digests SET sha256 = ? WHERE client = ?", value.digest(), client)
    assert verify_run(run, kept_only=True).agrees
    assert differing(verify_run(run)) == [f"{name} from recordings"]


def test_another_readout_is_found_though_the_files_hash_is_right(run: Path) -> None:
    model = load_model(run / MODEL)
    weights = model.readout.weights.copy()
    weights[0, 0] += 1e-3
    readout = Readout(weights, model.readout.intercept, model.readout.ridge)
    replace(model, readout=readout).save(run / MODEL)
    sha256 = hashlib.sha256((run / MODEL).read_bytes()).hexdigest()
    sql(run, "UPDATE facts SET value = ? WHERE name = 'model_sha256'", sha256)
    assert differing(verify_run(run)) == ["readout"]


def test_another_preparation_and_another_map_are_found(run: Path) -> None:
    model = load_model(run / MODEL)
    model.prepared_by(Preprocessing(scale="none")).save(run / MODEL)
    assert {"model file", "preprocessing"} <= set(differing(verify_run(run)))
    replace(model, before=Waves(9, 2)).save(run / MODEL)
    assert {"model file", "feature map"} <= set(differing(verify_run(run)))


def test_the_model_without_a_client_is_solved_again(run: Path) -> None:
    (path,) = run.glob("model-without-*.safetensors")
    shutil.copy(run / MODEL, path)
    assert differing(verify_run(run)) == [path.name]


def test_recordings_that_differ_in_one_number_are_found_and_named(original: Path) -> None:
    people = {
        name: list(source())  # type: ignore[operator]
        for name, source in parse_plan(WAVES).load_data().train.items()
    }
    turned = {name: held[::-1] for name, held in people.items()}
    assert verify_run(original, clients=turned).agrees
    name = max(people)
    first = people[name][0]
    assert first.y is not None
    u = first.u.copy()
    u[0, 0] += 5.0
    people[name][0] = Recording(u, first.y)
    assert differing(verify_run(original, clients=people)) == [f"{name} from recordings"]


def test_one_client_can_be_asked_for(original: Path) -> None:
    name = max(read_run(original).rows_by_client)
    found = verify_run(original, client=name)
    named = [check.what for check in found.checks if "user-" in check.what]
    assert named[:2] == [f"{name} as kept", f"{name} from recordings"]
    with pytest.raises(ValueError, match="there is no client 'zoe' in the sum"):
        verify_run(original, client="zoe")


def test_secure_aggregation_is_verified_as_far_as_it_can_be(tmp_path: Path) -> None:
    found = verify_run(made(SECURE, tmp_path / "run"))
    assert found.agrees
    unknown = {check.what: check.note for check in found.having("cannot be checked")}
    assert unknown == {
        "statistics of each client": "the run saw nothing but their sum (secure_aggregation)"
    }
    by_name = {check.what: check.sha256 for check in found.checks}
    assert by_name["4 clients from recordings"] == by_name["sum of all clients"]
    plain = made(WAVES.replace("user = 8", "user = 20"), tmp_path / "plain")
    (total, *_) = read_digests(plain, "training")
    assert total == Digest("", by_name["sum of all clients"], True)


def test_a_run_of_an_earlier_version_says_what_it_did_not_write_down(run: Path) -> None:
    sql(run, "DROP TABLE digests")
    found = verify_run(run)
    assert found.agrees
    assert "no hash was written down" in found.text()
    assert any(check.what.endswith("from recordings") for check in found.having("ok"))


def test_sums_of_a_run_with_a_setting_that_is_gone_are_not_checked(run: Path) -> None:
    change = """UPDATE stages SET settings = replace(settings, '"window": null', '"window": 3')"""
    sql(run, change)
    found = verify_run(run)
    assert differing(found) == ["settings of training"]
    unknown = {check.what: check.note for check in found.having("cannot be checked")}
    assert unknown == {"statistics": "FederatedRidge was run with a setting that is gone"}


def test_float64_is_compared_to_rounding_and_says_so(tmp_path: Path) -> None:
    people = synthetic_wearables(4, windows_per_user=12, seed=1)
    run = catchment.federate(Waves(6, bits=None), people, out=tmp_path / "run")
    assert run.folder is not None
    assert verify_run(run.folder, clients=people).agrees
    turned = {name: held[::-1] for name, held in people.items()}
    found = verify_run(run.folder, clients=turned)
    assert found.agrees
    assert "float64: compared to rounding" in found.text()
    fewer = {name: held[1:] for name, held in people.items()}
    assert len(differing(verify_run(run.folder, clients=fewer))) == len(people)


def test_a_run_without_a_plan_says_which_recordings_it_lacks(tmp_path: Path) -> None:
    u = np.sin(np.arange(200) / 5)
    people = {name: [Recording(u[k:-1], u[k + 1 :])] for k, name in enumerate("ab")}
    run = catchment.federate(EchoState(12), people, out=tmp_path / "run")
    assert run.folder is not None
    found = verify_run(run.folder)
    by_name = {check.what: check for check in found.checks}
    missing = by_name["statistics from recordings"]
    assert (missing.outcome, missing.note) == (
        "cannot be checked",
        "no plan names them; pass files",
    )


@pytest.mark.parametrize("classes", [True, False])
def test_a_reservoir_in_fixed_point_is_verified_by_hashes_alone(
    tmp_path: Path, classes: bool
) -> None:
    source = '"wearables"\nusers = 6\nwindows_per_user = 8' if classes else '"narma"\nsteps = 900'
    grid = "bits = 20\nfeature_bits = 8" if classes else "bits = 24\nfeature_bits = 20"
    folder = made(f"[data]\nsource = {source}\n[features]\nunits = 10\n{grid}\n", tmp_path / "run")
    found = verify_run(folder)
    assert found.agrees
    assert not found.having("cannot be checked")
    assert "float64" not in found.text()
    assert all(one.is_exact for one in read_digests(folder, "training"))


def test_statistics_that_came_in_several_rounds_are_verified_together(tmp_path: Path) -> None:
    text = WAVES.replace('ridge = "leave-one-client-out"', "ridge = 0.1\nincrements = 3")
    found = verify_run(made(text, tmp_path / "run"))
    assert found.agrees
    assert sum(check.what.endswith("from recordings") for check in found.having("ok")) == 4


@pytest.mark.parametrize("algorithm", ["ensemble", "averaging"])
def test_other_algorithms_are_verified_as_far_as_they_keep_sums(
    tmp_path: Path, algorithm: str
) -> None:
    text = WAVES.split("[features]")[0] + '\n[features]\nmap = "echo_state"\nunits = 8\n'
    found = verify_run(made(f'{text}[learn]\nalgorithm = "{algorithm}"\n', tmp_path / "r"))
    assert found.agrees, found.text()
    assert any(check.what == "state file" for check in found.having("ok"))
    assert not any(check.what == "sum of all clients" for check in found.having("ok"))


def test_the_same_sum_in_process_and_on_flower(tmp_path: Path) -> None:
    # In the clear a client sends 20 rows per feature or nothing.
    text = WAVES.replace("= 8\nsteps = 40", "= 130\nsteps = 16")
    text = text.replace("channels = 6", "channels = 6\nwaves = 1")
    policy = tmp_path / "maps.toml"
    policy.write_text('maps = ["tests.federation.runs.own_map:Waves"]\n')
    config = {"allow-plain-statistics": True, "policy": str(policy)}
    configs = {f"user-{k:03d}": {"name": f"user-{k:03d}", **config} for k in range(6)}
    nodes = fleet(tmp_path, text, configs, secret=False)
    with pytest.warns(PlainStatisticsWarning):
        nodes.serve("there", allow_plain=True)
    here, there = made(text, tmp_path / "here"), tmp_path / "there"
    assert len(read_digests(here, "training")) == 5
    assert read_digests(here, "training") == read_digests(there, "training")
    assert verify_run(there).agrees


def test_the_state_travels_as_it_is_kept(original: Path) -> None:
    (path,) = (original / "states").glob("training-*.bin")
    assert Message.from_bytes(path.read_bytes()).to_bytes() == path.read_bytes()
