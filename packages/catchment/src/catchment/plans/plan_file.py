"""A plan as its file has it, and the stages that it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from catchment.data.clients import Changed
from catchment.data.prepare import Prepare
from catchment.features.base import FeatureMap
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.sizes import refuse_large
from catchment.federation.algorithm import Algorithm
from catchment.federation.course import Course, Maps
from catchment.federation.learn.automatic_maps import Offered, offered_maps, refuse_settings
from catchment.federation.protection import Masking
from catchment.plans.data import PlanData, Sharing, arrange
from catchment.plans.names import (
    BUDGET,
    BUDGET_SETTINGS,
    PLASTICITY,
    PLASTICITY_ROUNDS,
    PROTECTIONS,
    RESERVOIRS,
    WITHOUT_GRAM,
    Given,
    algorithm_of,
    beside,
    map_of,
    named,
    uploads_of,
    with_map,
)
from catchment.plans.normal import NAME as NORMAL_PLAN
from catchment.plans.normal import entered
from catchment.plans.plan_checks import TESTED_UNDER_NOISE, check, refuse_one_class
from catchment.plans.run_settings import RunSettings
from catchment.plans.sources import About, Files, Origin
from catchment.plans.weeks import Growing
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.noise import GaussianNoise

Table = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan as its file has it, every name and type checked; `course` makes its stages."""

    title: str = ""
    source: str
    origin: Origin
    sharing: Sharing
    prepare: Prepare
    features: Table
    learn: Table
    plasticity: Table = field(default_factory=dict)
    candidates: tuple[Table, ...] = ()
    run: RunSettings = field(default_factory=RunSettings)
    protect: tuple[Table, ...] = ()
    search: Table = field(default_factory=dict)
    base: Path = Path()
    fingerprint: str = ""
    text: str = ""

    @property
    def algorithm(self) -> str:
        """What learns, by its name."""
        return str(self.learn["algorithm"])

    @property
    def is_secret(self) -> bool:
        """Whether clients need keys: there is a secure sum."""
        return any(table.get("name") == "secure_sum" for table in self.protect)

    @property
    def carries(self) -> bool:
        """Whether clients hand in what is new, so that a finished run goes on."""
        return self.learn.get("increments") == "new"

    @property
    def is_noisy(self) -> bool:
        """Whether noise bounds what the training tells of a client."""
        return any(table.get("name") == "gaussian_noise" for table in self.protect)

    @property
    def map_name(self) -> str:
        """What the feature map is called; "default" if the plan names none."""
        return str(self._filled(self.features)["map"])

    @property
    def maps(self) -> tuple[FeatureMap, ...]:
        """The feature map, or that of every candidate."""
        changes = enumerate(self.candidates, start=1)
        tables: dict[str, Table]
        tables = {f"[[candidates]] {k}": {**self.features, **one} for k, one in changes}
        tables = tables or {"[features]": self.features}
        found = (self._map(table, where) for where, table in tables.items())
        return tuple(beside(one, self.base) for one in found)

    def _map(self, table: Table, where: str) -> FeatureMap:
        made = map_of(self._filled(table), where)
        steps = self.prepare.window is None and not getattr(self.origin, "label", "")
        return entered(made, table) if steps and self.algorithm == NORMAL_PLAN else made

    def _filled(self, table: Table) -> Table:
        needed = bool(self.plasticity or self.search) or self.algorithm in RESERVOIRS
        return with_map(table, reservoir=needed)

    @property
    def washout(self) -> int:
        """Steps that the map needs to enter a recording."""
        return max(map(_washout, self.maps))

    def load_data(self, directory: Path | None = None) -> PlanData:
        """Return the data that the plan names; MissingDataError if they are not here.

        ValueError if clients that train under noise would be tested, too.
        """
        found = self.origin.load(self.sharing.seed, directory, self.base)
        # Windows are entered one by one, wherever a recording is cut.
        washout = self.washout if self.prepare.window is None else 0
        refuse_one_class(found.about.classes)
        if self.carries and isinstance(self.origin, Files):
            growing = Changed(found.clients, partial(Growing, goes_on=self.origin.goes_on))
            return PlanData(growing, {}, found.about, notices=found.notices)
        held = arrange(found, self.sharing, washout=washout)
        if self.is_noisy and set(held.train) & set(held.whole):
            raise ValueError(TESTED_UNDER_NOISE)
        return held

    def about(self, directory: Path | None = None) -> About:
        """Return what everyone must know of the data, reading no files of one's own."""
        if not isinstance(self.origin, Files):
            return self.origin.load(self.sharing.seed, directory, self.base).about
        known = self.origin.about()
        lacking = {"inputs": not known.channels, "classes": self.origin.label and not known.classes}
        missing = [name for name, lacks in lacking.items() if lacks]
        if not missing:
            return known
        raise ValueError(
            f"nobody sees all clients' files here, so [data] must name the {missing[0]}; "
            f"{self._to_paste(missing)}"
        )

    def _to_paste(self, missing: list[str]) -> str:
        """Return the lines that are lacking, as far as files here tell them."""
        try:
            seen = self.load_data().about
        except (ValueError, OSError):
            return f'write {missing[0]} = ["...", "..."] into [data]'
        found = {"inputs": seen.channels, "classes": seen.classes or ()}
        lines = ", ".join(f"{name} = {json.dumps(found[name])}" for name in missing)
        return f"the files here have, to paste: {lines}"

    def course(
        self,
        about: About,
        identities: Mapping[str, str] | None = None,
        n_clients: int | None = None,
    ) -> Course:
        """Return the stages of the plan for data like these.

        Parameters
        ----------
        identities
            Public keys of the clients, for a secure sum.
        n_clients
            How many train; None for many.
        """
        protections = tuple(
            self._protection(table, f"[[protect]] {k}", identities or {})
            for k, table in enumerate(self.protect, start=1)
        )
        windows = self.prepare.window is not None
        # What is normal is a matter of every step, unless recordings have a label each.
        bare = self.algorithm == NORMAL_PLAN and about.classes is None
        per_step = not windows and (about.per_step or bare or self.prepare.horizon is not None)
        if self._is_summed(protections):
            self._refuse_large(about, per_step)
        offered = self.offered(self.prepare.n_inputs(len(about.channels)), per_step, n_clients)
        table = self._learning(offered)
        given = Given(
            (),
            about.classes,
            any(isinstance(one, Masking) for one in protections),
            n_clients,
            self.base,
            protected=bool(protections),
            n_targets=_n_targets(about),
        )
        uploads = uploads_of(table, given)

        def learn(maps: Maps) -> Algorithm[Any, Any, Any]:
            several = bool(self.candidates) or offered.several
            return algorithm_of(table, replace(given, maps=maps), several=several)

        return Course(
            prepare=self.prepare,
            maps=offered.maps,
            learn=learn,
            uploads=uploads,
            channels=about.channels,
            classes=about.classes,
            per_step=per_step,
            targets=_n_targets(about),
            adapt=self.adapting if self.plasticity else None,
            adapt_rounds=self._adapt_rounds,
            rounds=self.run.rounds,
            share=self.run.share,
            min_clients=self.run.min_clients,
            limits=self.run.limits,
            protections=protections if uploads is None else uploads.added_to(protections),
            seed=self.run.seed,
        )

    def offered(self, n_inputs: int, per_step: bool, n_clients: int | None) -> Offered:
        """Return the maps that are tried: that of the plan, or those of which "auto" chooses."""
        maps = self.maps
        if len(maps) > 1:
            return Offered(maps)
        return offered_maps(
            maps[0],
            n_inputs,
            per_step=per_step,
            hidden=self.is_secret,
            noisy=self.is_noisy,
            n_clients=n_clients,
        )

    def _is_summed(self, protections: Sequence[object]) -> bool:
        """Return whether somebody sums the products of all features."""
        if self.algorithm in WITHOUT_GRAM or self.learn.get("upload") == "gradients":
            return False
        # Then gradients are taken where statistics are large.
        ridge = self.learn.get("ridge", "auto")
        masked = any(isinstance(one, Masking) for one in protections)
        return not (masked and self.algorithm == "ridge" and not isinstance(ridge, str))

    def _refuse_large(self, about: About, per_step: bool) -> None:
        """Raise ValueError if statistics of the map cannot be in memory; nothing is built."""
        for one in self.maps:
            refuse_large(
                one,
                self.prepare.n_inputs(len(about.channels)),
                per_step=per_step,
                classes=about.classes is not None,
                remedy='upload = "gradients" in [learn], ',
            )

    def _learning(self, offered: Offered) -> Table:
        """Return [learn], which is a choice among candidates where "auto" has some."""
        if self.candidates or not offered.several:
            return self.learn
        meant = {"algorithm": ("ridge",), "ridge": ("auto", "clients"), "per_output": (True, False)}
        given = {k: v for k, v in self.learn.items() if v not in meant.get(k, ())}
        refuse_settings(given)
        kept = {k: v for k, v in self.learn.items() if k == "per_output"}
        return {"algorithm": "candidates", **kept}

    def _protection(self, table: Table, where: str, identities: Mapping[str, str]) -> Any:
        given: dict[str, object] = {"identities": dict(identities)}
        settings = {key: value for key, value in table.items() if key not in BUDGET_SETTINGS}
        if table.get("name") != "gaussian_noise":
            return named(PROTECTIONS, table, where, given)
        noise: GaussianNoise = named(PROTECTIONS, settings, where, given)
        path, epsilon = table.get("budget", BUDGET), table.get("budget_epsilon", noise.epsilon)
        if not isinstance(path, str):
            raise ValueError(f"budget in {where} is {path!r}; give the file of a ledger")
        if (
            not isinstance(epsilon, int | float)
            or isinstance(epsilon, bool)
            or not noise.epsilon <= epsilon
        ):
            raise ValueError(
                f"budget_epsilon in {where} is {epsilon!r}; give a number, the plan's epsilon of "
                f"{noise.epsilon:g} or more"
            )
        # Where clients have keys they are known by them, whatever their names are.
        known = {name: (key,) for name, key in identities.items()}
        budget = Budget(
            path=self.base / path, epsilon=float(epsilon), delta=noise.delta, known=known
        )
        return replace(noise, budget=budget)

    def adapting(self, reservoir: Reservoir) -> Algorithm[Any, Any, Reservoir]:
        """Return what adapts the reservoir before training."""
        table = {key: value for key, value in self.plasticity.items() if key != "rounds"}
        made: Algorithm[Any, Any, Reservoir]
        made = named(PLASTICITY, table, "[plasticity]", {"reservoir": reservoir})
        return made

    @property
    def _adapt_rounds(self) -> int:
        rounds = self.plasticity.get("rounds", PLASTICITY_ROUNDS)
        if type(rounds) is not int or rounds < 1:
            raise ValueError(f"rounds in [plasticity] is {rounds!r}; give a whole number from 1 on")
        return rounds

    def check(self) -> None:
        """Raise ValueError if a setting is wrong, as far as can be told without the data."""
        check(self)


def _washout(one: object) -> int:
    """Return the steps that a map, or the longest of the maps in it, needs to enter a recording."""
    if isinstance(one, FeatureMap):
        return one.washout
    if not is_dataclass(one):
        return 0
    known = {each.name: getattr(one, each.name) for each in fields(one)}
    if "washout" in known:
        return int(known["washout"])
    settings = known.values()
    inside = [m for value in settings for m in (value if isinstance(value, tuple) else (value,))]
    return max((_washout(m) for m in inside), default=0)


def _n_targets(about: About) -> int | None:
    """Return how many columns of numbers are predicted, None if no columns are named."""
    columns = dict(about.columns).get("target")
    return None if about.classes is not None or not columns else len(columns.split("\n"))
