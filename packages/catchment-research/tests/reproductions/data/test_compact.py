"""Compact files: made from files as published, read back, and the real ones where they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.errors import IntegrityError, MissingDataError
from catchment_lab import datasets as loaders
from catchment_lab.datasets import Dataset
from reproductions.__main__ import app
from reproductions.data import compact
from reproductions.data.arrays import read_arrays
from reproductions.data.catalogue import COMPACT, SOURCES
from reproductions.data.load import load_images, load_texts
from reproductions.data.make_compact import REMARKS, make_compact
from reproductions.places import BESIDE, find, load, locate, packed_directory
from tests.data import test_loaders_har as har
from tests.data import test_loaders_hhar as phones
from tests.data import test_loaders_motion as motion
from tests.data import test_loaders_series as series
from tests.data import test_loaders_speech as speech
from tests.reproductions.data import test_images as images
from tests.reproductions.data import test_text as texts
from tests.reproductions.data import test_wesad as chest


def made(name: str, root: Path) -> tuple[Dataset, Dataset]:
    """Return whole recordings from the publisher's files, and from a compact file made of them."""
    (path, *_) = make_compact(name, root, root / "compact")
    assert path == root / "compact" / COMPACT[name].folder / COMPACT[name].files[0][0]
    place = locate(name, directory=root / "compact")
    assert place.form == "compact"
    return loaders.load_whole(name, directory=root), compact.read_whole(name, place.directory)


def by_label(data: Dataset) -> dict[str, list[tuple[int, int]]]:
    """Return (label, steps) of every recording, sorted, by client."""
    return {
        name: sorted((-1 if s.y is None else int(s.y.argmax()), s.n_steps) for s in held)
        for name, held in data.clients.items()
    }


def test_uci_har(tmp_path: Path) -> None:
    root = tmp_path / "uci_har" / "UCI HAR Dataset"
    har.write(root, "train", har.TRAIN)
    har.write(root, "test", har.TEST)
    published, read = made("uci_har", tmp_path)
    assert by_label(read) == by_label(published)
    assert read.test_clients == published.test_clients == ("subject-02",)
    assert (read.channels, read.classes, read.usual) == (
        published.channels,
        published.classes,
        published.usual,
    )
    # By label, longest first.
    longest = read.clients["subject-02"][0].u
    np.testing.assert_allclose(longest, har.TEST[1][2], rtol=1e-6, atol=1e-6)
    path = tmp_path / "compact" / "uci_har" / "uci_har.npz"
    with np.load(path) as arrays:
        windows = arrays["signal"][arrays["window_start"][:, None] + np.arange(128)]
    assert windows.shape == (12, 128, 9)
    cut = compact.read("uci_har", path.parent)
    ours = [s.u for held in cut.clients.values() for s in held]
    np.testing.assert_array_equal(np.array(ours), windows.astype(np.float64))


def test_motionsense_keeps_trials_and_rounds_to_its_steps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.uniform(-1, 1, size=(20, 13)), 6)
    rows = "\n".join(",".join(map(str, row)) for row in values)
    path = tmp_path / "motionsense" / "A_DeviceMotion_data" / "dws_11" / "sub_3.csv"
    path.parent.mkdir(parents=True)
    path.write_text(f"{motion.HEADER}\n{rows}\n")
    (tmp_path / "motionsense" / "data_subjects_info.csv").write_text(
        "code,weight,height,age,gender\n3,102,188,46,1\n"
    )
    published, read = made("motionsense", tmp_path)
    assert by_label(read) == by_label(published) == {"subject-03": [(0, 20)]}
    assert read.test_clients == published.test_clients == ("subject-03",)
    error = np.abs(read.clients["subject-03"][0].u - published.clients["subject-03"][0].u)
    steps = np.repeat([2.0**-11, 2.0**-10, 2.0**-14], 3)
    assert (error <= steps / 2 + 1e-12).all()
    with np.load(tmp_path / "compact" / "motionsense" / "motionsense.npz") as arrays:
        assert arrays["trial"].tolist() == [11]
        assert arrays["height_cm"].tolist() == [188]


