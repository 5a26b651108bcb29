"""From a model and data to a posterior, by the method that the settings ask for."""

import jax.numpy as jnp
import numpy as np

from stategp._data import Observations
from stategp._fitting._first_order import learn_first_order
from stategp._fitting._hyperparameters import best_of_starts, best_start
from stategp._fitting._posteriors import STUCK, infer_posterior, settled
from stategp._fitting._settings import Settings
from stategp._fitting._task import Task, check_finite, reaches, unpadded, with_result
from stategp._inference import ChainSites, Recorder
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress, pad_inducing
from stategp.parameters import to_vector

__all__ = ["STUCK", "check_finite", "learn", "reaches", "unpadded", "with_result"]


def learn(
    models: list[GP],
    data: Observations,
    inducing: np.ndarray,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> Posterior:
    """The posterior with hyperparameters learned, if any are open, from the best of some starts."""
    # Gradients on the precision of the states need them apart; others do not mind repetition.
    padded = jnp.asarray(inducing if settings.method == "gradient" else pad_inducing(inducing))
    task, model = Task(data, padded, len(inducing), settings, show), models[0]
    if settings.method == "gradient" or settings.optimiser is not None:
        return learn_first_order(model, task)
    if len(to_vector(model)) == 0:
        return infer_posterior(model, task, warm)
    model = best_start(models, task, warm)
    model, found, result = best_of_starts(model, task, warm)
    if found is None:
        posterior = infer_posterior(model, task, warm)
    else:
        posterior = settled(model, task, found, Recorder(show), "")
    return with_result(posterior, result)
