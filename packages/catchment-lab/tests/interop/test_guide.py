"""The guide's code for aeon and sktime runs where they are installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "aeon-and-sktime.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["aeon", "sktime"])
def test_the_guides_code_runs(library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f'{library} is not installed; pip install "catchment[{library}]"')
    (block,) = [block for block in BLOCKS if f"from {library}." in block]
    exec(compile(block, str(GUIDE), "exec"), {})