def test_wisdm_has_records_of_two_minutes(tmp_path: Path) -> None:
    motion.wisdm_file(tmp_path, 1600, "AGB", each=2500)
    motion.wisdm_file(tmp_path, 1629, "A", each=7200)
    motion.wisdm_file(tmp_path, 1630, "C", each=2399)
    _, read = made("wisdm_watch", tmp_path)
    assert by_label(read) == {
        "1600": [(0, 2400), (1, 2400)],
        "1629": [(0, 2400), (0, 2400)],
    }
    assert read.clients["1629"][1].u[0].tolist() == [0.25, 3600.0, -3600.5]
    assert read.options["activities"] == "ABCDEM"


def test_hhar_in_steps_of_the_sensor(tmp_path: Path) -> None:
    lines = phones.readings(300, device="samsungold_1")
    phones.write(
        tmp_path, [*lines, *phones.readings(300, device="samsungold_1", user="c", gt="sit")]
    )
    make_compact("hhar", tmp_path, tmp_path / "compact")
    read = load("hhar", directory=tmp_path / "compact")
    assert by_label(read) == {"a": [(5, 128)] * 2, "c": [(1, 128)] * 2}
    exact = loaders.load(
        "hhar", directory=tmp_path, model="samsungold", gyroscope=False, window=128
    )
    error = np.abs(read.clients["c"][1].u - exact.clients["c"][1].u)
    assert error.max() <= 9.80665 / 128 + 1e-9


def test_wesad_statistics_of_five_seconds(tmp_path: Path) -> None:
    label = [1] * 7000 + [0] * 100 + [4] * 4000 + [3] * 3500
    content = chest.subject("S5", label)
    chest.write(tmp_path, "S5", content)
    make_compact("wesad", tmp_path, tmp_path / "compact")
    folder = tmp_path / "compact" / "wesad_features"
    read = compact.wesad_statistics(folder, statistics=("mean", "std"))
    assert by_label(read) == {"S5": [(0, 3), (2, 1)]}
    assert read.channels[:2] == ("chest_acc_x_mean", "chest_acc_x_std")
    window = chest.columns(content)[1750:5250]
    np.testing.assert_allclose(read.clients["S5"][0].u[1, ::2], window.mean(0), atol=1e-6)
    np.testing.assert_allclose(read.clients["S5"][0].u[1, 1::2], window.std(0), rtol=1e-5)
    with pytest.raises(ValueError, match="choose from mean, std"):
        compact.wesad_statistics(folder, statistics=("mode",))


def test_scalar_series_share_a_file(tmp_path: Path) -> None:
    series.put(tmp_path / "santafe_laser", "A.dat", "86\n141\n95\n")
    published, read = made("santafe_laser", tmp_path)
    np.testing.assert_array_equal(
        read.clients["santafe_laser"][0].u, published.clients["santafe_laser"][0].u
    )
    series.put(tmp_path / "sunspots", "sunspots.csv", "YEAR,SUNACTIVITY\n1700,5\n1701,11\n")
    published, read = made("sunspots", tmp_path)
    np.testing.assert_array_equal(read.clients["sunspots"][0].u, [[5.0], [11.0]])
    assert "1700 to 1701" in read.notes[0]
    assert load("santafe_laser", directory=tmp_path / "compact").n_sequences == 1
    with pytest.raises(MissingDataError, match="santafe_laser"):
        make_compact("sunspots", tmp_path / "nowhere", tmp_path / "compact")


