"""Optax on the hyperparameters, in minibatches or not, and one optimiser on everything."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._fitting._posteriors import natural
from stategp._fitting._task import Task, as_posterior, check_finite, reaches, with_result
from stategp._inference import (
    Sight,
    evaluate_all,
    learn_in_minibatches,
    learn_with_gradients,
    learn_with_optax,
    search_scales,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.parameters import to_vector, with_vector


def learn_first_order(model: GP, task: Task) -> Posterior:
    scales = search_scales(model, task.data)
    scaled = np.asarray(to_vector(model)) / scales
    arguments: Any = (model, task.data, task.inducing, scaled, scales, task.settings.optimiser)
    limits: Any = {"max_steps": task.settings.max_steps, "report": task.show}
    if task.settings.method == "gradient":
        scaled, sites, result = learn_with_gradients(
            *arguments,
            batch_size=task.settings.batch_size,
            seed=task.settings.seed,
            reach=reaches(model),
            tolerance=task.settings.tolerance,
            **limits,
        )
    elif task.settings.batch_size is not None:
        scaled, sites, result = learn_in_minibatches(
            *arguments,
            batch_size=task.settings.batch_size,
            step_size=task.settings.step_size,
            seed=task.settings.seed,
            tolerance=task.settings.tolerance,
            **limits,
        )
    else:
        scaled, sites, result = learn_with_optax(
            *arguments, tolerance=task.settings.tolerance or 1e-6, **limits
        )
    model = with_vector(model, jnp.asarray(scaled * scales))
    if task.settings.method == "natural" and task.settings.batch_size is None:
        warm = None if model.likelihood.conjugate else sites
        return with_result(natural(model, task, warm), result)
    negative = task.settings.method == "gradient"  # its q is any Gaussian chain
    view, _ = Sight(task.data, task.inducing)(model)
    q = evaluate_all(model, view, task.inducing, sites, indefinite=negative)
    check_finite(model, q.elbo)
    return as_posterior(model, task, q.sites, q.marginals, q.elbo, result, indefinite=negative)
