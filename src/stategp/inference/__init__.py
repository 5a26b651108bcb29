"""How we find q, and the hyperparameters."""

from stategp.inference._additive import (
    Layout,
    NodeSites,
    additive_bound,
    additive_infer,
    additive_objective,
    averages,
    joint_corrections,
    lay_out,
    level,
    no_node_sites,
)
from stategp.inference._additive_batches import learn_additive_in_minibatches
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
from stategp.inference._starting_values import (
    additive_scales,
    pseudo_data,
    search_scales,
    starting_additive,
    starting_model,
)

__all__ = [
    "MOST_STEPS",
    "STILL",
    "Certificate",
    "ChainSites",
    "Collapsed",
    "FitResult",
    "Layout",
    "NodeSites",
    "PowerEP",
    "Q",
    "Recorder",
    "Report",
    "Settling",
    "Sight",
    "additive_bound",
    "additive_infer",
    "additive_objective",
    "additive_scales",
    "averages",
    "collapsed_bound",
    "ep_objective",
    "evaluate",
    "evaluate_all",
    "geometry",
    "has_settled",
    "infer",
    "joint_corrections",
    "laplace_evidence",
    "laplace_objective",
    "latent_moments",
    "lay_out",
    "learn_additive_in_minibatches",
    "learn_in_minibatches",
    "learn_with_gradients",
    "learn_with_optax",
    "level",
    "maximise",
    "newton_steps",
    "no_node_sites",
    "no_sites",
    "objective_and_gradient",
    "prior_mean",
    "propagated",
    "propagation_step",
    "pseudo_data",
    "search_scales",
    "starting_additive",
    "starting_mode",
    "starting_model",
    "starting_propagation",
    "starting_state",
    "take_steps",
    "transfer_sites",
]