def test_fsdd_is_lossless(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("7_jackson_32.wav", "7_jackson_4.wav", "0_theo_0.wav"):
        samples = rng.integers(-32768, 32768, size=500).astype(np.int16)
        speech.write_wav(tmp_path, name, samples)
    published, read = made("fsdd", tmp_path)
    assert read.test_positions.keys() == published.test_positions.keys() == {"jackson"}
    for speaker, held in published.clients.items():
        ours = sorted(s.u[0, 0] for s in read.clients[speaker])
        assert ours == sorted(s.u[0, 0] for s in held)


def test_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, size=(4, 28, 28), dtype=np.uint8)
    labels = np.array([1, 0, 1, 0], dtype=np.uint8)
    for part in ("train", "t10k"):
        images.put(tmp_path / "fashion_mnist", f"{part}-images-idx3-ubyte", images.idx(pictures))
        images.put(tmp_path / "fashion_mnist", f"{part}-labels-idx1-ubyte", images.idx(labels))
        images.put(tmp_path / "mnist_writers", f"{part}-images-idx3-ubyte", images.idx(pictures))
    for part in ("train", "test"):
        rows = images.extended(labels.tolist(), [7, 7, 2101, 3])
        images.put(tmp_path / "mnist_writers", f"qmnist-{part}-labels-idx2-int", images.idx(rows))
    (tmp_path / "cifar10").mkdir()
    for batch in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / "cifar10" / batch).write_bytes(bytes([3]) + bytes(range(256)) * 12)
    for name in ("fashion_mnist", "mnist_writers", "cifar10"):
        make_compact(name, tmp_path, tmp_path / "compact")
        ours = load_images(name, directory=tmp_path / "compact")
        theirs = load_images(name, directory=tmp_path)
        np.testing.assert_array_equal(ours.train, theirs.train)
        np.testing.assert_array_equal(ours.test_labels, theirs.test_labels)
        assert ours.train_clients == theirs.train_clients


def test_texts(tmp_path: Path) -> None:
    texts.put(tmp_path / "shakespeare", "input.txt", "All:\nSpeak,\nspeak.\n\nA:\nNo.\n")
    texts.put(
        tmp_path / "sotu",
        "1790_george_washington_n.json",
        json.dumps({"year": 1790, "name": "George Washington", "party": "n", "text": "Fellow"}),
    )
    for name in ("shakespeare", "sotu"):
        make_compact(name, tmp_path, tmp_path / "compact")
        ours = load_texts(name, directory=tmp_path / "compact")
        assert ours.train == load_texts(name, directory=tmp_path).train


def test_sentences_of_the_treebank(tmp_path: Path) -> None:
    root = tmp_path / "sst2"
    texts.put(root, "SST-2/train.tsv", texts.TRAIN)
    texts.put(root, "SST-2/dev.tsv", texts.DEV)
    with pytest.raises(MissingDataError, match=r"put stanfordSentimentTreebank\.zip there"):
        make_compact("sst2", tmp_path, tmp_path / "compact")
    bank = root / "stanfordSentimentTreebank"
    sentences = ["A -LRB- good -RRB- film", "So so", "Bad", "caf\u00c3\u00a9"]
    known = ["A ( good ) film", "So so", "Bad", "caf\u00e9"]
    texts.put(
        bank,
        "datasetSentences.txt",
        "sentence_index\tsentence\n"
        + "".join(f"{k}\t{s}\n" for k, s in enumerate(sentences, start=1)),
    )
    texts.put(bank, "datasetSplit.txt", "sentence_index,splitset_label\n1,1\n2,1\n3,2\n4,3\n")
    texts.put(bank, "dictionary.txt", "".join(f"{s}|{k}\n" for k, s in enumerate(known)))
    values = "".join(f"{k}|{v}\n" for k, v in enumerate((0.9, 0.5, 0.4, 0.61)))
    texts.put(bank, "sentiment_labels.txt", "phrase ids|sentiment values\n" + values)
    paths = make_compact("sst2", tmp_path, tmp_path / "compact")
    assert [path.name for path in paths] == [
        "phrases_train.tsv.gz",
        "dev.tsv.gz",
        "sentences_train.tsv.gz",
        "sentences_test.tsv.gz",
        "sentences_dev.tsv.gz",
    ]
    read = {
        path.name.partition(".")[0]: gzip.decompress(path.read_bytes()).decode() for path in paths
    }
    assert read["sentences_train"] == "sentence\tlabel\nA ( good ) film\t1\n"
    assert read["sentences_test"] == "sentence\tlabel\nBad\t0\n"
    assert read["sentences_dev"] == "sentence\tlabel\ncaf\u00e9\t1\n"
    assert find("sst2", directory=tmp_path / "compact") is not None


