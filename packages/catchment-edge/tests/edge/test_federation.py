"""Federations of emulated boards: integers give the server's own statistics.

`make edge` runs them; in `make test` they run where a compiler and an emulator are here.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.privacy import generate_keys
from catchment_edge import EdgeClient
from catchment_edge.ports import STACK
from tools.edge.devices import DeviceFailedError, build_host, host
from tools.edge.federation import NAME, Recipe, clients_of, federated, running, sensor_file
from tools.edge.needs import missing

boards = pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")
compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here; install gcc")

RAM = 64 * 1024
WHOLE = Recipe(map={"units": 48, "bits": 15, "feature_bits": 8, "pool": "mean_std"}, rows=100)
PEOPLE = synthetic_wearables(8, windows_per_user=8)
TAKING_PART = {name: PEOPLE[name] for name in sorted(PEOPLE)[:5]}
UNSEEN = {name: PEOPLE[name] for name in sorted(PEOPLE)[5:]}


@boards
def test_the_sum_of_five_boards_is_the_servers_statistics(tmp_path: Path) -> None:
    found = federated(WHOLE, TAKING_PART, UNSEEN, tmp_path, classes=ACTIVITIES)
    assert found.digest == found.pooled_digest
    assert (found.devices, found.rows, found.refused) == (5, 40, ())
    assert found.ram <= RAM
    assert found.agree == found.device_agree == found.tested == 24
    assert found.accuracy == found.pooled_accuracy


@compiled
def test_a_program_of_this_machine_is_a_device_too(tmp_path: Path) -> None:
    """It is in one sum with clients in Python, and predicts with the readout that it was sent."""
    WHOLE.write(tmp_path, port="host")
    program = build_host(tmp_path, model=NAME)
    here, *others = TAKING_PART
    half = {name: held[:4] for name, held in TAKING_PART.items()}
    pooled = ct.federate(WHOLE.echo_state, half)
    sensor = sensor_file(tmp_path / "sensor", (half[here], half[here], TAKING_PART[here][4:]))
    with host(program, sensor) as device:
        clients: dict[str, Any] = {name: half[name] for name in others}
        run = ct.federate(WHOLE.echo_state, {**clients, here: EdgeClient(device.address)})
        scores = np.concatenate(EdgeClient(device.address).predict())
    assert run.statistics.digest() == pooled.statistics.digest()
    wanted = pooled.model.scores(TAKING_PART[here][4:])
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


@boards
def test_a_processor_without_floating_point_gives_the_same(tmp_path: Path) -> None:
    """Two boards that run code of a Cortex-M0+ and three clients in Python are one sum."""
    small = {name: held[:3] for name, held in TAKING_PART.items()}
    pooled = ct.federate(WHOLE.echo_state, small)
    plain = Recipe(map=WHOLE.map, rows=100, cpu="cortex-m0plus").firmware(tmp_path, memory=True)
    first, second, *others = small
    segments = {name: (small[name], small[name]) for name in (first, second)}
    with running(plain, segments, tmp_path) as devices:
        clients: dict[str, Any] = {**{name: small[name] for name in others}, **clients_of(devices)}
        run = ct.federate(WHOLE.echo_state, clients)
        assert devices[first].stack(STACK) < STACK - 512
    assert run.refused == ()
    assert run.statistics.digest() == pooled.statistics.digest()


@boards
def test_boards_mask_their_own_sums_for_secure_aggregation(tmp_path: Path) -> None:
    """Each board has a secret of its own, and its gateway never sees its sums."""
    recipe = Recipe(
        map={"units": 4, "bits": 15, "feature_bits": 8, "pool": "mean"}, rows=100, masks=8
    )
    pooled = ct.federate(recipe.echo_state, TAKING_PART)
    keys = generate_keys(TAKING_PART)
    names = sorted(TAKING_PART)
    clients: dict[str, Any] = {name: TAKING_PART[name] for name in names[2:]}
    with ExitStack() as stack:
        for name in names[:2]:
            plain = recipe.firmware(tmp_path / name, memory=True)
            assert plain.ram <= RAM
            held = {name: (TAKING_PART[name], TAKING_PART[name])}
            (device,) = stack.enter_context(running(plain, held, tmp_path)).values()
            clients[name] = EdgeClient(device.address)
            assert clients[name].hello().masks
        secure = ct.SecureAggregation(keys, min_clients=3, rows_per_feature=2.0)
        run = ct.federate(recipe.echo_state, clients, protections=[secure])
        used = device.stack(STACK)
    assert run.refused == ()
    assert run.statistics.digest() == pooled.statistics.digest()
    assert used < STACK - 256


@boards
def test_samples_that_come_over_a_serial_line(tmp_path: Path) -> None:
    """The device has two lines, and a client in Python is in its sum."""
    recipe = Recipe(map={"units": 8, "pool": "mean", "bits": 15}, rows=50)
    what, people = recipe.echo_state, synthetic_wearables(2, windows_per_user=4, steps=8)
    pooled = ct.federate(what, people)
    board, other = people
    with running(recipe.firmware(tmp_path), {board: (people[board],) * 3}, tmp_path) as devices:
        run = ct.federate(what, {other: people[other], **clients_of(devices)})
        scores = np.concatenate(EdgeClient(devices[board].address).predict())
    assert run.statistics.digest() == pooled.statistics.digest()
    np.testing.assert_allclose(scores, pooled.model.scores(people[board]), atol=1e-6)


@boards
def test_a_map_that_needs_more_than_64_kb_is_refused_by_the_linker(tmp_path: Path) -> None:
    wide = Recipe(map={"units": 160, "bits": 15, "feature_bits": 8, "pool": "mean"}, rows=100)
    with pytest.raises(DeviceFailedError, match="region `RAM' overflowed"):
        wide.firmware(tmp_path)
