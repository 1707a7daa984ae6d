"""A task that needs text and signal: the instruction says which property of a window to name.

Windows of motion signals (UCI HAR, unseen people), five instructions for each: what the
person does, whether they move, whether they are on their feet, whether they are on stairs, and how
strong the motion is. Three of them are answered by yes or no, and not alike. The language model
reads the instruction, the reservoir the signal; neither alone can answer. Clients train with six
wordings of each instruction, settings are chosen with a seventh, and two more come only at the end.

The answer is one of eleven for every instruction, several tokens long and ended by a full stop:
without it "walking" would begin "walking upstairs" and never be less likely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording, cohorts
from catchment_research.prompt import Example
from reproductions.people import scale_each
from reproductions.places import load
from reproductions.prompt_tasks import Reader

TEMPLATE = "Question: {}\nAnswer:"
STRENGTHS = ("weak", "medium", "strong")
# By activity: what is said of it, and whether one moves, is on one's feet, is on stairs.
PROPERTIES = {
    "WALKING": ("walking", "yes", "yes", "no"),
    "WALKING_UPSTAIRS": ("walking upstairs", "yes", "yes", "yes"),
    "WALKING_DOWNSTAIRS": ("walking downstairs", "yes", "yes", "yes"),
    "SITTING": ("sitting", "no", "no", "no"),
    "STANDING": ("standing", "no", "yes", "no"),
    "LAYING": ("lying down", "no", "no", "no"),
}
ANSWERS = (*(said[0] for said in PROPERTIES.values()), "yes", "no", *STRENGTHS)


@dataclass(frozen=True)
class Instruction:
    """One property, and how to ask for it: to train with, to choose by, and at the end."""

    name: str
    known: tuple[str, ...]
    tried: tuple[str, ...]
    new: tuple[str, ...]


INSTRUCTIONS = (
    Instruction(
        "doing",
        (
            "What is the person doing?",
            "Which activity is this?",
            "Name the activity of the person.",
            "What activity is going on?",
            "What is this person doing right now?",
            "Say which activity you see.",
        ),
        ("Which activity is the person doing?",),
        ("How is this person occupied at the moment?", "Describe the action that takes place."),
    ),
    Instruction(
        "moving",
        (
            "Is the person moving?",
            "Does the person move?",
            "Is this person in motion?",
            "Is there movement, yes or no?",
            "Say yes if the person is moving, and no if not.",
            "Is the body moving at all?",
        ),
        ("Is the person in motion right now?",),
        ("Is somebody going from one place to another here?", "Would you call this active?"),
    ),
    Instruction(
        "feet",
        (
            "Is the person on their feet?",
            "Is this person upright on both legs?",
            "Do the legs carry the person?",
            "Say yes if the person is on their feet, and no if not.",
            "Is the weight on the feet?",
            "Is the person up on their legs?",
        ),
        ("Are the feet carrying this person?",),
        (
            "Is somebody standing or walking, rather than resting?",
            "Is nobody sitting or lying here?",
        ),
    ),
    Instruction(
        "stairs",
        (
            "Is the person on stairs?",
            "Are there stairs under the person?",
            "Is this person going up or down a staircase?",
            "Say yes if the person is on stairs, and no if not.",
            "Does the person use the stairs?",
            "Are stairs being climbed or descended?",
        ),
        ("Is the person using a staircase?",),
        ("Is the height changing step by step?", "Is somebody between two floors of a building?"),
    ),
    Instruction(
        "strength",
        (
            "How strong is the motion?",
            "Is the motion weak, medium or strong?",
            "What is the strength of the motion?",
            "How much motion is there: weak, medium or strong?",
            "Rate the strength of this motion.",
            "How intense is the motion of the person?",
        ),
        ("How strong is the person's motion?",),
        ("How hard does the sensor shake?", "What is the level of energy in the signal?"),
    ),
)


@dataclass(frozen=True, eq=False)
class Window:
    """A signal (T, I), whose it is, and what is true of it."""

    u: Array
    person: str
    activity: int
    strength: int

    @property
    def truth(self) -> Integers:
        """(5,) the right answer to each instruction, as a place in `ANSWERS`."""
        said = (*tuple(PROPERTIES.values())[self.activity], STRENGTHS[self.strength])
        return np.array([ANSWERS.index(answer) for answer in said])


@dataclass(frozen=True, eq=False)
class Case:
    """A window, which instruction is given, and in which words."""

    window: Window
    instruction: int
    wording: str

    @property
    def label(self) -> int:
        return int(self.window.truth[self.instruction])


@dataclass(frozen=True, eq=False, kw_only=True)
class InstructedTask:
    """Cases by client, cases to choose by, and cases of other people to judge by.

    Parameters
    ----------
    known, new
        The same windows with wordings that clients trained with, and with wordings kept back.
    """

    clients: Mapping[str, Sequence[Case]]
    development: Sequence[Case]
    known: Sequence[Case]
    new: Sequence[Case]
    notes: tuple[str, ...] = ()

    @property
    def n_inputs(self) -> int:
        return int(next(iter(self.clients.values()))[0].window.u.shape[1])

    @cached_property
    def windows(self) -> dict[str, list[Window]]:
        """The different windows of each client."""
        return {
            name: list({id(case.window): case.window for case in cases}.values())
            for name, cases in self.clients.items()
        }


def instructed_task(
    recordings: Mapping[str, Sequence[Recording]],
    test_people: Sequence[str],
    classes: Sequence[str],
    *,
    most: int = 1000,
    seed: int = 0,
    notes: tuple[str, ...] = (),
) -> InstructedTask:
    """Return the task on labeled windows by person.

    Parameters
    ----------
    recordings
        Labeled windows by person; each person is scaled by their own mean and deviation.
    test_people
        Who is judged; of the others a fifth is to choose by.
    classes
        Names of the activities, in the order of the labels.
    most
        Windows of the development and test people each, evenly taken.
    seed
        Names the split and who is asked in which words.
    """
    scaled = scale_each(recordings)
    known = [person for person in scaled if person not in test_people]
    training, validation, _ = cohorts(known, validation=0.2, test=0, seed=seed)
    edges = _tertiles([w.u for person in training for w in scaled[person]])
    order = [list(PROPERTIES).index(name) for name in classes]

    def windows(people: Sequence[str]) -> list[Window]:
        return [
            Window(w.u, person, order[int(np.argmax(w.y))], int((_energy(w.u) > edges).sum()))
            for person in sorted(people)
            for w in scaled[person]
            if w.y is not None
        ]

    rng = np.random.default_rng([seed, 0x1257])

    def asked(held: Sequence[Window], which: str) -> list[Case]:
        cases = []
        for window in held:
            for k, instruction in enumerate(INSTRUCTIONS):
                wordings: tuple[str, ...] = getattr(instruction, which)
                cases.append(Case(window, k, wordings[int(rng.integers(len(wordings)))]))
        return cases

    test = _evenly(windows(test_people), most)
    return InstructedTask(
        clients={person: asked(windows([person]), "known") for person in sorted(training)},
        development=asked(_evenly(windows(validation), most), "tried"),
        known=asked(test, "known"),
        new=asked(test, "new"),
        notes=notes,
    )


def uci_har_task(
    *, most: int = 1000, seed: int = 0, directory: Path | str | None = None
) -> InstructedTask:
    """Return the task on UCI HAR, judged on the publisher's test subjects."""
    data = load("uci_har", directory=directory)
    return instructed_task(
        data.clients, data.test_clients, data.classes, most=most, seed=seed, notes=data.notes
    )


