"""What `fedresprompt` is set to do, and what comes of it: variants, settings, jobs and cells."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from catchment.wire import replace_file
from reproductions.arena import macro_f1
from reproductions.smollm2 import SMOLLM2
from reproductions.study import Value

TASKS = ("routing", "sst2", "uci_har", "motionsense", "instructed")
METHODS = (
    *("largest", "zero-shot", "signal", "ridge", "words", "subspace", "closed-form", "reservoir"),
    *("published", "scratch", "prompt", "lora"),
)
STORIES = "stories260k"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to solve a task.

    Parameters
    ----------
    rate
        Learning rate; of a plain prompt in units of the embeddings' spread.
    units, bottleneck
        Of the controller; no units make it constant.
    rank
        Of the adapters.
    noise
        Multiplier of the noise on each bottleneck that leaves a client.
    rounds
        If they are not those of the settings.
    """

    method: str
    rate: float = 0.0
    units: int = 0
    bottleneck: int = 0
    rank: int = 0
    noise: float = 0.0
    rounds: int = 0


def variants(method: str, *numbers: tuple[float, int, int, int]) -> tuple[Variant, ...]:
    """Return variants of a method from (rate, units, bottleneck, rank)."""
    return tuple(
        Variant(method=method, rate=a, units=b, bottleneck=c, rank=d) for a, b, c, d in numbers
    )


SENTENCES = (
    *variants("subspace", (0.01, 0, 256, 0), (0.03, 0, 256, 0)),
    *variants("subspace", (0.005, 0, 1024, 0), (0.01, 0, 1024, 0)),
    *variants("reservoir", (0.01, 16, 256, 0), (0.03, 16, 256, 0), (0.003, 200, 64, 0)),
    *variants("reservoir", (0.01, 16, 128, 0), (0.01, 8, 256, 0)),
    *variants("reservoir", (0.01, 4, 256, 0), (0.03, 4, 256, 0)),
    *variants("published", *((rate, 200, 16, 0) for rate in (1e-3, 3e-3, 0.01, 0.03))),
    *variants("prompt", (0.1, 0, 0, 0)),
    *variants("lora", (1e-3, 0, 0, 4), (1e-3, 0, 0, 8), (3e-3, 0, 0, 8), (1e-3, 0, 0, 16)),
)


def steered(bottleneck: int, *, units: int, constant: float, rate: float) -> tuple[Variant, ...]:
    """Return the variants of a task in which only the reservoir has seen the signal.

    Parameters
    ----------
    constant, rate
        Learning rates of the constant prompt, and of the reservoir's after its closed-form start.
    """
    return (
        *variants("subspace", (constant, 0, bottleneck, 0)),
        *variants("closed-form", (0.0, units, bottleneck, 0)),
        *variants("reservoir", (rate, units, bottleneck, 0)),
        *variants("published", (rate, units, bottleneck, 0)),
    )


