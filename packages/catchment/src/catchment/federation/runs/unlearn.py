"""The model of a finished run as if a client had never been there, from what the run has kept.

A run's folder keeps the state after the last round of its training, and where clients are kept
apart that is each one's statistics. Nobody is asked again and no data are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from catchment.errors import FederationError
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.federation.learn.balanced import BalancedRidge
from catchment.federation.learn.ensemble import ReservoirEnsemble
from catchment.federation.learn.normal import FederatedNormal
from catchment.federation.learn.normal_unlearning import unlearn_normal
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.unlearning import (
    Certificate,
    unlearn,
    unlearn_by_class,
    unlearn_member,
)
from catchment.federation.runs.read import last_state, read_run
from catchment.federation.runs.training import HARMLESS, TRAINING, Described, described
from catchment.plugins import plugin
from catchment.readout.detector import Detector
from catchment.readout.model import Model
from catchment.readout.personal_models import PersonalModels
from catchment.readout.predictor import Predictor

SETTLED = {
    "scaling": "the mean and the spread of each channel, by which inputs are scaled",
    "plasticity": "the gains and shifts of the reservoir's units",
}


@dataclass(frozen=True, eq=False)
class WithoutClient:
    """A run's model without a client, and the certificate of it."""

    model: Predictor
    certificate: Certificate


def unlearn_from_run(folder: str | Path, client: str, model: Predictor) -> WithoutClient:
    """Return the model that a run without the client would have given, and a certificate.

    FederationError says why where it cannot be had: only a sum was kept, or what other clients
    sent depends on this one.

    Parameters
    ----------
    folder
        Of the run.
    model
        The run's model, as it was saved.
    """
    run = read_run(folder)
    told = described(run)
    for protection in told.protections:
        if protection == "SecureSum":
            raise FederationError(
                f"the run saw nothing but sums (secure_sum), so that what {client} sent cannot be "
                f"taken out of them; run the plan again without {client}"
            )
        if protection not in HARMLESS:
            raise FederationError(
                f"{protection} changes the sum of all clients, so that what {client} sent cannot "
                f"be taken out of it; run the plan again without {client}"
            )
    shared = model.model if isinstance(model, PersonalModels) else model
    if isinstance(shared, Detector) and told.name == "FederatedNormal":
        found = _unlearned_normal(told, Path(folder), client, shared)
    elif isinstance(shared, Model):
        found = _unlearned(told, Path(folder), client, shared)
    else:
        raise _cannot(told.name, client)
    stages = [SETTLED[stage.name] for stage in run.stages if stage.name in SETTLED]
    if told.name == "Candidates":
        stages.append("the choice among the feature maps")
    stages += [found.certificate.remains] if found.certificate.remains else []
    certificate = replace(found.certificate, remains="; ".join(stages))
    without: Predictor = found.model
    if isinstance(model, PersonalModels) and isinstance(without, Model):
        maps = {other: one for other, one in model.maps.items() if other != client}
        without = PersonalModels(without, maps=maps)
    known = without.prepared_by(model.prepare, model.channels).read_from(model.columns)
    return WithoutClient(known, certificate)


def _unlearned_normal(
    told: Described, folder: Path, client: str, shared: Detector
) -> WithoutClient:
    """Return the detector without a client, its threshold by what the others have counted."""
    labels = told.settings.get("classes")
    known = {**told.settings, "features": shared.features}
    algorithm = FederatedNormal(**{**known, "classes": None if labels is None else tuple(labels)})
    state = algorithm.load_state(last_state(folder, TRAINING))
    refuse_sum(state.by_client, client)
    left = unlearn_normal(algorithm, state, client)
    return WithoutClient(algorithm.result(left.state), left.certificate)


def _unlearned(told: Described, folder: Path, client: str, shared: Model) -> WithoutClient:
    """Return the model, not yet prepared, of the algorithms that can do without one client."""
    parts, settings = last_state(folder, TRAINING), told.settings
    match told.rebuilt(shared):
        case FederatedRidge() as ridge:
            state = ridge.load_state(parts)
            refuse_sum(state.by_client, client, groups=bool(state.by_group))
            forgotten = unlearn(ridge, state, client)
            return WithoutClient(ridge.result(forgotten.state), forgotten.certificate)
        case BalancedRidge() as balanced:
            by_class = balanced.load_state(parts)
            refuse_sum(by_class.by_client, client)
            left = unlearn_by_class(balanced, by_class, client)
            return WithoutClient(balanced.result(left.state), left.certificate)
    if told.name == "FactoredRidge":
        made: WithoutClient = plugin("uploads", "factors").without_client(
            told, shared, parts, client
        )
        return made
    among = told.chosen(shared, parts)
    if among is not None:
        ridge, sums = among
        forgotten = unlearn(ridge, sums, client)
        return WithoutClient(ridge.result(forgotten.state), forgotten.certificate)
    match told.name:
        case "ReservoirEnsemble" if settings["alpha"] is None:
            assert isinstance(shared.features, EchoStateMap)
            ensemble = ReservoirEnsemble(
                features=shared.features, weighting=settings["weighting"], classes=shared.classes
            )
            members = ensemble.load_state(parts)
            rest = unlearn_member(members, client)
            return WithoutClient(ensemble.result(rest.state).model, rest.certificate)
    raise _cannot(told.name, client)


def refuse_sum(by_client: Mapping[str, object], client: str, *, groups: bool = False) -> None:
    if not by_client:
        what = "the sums of groups of clients" if groups else "the sum of all clients"
        raise FederationError(
            f"the run kept only {what}, so that what {client} sent cannot be taken "
            f"out of it; run the plan again without {client}"
        )


def _cannot(name: str, client: str) -> FederationError:
    return FederationError(
        f"what other clients sent to {name} depends on {client}, or was not kept one by one; run "
        f"the plan again without {client}"
    )
