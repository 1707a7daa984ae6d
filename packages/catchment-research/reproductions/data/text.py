"""SST-2, Shakespeare's speeches and the State of the Union addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from catchment.errors import IntegrityError, MissingDataError
from catchment_lab.datasets import Folder, find_folder, read_text, require
from reproductions.data.values import Text, Texts
from reproductions.places import locate


def sst2(*, directory: Path | str | None = None, sentences: bool = False) -> Texts:
    """Return SST-2: phrases labeled 0 (negative) or 1 (positive); for test, the development set.

    Training phrases are parts of sentences and repeat: hold out whole sentences, not phrases.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    sentences
        Whole sentences only, with development and test sets of their own; compact form only.

    >>> sst2(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sst2 (phrases of film reviews) ...
    """
    place = locate("sst2", directory=directory)
    development: tuple[Text, ...] = ()
    if place.original is not None:
        if sentences:
            raise ValueError("the original form has no set of whole sentences; leave sentences out")
        train, test = (require(place.original, name)[0] for name in ("train.tsv", "dev.tsv"))
        note = "original form (GLUE); test is the development set"
    elif sentences:
        train, test = "sentences_train.tsv.gz", "sentences_test.tsv.gz"
        development = tuple(_rows(place.folder, "sentences_dev.tsv.gz"))
        note = "compact form, whole sentences; punctuation partly removed"
    else:
        train, test = "phrases_train.tsv.gz", "dev.tsv.gz"
        note = "compact form; test is the development set"
    return Texts(
        name="sst2",
        train=tuple(_rows(place.folder, train)),
        test=tuple(_rows(place.folder, test)),
        development=development,
        classes=("negative", "positive"),
        notes=(note,),
    )


def _rows(folder: Folder, name: str) -> Iterator[Text]:
    # Phrases hold quotation marks and odd separators; only tab and newline have a meaning.
    header, *lines = read_text(folder, name).replace("\r\n", "\n").rstrip("\n").split("\n")
    if header.split("\t") != ["sentence", "label"]:
        raise IntegrityError(f"{folder}/{name} begins with {header[:40]!r}, not sentence<tab>label")
    for number, line in enumerate(lines, start=2):
        sentence, _, label = line.rpartition("\t")
        if label not in ("0", "1"):
            raise IntegrityError(f"{folder}/{name}, line {number}, has label {label[:20]!r}")
        yield Text(sentence.strip(), label=int(label))


def treebank_sentences(root: Path) -> dict[str, list[Text]]:
    """Return whole sentences for train, dev and test, from the Stanford treebank's own files.

    A sentence is negative up to .4 and positive above .6 of its scale from 0 to 1; what lies
    between is left out.

    Parameters
    ----------
    root
        Holds stanfordSentimentTreebank.zip, or its files unpacked.
    """
    folder = find_folder(root, ("datasetSentences.txt",))
    if folder is None:
        raise MissingDataError(
            f"{root} has no datasetSentences.txt; put stanfordSentimentTreebank.zip there"
        )
    number = dict(line.rsplit("|", 1) for line in _table(folder, "dictionary.txt", header=False))
    value = dict(line.split("|") for line in _table(folder, "sentiment_labels.txt"))
    split = dict(line.split(",") for line in _table(folder, "datasetSplit.txt"))
    parts: dict[str, list[Text]] = {"train": [], "test": [], "dev": []}
    for line in _table(folder, "datasetSentences.txt"):
        index, _, sentence = line.partition("\t")
        plain = sentence.replace("-LRB-", "(").replace("-RRB-", ")")
        phrase = plain if plain in number else _decoded_once_more(plain)
        if phrase not in number:
            raise IntegrityError(f"{folder}: dictionary.txt lacks sentence {index}")
        feeling = float(value[number[phrase]])
        if feeling <= 0.4 or feeling > 0.6:
            part = ("train", "test", "dev")[int(split[index]) - 1]
            parts[part].append(Text(phrase, label=int(feeling > 0.6)))
    return parts


def _decoded_once_more(text: str) -> str:
    """Return text without the second encoding that the treebank's sentences have."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _table(folder: Folder, name: str, *, header: bool = True) -> list[str]:
    lines = (
        read_text(folder, require(folder, name)[0]).replace("\r\n", "\n").rstrip("\n").split("\n")
    )
    return lines[1:] if header else lines


def shakespeare(*, directory: Path | str | None = None) -> Texts:
    """Return speeches from Shakespeare's plays; the speaking role is the client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> shakespeare(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: shakespeare (7,095 speeches from the plays) ...
    """
    place = locate("shakespeare", directory=directory)
    if place.original is None:
        records = _json_lines(place.folder, "speeches.jsonl.gz", ("speaker", "text"))
        train = tuple(Text(text, client=speaker) for speaker, text in records)
    else:
        (name, *_) = require(place.original, "input.txt")
        train = tuple(_speeches(read_text(place.original, name)))
        if not train:
            raise IntegrityError(f"{place.original}/{name} has no speeches like 'NAME:'")
    note = f"{place.form} form; roles of the same name in different plays fall together"
    return Texts(name="shakespeare", train=train, notes=(note,))


def _speeches(text: str) -> Iterator[Text]:
    """Yield each paragraph that begins with a name and a colon on a line of their own."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        speaker, newline, speech = paragraph.strip("\n").partition(":\n")
        if newline and "\n" not in speaker and speech.strip():
            yield Text(speech, client=speaker.strip())


def sotu(*, directory: Path | str | None = None) -> Texts:
    """Return the State of the Union addresses by year; the president is the client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> sotu(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sotu (233 State of the Union addresses ...
    """
    place = locate("sotu", directory=directory)
    if place.original is None:
        records = _json_lines(place.folder, "sotu.jsonl.gz", ("name", "text"))
    else:
        names = sorted(require(place.original, "[12][0-9][0-9][0-9]_*.json"))
        records = [
            record
            for name in names
            for record in _json_lines(place.original, name, ("name", "text"))
        ]
    train = tuple(Text(text, client=author) for author, text in records)
    return Texts(name="sotu", train=train, notes=(f"{place.form} form, by year",))


def _json_lines(folder: Folder, name: str, keys: tuple[str, str]) -> list[tuple[str, str]]:
    """Return two entries of each JSON object, one object per line."""
    records = []
    for number, line in enumerate(read_text(folder, name).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            first, second = (record[key] for key in keys)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                f"{folder}/{name}, line {number}, lacks {' or '.join(keys)} ({error})"
            ) from error
        records.append((str(first), str(second)))
    return records
