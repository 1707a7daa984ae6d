"""A16: one flipped byte in a saved model or a recipe is found; other formats say what they are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from catchment import save
from catchment.data import Recording
from catchment.errors import CatchmentError, IntegrityError
from catchment.features import EchoState, Reservoir
from catchment.readout import Model, load_model, train

RECIPE = Reservoir(units=6, inputs=1, seed=3).prepared()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    u = np.sin(np.arange(80) / 5)
    model: Model = train(EchoState.of(RECIPE), [Recording(u[:-1], u[1:])])
    return save(model, tmp_path_factory.mktemp("a16") / "model.safetensors")


def check(stored: Path, damaged: Path, bit: int, places: range) -> None:
    content = stored.read_bytes()
    for place in places:
        flipped = bytes([content[place] ^ 1 << bit])
        damaged.write_bytes(content[:place] + flipped + content[place + 1 :])
        with pytest.raises(IntegrityError):
            load_model(damaged)


def test_flipped_bytes_of_a_model_are_found(stored: Path, tmp_path: Path) -> None:
    size = stored.stat().st_size
    for bit in range(8):
        check(stored, tmp_path / "damaged", bit, range(bit, size, 61))


@pytest.mark.long
@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_a_model_is_found(stored: Path, bit: int, tmp_path: Path) -> None:
    check(stored, tmp_path / "damaged", bit, range(stored.stat().st_size))


@pytest.mark.parametrize("bit", range(7))
def test_flipped_bytes_of_a_recipe_are_found_or_change_nothing(bit: int) -> None:
    text = RECIPE.to_json().encode()
    same = RECIPE.fingerprint
    n_found = 0
    for place in range(len(text)):
        damaged = text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]
        try:
            found = Reservoir.from_json(damaged.decode()).fingerprint
        except (CatchmentError, ValueError):
            n_found += 1
        else:
            # The case of a hexadecimal digit, or the radius that an exact scale stands for.
            assert found == same
    assert n_found > 0.95 * len(text)


def test_other_formats_are_named(stored: Path, tmp_path: Path) -> None:
    newer = RECIPE.to_json().replace('"format":1', '"format":2')
    with pytest.raises(IntegrityError, match="format 2, this version reads 1; upgrade"):
        Reservoir.from_json(newer)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(IntegrityError, match="no safetensors file"):
        load_model(empty)
    # The header's own checksum is sealed again, so that only the format is strange.
    content = stored.read_bytes()
    size = 8 + int.from_bytes(content[:8], "little")
    head = content[:size].replace(b'\\"format\\":2', b'\\"format\\":9')
    assert head != content[:size]
    place = re.search(rb'header_sha256\\":\\"([0-9a-f]{64})', head)
    assert place is not None
    blank = head[: place.start(1)] + b"0" * 64 + head[place.end(1) :]
    sealed = hashlib.sha256(blank).hexdigest().encode()
    other = tmp_path / "newer"
    other.write_bytes(head[: place.start(1)] + sealed + head[place.end(1) :] + content[size:])
    with pytest.raises(IntegrityError, match="format 9, this version reads 2; upgrade catchment"):
        load_model(other)
