"""From a model and data to a posterior, by the method that the settings ask for."""

import jax.numpy as jnp
import numpy as np

from stategp.data import Observations
from stategp.inference import ChainSites, Recorder
from stategp.learning._first_order import learn_first_order
from stategp.learning._hyperparameters import best_of_starts, best_start
from stategp.learning._posteriors import STUCK, infer_posterior, settled
from stategp.learning._task import Task, check_finite, reaches, unpadded, with_result
from stategp.models import GP
from stategp.parameters import to_vector
from stategp.posterior import Posterior
from stategp.progress import Progress
from stategp.settings import Settings
from stategp.shapes import pad_inducing

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
