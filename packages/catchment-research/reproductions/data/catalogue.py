"""Sets of images and texts that reproductions read, and the compact files of all sets.

A compact file is one small file (or a few) made from the publisher's files by
`python -m reproductions compact`. The SHA-256 given here is of the file with which the figures in
results/ were made: a file made anew holds the same recordings where its recipe says so, but an npz
archive may differ in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from catchment_lab.datasets import CATALOGUE, Source


@dataclass(frozen=True)
class Compact:
    """The compact form of a set: its folder, and its files with the SHA-256 of those used."""

    folder: str
    files: tuple[tuple[str, str], ...]


_IMAGES = (
    Source(
        name="mnist_writers",
        description="70,000 digits, 28 x 28 gray, each with its writer",
        clients="539 + 297 writers",
        task="digit, 10 classes",
        home="https://github.com/facebookresearch/qmnist",
        citation="LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998; "
        "Yadav and Bottou, Cold Case: The Lost MNIST Digits, NeurIPS 2019",
        license="labels BSD; images: none stated",
        files="train-images-idx3-ubyte and t10k-images-idx3-ubyte of MNIST, and "
        "qmnist-train-labels-idx2-int and qmnist-test-labels-idx2-int, each plain or .gz",
        patterns=("qmnist-train-labels*",),
    ),
    Source(
        name="cifar10",
        description="color images, 32 x 32",
        clients="none",
        task="object, 10 classes",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        license="none stated; cite the report",
        files="cifar-10-binary.tar.gz, or unpacked with data_batch_1.bin ... test_batch.bin",
        patterns=("data_batch_1.bin",),
    ),
    Source(
        name="fashion_mnist",
        description="clothing, 28 x 28 gray",
        clients="none",
        task="clothing, 10 classes",
        home="https://github.com/zalandoresearch/fashion-mnist",
        citation="Xiao et al., Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
        "Learning Algorithms, 2017",
        license="MIT",
        files="train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
        "t10k-labels-idx1-ubyte, each plain or .gz",
        patterns=("train-images?idx3-ubyte*",),
    ),
    Source(
        name="emnist",
        description="handwritten digits and letters, 28 x 28 gray, by class",
        clients="none",
        task="character, 62 classes",
        home="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        citation="Cohen et al., EMNIST: Extending MNIST to Handwritten Letters, IJCNN 2017",
        license="none stated; cite the paper",
        files="gzip.zip of EMNIST, or unpacked with emnist-byclass-train-images-idx3-ubyte.gz "
        "and the three files beside it",
        patterns=("emnist-byclass-train-images-idx3-ubyte*",),
    ),
    Source(
        name="femnist",
        description="EMNIST by writer",
        clients="3,400 or more writers",
        task="character, 62 classes",
        home="https://leaf.cmu.edu",
        citation="Caldas et al., LEAF: A Benchmark for Federated Settings, 2018",
        license="none stated; cite the paper",
        files="LEAF's data/train and data/test with their .json files, or emnist_all.sqlite or "
        "emnist_all.sqlite.lzma of TensorFlow Federated",
        patterns=("train/*.json", "emnist_*.sqlite", "emnist_*.sqlite.lzma"),
    ),
)
_TEXTS = (
    Source(
        name="sst2",
        description="phrases of film reviews",
        clients="none",
        task="sentiment, 2 classes",
        home="https://gluebenchmark.com/tasks",
        citation="Socher et al., Recursive Deep Models for Semantic Compositionality Over a "
        "Sentiment Treebank, EMNLP 2013",
        license="none stated; research",
        files="SST-2.zip of GLUE, or unpacked with train.tsv and dev.tsv",
        patterns=("train.tsv",),
    ),
    Source(
        name="shakespeare",
        description="7,095 speeches from the plays",
        clients="299 roles",
        task="next word or character",
        home="https://github.com/karpathy/char-rnn",
        citation="the plays of William Shakespeare; 'tiny Shakespeare' selection of char-rnn",
        license="public domain",
        files="input.txt of data/tinyshakespeare",
        patterns=("input.txt",),
    ),
    Source(
        name="sotu",
        description="233 State of the Union addresses from 1790 on",
        clients="43 authors",
        task="next word",
        home="https://github.com/stdlib-js/datasets-sotu",
        citation="stdlib, State of the Union addresses",
        license="PDDL 1.0, contents CC0 1.0",
        files="the package's data/1790_george_washington_n.json ...",
        patterns=("[12][0-9][0-9][0-9]_*.json",),
    ),
    Source(
        name="stackoverflow",
        description="questions and answers by user",
        clients="342,477 users",
        task="next word",
        home="https://www.tensorflow.org/federated/api_docs/python/tff/simulation/datasets",
        citation="The TensorFlow Federated authors, Stack Overflow dataset, 2019",
        license="CC BY-SA 3.0",
        files="stackoverflow.sqlite or stackoverflow.sqlite.lzma of TensorFlow Federated",
        patterns=("stackoverflow*.sqlite", "stackoverflow*.sqlite.lzma"),
    ),
)

_ENGINES = (
    Source(
        name="cmapss_fd001",
        description="simulated turbofan engines from a start to failure, 21 sensors",
        clients="100 + 100 engines",
        task="cycles left",
        home="https://www.nasa.gov/intelligent-systems-division",
        citation="Saxena et al., Damage Propagation Modeling for Aircraft Engine Run-to-Failure "
        "Simulation, PHM 2008",
        license="none stated; a US federal agency",
        files="train_FD001.txt, test_FD001.txt and RUL_FD001.txt of C-MAPSS",
        patterns=("train_FD001.txt",),
    ),
)

IMAGES = {source.name: source for source in _IMAGES}
TEXTS = {source.name: source for source in _TEXTS}
ENGINES = {source.name: source for source in _ENGINES}
WESAD = Source(
    name="wesad",
    description="chest and wrist sensors, 8 chest channels, 700 Hz",
    clients="15 subjects",
    task="stress and affect, 4 classes",
    home="https://archive.ics.uci.edu/dataset/465",
    citation="Schmidt et al., Introducing WESAD, a Multimodal Dataset for Wearable Stress and "
    "Affect Detection, ICMI 2018",
    license="academic, non-commercial; see the home page",
    files="WESAD.zip, or unpacked as S2/S2.pkl ... S17/S17.pkl",
    patterns=("S*/S*.pkl",),
)
SOURCES = {**CATALOGUE, WESAD.name: WESAD, **IMAGES, **TEXTS, **ENGINES}
COMPACT = {
    "uci_har": Compact(
        "uci_har",
        (("uci_har.npz", "47f77c423a37cadc1b52c3b98967ee58fcd9299414fef29da4ea2315946f3cd4"),),
    ),
    "motionsense": Compact(
        "motionsense",
        (
            (
                "motionsense.npz",
                "62706c7ac55ceecd6843b415a561942ef3fbdc12ea9a7bd14426209272fcd8ef",
            ),
        ),
    ),
    "wisdm_watch": Compact(
        "wisdm_watch",
        (
            (
                "wisdm_watch_accel.npz",
                "40a274c8640b9fc007016bf5f643f1fe5f98238c072be29448b834b5d383e930",
            ),
        ),
    ),
    "hhar": Compact(
        "hhar",
        (
            (
                "hhar_samsung_windows.npz",
                "7384495ecda223bc3ce255a3a50058e0e9e2815a2d4a6aff2e104380dd413801",
            ),
        ),
    ),
    "wesad": Compact(
        "wesad_features",
        (
            (
                "wesad_features.npz",
                "70e54c8ca7646f700af0c6c24bca0d466e91d28d006a0dd8c1fda346e6a75a7c",
            ),
        ),
    ),
    "japanese_vowels": Compact(
        "japanese_vowels",
        (
            (
                "japanese_vowels.npz",
                "77ea7eeb1c73a07c562ccf942f111f6256e78c3df838de6468276c3973905dbc",
            ),
        ),
    ),
    "fsdd": Compact(
        "fsdd",
        (
            (
                "fsdd_audio.npz",
                "938a9d07bb1837798d3fd3152dceb4d1b9e9e4bbe7071e80671aead150396869",
            ),
        ),
    ),
    "santafe_laser": Compact(
        "scalar_series",
        (
            (
                "scalar_series.npz",
                "1d31bf38cfd1a14256fd8e097e3dfa9ce1212ce3f02ec7b437d4d659545d6636",
            ),
        ),
    ),
    "sunspots": Compact(
        "scalar_series",
        (
            (
                "scalar_series.npz",
                "1d31bf38cfd1a14256fd8e097e3dfa9ce1212ce3f02ec7b437d4d659545d6636",
            ),
        ),
    ),
    "mnist_writers": Compact(
        "mnist_writers",
        (
            (
                "mnist_writers.npz",
                "9512ab9c9b282ad94cb18d475c3a4bca02c2e67808999393bf7374f116b0951f",
            ),
        ),
    ),
    "cifar10": Compact(
        "cifar10",
        (
            (
                "cifar10_subset.npz",
                "9caf5afb7c8a1836aeb075d68847c799b18bd1ce2eeb2e4a8e062b34b3380edd",
            ),
        ),
    ),
    "fashion_mnist": Compact(
        "fashion_mnist",
        (
            (
                "fashion_mnist.npz",
                "95d26b2ec484bae83c9e15b2c1cedd797acc5647cb3442165439b3137707e296",
            ),
        ),
    ),
    "sst2": Compact(
        "sst2",
        (
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
    ),
    "shakespeare": Compact(
        "text_shakespeare",
        (
            (
                "speeches.jsonl.gz",
                "d736065cbddd5d4f5fab32124508abd198e2d6c63f651a67e39cb2e781363d2c",
            ),
        ),
    ),
    "sotu": Compact(
        "text_sotu",
        (
            (
                "sotu.jsonl.gz",
                "8b8aee04f6a855d161a1291645f281adfc84c9dbeb176c0a36c138e15a31fee8",
            ),
        ),
    ),
}
