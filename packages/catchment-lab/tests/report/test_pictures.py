"""Pictures: every function, light and dark, and the values they refuse."""

from __future__ import annotations

import importlib
import io
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from catchment.errors import MissingExtraError
from catchment.features.echo_state import LayerWeights, SparseRows
from catchment_lab.plots import plots

NAMES = ("reservoir_graph", "spectrum", "states", "forecast", "confusion_matrix", "ridge_path")


def layer(W: np.ndarray, leak: float = 1.0) -> LayerWeights:
    N = len(W)
    one, zero = np.ones(N), np.zeros(N)
    rows = SparseRows.from_dense(W)
    W_in = SparseRows.from_dense(np.ones((N, 1)))
    return LayerWeights(rows, W_in, zero, leak * one, one, zero, np.zeros(N, np.uint8))


def random_layer(N: int, density: float) -> LayerWeights:
    rng = np.random.default_rng(1)
    return layer(rng.uniform(-1, 1, (N, N)) * (rng.random((N, N)) < density))


def title(figure: Figure) -> str:
    return str(figure.axes[0].get_title(loc="left"))


def drawn(*, dark: bool) -> dict[str, Figure]:
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(40, 5)), rng.normal(size=(40, 2))
    mean = rng.normal(size=(10, 2))
    truth = mean.copy()
    truth[3] = np.nan
    return {
        "reservoir_graph": plots.reservoir_graph(random_layer(30, 0.1), dark=dark),
        "spectrum": plots.spectrum(random_layer(30, 0.1), leaky=True, dark=dark),
        "states": plots.states(x, inputs=u, units=[0, 3], step=0.5, dark=dark),
        "forecast": plots.forecast(
            mean, history=x[:, :2], truth=truth, lower=mean - 1, upper=mean + 1, dark=dark
        ),
        "confusion_matrix": plots.confusion_matrix([[3, 1], [0, 4]], classes="ab", dark=dark),
        "ridge_path": plots.ridge_path([1.0, 0.1], [[1.0, 2.0], [0.5, 1.0]], dark=dark),
    }


@pytest.mark.parametrize("dark", [False, True])
def test_matplotlib_draws_everything_without_pyplot(dark: bool) -> None:
    for name, figure in drawn(dark=dark).items():
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=40)
        assert len(target.getvalue()) > 2000, name
        assert title(figure), name
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_titles_say_what_is_shown() -> None:
    ours = {name: title(figure) for name, figure in drawn(dark=False).items()}
    assert ours["spectrum"].startswith("Spectrum of (1 - a) I + a W: radius ")
    assert ours["confusion_matrix"] == "Confusion: 7 of 8 right (87.5 %)"
    assert ours["ridge_path"] == "Ridge path: 0.1 chosen"


def test_large_graph_says_what_is_left_out() -> None:
    figure = plots.reservoir_graph(random_layer(200, 0.05), max_units=150)
    assert "first 150 of 200 units" in figure.axes[0].get_xlabel()


def test_edge_cases_are_drawn() -> None:
    for figure in (
        plots.reservoir_graph(layer(np.zeros((1, 1)))),
        plots.reservoir_graph(layer(np.eye(2))),
        plots.spectrum(layer(np.zeros((3, 3)))),
        plots.states(np.zeros((1, 1))),
        plots.states(np.zeros(5)),
        plots.forecast([1.0]),
        plots.confusion_matrix([[0]]),
        plots.confusion_matrix(np.ones((30, 30), int)),
        plots.ridge_path([1.0], [2.0]),
        plots.ridge_path([1e-3, 1.0, 10.0], [np.inf, 1.0, 1000.0]),
    ):
        assert any(axes.has_data() for axes in figure.axes)


def test_wrong_values_are_refused() -> None:
    small = layer(np.eye(2))
    with pytest.raises(ValueError, match="layout is 'grid'"):
        plots.reservoir_graph(small, layout="grid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_units is 0"):
        plots.reservoir_graph(small, max_units=0)
    with pytest.raises(ValueError, match="at least one step"):
        plots.states(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="states is not finite at row 1"):
        plots.states([0.0, np.nan])
    with pytest.raises(ValueError, match="4 steps of input and 5 of states"):
        plots.states(np.zeros((5, 3)), inputs=np.zeros(4))
    with pytest.raises(ValueError, match=r"not all within 0\.\.2"):
        plots.states(np.zeros((5, 3)), units=[3])
    with pytest.raises(ValueError, match="units is 0"):
        plots.states(np.zeros((5, 3)), units=0)
    with pytest.raises(ValueError, match="both lower and upper"):
        plots.forecast([1.0], lower=[0.0])
    with pytest.raises(ValueError, match="truth has shape"):
        plots.forecast([1.0], truth=[0.0, 1.0])
    with pytest.raises(ValueError, match="history has 2 columns"):
        plots.forecast([1.0], history=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="1 to 6 outputs"):
        plots.forecast(np.zeros((3, 7)))
    with pytest.raises(ValueError, match="1 names for 2 outputs"):
        plots.forecast(np.zeros((3, 2)), names=["a"])
    with pytest.raises(ValueError, match="true by predicted"):
        plots.confusion_matrix([[1, 2]])
    with pytest.raises(ValueError, match="whole, non-negative"):
        plots.confusion_matrix([[0.5, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="3 class names for 2"):
        plots.confusion_matrix(np.eye(2), classes="abc")
    with pytest.raises(ValueError, match="positive finite ridges"):
        plots.ridge_path([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="do not fit"):
        plots.ridge_path([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="no ridge has a finite error"):
        plots.ridge_path([1.0], [np.nan])
    with pytest.raises(ValueError, match="outside"):
        plots.ridge_path([1.0, 2.0], [1.0, 2.0], chosen=5.0)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [m for m in sys.modules if m == "matplotlib" or m.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "catchment_lab.plots.plots")
    with pytest.raises(MissingExtraError, match=r"catchment\[lab\]"):
        importlib.import_module("catchment_lab.plots.plots")
