"""How we find q, and the hyperparameters."""

from stategp.inference._bound import (
    ChainSites,
    Q,
    evaluate,
    geometry,
    latent_moments,
    prior_mean,
)
from stategp.inference._certificate import Certificate
from stategp.inference._gradient import learn_with_gradients
from stategp.inference._laplace import (
    laplace_evidence,
    laplace_objective,
    newton_steps,
    starting_mode,
)
from stategp.inference._lbfgs import maximise
from stategp.inference._natural import (
    Collapsed,
    Settling,
    collapsed_bound,
    evaluate_all,
    has_settled,
    infer,
    no_sites,
    objective_and_gradient,
    starting_state,
    take_steps,
    transfer_sites,
)
from stategp.inference._optax import learn_in_minibatches, learn_with_optax
from stategp.inference._power_ep import (
    MOST_STEPS,
    STILL,
    PowerEP,
    ep_objective,
    propagated,
    propagation_step,
    starting_propagation,
)
from stategp.inference._result import FitResult, Recorder, Report
from stategp.inference._seeing import Sight
from stategp.inference._starting_values import pseudo_data, search_scales, starting_model

__all__ = [
    "MOST_STEPS",
    "STILL",
    "Certificate",
    "ChainSites",
    "Collapsed",
    "FitResult",
    "PowerEP",
    "Q",
    "Recorder",
    "Report",
    "Settling",
    "Sight",
    "collapsed_bound",
    "ep_objective",
    "evaluate",
    "evaluate_all",
    "geometry",
    "has_settled",
    "infer",
    "laplace_evidence",
    "laplace_objective",
    "latent_moments",
    "learn_in_minibatches",
    "learn_with_gradients",
    "learn_with_optax",
    "maximise",
    "newton_steps",
    "no_sites",
    "objective_and_gradient",
    "prior_mean",
    "propagated",
    "propagation_step",
    "pseudo_data",
    "search_scales",
    "starting_mode",
    "starting_model",
    "starting_propagation",
    "starting_state",
    "take_steps",
    "transfer_sites",
]
