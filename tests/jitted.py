"""Functions of the chain, each compiled as one program: called as they are, every operation in
them would be compiled on its own, which takes longer than the tests themselves."""

import jax

from stategp import chain

prior_transitions = jax.jit(chain.prior_transitions)
step_transitions = jax.jit(chain.step_transitions)
sweep = jax.jit(chain.sweep, static_argnames=("how", "indefinite"))
kl_to_prior = jax.jit(chain.kl_to_prior)
sample_states = jax.jit(chain.sample_states, static_argnames=("num_samples", "indefinite"))