def test_every_compact_form_can_be_made_and_unknown_ones_are_named(tmp_path: Path) -> None:
    from reproductions.data import make_compact as module

    assert {*module._ARRAYS, *module._TEXTS} == set(COMPACT) <= set(SOURCES)
    assert set(REMARKS) <= set(COMPACT)
    with pytest.raises(ValueError, match="'emnist' has no compact form; choose from uci_har"):
        make_compact("emnist", tmp_path, tmp_path)


def test_the_command_says_how_the_file_differs(tmp_path: Path) -> None:
    motion.wisdm_file(tmp_path, 1600, "A", each=2400)
    words = ["compact", "wisdm_watch", "--from", str(tmp_path), "--out", str(tmp_path / "c")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "wisdm_watch_accel.npz" in result.output
    assert "the first 2,400 steps" in result.output
    listed = CliRunner().invoke(app, ["data", "--check", "--from", str(tmp_path / "c")])
    assert listed.exit_code == 0, listed.output
    assert "compact" in listed.output


def test_damaged_compact_files(tmp_path: Path) -> None:
    path = tmp_path / "uci_har.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(IntegrityError, match=r"uci_har\.npz is damaged"):
        read_arrays(path, ("signal",))
    np.savez(path, other=np.zeros(1))
    with pytest.raises(IntegrityError, match=r"uci_har\.npz lacks .*signal"):
        read_arrays(path, ("signal",))
    np.savez(path, signal=np.array([{}]))
    with pytest.raises(IntegrityError, match=r"damaged .*allow_pickle"):
        read_arrays(path, ("signal",))


def test_the_library_reads_what_is_packed_from_the_compact_form(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples = rng.integers(-9, 9, size=500).astype(np.int16)
    speech.write_wav(tmp_path, "7_jackson_32.wav", samples)
    make_compact("fsdd", tmp_path, tmp_path / "compact")
    assert loaders.load.__module__.startswith("catchment_lab.")
    with pytest.raises(MissingDataError):
        loaders.load("fsdd", directory=tmp_path / "compact")
    out = packed_directory("fsdd", "hhar", directory=tmp_path / "compact", out=tmp_path / "packed")
    ours, theirs = (loaders.load("fsdd", directory=root) for root in (out, tmp_path))
    np.testing.assert_array_equal(ours.clients["jackson"][0].u, theirs.clients["jackson"][0].u)


REAL = {
    "uci_har": (30, 10_299),
    "motionsense": (24, 10_854),
    "wisdm_watch": (51, 3_720),
    "hhar": (9, 4_436),
    "wesad": (14, 499),
    "japanese_vowels": (9, 640),
    "fsdd": (6, 3_000),
    "santafe_laser": (1, 1),
    "sunspots": (1, 1),
}


@pytest.mark.skipif(not (BESIDE / "data").is_dir(), reason="no data beside this repository")
@pytest.mark.parametrize("name", REAL)
def test_real_sets(name: str) -> None:
    if find(name) is None:
        pytest.skip(f"{name} is not here")
    data = load(name)
    assert (len(data.clients), data.n_sequences) == REAL[name]
    if name == "uci_har":
        assert sum(map(len, data.train.values())) == 7352
        rows = [s.y for part in data.clients.values() for s in part if s.y is not None]
        assert np.sum(rows, axis=0).tolist() == [1722, 1544, 1406, 1777, 1906, 1944]
        # Total acceleration of somebody lying or standing is gravity, 1 g.
        still = [s.u[:, 6:] for s in data.clients["subject-01"] if s.y is not None and s.y[4]]
        assert np.linalg.norm(np.concatenate(still).mean(axis=0)) == pytest.approx(1.0, abs=0.05)
    if name == "japanese_vowels":
        assert [len(part) for part in data.train.values()] == [30] * 9
        assert [len(part) for part in data.test.values()] == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    if name == "fsdd":
        assert [len(part) for part in data.test.values()] == [50] * 6
