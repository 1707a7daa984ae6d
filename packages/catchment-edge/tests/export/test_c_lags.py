"""A client's autocovariances in C: the very upload that Python makes, in less than 8 kB."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.data import Recording
from catchment.readout import Autocovariances, autocovariances
from catchment_edge import lags_c_code
from tests.export.compiled import build

SIZE = "unsigned lags_size(void); unsigned lags_size(void) { return sizeof(struct lags); }\n"


def library(folder: Path, lookback: int, horizon: int) -> Any:
    for name, text in lags_c_code(lookback, horizon).items():
        (folder / name).write_text(text)
    more = folder / "size.c"
    more.write_text(f'#include "lags.h"\n{SIZE}')
    path = folder / f"lags{lookback + horizon}.so"
    flags = [
        "-shared",
        "-fPIC",
        "-O2",
        "-fsanitize=undefined",
        "-fsanitize-undefined-trap-on-error",
    ]
    build([str(folder / "lags.c"), str(more), *flags, "-o", str(path), "-lm"])
    found = ctypes.CDLL(str(path))
    found.lags_fixed.argtypes = [ctypes.c_double] * 3
    found.lags_fixed.restype = ctypes.c_int16
    found.lags_product.restype = ctypes.c_int64
    found.lags_pairs.restype = ctypes.c_uint32
    return found


class Client:
    """A series fed value by value, and the sums that were sent so far."""

    def __init__(self, c: Any, lags: int) -> None:
        self.c, self.lags, self.sent = c, lags, [autocovariances(np.empty((0, 1)), lags)]
        self.state = ctypes.create_string_buffer(c.lags_size())
        c.lags_start(self.state)

    def send(self) -> None:
        numbers = [
            np.array([[read(self.state, k) for k in range(self.lags)]], dtype=np.int64)
            for read in (self.c.lags_product, self.c.lags_pairs)
        ]
        zero = autocovariances(np.empty((0, 1)), self.lags)
        n = int(numbers[1][0, 0])
        one = replace(zero, products=numbers[0], pairs=numbers[1], n_rows=n, weight=float(n))
        self.sent.append(one)
        self.c.lags_sent(self.state)

    def feed(self, values: Any, mean: float, scale: float) -> int:
        full = 0
        for value in values:
            if np.isnan(value):
                self.c.lags_gap(self.state)
                continue
            whole = self.c.lags_fixed(float(value), mean, scale)
            if self.c.lags_feed(self.state, ctypes.c_int16(whole)):
                full += 1
                self.send()
                assert self.c.lags_feed(self.state, ctypes.c_int16(whole)) == 0
        return full

    @property
    def total(self) -> Autocovariances:
        self.send()
        return reduce(add, self.sent)


def in_python(values: Any, mean: float, scale: float, lags: int) -> Autocovariances:
    """Return the sums of the series between the gaps."""
    cuts = np.split(values, np.flatnonzero(np.isnan(values)))
    series = [one[~np.isnan(one)] for one in cuts]
    sums = [autocovariances((x[:, None] - mean) / scale, lags) for x in series if len(x)]
    return reduce(add, sums, autocovariances(np.empty((0, 1)), lags))


@pytest.mark.parametrize(("lookback", "horizon"), [(5, 3), (40, 24), (336, 720)])
def test_the_upload_is_pythons_to_the_bit(tmp_path: Path, lookback: int, horizon: int) -> None:
    lags = lookback + horizon
    c = library(tmp_path, lookback, horizon)
    rng = np.random.default_rng(lags)
    values = 20 + 4 * np.cumsum(rng.normal(size=3_000)) / 30
    values[rng.random(len(values)) < 0.002] = np.nan
    client = Client(c, lags)
    client.feed(values, 20.5, 3.7)
    total, wanted = client.total, in_python(values, 20.5, 3.7, lags)
    assert total.digest() == wanted.digest()
    assert total.parts().to_bytes() == wanted.parts().to_bytes()


def test_sums_that_are_full_are_sent_and_go_on(tmp_path: Path) -> None:
    c = library(tmp_path, 5, 3)
    values = np.where(np.arange(6_000) % 7 < 3, 9.0, -7.0)  # cut off at 8
    client = Client(c, 8)
    assert client.feed(values, 0.0, 1.0) > 5
    with pytest.warns(UserWarning, match="cut off"):
        wanted = in_python(values, 0.0, 1.0, 8)
    assert client.total.digest() == wanted.digest()


def test_many_gaps_fill_the_notes_and_are_sent(tmp_path: Path) -> None:
    c = library(tmp_path, 40, 24)
    values = np.random.default_rng(0).normal(size=900)
    values[::7] = np.nan
    client = Client(c, 64)
    assert client.feed(values, 0.0, 1.0) > 0
    assert client.total.digest() == in_python(values, 0.0, 1.0, 64).digest()


def test_a_client_with_1056_lags_needs_less_than_8_kb(tmp_path: Path) -> None:
    assert library(tmp_path, 336, 720).lags_size() < 8 * 1024


def test_a_plan_takes_the_upload_of_a_device(tmp_path: Path) -> None:
    import catchment as ct
    from catchment.federation.learn import FederatedYuleWalker

    ahead = ct.Preprocessing(horizon=(1, 3), scale="none")
    learn = FederatedYuleWalker(
        features=ct.NVAR(5, order=1).build(1, per_step=True), preprocessing=ahead
    )
    x = np.random.default_rng(1).normal(size=500)
    client = Client(library(tmp_path, 5, 3), 8)
    client.feed(x, 0.0, 1.0)
    own = learn.sums(Recording(x), ahead)
    assert (own.products == client.total.products).all()


def test_numbers_of_lags_that_cannot_be_are_refused() -> None:
    for lookback, horizon in ((0, 3), (5, 0), (59_000, 1_001)):
        with pytest.raises(ValueError, match="together"):
            lags_c_code(lookback, horizon)


def test_the_forecast_goes_to_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    import catchment as ct
    from catchment_edge import to_onnx

    x = np.cumsum(np.random.default_rng(0).normal(size=(3, 800)), axis=1)
    clients = {f"c{k}": [Recording(one)] for k, one in enumerate(x)}
    lags = ct.Pipeline(ct.Preprocessing(horizon=(1, 3)), ct.NVAR(16, order=1))
    model = ct.federate(lags, clients, upload="autocovariances").model
    to_onnx(model, tmp_path / "forecast.onnx")
    session = runtime.InferenceSession(str(tmp_path / "forecast.onnx"))
    (said,) = session.run(None, {session.get_inputs()[0].name: x[0][:60, None]})
    np.testing.assert_allclose(said, model.predict(x[0][:60, None]), rtol=1e-12)
