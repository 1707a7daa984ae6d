"""The public data sets this library can read: what each is, whose it is, and what its files are.

Most sets have two forms. The compact form is one small file (or a few) with a known SHA-256. The
original form is what the publisher distributes, unpacked or still in its archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Source:
    """One public data set.

    >>> CATALOGUE["uci_har"].clients
    '30 subjects'
    """

    name: str
    folder: str  # of the compact form, where it is not the name
    kind: Literal["sequences", "images", "texts"]
    description: str
    clients: str
    task: str
    home: str
    citation: str
    licence: str
    files: tuple[tuple[str, str], ...]  # compact form: name and SHA-256; none if there is none
    original: str  # the publisher's files, in words
    patterns: tuple[str, ...]  # names by which the original form is known


_SOURCES = (
    Source(
        name="uci_har",
        folder="uci_har",
        kind="sequences",
        description="smartphone on the waist, accelerometer and gyroscope, 9 channels, 50 Hz",
        clients="30 subjects",
        task="activity, 6 classes",
        home="https://archive.ics.uci.edu/dataset/240",
        citation="Anguita et al., A Public Domain Dataset for Human Activity Recognition Using "
        "Smartphones, ESANN 2013",
        licence="cite the paper; no commercial use",
        files=(
            ("uci_har.npz", "47f77c423a37cadc1b52c3b98967ee58fcd9299414fef29da4ea2315946f3cd4"),
        ),
        original="'UCI HAR Dataset.zip', or unpacked with train/Inertial Signals/",
        patterns=("train/Inertial Signals/body_acc_x_train.txt",),
    ),
    Source(
        name="motionsense",
        folder="motionsense",
        kind="sequences",
        description="phone in the trouser pocket, raw continuous recordings, 9 channels, 50 Hz",
        clients="24 subjects",
        task="activity, 6 classes",
        home="https://github.com/mmalekzadeh/motion-sense",
        citation="Malekzadeh et al., Mobile Sensor Data Anonymization, IoTDI 2019",
        licence="MIT",
        files=(
            (
                "motionsense.npz",
                "62706c7ac55ceecd6843b415a561942ef3fbdc12ea9a7bd14426209272fcd8ef",
            ),
        ),
        original="A_DeviceMotion_data.zip, or unpacked as A_DeviceMotion_data/dws_1/sub_1.csv ...",
        patterns=("A_DeviceMotion_data/*/sub_*.csv",),
    ),
    Source(
        name="wisdm_watch",
        folder="wisdm_watch",
        kind="sequences",
        description="wrist watch, raw accelerometer, 3 channels, 20 Hz",
        clients="51 subjects",
        task="activity, 6 classes",
        home="https://archive.ics.uci.edu/dataset/507",
        citation="Weiss et al., Smartphone and Smartwatch-Based Biometrics Using Activities of "
        "Daily Living, IEEE Access 2019",
        licence="see the home page",
        files=(
            (
                "wisdm_watch_accel.npz",
                "40a274c8640b9fc007016bf5f643f1fe5f98238c072be29448b834b5d383e930",
            ),
        ),
        original="wisdm-dataset.zip, or unpacked with watch/accel/data_1600_accel_watch.txt ...",
        patterns=("watch/accel/data_*_accel_watch.txt",),
    ),
    Source(
        name="hhar",
        folder="hhar",
        kind="sequences",
        description="phones around the waist; compact: one model, accelerometer, 3 channels, 50 Hz",
        clients="9 users",
        task="activity, 6 classes",
        home="https://archive.ics.uci.edu/dataset/344",
        citation="Stisen et al., Smart Devices are Different, SenSys 2015",
        licence="see the home page",
        files=(
            (
                "hhar_samsung_windows.npz",
                "7384495ecda223bc3ce255a3a50058e0e9e2815a2d4a6aff2e104380dd413801",
            ),
        ),
        original="'Activity recognition exp.zip', or unpacked with Phones_accelerometer.csv and "
        "Phones_gyroscope.csv",
        patterns=("Phones_accelerometer.csv",),
    ),
    Source(
        name="wesad",
        folder="wesad_features",
        kind="sequences",
        description="chest and wrist sensors; compact: statistics of 5 s windows, not raw signals",
        clients="14 subjects",
        task="stress and affect, 3 classes",
        home="https://archive.ics.uci.edu/dataset/465",
        citation="Schmidt et al., Introducing WESAD, a Multimodal Dataset for Wearable Stress and "
        "Affect Detection, ICMI 2018",
        licence="academic, non-commercial; see the home page",
        files=(
            (
                "wesad_features.npz",
                "70e54c8ca7646f700af0c6c24bca0d466e91d28d006a0dd8c1fda346e6a75a7c",
            ),
        ),
        original="WESAD.zip, or unpacked as S2/S2.pkl ... S17/S17.pkl (15 subjects, 4 classes)",
        patterns=("S*/S*.pkl",),
    ),
    Source(
        name="japanese_vowels",
        folder="japanese_vowels",
        kind="sequences",
        description="12 cepstrum coefficients of /ae/, 7 to 29 frames",
        clients="9 speakers",
        task="speaker, 9 classes",
        home="https://archive.ics.uci.edu/dataset/128",
        citation="Kudo et al., Multidimensional Curve Classification Using Passing-Through "
        "Regions, Pattern Recognition Letters 1999",
        licence="see the home page",
        files=(
            (
                "japanese_vowels.npz",
                "77ea7eeb1c73a07c562ccf942f111f6256e78c3df838de6468276c3973905dbc",
            ),
        ),
        original="ae.train, ae.test, size_ae.train, size_ae.test; or JapaneseVowels_TRAIN.ts and "
        "JapaneseVowels_TEST.ts",
        patterns=("ae.train", "JapaneseVowels_TRAIN.ts"),
    ),
    Source(
        name="fsdd",
        folder="fsdd",
        kind="sequences",
        description="spoken English digits, audio at 8 kHz",
        clients="6 speakers",
        task="digit, 10 classes",
        home="https://github.com/Jakobovski/free-spoken-digit-dataset",
        citation="Jackson et al., Free Spoken Digit Dataset",
        licence="CC BY-SA 4.0",
        files=(
            ("fsdd_audio.npz", "938a9d07bb1837798d3fd3152dceb4d1b9e9e4bbe7071e80671aead150396869"),
        ),
        original="the repository or its zip, with recordings/7_jackson_32.wav ...",
        patterns=("[0-9]_*_*.wav",),
    ),
    Source(
        name="santafe_laser",
        folder="scalar_series",
        kind="sequences",
        description="intensity of a far-infrared laser in a chaotic state, 10,093 steps",
        clients="none",
        task="forecasting",
        home="Santa Fe Time Series Competition, data set A",
        citation="Weigend and Gershenfeld (eds.), Time Series Prediction, 1994",
        licence="none stated",
        files=(
            (
                "scalar_series.npz",
                "1d31bf38cfd1a14256fd8e097e3dfa9ce1212ce3f02ec7b437d4d659545d6636",
            ),
        ),
        original="A.dat and its continuation A.cont, one number per line",
        patterns=("a.dat",),
    ),
    Source(
        name="sunspots",
        folder="scalar_series",
        kind="sequences",
        description="yearly sunspot numbers, 1700 to 2008",
        clients="none",
        task="forecasting",
        home="https://www.sidc.be/SILSO/datafiles",
        citation="US National Geophysical Data Center; SILSO, Royal Observatory of Belgium",
        licence="compact: public domain; SILSO: CC BY-NC 4.0",
        files=(
            (
                "scalar_series.npz",
                "1d31bf38cfd1a14256fd8e097e3dfa9ce1212ce3f02ec7b437d4d659545d6636",
            ),
        ),
        original="SN_y_tot_V2.0.csv of SILSO, or sunspots.csv with columns YEAR,SUNACTIVITY",
        patterns=("SN_y_tot_V2.0.csv", "sunspots.csv"),
    ),
    Source(
        name="mnist_writers",
        folder="mnist_writers",
        kind="images",
        description="70,000 digits, 28 x 28 grey, each with its writer",
        clients="539 + 297 writers",
        task="digit, 10 classes",
        home="https://github.com/facebookresearch/qmnist",
        citation="LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998; "
        "Yadav and Bottou, Cold Case: The Lost MNIST Digits, NeurIPS 2019",
        licence="labels BSD; images: none stated",
        files=(
            (
                "mnist_writers.npz",
                "9512ab9c9b282ad94cb18d475c3a4bca02c2e67808999393bf7374f116b0951f",
            ),
        ),
        original="train-images-idx3-ubyte and t10k-images-idx3-ubyte of MNIST, and "
        "qmnist-train-labels-idx2-int and qmnist-test-labels-idx2-int, each plain or .gz",
        patterns=("qmnist-train-labels*",),
    ),
    Source(
        name="cifar10",
        folder="cifar10",
        kind="images",
        description="colour images, 32 x 32; compact: 10,000 + 2,000 of them",
        clients="none",
        task="object, 10 classes",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        licence="none stated; cite the report",
        files=(
            (
                "cifar10_subset.npz",
                "9caf5afb7c8a1836aeb075d68847c799b18bd1ce2eeb2e4a8e062b34b3380edd",
            ),
        ),
        original="cifar-10-binary.tar.gz, or unpacked with data_batch_1.bin ... test_batch.bin",
        patterns=("data_batch_1.bin",),
    ),
    Source(
        name="fashion_mnist",
        folder="fashion_mnist",
        kind="images",
        description="clothing, 28 x 28 grey; compact: 20,000 + 5,000, split not the official one",
        clients="none",
        task="clothing, 10 classes",
        home="https://github.com/zalandoresearch/fashion-mnist",
        citation="Xiao et al., Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
        "Learning Algorithms, 2017",
        licence="MIT",
        files=(
            (
                "fashion_mnist.npz",
                "95d26b2ec484bae83c9e15b2c1cedd797acc5647cb3442165439b3137707e296",
            ),
        ),
        original="train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte, each plain or .gz",
        patterns=("train-images?idx3-ubyte*",),
    ),
    Source(
        name="sst2",
        folder="sst2",
        kind="texts",
        description="phrases of film reviews",
        clients="none",
        task="sentiment, 2 classes",
        home="https://gluebenchmark.com/tasks",
        citation="Socher et al., Recursive Deep Models for Semantic Compositionality Over a "
        "Sentiment Treebank, EMNLP 2013",
        licence="none stated; research",
        files=(
            (
                "phrases_train.tsv.gz",
                "55cd50430720274779136d6fbfc4ea2189b62618e56155d72b7fcbe1413abafb",
            ),
            ("dev.tsv.gz", "7bb5653949bd526cff9ce5c0b4e561d2a9653a43a043c901c466a398b7a35188"),
            (
                "sentences_train.tsv.gz",
                "ff1017ffe9d2498be5bcf778850cd7ad5c02c3b87738d7e5b419e781374a977d",
            ),
            (
                "sentences_dev.tsv.gz",
                "c174aa856071634913d360c9705e8614752c81a3b87ffb61332eea24bc46aa38",
            ),
            (
                "sentences_test.tsv.gz",
                "042a37399af1a21b96f078cf6a622f06d90969b033c10800cf401b12d046b98c",
            ),
        ),
        original="SST-2.zip of GLUE, or unpacked with train.tsv and dev.tsv",
        patterns=("train.tsv",),
    ),
    Source(
        name="shakespeare",
        folder="text_shakespeare",
        kind="texts",
        description="7,095 speeches from the plays",
        clients="299 roles",
        task="next word or character",
        home="https://github.com/karpathy/char-rnn",
        citation="the plays of William Shakespeare; 'tiny Shakespeare' selection of char-rnn",
        licence="public domain",
        files=(
            (
                "speeches.jsonl.gz",
                "d736065cbddd5d4f5fab32124508abd198e2d6c63f651a67e39cb2e781363d2c",
            ),
        ),
        original="input.txt of data/tinyshakespeare",
        patterns=("input.txt",),
    ),
    Source(
        name="sotu",
        folder="text_sotu",
        kind="texts",
        description="233 State of the Union addresses from 1790 on",
        clients="43 authors",
        task="next word",
        home="https://github.com/stdlib-js/datasets-sotu",
        citation="stdlib, State of the Union addresses",
        licence="PDDL 1.0, contents CC0 1.0",
        files=(
            ("sotu.jsonl.gz", "8b8aee04f6a855d161a1291645f281adfc84c9dbeb176c0a36c138e15a31fee8"),
        ),
        original="the package's data/1790_george_washington_n.json ...",
        patterns=("[12][0-9][0-9][0-9]_*.json",),
    ),
    Source(
        name="emnist",
        folder="emnist",
        kind="images",
        description="handwritten digits and letters, 28 x 28 grey, by class",
        clients="none",
        task="character, 62 classes",
        home="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        citation="Cohen et al., EMNIST: Extending MNIST to Handwritten Letters, IJCNN 2017",
        licence="none stated; cite the paper",
        files=(),
        original="gzip.zip of EMNIST, or unpacked with emnist-byclass-train-images-idx3-ubyte.gz "
        "and the three files beside it",
        patterns=("emnist-byclass-train-images-idx3-ubyte*",),
    ),
    Source(
        name="femnist",
        folder="femnist",
        kind="images",
        description="EMNIST by writer",
        clients="3,400 or more writers",
        task="character, 62 classes",
        home="https://leaf.cmu.edu",
        citation="Caldas et al., LEAF: A Benchmark for Federated Settings, 2018",
        licence="none stated; cite the paper",
        files=(),
        original="LEAF's data/train and data/test with their .json files, or emnist_all.sqlite or "
        "emnist_all.sqlite.lzma of TensorFlow Federated",
        patterns=("train/*.json", "emnist_*.sqlite", "emnist_*.sqlite.lzma"),
    ),
    Source(
        name="stackoverflow",
        folder="stackoverflow",
        kind="texts",
        description="questions and answers by user",
        clients="342,477 users",
        task="next word",
        home="https://www.tensorflow.org/federated/api_docs/python/tff/simulation/datasets",
        citation="The TensorFlow Federated authors, Stack Overflow dataset, 2019",
        licence="CC BY-SA 3.0",
        files=(),
        original="stackoverflow.sqlite or stackoverflow.sqlite.lzma of TensorFlow Federated",
        patterns=("stackoverflow*.sqlite", "stackoverflow*.sqlite.lzma"),
    ),
)

CATALOGUE = {source.name: source for source in _SOURCES}