def examples(
    cases: Sequence[Case],
    reader: Reader,
    z: Mapping[int, Array] | None = None,
    read_by: str = "",
    *,
    before: Mapping[int, str] | None = None,
) -> list[Example]:
    """Return cases as examples whose choices are all eleven answers.

    Parameters
    ----------
    z, read_by
        Features by the window's identity, and what computed them.
    before
        Text in front of the question, by the window's identity.
    """
    choices = answer_tokens(reader)
    contexts: dict[str, Integers] = {}
    made = []
    for case in cases:
        at = id(case.window)
        text = TEMPLATE.format(case.wording)
        text = text if before is None else f"{before[at]}\n{text}"
        if text not in contexts:
            contexts[text] = reader.tokens(text)
        row = None if z is None else z[at]
        made.append(Example(case.label, case.window.u, contexts[text], row, read_by, choices))
    return made


def answer_tokens(reader: Reader) -> list[Integers]:
    """Return the tokens of the eleven answers, as they follow the template."""
    before = reader.tokens(TEMPLATE.format(""))
    found = []
    for answer in ANSWERS:
        whole = reader.tokens(TEMPLATE.format("") + f" {answer}.")
        if (whole[: len(before)] != before).any():
            raise ValueError(f"{answer!r} is not a word of its own to this model's tokenizer")
        found.append(whole[len(before) :])
    return found


def in_words(activity: int, strength: int) -> str:
    """Return what a readout found, as a sentence for the language model.

    >>> in_words(1, 2)
    'The person is walking upstairs. The motion is strong.'
    """
    doing = tuple(PROPERTIES.values())[activity][0]
    return f"The person is {doing}. The motion is {STRENGTHS[strength]}."


def nearest_instruction(wording: str) -> int:
    """Return the instruction that has the wording with the most similar bag of words.

    >>> [nearest_instruction(text) for text in ("Is the person moving now?", "Any stairs?")]
    [1, 3]
    """
    texts = [(k, text) for k, one in enumerate(INSTRUCTIONS) for text in one.known]
    bags = [_bag(text) for _, text in texts]
    wanted = _bag(wording)
    near = [len(wanted & bag) / np.sqrt(len(wanted) * len(bag)) for bag in bags]
    return texts[int(np.argmax(near))][0]


def _bag(text: str) -> set[str]:
    return set("".join(c if c.isalpha() else " " for c in text.lower()).split())


def _energy(u: Array) -> float:
    """Return the mean variance of the channels within a window."""
    return float(np.var(u, axis=0).mean())


def _tertiles(signals: Sequence[Array]) -> Array:
    return np.quantile([_energy(u) for u in signals], (1 / 3, 2 / 3))


def _evenly(windows: Sequence[Window], n: int) -> list[Window]:
    if len(windows) <= n:
        return list(windows)
    return [windows[k] for k in np.linspace(0, len(windows) - 1, n).round().astype(int)]
