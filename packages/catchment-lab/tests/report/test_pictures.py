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
from catchment_lab import plots


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
    return {
        "reservoir_graph": plots.reservoir_graph(random_layer(30, 0.1), dark=dark),
        "spectrum": plots.spectrum(random_layer(30, 0.1), leaky=True, dark=dark),
        "states": plots.states(x, inputs=u, units=[0, 3], step=0.5, dark=dark),
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
    assert ours["reservoir_graph"].startswith("Reservoir graph: 30 units, ")


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
    with pytest.raises(ValueError, match="states are not finite at row 1"):
        plots.states([0.0, np.nan])
    with pytest.raises(ValueError, match="4 steps of input and 5 of states"):
        plots.states(np.zeros((5, 3)), inputs=np.zeros(4))
    with pytest.raises(ValueError, match=r"not all within 0\.\.2"):
        plots.states(np.zeros((5, 3)), units=[3])
    with pytest.raises(ValueError, match="units is 0"):
        plots.states(np.zeros((5, 3)), units=0)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [m for m in sys.modules if m == "matplotlib" or m.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    module = plots.states.__module__
    monkeypatch.delitem(sys.modules, module)
    with pytest.raises(MissingExtraError, match=r"catchment\[lab\]"):
        importlib.import_module(module)