def instructed(
    bottleneck: int, *, units: int, constant: float, rates: tuple[float, ...]
) -> tuple[Variant, ...]:
    """Return the variants of the task in which an instruction says what to name.

    Parameters
    ----------
    constant, rates
        Learning rates of the constant prompt, and of the reservoir's, which are searched.
    """
    return (
        *variants("largest", (0.0, 0, 0, 0)),
        *variants("signal", (0.0, units, 0, 0)),
        *variants("words", (0.0, units, 0, 0)),
        *variants("subspace", (constant, 0, bottleneck, 0)),
        *variants("closed-form", (0.0, units, bottleneck, 0)),
        *variants("reservoir", *((rate, units, bottleneck, 0) for rate in rates)),
    )


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    """How far to go.

    Parameters
    ----------
    model
        A folder with a language model, or the name of one.
    seeds
        Of the clients' cut, the random matrices and the reservoir.
    length, sensor_length
        Vectors in a prompt, for sentences and for signals.
    rounds, search_rounds
        Of sentences, at the end and in the search; one step per client each.
    lora_rounds, lora_search_rounds
        Of low-rank adapters, which need fewer.
    sensor_rounds, sensor_steps, sensor_batch
        Of sensors: rounds, local steps in each, and examples of a step.
    budget
        Numbers that the controller of sentences may have; larger ones are tried but not chosen, so
        that bytes stay below a fiftieth of LoRA's.
    target_steps, target_rate, target_copies
        How the bottlenecks that say a label word are trained, before any client is asked: steps,
        learning rate, and mixtures of each word in a step.
    sentences, sensors, routes
        Variants that are searched; `published` of sentences has the page's units and bottleneck.
    noises
        Multipliers of noise on the prompts of UCI HAR's closed-form start.
    also
        Adapters of sentences that are run for all seeds besides the chosen ones.
    instructed, instructed_rounds, instructed_steps, instructed_batch, instructed_length
        Where an instruction says what to name: variants, rounds, local steps in each, examples of
        a step and vectors of the prompt.
    instructed_targets, instructed_rate, instructed_copies
        How bottlenecks are found there: steps, learning rate, and mixtures of each activity.
    instructed_most
        Windows of the development people, and of the test people.
    most
        Examples per client and set, at most.
    points
        How often accuracy is looked at on the way.
    """

    model: str = SMOLLM2
    seeds: tuple[int, ...] = (0, 1, 2)
    length: int = 10
    batch_size: int = 64
    rounds: int = 360
    search_rounds: int = 60
    lora_rounds: int = 100
    lora_search_rounds: int = 40
    sensor_rounds: int = 12
    sensor_steps: int = 8
    sensor_batch: int = 16
    sensor_length: int = 4
    budget: int = 2400
    target_steps: int = 500
    target_rate: float = 0.003
    target_copies: int = 16
    sentences: tuple[Variant, ...] = SENTENCES
    sensors: tuple[Variant, ...] = steered(256, units=200, constant=0.003, rate=3e-4)
    routes: tuple[Variant, ...] = steered(256, units=40, constant=0.003, rate=3e-3)
    noises: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    also: tuple[Variant, ...] = (Variant(method="lora", rate=1e-3, rank=4, rounds=40),)
    instructed: tuple[Variant, ...] = instructed(256, units=200, constant=0.003, rates=(3e-4, 1e-3))
    instructed_rounds: int = 40
    instructed_steps: int = 4
    instructed_batch: int = 32
    instructed_length: int = 8
    instructed_targets: int = 150
    instructed_rate: float = 0.01
    instructed_copies: int = 64
    instructed_most: int = 300
    most: int | None = None
    points: int = 10
    device: str = "auto"
    precision: str | None = None
    directory: str | None = None


