"""Japanese Vowels and spoken digits: tiny files as published, the front end, the real sets."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from catchment_lab.datasets import load, log_mel, mel_filters

Utterances = dict[str, list[tuple[int, NDArray[np.float64]]]]


@pytest.fixture
def utterances() -> Utterances:
    """Per part: speakers (1..9) in order, and frames; one has as many frames as classes."""
    rng = np.random.default_rng(0)
    frames = iter(np.round(rng.normal(size=(4, 12)), 6) for _ in range(100))
    speakers = {"train": [1, 1, 2, 3, 4, 5, 6, 7, 8, 9], "test": [1, 2, 2, 2, 9]}
    made: Utterances = {part: [(s, next(frames)) for s in who] for part, who in speakers.items()}
    made["train"][2] = (2, np.round(rng.normal(size=(9, 12)), 6))
    return made


def write_uci(root: Path, utterances: Utterances, newline: str = "\n") -> None:
    place = root / "japanese_vowels"
    place.mkdir(exist_ok=True)
    for part, spoken in utterances.items():
        blocks = [
            "".join(" ".join(f"{v:.6f}" for v in row) + " \n" for row in frames)
            for _, frames in spoken
        ]
        text = "\n".join(blocks) + "\n"
        (place / f"ae.{part}").write_bytes(text.replace("\n", newline).encode())
        counts = [sum(s == speaker for s, _ in spoken) for speaker in range(1, 10)]
        (place / f"size_ae.{part}").write_text(" ".join(map(str, counts)) + "\n")


def write_ts(root: Path, utterances: Utterances) -> None:
    place = root / "japanese_vowels"
    place.mkdir(exist_ok=True)
    for part, spoken in utterances.items():
        lines = [
            ":".join(",".join(f"{v:.6f}" for v in channel) for channel in frames.T) + f":{speaker}"
            for speaker, frames in spoken
        ]
        header = "#comment\n@problemName JapaneseVowels\n@classLabel true 1 2 3\n@data\n"
        (place / f"JapaneseVowels_{part.upper()}.ts").write_text(header + "\n".join(lines) + "\n")


def check_vowels(root: Path, utterances: Utterances) -> None:
    data = load("japanese_vowels", directory=root)
    for part, clients in (("train", data.train), ("test", data.test)):
        expected: dict[str, list[NDArray[np.float64]]] = {}
        for speaker, frames in utterances[part]:
            expected.setdefault(f"speaker-{speaker}", []).append(frames)
        assert list(clients) == list(expected)
        for name, many in expected.items():
            assert len(clients[name]) == len(many)
            for sequence, frames in zip(clients[name], many, strict=True):
                np.testing.assert_array_equal(sequence.u, frames)
                assert sequence.y is not None
                assert sequence.y.shape == (9,)
                assert sequence.y.argmax() == int(name[-1]) - 1


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_vowels_of_uci(tmp_path: Path, utterances: Utterances, newline: str) -> None:
    write_uci(tmp_path, utterances, newline)
    check_vowels(tmp_path, utterances)


def test_vowels_of_aeon(tmp_path: Path, utterances: Utterances) -> None:
    write_ts(tmp_path, utterances)
    check_vowels(tmp_path, utterances)


def test_odd_vowels(tmp_path: Path, utterances: Utterances) -> None:
    write_uci(tmp_path, utterances)
    (tmp_path / "japanese_vowels" / "size_ae.test").write_text("1 3 0 0 0 0 0 0 2")
    with pytest.raises(IntegrityError, match=r"ae\.test has 5 utterances, size_ae\.test counts 6"):
        load("japanese_vowels", directory=tmp_path)
    (tmp_path / "japanese_vowels" / "size_ae.test").unlink()
    with pytest.raises(IntegrityError, match=r"has no size_ae\.test"):
        load("japanese_vowels", directory=tmp_path)


def test_odd_vowels_of_aeon(tmp_path: Path, utterances: Utterances) -> None:
    write_ts(tmp_path, utterances)
    file = tmp_path / "japanese_vowels" / "JapaneseVowels_TEST.ts"
    good = file.read_text()
    for text, message in (
        (good.replace("@data", ""), "has no @data"),
        (good.replace(":9\n", ":x\n"), "utterance 5, ends in 'x'"),
        (good.replace(":9\n", ":10\n"), "12 coefficients and speaker 10"),
        (good + "1,2:3,4:5\n", "2 coefficients and speaker 5"),
        (good + "1,2:3,4,6:5\n", "utterance 6, is not a table"),
    ):
        file.write_text(text)
        with pytest.raises(IntegrityError, match=message):
            load("japanese_vowels", directory=tmp_path)


def write_wav(
    root: Path, name: str, samples: NDArray[np.int16], *, rate: int = 8000, channels: int = 1
) -> Path:
    path = root / "fsdd" / "free-spoken-digit-dataset-master" / "recordings" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    return path


def test_digits_as_published(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sounds = {
        name: rng.integers(-32768, 32767, size=n, dtype=np.int16)
        for name, n in (("7_jackson_32", 1200), ("0_jackson_4", 300), ("3_theo_5", 100))
    }
    for name, samples in sounds.items():
        write_wav(tmp_path, f"{name}.wav", samples)
    raw = load("fsdd", directory=tmp_path, raw=True)
    assert list(raw.clients) == ["jackson", "theo"]
    assert raw.test_positions == {"jackson": (0,)}
    digit = raw.clients["jackson"][1]
    np.testing.assert_array_equal(digit.u[:, 0] * 32768, sounds["7_jackson_32"])
    assert digit.y is not None
    assert digit.y.argmax() == 7
    bands = load("fsdd", directory=tmp_path)
    assert bands.rate_hz == 100
    np.testing.assert_array_equal(bands.clients["jackson"][1].u, log_mel(digit.u[:, 0]))
    assert bands.clients["theo"][0].u.shape == (1, 24)


def test_odd_sounds(tmp_path: Path) -> None:
    silence = np.zeros(400, dtype=np.int16)
    write_wav(tmp_path, "1_theo_1.wav", silence, rate=44100)
    with pytest.raises(IntegrityError, match=r"44100 Hz, 1 channels of 2 bytes .*; convert"):
        load("fsdd", directory=tmp_path)
    write_wav(tmp_path, "1_theo_1.wav", silence, channels=2)
    with pytest.raises(IntegrityError, match=r"8000 Hz, 2 channels"):
        load("fsdd", directory=tmp_path)
    path = write_wav(tmp_path, "1_theo_1.wav", silence[:0])
    with pytest.raises(IntegrityError, match=r"0 bytes of sound"):
        load("fsdd", directory=tmp_path)
    for content in (b"", b"RIFF", b"not a sound at all, really not"):
        path.write_bytes(content)
        with pytest.raises(IntegrityError, match=r"1_theo_1\.wav is (not a wav file|damaged)"):
            load("fsdd", directory=tmp_path)


def test_energies_against_scipys_spectrogram() -> None:
    audio = np.random.default_rng(1).normal(size=3000)
    _, _, spectrum = scipy.signal.stft(  # type: ignore[call-overload]
        audio,
        window=np.hanning(256),
        nperseg=256,
        noverlap=256 - 80,
        boundary=None,
        padded=False,
        scaling="spectrum",
    )
    power = np.abs(spectrum * np.hanning(256).sum()) ** 2 / 256
    expected = np.log(mel_filters(24, 129) @ power + 1e-8).T
    np.testing.assert_allclose(log_mel(audio), expected, atol=1e-9)


def test_filters_share_the_spectrum() -> None:
    filters = mel_filters(12, 1025)
    bins = np.linspace(0, 4000, 1025)
    centres = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 14) / 2595) - 1)
    inside = (bins >= centres[1]) & (bins <= centres[-2])
    # Between the first and the last center neighboring triangles add to one.
    np.testing.assert_allclose(filters[:, inside].sum(axis=0), 1.0, atol=1e-12)
    assert (filters >= 0).all()
    assert (np.diff(bins[filters.argmax(axis=1)]) > 0).all()


def test_wrong_settings_of_the_front_end() -> None:
    with pytest.raises(ValueError, match="hop is 0"):
        log_mel(np.zeros(300), hop=0)
    with pytest.raises(ValueError, match="audio has 2 dimensions"):
        log_mel(np.zeros((300, 2)))
    assert log_mel(np.zeros(0)).shape == (1, 24)
