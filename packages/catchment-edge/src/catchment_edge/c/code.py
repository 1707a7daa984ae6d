"""A model as C: what is written, and the plan of what it needs.

Which names a generated file may have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from catchment import replace_file
from catchment.data import Recording
from catchment.features import FeatureMap, Pipeline
from catchment.readout import Model, PersonalModels
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.map_code import NUMBERS, Number, in_q15
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
    number: Number | None = None,
    rate: float | None = None,
    steps: int | None = None,
    check: Sequence[Recording] | None = None,
) -> DevicePlan:
    """Write a model as NAME.c and NAME.h and return the plan of what it needs on a device.

    Parameters
    ----------
    name
        What the files and their functions are called.
    number
        "whole" (default where the map has a grid): integers only, the very features of the
        library. "q15": the same in words of 16 bits; a map of more than 15 digits is rounded.
        "float32": single precision, for any map.
    rate
        Samples a second of the device, for windows in seconds of a model that has no rate.
    steps
        Steps of the longest recording, for maps that need all of it at once.
    check
        Raw recordings on which a model that must be rounded is compared with the one that was
        trained; made up if not given.

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
    code = c_code(model, name=name, number=number, rate=rate, steps=steps, check=check)
    code.write(folder)
    return code.plan


def c_code(
    model: Any,
    *,
    name: str = "model",
    number: Number | None = None,
    rate: float | None = None,
    steps: int | None = None,
    check: Sequence[Recording] | None = None,
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
    _refuse(model, name, number)
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give the length of recordings, from 1 on")
    form: Number = number or ("float32" if model.features.feature_bits is None else "whole")
    exported = model
    if form == "q15":
        exported = model_of(model, in_q15(model.features))
    layout = Layout(exported, name, form, Cutting.of(model.preprocessing, rate), steps)
    return CCode(layout, plan_of(layout, model, check))


def model_of(model: Model, features: FeatureMap) -> Model:
    """Return the model with another map of as many features, and nothing else changed."""
    if features is model.features:
        return model
    return replace(model, before=Pipeline(model.preprocessing, features), statistics=None)


def _refuse(model: Model, name: str, number: str | None) -> None:
    if number is not None and number not in NUMBERS:
        raise ValueError(f"--number is {number!r}; choose one of {', '.join(NUMBERS)}")
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
