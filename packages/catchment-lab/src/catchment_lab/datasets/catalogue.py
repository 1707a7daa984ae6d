"""The public data sets this library can read: what each is, whose it is, and what its files are."""

from __future__ import annotations

from dataclasses import dataclass


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
    licence: str
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
        licence="cite the paper; no commercial use",
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
        licence="MIT",
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
        licence="see the home page",
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
        licence="see the home page",
        files="'Activity recognition exp.zip', or unpacked with Phones_accelerometer.csv and "
        "Phones_gyroscope.csv",
        patterns=("Phones_accelerometer.csv",),
    ),
    Source(
        name="wesad",
        description="chest and wrist sensors, 8 chest channels, 700 Hz",
        clients="15 subjects",
        task="stress and affect, 4 classes",
        home="https://archive.ics.uci.edu/dataset/465",
        citation="Schmidt et al., Introducing WESAD, a Multimodal Dataset for Wearable Stress and "
        "Affect Detection, ICMI 2018",
        licence="academic, non-commercial; see the home page",
        files="WESAD.zip, or unpacked as S2/S2.pkl ... S17/S17.pkl",
        patterns=("S*/S*.pkl",),
    ),
    Source(
        name="japanese_vowels",
        description="12 cepstrum coefficients of /ae/, 7 to 29 frames",
        clients="9 speakers",
        task="speaker, 9 classes",
        home="https://archive.ics.uci.edu/dataset/128",
        citation="Kudo et al., Multidimensional Curve Classification Using Passing-Through "
        "Regions, Pattern Recognition Letters 1999",
        licence="see the home page",
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
        licence="CC BY-SA 4.0",
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
        licence="none stated",
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
        licence="SILSO: CC BY-NC 4.0; sunspots.csv: public domain",
        files="SN_y_tot_V2.0.csv of SILSO, or sunspots.csv with columns YEAR,SUNACTIVITY",
        patterns=("SN_y_tot_V2.0.csv", "sunspots.csv"),
    ),
)

CATALOGUE = {source.name: source for source in _SOURCES}
