"""A model as C: what is written, and the plan of what it needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from catchment import replace_file
from catchment.readout import Model, PersonalModels
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.plan import DevicePlan, plan_of
from catchment_edge.c.program import header_text, source_text

# What a file's own functions start with, and headers that it includes.
_TAKEN = re.compile("(map|grid|float|golden)(_.*)?|stdint|math")


def check_name(name: str) -> None:
    """Raise ValueError if a file's functions cannot begin with a name.

    >>> check_name("har")
    >>> check_name("1x")
    Traceback (most recent call last):
    ValueError: --name is '1x'; give a letter, then up to 30 letters, digits and _, a word that ...
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,30}", name) or _TAKEN.fullmatch(name):
        raise ValueError(
            f"--name is {name[:40]!r}; give a letter, then up to 30 letters, digits and _, a word "
            "that does not begin with map, grid, float or golden"
        )


@dataclass(frozen=True, eq=False)
class CCode:
    """The C file and the header of a model, not yet written.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> code = c_code(fit(EchoState(20), data), name="waves")
    >>> code.plan.ram > 0, "waves_predict" in code.header
    (True, True)
    """

    layout: Layout
    plan: DevicePlan

    @cached_property
    def source(self) -> str:
        """Text of NAME.c."""
        return source_text(self.layout)

    @cached_property
    def header(self) -> str:
        """Text of NAME.h."""
        return header_text(self.layout)

    def write(self, folder: str | Path) -> list[Path]:
        """Write both files into a folder, which is made if it is not there; return their paths."""
        where, texts = Path(folder), {".c": self.source, ".h": self.header}
        if where.exists() and not where.is_dir():
            raise ValueError(f"--out {where} is a file; name a folder for {self.layout.name}.c")
        where.mkdir(parents=True, exist_ok=True)
        paths = [where / f"{self.layout.name}{suffix}" for suffix in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            replace_file(path, text.encode())
        return paths


def to_c(
    model: Model,
    folder: str | Path,
    *,
    name: str = "model",
    rate: float | None = None,
    steps: int | None = None,
) -> DevicePlan:
    """Write a model as NAME.c and NAME.h and return the plan of what it needs on a device.

    All numbers are integers, the very features of the library, so the map must be in fixed point.

    Parameters
    ----------
    name
        What the files and their functions are called.
    rate
        Samples a second of the device, for windows in seconds of a model that has no rate.
    steps
        Steps of the longest recording, for maps that need all of it at once.

    >>> import tempfile
    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = to_c(fit(EchoState(20), data), folder, name="waves")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['waves.c', 'waves.h']
    """
    code = c_code(model, name=name, rate=rate, steps=steps)
    code.write(folder)
    return code.plan


def c_code(
    model: Any,
    *,
    name: str = "model",
    rate: float | None = None,
    steps: int | None = None,
) -> CCode:
    """Return a model as C, not yet written; the parameters are those of `to_c`."""
    if isinstance(model, PersonalModels):
        raise ValueError(
            "PersonalModels cannot be written as C, only one model of them; say whose with "
            "--client NAME, or in Python pass models.model or models.of(name)"
        )
    if not isinstance(model, Model):
        raise ValueError(
            f"{type(model).__name__} cannot be written as C, only a model of one map and one "
            "readout; pass the model_ of an estimator, or train without a network"
        )
    check_name(name)
    if model.n_inputs is None:
        raise ValueError("the map takes any number of channels; build it for the device's first")
    if model.preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'the scale is "{model.preprocessing.scale}", by whole recordings at once, which a '
            'device does not have; train with scale="federated" or "none"'
        )
    if model.preprocessing.scale == "federated":
        raise ValueError("the scale is not fitted yet; train the model first")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give the length of recordings, from 1 on")
    layout = Layout(model, name, Cutting.of(model.preprocessing, rate), steps)
    return CCode(layout, plan_of(layout))
