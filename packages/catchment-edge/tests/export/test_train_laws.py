"""Laws: whatever the samples, a device sends what a client would; sums of devices are the sum."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catchment import EchoState, FederatedRidge, Plan, Preprocessing, Recording, federate
from catchment.data import Scaler
from catchment.readout import RidgeStatistics
from catchment.wire import Message
from catchment_edge.training import Layout, Task, TrainingDevice
from tests.export.trained import (
    Program,
    measure,
    messages,
    moments_message,
    needs_gcc,
    scale,
    statistics_message,
    train,
)

pytestmark = [
    needs_gcc,
    pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning"),
    pytest.mark.filterwarnings("ignore::catchment.errors.CoarseTargetsWarning"),
]
LIMITS = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FITTED = Preprocessing(scale=Scaler(np.array([0.5, -3.0]), np.array([2.0, 1e3])))
ANY = st.floats(-(2.0**40), 2.0**40, exclude_min=True, exclude_max=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A device with one number to predict at every step."""
    features = EchoState(5, seed=3, washout=1).build(2, per_step=True)
    layout = Layout(Task(features, Preprocessing(), 2, 1), "laws", 500)
    return Program.of(TrainingDevice(layout), tmp_path_factory.mktemp("laws"))


@st.composite
def drawn(draw: st.DrawFn, first_missing: bool) -> list[Recording]:
    """Draw recordings of any numbers, some of them missing."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        steps = draw(st.integers(2, 8))
        values = st.one_of(ANY, st.just(np.nan))
        u = np.array(draw(st.lists(st.tuples(values, values), min_size=steps, max_size=steps)))
        if not first_missing:
            u[0] = draw(st.tuples(ANY, ANY))
        y = np.array(draw(st.lists(values, min_size=steps, max_size=steps)))
        found.append(Recording(u, y[:, None]))
    return found


@LIMITS
@given(data=drawn(first_missing=True))
def test_moments_of_any_samples(program: Program, data: list[Recording]) -> None:
    answers = program.talk(measure(), program.sensor(data))
    if all(np.isnan(one.u).all() for one in data):
        assert [kind for kind, _ in answers] == ["n"]
    else:
        assert messages(answers) == [moments_message(Preprocessing(), data)]


@LIMITS
@given(data=drawn(first_missing=False))
def test_statistics_of_any_samples(program: Program, data: list[Recording]) -> None:
    answers = program.talk(scale(FITTED) + train(), program.sensor(data))
    assert messages(answers) == [statistics_message(program.device, FITTED, data)]


def test_five_devices_are_the_federation(program: Program) -> None:
    """The sum of five uploads has the digest of the statistics that the server of a run keeps."""
    rng = np.random.default_rng(9)
    clients = {
        f"device-{k}": [
            Recording(rng.normal(size=(T, 2)), rng.normal(size=(T, 1)))
            for T in rng.integers(15, 40, 3)
        ]
        for k in range(5)
    }
    sent = [
        messages(program.talk(scale(FITTED) + train(), program.sensor(own)))[0]
        for own in clients.values()
    ]
    total = reduce(add, (RidgeStatistics.from_message(Message.from_bytes(one)) for one in sent))
    algorithm = FederatedRidge(features=program.device.layout.task.features, ridge=1e-3)
    state = federate(Plan(algorithm=algorithm, preprocessing=FITTED), clients).state
    assert state.total is not None
    assert total.digest() == state.total.digest()