# A narrow model is steered by fewer numbers and bears larger steps.
ON_STORIES = PromptSettings(
    model=STORIES,
    target_steps=200,
    target_rate=0.05,
    target_copies=4,
    sensors=steered(32, units=200, constant=0.01, rate=3e-4),
    routes=steered(8, units=40, constant=0.01, rate=0.01),
    instructed=instructed(32, units=200, constant=0.01, rates=(3e-4, 1e-3)),
    instructed_rate=0.05,
    instructed_most=200,
)
QUICK = PromptSettings(
    model=STORIES,
    target_rate=0.05,
    target_copies=4,
    seeds=(0,),
    length=4,
    target_steps=80,
    rounds=10,
    search_rounds=4,
    lora_rounds=4,
    lora_search_rounds=2,
    sensor_rounds=2,
    sensor_steps=4,
    sentences=(
        *variants("subspace", (0.03, 0, 64, 0)),
        *variants("reservoir", (0.01, 16, 64, 0)),
        *variants("published", (0.01, 16, 8, 0)),
        *variants("prompt", (0.1, 0, 0, 0)),
        *variants("lora", (1e-3, 0, 0, 4), (3e-3, 0, 0, 8)),
    ),
    sensors=(
        *variants("closed-form", (0.0, 60, 32, 0)),
        *variants("reservoir", (1e-3, 60, 32, 0)),
    ),
    routes=ON_STORIES.routes,
    instructed=instructed(32, units=60, constant=0.01, rates=(1e-3,)),
    instructed_rounds=2,
    instructed_steps=2,
    instructed_targets=40,
    instructed_rate=0.05,
    instructed_copies=8,
    instructed_most=20,
    noises=(0.05,),
    most=30,
    points=4,
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A variant on a task with a seed; `search` ones only choose the settings of the others."""

    task: str
    variant: Variant
    seed: int
    search: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What came of a job, and every byte it took.

    Parameters
    ----------
    trained
        Numbers that travel in every round.
    bytes_up, bytes_down
        Between all clients and the federation's server.
    asked_up, asked_down
        Between all clients and the language model's server while training, where it is not on the
        clients.
    curve
        Rounds, bytes between clients and the federation's server so far, development accuracy.
    losses
        Mean training loss of each round.
    people
        By kind of test case: right answers and cases of each person.
    classes
        Of every class of a test, what `class_counts` counts; cells of earlier runs have none.
    extra
        Further figures, such as the ridge that was chosen.
    """

    job: Job
    development: float
    test: float
    trained: int = 0
    rounds: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    asked_up: int = 0
    asked_down: int = 0
    seconds: float = 0.0
    curve: tuple[tuple[int, int, float], ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    people: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    classes: tuple[tuple[int, ...], ...] = ()

    @property
    def macro_f1(self) -> float:
        """Mean over classes of F1 on the test examples, NaN if it was not counted."""
        return macro_f1(self.classes) if self.classes else float("nan")

    @property
    def bytes_federated(self) -> int:
        return self.bytes_up + self.bytes_down

    @property
    def bytes_asked(self) -> int:
        return self.asked_up + self.asked_down


@dataclass(frozen=True, kw_only=True)
class PromptResult:
    """All cells, with all that is needed to run them again."""

    settings: PromptSettings
    cells: tuple[Cell, ...]
    quick: bool = False
    seconds: float = 0.0
    environment: dict[str, Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(
        self, task: str, method: str, *, noise: float = 0.0, rounds: int = 0
    ) -> tuple[Cell, ...]:
        """Return the final cells of one method on one task, by seed.

        Parameters
        ----------
        rounds
            Of a variant that has its own.
        """
        found = [
            cell
            for cell in self.cells
            if not cell.job.search
            and (cell.job.task, cell.job.variant.method) == (task, method)
            and (cell.job.variant.noise, cell.job.variant.rounds) == (noise, rounds)
        ]
        return tuple(sorted(found, key=lambda cell: cell.job.seed))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(task for task in TASKS if any(c.job.task == task for c in self.cells))

    def save(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"name": "fedresprompt", **asdict(self)}, indent=1) + "\n"
        replace_file(path, content.encode())


def stem(settings: PromptSettings, quick: bool) -> str:
    """Return what the files of a result are called.

    >>> stem(PromptSettings(), False), stem(PromptSettings(model="a/b"), False), stem(QUICK, True)
    ('fedresprompt', 'fedresprompt-b', 'fedresprompt-quick')
    """
    if quick:
        return "fedresprompt-quick"
    usual = settings.model == PromptSettings.model
    return "fedresprompt" if usual else f"fedresprompt-{Path(settings.model).name}"


def load_prompts(path: Path) -> PromptResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text())
    settings: dict[str, Any] = {
        name: tuple(Variant(**v) if isinstance(v, dict) else v for v in value)
        if isinstance(value, list)
        else value
        for name, value in content["settings"].items()
    }
    # A file may be older than a setting; it then was what it is for this model today.
    usual = ON_STORIES if settings["model"] == STORIES else PromptSettings()
    return PromptResult(
        settings=replace(usual, **settings),
        cells=tuple(_cell(one) for one in content["cells"]),
        quick=content["quick"],
        seconds=content["seconds"],
        environment=content["environment"],
        notes=tuple(content["notes"]),
    )


def _cell(content: dict[str, Any]) -> Cell:
    job = content["job"]
    curve = tuple((int(a), int(b), float(c)) for a, b, c in content["curve"])
    variant = Variant(**job["variant"])
    people = {
        kind: {who: (float(a), float(b)) for who, (a, b) in held.items()}
        for kind, held in content.get("people", {}).items()
    }
    found = {"curve": curve, "losses": tuple(content.get("losses", ())), "people": people}
    found |= {"classes": tuple(map(tuple, content.get("classes", ())))}
    return Cell(**{**content, "job": Job(**{**job, "variant": variant}), **found})
