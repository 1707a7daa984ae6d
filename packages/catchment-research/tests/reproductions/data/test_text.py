"""Texts: tiny files as published, and the real compact forms."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from catchment.errors import IntegrityError
from reproductions.data.load import load_texts
from reproductions.data.text import shakespeare, sotu, sst2
from reproductions.places import find

TRAIN = 'sentence\tlabel\nhide new secretions \t0\na "charming\x85 journey" . \t1\n'
DEV = "sentence\tlabel\r\nfun\t1\r\n"


def put(root: Path, name: str, text: str) -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(text.encode())
    return root / name


def test_sst2_of_glue(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "SST-2/train.tsv", TRAIN)
    put(tmp_path / "sst2", "SST-2/dev.tsv", DEV)
    texts = load_texts("sst2", directory=tmp_path)
    assert [(t.text, t.label) for t in texts.train] == [
        ("hide new secretions", 0),
        ('a "charming\x85 journey" .', 1),
    ]
    assert [(t.text, t.label) for t in texts.test] == [("fun", 1)]
    assert texts.classes[1] == "positive"
    assert texts.clients == {}
    with pytest.raises(ValueError, match="no set of whole sentences"):
        sst2(directory=tmp_path, sentences=True)


def test_sst2_in_its_zip(tmp_path: Path) -> None:
    (tmp_path / "sst2").mkdir()
    with zipfile.ZipFile(tmp_path / "sst2" / "SST-2.zip", "w") as archive:
        archive.writestr("SST-2/train.tsv", TRAIN)
        archive.writestr("SST-2/dev.tsv", DEV)
    assert len(sst2(directory=tmp_path).train) == 2


def test_odd_sst2(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "dev.tsv", DEV)
    for text, message in (
        ("index\tsentence\n0\tx\n", "begins with 'index"),
        ("", "begins with ''"),
        ("sentence\tlabel\nx\t2\n", "line 2, has label '2'"),
        ("sentence\tlabel\nx\t1\nno label\n", "line 3, has label"),
    ):
        put(tmp_path / "sst2", "train.tsv", text)
        with pytest.raises(IntegrityError, match=message):
            sst2(directory=tmp_path)
    (tmp_path / "sst2" / "dev.tsv").unlink()
    with pytest.raises(IntegrityError, match=r"has no dev\.tsv"):
        sst2(directory=tmp_path)


def test_shakespeare_as_published(tmp_path: Path) -> None:
    play = (
        "First Citizen:\nBefore we proceed:\nhear me speak.\n\nAll:\nSpeak, speak.\n\n"
        "MENENIUS:\n\nFirst Citizen:\nYou are all resolved.\n"
    )
    put(tmp_path / "shakespeare", "input.txt", play)
    texts = load_texts("shakespeare", directory=tmp_path)
    assert [(t.client, t.text) for t in texts.train] == [
        ("First Citizen", "Before we proceed:\nhear me speak."),
        ("All", "Speak, speak."),
        ("First Citizen", "You are all resolved."),
    ]
    assert {name: len(part) for name, part in texts.clients.items()} == {
        "First Citizen": 2,
        "All": 1,
    }
    put(tmp_path / "shakespeare", "input.txt", "no roles here")
    with pytest.raises(IntegrityError, match="has no speeches"):
        shakespeare(directory=tmp_path)


def test_addresses_as_published(tmp_path: Path) -> None:
    for year, name in ((1801, "thomas_jefferson_dr"), (1790, "george_washington_n")):
        record = {"year": year, "name": name[:6], "party": "none", "text": f"In {year}\u2028..."}
        put(tmp_path / "sotu" / "data", f"{year}_{name}.json", json.dumps(record) + "\n")
    put(tmp_path / "sotu", "package.json", "{}")
    texts = load_texts("sotu", directory=tmp_path)
    assert [(t.client, t.text[:7]) for t in texts.train] == [
        ("george", "In 1790"),
        ("thomas", "In 1801"),
    ]
    for text in ("{", '{"name": "x"}', "[1]"):
        put(tmp_path / "sotu" / "data", "1801_thomas_jefferson_dr.json", text)
        with pytest.raises(IntegrityError, match=r"dr\.json, line 1, lacks name or text"):
            sotu(directory=tmp_path)


def has_compact(name: str) -> bool:
    place = find(name)
    return place is not None and place.form == "compact"


@pytest.mark.skipif(not has_compact("sst2"), reason="no compact sst2 on this machine")
def test_real_sst2() -> None:
    for texts, sizes, positive in (
        (load_texts("sst2"), (67_349, 872), (37_569, 444)),
        (sst2(sentences=True), (6_920, 1_821), (3_610, 909)),
    ):
        assert (len(texts.train), len(texts.test)) == sizes
        counts = [sum(t.label or 0 for t in part) for part in (texts.train, texts.test)]
        assert tuple(counts) == positive


@pytest.mark.skipif(not has_compact("shakespeare"), reason="no compact shakespeare on this machine")
def test_real_speeches() -> None:
    texts = load_texts("shakespeare")
    assert len(texts.train) == 7_095
    assert len(texts.clients) == 299
    assert sum(len(part) >= 20 for part in texts.clients.values()) == 98


@pytest.mark.skipif(not has_compact("sotu"), reason="no compact sotu on this machine")
def test_real_addresses() -> None:
    texts = load_texts("sotu")
    assert len(texts.train) == 233
    assert len(texts.clients) == 43
    assert max(map(len, texts.clients.values())) == 12
