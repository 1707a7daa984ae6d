"""Ways to learn together: exact ridge, averages, ensembles, personal readouts, plasticity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.federation.learn.alignment import AlignedRidge as AlignedRidge
    from catchment.federation.learn.averaging import GradientAveraging as GradientAveraging
    from catchment.federation.learn.averaging import ReadoutAveraging as ReadoutAveraging
    from catchment.federation.learn.balanced import BalancedRidge as BalancedRidge
    from catchment.federation.learn.candidates import Candidates as Candidates
    from catchment.federation.learn.clusters import cluster_clients as cluster_clients
    from catchment.federation.learn.clusters import cluster_sums as cluster_sums
    from catchment.federation.learn.conjugate_gradients import (
        ConjugateGradients as ConjugateGradients,
    )
    from catchment.federation.learn.deep import DeepRidge as DeepRidge
    from catchment.federation.learn.ensemble import Ensemble as Ensemble
    from catchment.federation.learn.ensemble import ReservoirEnsemble as ReservoirEnsemble
    from catchment.federation.learn.ensemble import joint_features as joint_features
    from catchment.federation.learn.factored import FactoredRidge as FactoredRidge
    from catchment.federation.learn.groups import group_of as group_of
    from catchment.federation.learn.input_scaling import FederatedScaling as FederatedScaling
    from catchment.federation.learn.normal import FederatedNormal as FederatedNormal
    from catchment.federation.learn.normal_unlearning import unlearn_normal as unlearn_normal
    from catchment.federation.learn.optimisers import Adagrad as Adagrad
    from catchment.federation.learn.optimisers import Adam as Adam
    from catchment.federation.learn.optimisers import Mean as Mean
    from catchment.federation.learn.optimisers import Momentum as Momentum
    from catchment.federation.learn.optimisers import Yogi as Yogi
    from catchment.federation.learn.personal import SHARES as SHARES
    from catchment.federation.learn.personal import PersonalReadouts as PersonalReadouts
    from catchment.federation.learn.personal import mixed as mixed
    from catchment.federation.learn.personal import personalise as personalise
    from catchment.federation.learn.personal import towards as towards
    from catchment.federation.learn.plasticity import FederatedPlasticity as FederatedPlasticity
    from catchment.federation.learn.plasticity import MomentPlasticity as MomentPlasticity
    from catchment.federation.learn.ridge import FederatedRidge as FederatedRidge
    from catchment.federation.learn.selected import SelectedRidge as SelectedRidge
    from catchment.federation.learn.stacking import StackedEnsemble as StackedEnsemble
    from catchment.federation.learn.stacking import Stacking as Stacking
    from catchment.federation.learn.unlearning import Certificate as Certificate
    from catchment.federation.learn.unlearning import join as join
    from catchment.federation.learn.unlearning import unlearn as unlearn
    from catchment.federation.learn.unlearning import unlearn_rows as unlearn_rows

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "alignment": ["AlignedRidge"],
        "averaging": ["GradientAveraging", "ReadoutAveraging"],
        "balanced": ["BalancedRidge"],
        "candidates": ["Candidates"],
        "clusters": ["cluster_clients", "cluster_sums"],
        "conjugate_gradients": ["ConjugateGradients"],
        "deep": ["DeepRidge"],
        "ensemble": ["Ensemble", "ReservoirEnsemble", "joint_features"],
        "factored": ["FactoredRidge"],
        "groups": ["group_of"],
        "input_scaling": ["FederatedScaling"],
        "normal": ["FederatedNormal"],
        "normal_unlearning": ["unlearn_normal"],
        "optimisers": ["Adagrad", "Adam", "Mean", "Momentum", "Yogi"],
        "personal": ["PersonalReadouts", "SHARES", "mixed", "personalise", "towards"],
        "plasticity": ["FederatedPlasticity", "MomentPlasticity"],
        "ridge": ["FederatedRidge"],
        "selected": ["SelectedRidge"],
        "stacking": ["StackedEnsemble", "Stacking"],
        "unlearning": ["Certificate", "join", "unlearn", "unlearn_rows"],
    },
)
