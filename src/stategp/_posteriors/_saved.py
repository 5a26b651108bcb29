"""What the files of posteriors are made of."""

import dataclasses
from types import ModuleType

from stategp import chain, kernels, likelihoods, means, priors, spatial
from stategp._data import (
    GaussianSums,
    Observations,
    Occupied,
    Sampled,
    Stretches,
    Summarised,
    Summary,
    Table,
    Tallies,
)
from stategp._files import allow, check_when_read
from stategp._inference import Certificate, FitResult, Group, NodeSites, Outcome
from stategp._models import (
    GP,
    AdditiveGP,
    DeepGP,
    JointGP,
    Layer,
    Loadings,
    MultiOutputGP,
    SpaceTimeGP,
    Stack,
    StackedGP,
)
from stategp._posteriors._additive import AdditivePosterior, Training
from stategp._posteriors._consistency import (
    check_additive,
    check_chain,
    check_deep,
    check_mixed,
    check_observations,
    check_posterior,
    check_sampled,
    check_summary,
    check_table,
    check_training,
)
from stategp._posteriors._deep import DeepPosterior
from stategp._posteriors._filter import Filter, check_filter
from stategp._posteriors._joint import JointPosterior
from stategp._posteriors._outputs import MultiOutputPosterior
from stategp._posteriors._posterior import Posterior
from stategp._posteriors._prediction import Chain
from stategp._posteriors._revising import Recent
from stategp._posteriors._space_time import SpaceTimePosterior, check_space_time
from stategp._posteriors._stacked import StackedPosterior, check_stacked
from stategp._posteriors._stepping import FilterState
from stategp.parameters import Parameter


def allow_all() -> None:
    """Let files name every class that posteriors consist of."""
    allow(answers=(Posterior, AdditivePosterior, MultiOutputPosterior, JointPosterior))
    allow(answers=(SpaceTimePosterior, StackedPosterior, DeepPosterior, Filter, Summary))
    allow(Parameter, GP, AdditiveGP, MultiOutputGP, JointGP, SpaceTimeGP, Layer, Stack)
    allow(Observations, Table, StackedGP, Loadings)
    allow(Summarised, Sampled, Occupied, Stretches, GaussianSums, Tallies)
    allow(Training, Group, NodeSites, Chain, FitResult, Outcome, Certificate)
    allow(chain.Sites, chain.PairMarginals, FilterState, Recent)
    allow(DeepGP, outside=("function",))
    check_when_read(
        {
            Observations: check_observations,
            Summarised: check_observations,
            Sampled: check_sampled,
            Summary: check_summary,
            Table: check_table,
            Training: check_training,
            Chain: check_chain,
            Posterior: check_posterior,
            AdditivePosterior: check_additive,
            MultiOutputPosterior: check_mixed,
            JointPosterior: check_mixed,
            DeepPosterior: check_deep,
            Filter: check_filter,
            SpaceTimePosterior: check_space_time,
            StackedPosterior: check_stacked,
        }
    )
    for name, module in {
        "kernels.": kernels,
        "likelihoods.": likelihoods,
        "means.": means,
        "priors.": priors,
        "spatial.": spatial,
    }.items():
        allow(*_dataclasses(module), within=name)


def _dataclasses(module: ModuleType) -> list[type]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and dataclasses.is_dataclass(value)
        and value.__module__.startswith(module.__name__)
    ]
