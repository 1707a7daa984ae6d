"""A device among Python clients: one sum, and the gateway's rules hold for it as for anybody."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.data import synthetic_wearables
from catchment.errors import DeviceError, RefusedClientsWarning, TooFewClientsError
from catchment.federation import ByRound, RoundContext
from catchment.federation.learn import ReadoutAveraging
from catchment.readout import RidgeStatistics, to_bytes
from catchment.wire import NOTHING, Message
from catchment_edge import EdgeClient
from catchment_edge.client import Address, DeviceHello, Frame, opened
from tests.engine.stand_in import Fault, HangUpError, StandIn

PEOPLE = synthetic_wearables(4, windows_per_user=72, steps=12)
BOARD, *OTHERS = sorted(PEOPLE)
CLASSES = PEOPLE[BOARD][0].classes
MAP = ct.EchoState(8, pool="mean", seed=3)
POOLED = ct.federate(MAP, PEOPLE)
FEATURES = POOLED.known.maps[0]
HASTY = "?timeout=0.3&patience=0.6"


def board(**settings: Any) -> StandIn:
    given = {"segments": [PEOPLE[BOARD]], "classes": CLASSES, **settings}
    return StandIn(FEATURES, **given)


def federated(
    device: StandIn, what: ct.EchoState | ct.Pipeline = MAP, query: str = "", **settings: Any
) -> ct.Run:
    with device.listening() as address:
        clients: dict[str, Any] = {**PEOPLE, BOARD: EdgeClient(address + query)}
        return ct.federate(what, clients, **settings)


def test_a_device_and_python_clients_are_one_sum() -> None:
    device = board()
    run = federated(device)
    assert run.statistics.digest() == POOLED.statistics.digest()
    assert to_bytes(run.model) == to_bytes(POOLED.model)
    assert run.refused == ()
    assert {stage: records[0].n_used for stage, records in run.stages.items()} == {
        "scaling": 4,
        "training": 4,
        "delivery": 1,
    }


def test_the_device_is_told_that_it_was_counted_and_keeps_the_readout() -> None:
    device = board()
    run = federated(device)
    assert device.asked == ["H", "M", "H", "S", "T", "H", "A", "H", "S", "R"]
    assert device.weights is not None
    np.testing.assert_array_equal(device.weights[:-1], run.model.readout.weights)
    with device.listening() as address:
        scores = EdgeClient(address).predict()
    wanted = run.model.scores(PEOPLE[BOARD])
    np.testing.assert_allclose(np.concatenate(scores), wanted, atol=1e-6)


def test_all_clients_may_be_devices() -> None:
    boards = {name: board(segments=[PEOPLE[name]]) for name in PEOPLE}
    with (
        boards[BOARD].listening() as a,
        boards[OTHERS[0]].listening() as b,
        boards[OTHERS[1]].listening() as c,
        boards[OTHERS[2]].listening() as d,
    ):
        places = dict(zip(boards, map(EdgeClient, (a, b, c, d)), strict=True))
        run = ct.federate(MAP, places, classes=CLASSES)
        assert run.statistics.digest() == POOLED.statistics.digest()
        with pytest.raises(ValueError, match="classes=") as caught:
            ct.federate(MAP, places)
    assert "6 classes" in str(caught.value)


def test_numbers_that_are_predicted_at_every_step() -> None:
    waves = {name: np.sin(np.arange(120) / w) for name, w in zip("abc", (4, 5, 6), strict=True)}
    clients = {name: [ct.Recording(u[:-1], u[1:])] for name, u in waves.items()}
    pooled = ct.federate(ct.EchoState(10, washout=10), clients)
    device = StandIn(pooled.known.maps[0], [clients["b"]])
    with device.listening() as address:
        run = ct.federate(ct.EchoState(10, washout=10), {**clients, "b": EdgeClient(address)})
    assert run.statistics.digest() == pooled.statistics.digest()


def test_secure_aggregation_is_masked_at_the_gateway() -> None:
    run = federated(
        board(), protections=[ct.SecureAggregation(ct.generate_keys(PEOPLE), min_clients=4)]
    )
    assert run.statistics.digest() == POOLED.statistics.digest()
    assert run.refused == ()


def test_sums_that_have_grown_are_not_released_exactly_again() -> None:
    raw = ct.Pipeline(ct.Preprocessing(scale="none"), MAP)
    features = ct.federate(raw, PEOPLE).known.maps[0]
    device = StandIn(
        features, [PEOPLE[BOARD], PEOPLE[BOARD][:5]], ct.Preprocessing(scale="none"), CLASSES
    )
    secure = ct.SecureAggregation(ct.generate_keys(PEOPLE), min_clients=4)
    federated(device, raw, protections=[secure])
    with pytest.raises(TooFewClientsError, match="have changed since: the difference"):
        federated(device, raw, protections=[secure])


def test_noise_is_added_at_the_gateway_as_for_any_client() -> None:
    noise = ct.GaussianNoise(
        epsilon=1e6, delta=1e-5, clip=ct.Clip(bound=1e3), min_clients=4, small_cohort=True
    )
    run = federated(board(), protections=[noise], ridge=1.0)
    assert run.refused == ()
    assert run.records[0].n_used == 4


def lie(**changes: Any) -> Fault:
    """Return a fault: statistics with other fields than the device has."""

    def fault(kind: str, answer: bytes) -> bytes:
        if kind != "T":
            return answer
        parts = b"".join(frame.payload for frame in frames_of(answer) if frame.kind == "u")
        statistics = RidgeStatistics.from_message(Message.from_bytes(parts))
        message = replace(statistics, **changes).parts().to_bytes()
        return Frame("u", message).to_bytes() + Frame("e").to_bytes()

    return fault


def frames_of(answer: bytes) -> list[Frame]:
    frames = []
    while answer:
        size = 7 + struct.unpack_from("<I", answer, 3)[0] + 4
        frames.append(Frame(chr(answer[2]), answer[7 : size - 4]))
        answer = answer[size:]
    return frames


def at(kind: str, change: Any) -> Fault:
    return lambda asked, answer: change(answer) if asked == kind else answer


def hung_up(answer: bytes) -> bytes:
    raise HangUpError(answer[: len(answer) // 2])


def flipped(answer: bytes) -> bytes:
    return answer[:100] + bytes([answer[100] ^ 1]) + answer[101:]


ENDLESS = b"".join([Frame("u", bytes(4096)).to_bytes()] * 60)
FAULTS: dict[str, tuple[Fault, str, str]] = {
    "silence": (at("T", lambda _: None), "silent", "did not answer within 0.6 seconds"),
    "silence at first": (at("H", lambda _: None), "silent", "did not answer within 0.3 seconds"),
    "half an answer": (at("T", lambda sent: sent[:900]), "silent", "within 0.3 seconds"),
    "a reset": (at("T", hung_up), "lost", "closed the line"),
    "a wrong CRC": (at("T", flipped), "frame", "its CRC does not match"),
    "noise": (at("T", lambda _: b"boot v1.0\r\n"), "frame", "check the baud rate"),
    "a huge frame": (
        at("T", lambda _: b"\xca\x7cu" + b"\xff" * 4),
        "frame",
        "announced a frame 'u' of 4294967295 bytes, the most is 4096",
    ),
    "an endless answer": (at("T", lambda _: ENDLESS), "size", "sent more than"),
    "another kind": (at("T", lambda _: Frame("k").to_bytes()), "frame", "answered 'k' where 'u'"),
    "a refusal": (
        at("T", lambda _: Frame("n", b"no room for \x1b[31m more").to_bytes()),
        "refused",
        "the device says: no room for ?[31m more",
    ),
    "a pickle": (
        at("T", lambda _: Frame("u", b"\x80\x04." * 30).to_bytes() + Frame("e").to_bytes()),
        "refused",
        "not a catchment message",
    ),
    "another map's sums": (
        lie(fingerprint="ab" * 32),
        "fingerprint",
        "the statistics are of features abababababab",
    ),
    "too many rows": (lie(n_rows=10**9), "rows", "rows"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_device_with_a_fault_is_left_out_with_its_reason(name: str) -> None:
    fault, code, said = FAULTS[name]
    device = board(fault=fault)
    with pytest.warns(RefusedClientsWarning):
        run = federated(device, query=HASTY)
    reasons = {one.stage: one for one in run.refused}
    stage = "scaling" if name == "silence at first" else "training"
    assert reasons[stage].client == BOARD
    assert said in reasons[stage].reason
    assert reasons[stage].code == code
    assert run.records[0].n_used == 3
    assert "A" not in device.asked


def test_a_round_that_fails_is_not_acknowledged_and_the_same_is_sent_again() -> None:
    raw = ct.Pipeline(ct.Preprocessing(scale="none"), MAP)
    features = ct.federate(raw, PEOPLE).known.maps[0]
    device = StandIn(
        features,
        [PEOPLE[BOARD], PEOPLE[OTHERS[0]], PEOPLE[OTHERS[1]]],
        ct.Preprocessing(scale="none"),
        CLASSES,
    )
    with pytest.raises(TooFewClientsError):
        federated(device, raw, min_clients=5)
    assert device.asked == ["H", "T"]
    run = federated(device, raw)
    assert run.statistics.digest() == ct.federate(raw, PEOPLE).statistics.digest()
    assert device.asked[2:] == ["H", "T", "H", "A", "H", "R"]
    more = federated(device, raw)  # it was counted: now the next segment comes to the sums
    wanted = {**PEOPLE, BOARD: [*PEOPLE[BOARD], *PEOPLE[OTHERS[0]]]}
    assert more.statistics.digest() == ct.federate(raw, wanted).statistics.digest()


def test_an_acknowledgement_that_was_lost_is_made_up_for() -> None:
    def fault(kind: str, answer: bytes) -> bytes | None:
        return None if kind == "A" and device.asked.count("A") == 1 else answer

    device = board(fault=fault)
    run = federated(device, query=HASTY)
    assert device.asked.count("A") == 2  # the second before the readout
    assert run.refused == ()


def test_a_device_that_was_reset_owes_nothing() -> None:
    def fault(kind: str, answer: bytes) -> bytes:
        if kind == "A":
            device.pending, device.sums, device.last = None, None, 7
        return Frame("n", b"another round was asked for last").to_bytes() if kind == "A" else answer

    device = board(fault=fault)
    assert federated(device).refused == ()
    assert device.asked.count("A") == 1


def increments(device: StandIn, rounds: int = 3, query: str = "") -> Any:
    """Return what rounds of new data give, from a device and from people who have as much."""
    plan = ct.Plan(
        algorithm=ct.FederatedRidge(
            features=FEATURES, ridge=0.1, classes=CLASSES, increments="new"
        ),
        rounds=rounds,
        preprocessing=POOLED.model.preprocessing,
    )
    parts = {name: ByRound(*thirds(PEOPLE[name])) for name in OTHERS}
    with device.listening() as address:
        return ct.federate(plan, {**parts, BOARD: EdgeClient(address + query)})


def thirds(data: list[ct.Recording]) -> list[list[ct.Recording]]:
    return [data[:24], data[24:48], data[48:]]


def test_rounds_of_new_data_add_up_to_all_of_them() -> None:
    device = board(
        segments=thirds(PEOPLE[BOARD]), preprocessing=POOLED.model.preprocessing, told=True
    )
    done = increments(device)
    assert done.state.total.digest() == POOLED.statistics.digest()
    assert device.asked.count("T") == device.asked.count("A") == 3


@pytest.mark.parametrize("lost", [1, 2])
def test_an_increment_that_was_missed_comes_with_the_next(lost: int) -> None:
    def fault(kind: str, answer: bytes) -> bytes | None:
        return None if kind == "T" and device.asked.count("T") == lost else answer

    device = board(
        segments=thirds(PEOPLE[BOARD]),
        preprocessing=POOLED.model.preprocessing,
        told=True,
        fault=fault,
    )
    with pytest.warns(RefusedClientsWarning, match="did not answer"):
        done = increments(device, query=HASTY)
    assert [record.n_used for record in done.records].count(3) == 1
    assert done.state.total.digest() == POOLED.statistics.digest()
    assert device.asked.count("A") == 2


def test_a_device_does_not_cut_what_it_does_not_have_yet() -> None:
    plan = ct.Plan(
        algorithm=ct.FederatedRidge(features=FEATURES, ridge=0.1, classes=CLASSES, increments=3)
    )
    with board().listening() as address, pytest.raises(DeviceError, match='increments = "new"'):
        EdgeClient(address).upload(plan, NOTHING, RoundContext(0, ()), {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fingerprint": "cd" * 32}, "has the feature map cdcdcdcdcdcd, the plan trains"),
        ({"features": 9}, "features of the device is 9, of the plan"),
        ({"outputs": 2}, "outputs of the device is 2, of the plan 6"),
        ({"classes": False}, "classes of the device is False"),
        ({"per_step": True}, "per_step of the device is True"),
    ],
)
def test_a_device_for_another_plan_is_not_asked_to_train(
    changes: dict[str, object], said: str
) -> None:
    device = board(changed_hello=changes)
    with pytest.warns(RefusedClientsWarning):
        run = federated(device)
    assert said in run.refused[0].reason
    assert "T" not in device.asked


def test_channels_are_compared_before_the_sensor_is_read() -> None:
    device = board(changed_hello={"channels": 5})
    with pytest.warns(RefusedClientsWarning, match="has 5 channels, the plan 6"):
        federated(device)
    assert "M" not in device.asked


def test_only_a_ridge_can_be_trained_on_a_device() -> None:
    device = board()
    with pytest.warns(RefusedClientsWarning, match="cannot take part in ReadoutAveraging"):
        federated(device, upload=ReadoutAveraging)


def test_what_is_left_of_an_abandoned_answer_is_passed_over() -> None:
    device = board()
    stale = Frame("u", bytes(300)).to_bytes()[100:] + b"\xca\x7c\xca" + Frame("e").to_bytes()
    with device.listening() as address:
        device.fault = at("H", lambda sent: stale + sent)
        assert EdgeClient(address).hello() == device.hello()
        device.fault = at("H", lambda sent: sent + sent)  # two greetings: the first was late
        EdgeClient(address).keep(POOLED.model)


def test_a_device_that_only_prints_is_given_up() -> None:
    device = board(fault=at("H", lambda _: bytes(3 << 20)))
    with device.listening() as address, pytest.raises(DeviceError, match="sends without end"):
        EdgeClient(address).hello()


def test_a_newer_device_is_told_apart() -> None:
    hello = bytes([9]) + board().hello().to_bytes()[1:]
    device = board(fault=at("H", lambda _: Frame("h", hello).to_bytes()))
    with device.listening() as address, pytest.raises(DeviceError, match="speaks version 9"):
        EdgeClient(address).hello()


def test_one_device_is_not_two_clients() -> None:
    here = "tcp://127.0.0.1:7007"
    both = {"a": EdgeClient(here), "b": EdgeClient(here + "?timeout=1")}
    with pytest.raises(ValueError, match=r"a and b are both the device at 127\.0\.0\.1:7007"):
        ct.federate(MAP, {**PEOPLE, **both})


@pytest.mark.skipif(sys.platform == "win32", reason="serial lines are read by termios")
def test_a_device_on_a_serial_line() -> None:
    device = board()
    with device.on_a_serial_line() as path:
        here = EdgeClient(f"serial://{path}?baud=115200")
        run = ct.federate(MAP, {**PEOPLE, BOARD: here})
        assert run.statistics.digest() == POOLED.statistics.digest()
        with opened(Address.of(here.address)), pytest.raises(DeviceError, match="another process"):
            here.hello()
        with pytest.raises(ValueError, match="baud is 12345, which this system does not have"):
            EdgeClient(f"serial://{path}?baud=12345").hello()
    with pytest.raises(DeviceError, match="cannot be opened"):
        EdgeClient("serial:///dev/no-such-line").hello()
    with pytest.raises(DeviceError, match="is no serial line"):
        EdgeClient("serial:///dev/null").hello()


def test_a_second_gateway_waits_until_the_first_is_done() -> None:
    device = board()
    with device.listening() as address:
        with opened(Address.of(address)), pytest.raises(DeviceError, match="nobody else is"):
            EdgeClient(address + HASTY).hello()
        assert EdgeClient(address).hello() == device.hello()


def test_nobody_listens() -> None:
    with board().listening() as address:
        pass
    with pytest.raises(DeviceError, match="no device answers at tcp"):
        EdgeClient(address).hello()


def test_a_device_is_not_evaluated() -> None:
    device = EdgeClient("tcp://127.0.0.1:7007")
    with pytest.raises(TooFewClientsError, match="cannot take part in Evaluation"):
        ct.evaluate(POOLED.model, {"board": device})  # type: ignore[dict-item]


def test_a_model_of_another_map_is_not_sent_down() -> None:
    other = ct.fit(ct.EchoState(9, pool="mean"), PEOPLE[OTHERS[0]])
    with board().listening() as address, pytest.raises(DeviceError, match="export the device from"):
        EdgeClient(address).keep(other)


def test_predictions_need_a_readout() -> None:
    with board().listening() as address, pytest.raises(DeviceError, match="no readout yet"):
        EdgeClient(address).predict()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("udp://127.0.0.1:1", 'write "tcp://127.0.0.1:7007"'),
        ("tcp://127.0.0.1", "lacks host or port"),
        ("tcp://127.0.0.1:99999", "has no port"),
        ("tcp://192.168.0.9:7007", "on a network"),
        ("tcp://board.local:7007", "on a network"),
        ("tcp://127.0.0.1:1?baud=9600", "has 'baud'; choose from network, timeout, patience"),
        ("tcp://127.0.0.1:1?timeout=soon", "pass a number of seconds"),
        ("tcp://127.0.0.1:1?network=maybe", "write yes or no"),
        ("serial://dev/ttyACM0", "three slashes"),
        ("serial:///dev/ttyACM0?baud=fast", "pass an integer"),
    ],
)
def test_addresses_that_name_no_device(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        EdgeClient(text)


def test_a_network_is_taken_if_the_owner_says_so() -> None:
    assert Address.of("tcp://192.168.0.9:7007?network=yes").host == "192.168.0.9"
    assert Address.of("tcp://[::1]:7007").host == "::1"


def test_a_hello_is_as_long_as_agreed() -> None:
    with pytest.raises(DeviceError, match="in 3 bytes"):
        DeviceHello.from_bytes(b"\x01\x00\x00")
    with pytest.raises(DeviceError, match="version none"):
        DeviceHello.from_bytes(b"")


def test_an_algorithm_that_is_not_for_devices_is_refused_by_name() -> None:
    plan = ct.Plan(algorithm=ct.Evaluation(model_under_test=POOLED.model))
    with board().listening() as address, pytest.raises(DeviceError, match="part in Evaluation"):
        EdgeClient(address).upload(plan, NOTHING, RoundContext(0, ()), {})
