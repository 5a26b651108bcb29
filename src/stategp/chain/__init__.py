"""Computations with Gauss–Markov chains."""

from stategp._linalg import psd_cholesky, psd_solve
from stategp.chain._block_tridiagonal import (
    BlockBidiagonal,
    BlockTridiagonal,
    reverse_subset_inverse,
)
from stategp.chain._evidence import kernel_evidence, log_evidence
from stategp.chain._information import Potentials
from stategp.chain._innovations import Innovations, innovations
from stategp.chain._parameterisations import (
    Expectation,
    MeanCholesky,
    Natural,
    entropy,
    kl_divergence,
    log_density,
    natural_gradient,
    natural_gradient_step,
    sample,
)
from stategp.chain._sites import (
    PairMarginals,
    Sites,
    Transitions,
    expected_log_sites,
    prior_transitions,
    step_transitions,
)
from stategp.chain._square_root import Scalars, careful_log_evidence, careful_marginals
from stategp.chain._sweep import (
    Affine,
    MeanMap,
    Messages,
    Swept,
    follow,
    kl_to_prior,
    local_log_normaliser,
    log_normaliser,
    sample_prior_states,
    sample_states,
    sweep,
)

__all__ = [
    "Affine",
    "BlockBidiagonal",
    "BlockTridiagonal",
    "Expectation",
    "Innovations",
    "MeanCholesky",
    "MeanMap",
    "Messages",
    "Natural",
    "PairMarginals",
    "Potentials",
    "Scalars",
    "Sites",
    "Swept",
    "Transitions",
    "careful_log_evidence",
    "careful_marginals",
    "entropy",
    "expected_log_sites",
    "follow",
    "innovations",
    "kernel_evidence",
    "kl_divergence",
    "kl_to_prior",
    "local_log_normaliser",
    "log_density",
    "log_evidence",
    "log_normaliser",
    "natural_gradient",
    "natural_gradient_step",
    "prior_transitions",
    "psd_cholesky",
    "psd_solve",
    "reverse_subset_inverse",
    "sample",
    "sample_prior_states",
    "sample_states",
    "step_transitions",
    "sweep",
]
