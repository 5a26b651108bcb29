"""How Gauss–Markov chains compute."""

from stategp.chain._linalg import psd_cholesky, psd_solve
from stategp.chain._sites import (
    PairMarginals,
    Sites,
    Transitions,
    expected_log_sites,
    prior_transitions,
)
from stategp.chain._sweep import (
    Messages,
    Swept,
    kl_to_prior,
    local_log_normaliser,
    log_normaliser,
    sample,
    sweep,
)

__all__ = [
    "Messages",
    "PairMarginals",
    "Sites",
    "Swept",
    "Transitions",
    "expected_log_sites",
    "kl_to_prior",
    "local_log_normaliser",
    "log_normaliser",
    "prior_transitions",
    "psd_cholesky",
    "psd_solve",
    "sample",
    "sweep",
]
