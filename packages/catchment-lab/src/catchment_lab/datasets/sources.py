"""The public data sets this library can read, and where they lie on this machine.

A set is looked for in a folder of its own name, in these directories: the one the caller names, and
only there; or else `$CATCHMENT_DATA` and the user's cache. Nothing is downloaded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from catchment.data import ENVIRONMENT, data_directories
from catchment.errors import MissingDataError
from catchment_lab.datasets.archive import Folder, find_folder


@dataclass(frozen=True, kw_only=True)
class Source:
    """One public data set.

    >>> CATALOGUE["uci_har"].clients
    '30 subjects'
    """

    name: str
    description: str
    clients: str
    task: str
    home: str
    citation: str
    license: str
    files: str  # the publisher's files, in words
    patterns: tuple[str, ...]  # names by which they are known


_SOURCES = (
    Source(
        name="uci_har",
        description="smartphone on the waist, accelerometer and gyroscope, 9 channels, 50 Hz",
        clients="30 subjects",
        task="activity, 6 classes",
        home="https://archive.ics.uci.edu/dataset/240",
        citation="Anguita et al., A Public Domain Dataset for Human Activity Recognition Using "
        "Smartphones, ESANN 2013",
        license="cite the paper; no commercial use",
        files="'UCI HAR Dataset.zip', or unpacked with train/Inertial Signals/",
        patterns=("train/Inertial Signals/body_acc_x_train.txt",),
    ),
    Source(
        name="motionsense",
        description="phone in the trouser pocket, raw continuous recordings, 9 channels, 50 Hz",
        clients="24 subjects",
        task="activity, 6 classes",
        home="https://github.com/mmalekzadeh/motion-sense",
        citation="Malekzadeh et al., Mobile Sensor Data Anonymization, IoTDI 2019",
        license="MIT",
        files="A_DeviceMotion_data.zip, or unpacked as A_DeviceMotion_data/dws_1/sub_1.csv ...",
        patterns=("A_DeviceMotion_data/*/sub_*.csv",),
    ),
    Source(
        name="wisdm_watch",
        description="wrist watch, raw accelerometer, 3 channels, 20 Hz",
        clients="51 subjects",
        task="activity, 6 of 18 classes",
        home="https://archive.ics.uci.edu/dataset/507",
        citation="Weiss et al., Smartphone and Smartwatch-Based Biometrics Using Activities of "
        "Daily Living, IEEE Access 2019",
        license="see the home page",
        files="wisdm-dataset.zip, or unpacked with watch/accel/data_1600_accel_watch.txt ...",
        patterns=("watch/accel/data_*_accel_watch.txt",),
    ),
    Source(
        name="hhar",
        description="phones around the waist, four models, accelerometer and gyroscope",
        clients="9 users",
        task="activity, 6 classes",
        home="https://archive.ics.uci.edu/dataset/344",
        citation="Stisen et al., Smart Devices are Different, SenSys 2015",
        license="see the home page",
        files="'Activity recognition exp.zip', or unpacked with Phones_accelerometer.csv and "
        "Phones_gyroscope.csv",
        patterns=("Phones_accelerometer.csv",),
    ),
    Source(
        name="japanese_vowels",
        description="12 cepstrum coefficients of /ae/, 7 to 29 frames",
        clients="9 speakers",
        task="speaker, 9 classes",
        home="https://archive.ics.uci.edu/dataset/128",
        citation="Kudo et al., Multidimensional Curve Classification Using Passing-Through "
        "Regions, Pattern Recognition Letters 1999",
        license="see the home page",
        files="ae.train, ae.test, size_ae.train, size_ae.test; or JapaneseVowels_TRAIN.ts and "
        "JapaneseVowels_TEST.ts",
        patterns=("ae.train", "JapaneseVowels_TRAIN.ts"),
    ),
    Source(
        name="fsdd",
        description="spoken English digits, audio at 8 kHz",
        clients="6 speakers",
        task="digit, 10 classes",
        home="https://github.com/Jakobovski/free-spoken-digit-dataset",
        citation="Jackson et al., Free Spoken Digit Dataset",
        license="CC BY-SA 4.0",
        files="the repository or its zip, with recordings/7_jackson_32.wav ...",
        patterns=("[0-9]_*_*.wav",),
    ),
    Source(
        name="santafe_laser",
        description="intensity of a far-infrared laser in a chaotic state, 10,093 steps",
        clients="none",
        task="forecasting",
        home="Santa Fe Time Series Competition, data set A",
        citation="Weigend and Gershenfeld (eds.), Time Series Prediction, 1994",
        license="none stated",
        files="A.dat and its continuation A.cont, one number per line",
        patterns=("a.dat",),
    ),
    Source(
        name="sunspots",
        description="yearly sunspot numbers, from 1700 on",
        clients="none",
        task="forecasting",
        home="https://www.sidc.be/SILSO/datafiles",
        citation="US National Geophysical Data Center; SILSO, Royal Observatory of Belgium",
        license="SILSO: CC BY-NC 4.0; sunspots.csv: public domain",
        files="SN_y_tot_V2.0.csv of SILSO, or sunspots.csv with columns YEAR,SUNACTIVITY",
        patterns=("SN_y_tot_V2.0.csv", "sunspots.csv"),
    ),
)

CATALOGUE = {source.name: source for source in _SOURCES}


@dataclass(frozen=True)
class Place:
    """Where a data set was found: packed into one file, as its publisher's files, or both."""

    source: Source
    directory: Path
    original: Folder | None = None
    packed: Path | None = None

    @property
    def form(self) -> str:
        """`packed` or `original`: what will be read."""
        return "original" if self.packed is None else "packed"

    @property
    def n_bytes(self) -> int:
        """Size on disk of what will be read."""
        if self.packed is not None:
            return self.packed.stat().st_size
        return 0 if self.original is None else size_of(self.original)


def size_of(folder: Folder) -> int:
    """Return the size on disk of a folder's files, or of the archive they are in."""
    if folder.archives:
        return folder.path.stat().st_size
    root = folder.path / folder.prefix
    return sum((root / name).stat().st_size for name in folder.names)


def source(name: str) -> Source:
    """Return the catalogue's entry of that name.

    >>> source("fsdd").clients
    '6 speakers'
    >>> source("fssd")
    Traceback (most recent call last):
    ValueError: no data set is called 'fssd'; did you mean fsdd?
    """
    check_name(name, CATALOGUE)
    return CATALOGUE[name]


def check_name(name: str, known: Iterable[str]) -> None:
    """Raise ValueError, with the nearest name or all of them, if a data set is not known."""
    names = tuple(known)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(names)}"
        raise ValueError(f"no data set is called {name!r}; {remedy}")


def packed_path(directory: Path, name: str) -> Path:
    """Return where a data directory keeps a set that is packed into one file.

    >>> packed_path(Path("data"), "hhar").as_posix()
    'data/hhar/hhar.packed.npz'
    """
    return directory / name / f"{name}.packed.npz"


def find(name: str, *, directory: Path | str | None = None) -> Place | None:
    """Return where the data set lies, or None.

    Parameters
    ----------
    name
        A name of the catalogue.
    directory
        Look only here, instead of the usual directories.

    >>> find("uci_har", directory="no/such/place") is None
    True
    """
    entry = source(name)
    for root in data_directories(directory):
        folder = root / name
        if not folder.is_dir():
            continue
        packed = packed_path(root, name)
        known = packed if packed.is_file() else None
        original = find_folder(folder, entry.patterns)
        if known is not None or original is not None:
            return Place(entry, folder, original, known)
    return None


def locate(name: str, *, directory: Path | str | None = None) -> Place:
    """Return where the data set lies; if nowhere, MissingDataError says where to get and put it.

    >>> locate("sunspots", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sunspots (yearly sunspot numbers, ...) is not in ...
    """
    place = find(name, directory=directory)
    if place is not None:
        return place
    raise missing(source(name), data_directories(directory))


def missing(entry: Source, roots: tuple[Path, ...]) -> MissingDataError:
    """Return the error that says where a set was looked for, and where to get and put it."""
    return MissingDataError(
        f"{entry.name} ({entry.description}) is not in {', '.join(map(str, roots))}; "
        f"get it from {entry.home} and put {entry.files} "
        f"into {roots[0] / entry.name}, or name another data directory with --data or "
        f"${ENVIRONMENT}"
    )
