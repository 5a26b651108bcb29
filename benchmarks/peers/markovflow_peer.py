"""Times Markovflow: doubly sparse variational GPs, in TensorFlow and C++.

The bound is that of SparseVariationalGaussianProcess, whose q has parameters of its own; natural
steps and fits are those of SparseCVIGaussianProcess, whose q is the prior times Gaussian sites.
"""

import numpy as np

from benchmarks.peers import protocol

try:
    import gpflow
    import markovflow
    import tensorflow as tf
    from markovflow.models import SparseCVIGaussianProcess, SparseVariationalGaussianProcess

    from benchmarks.peers import in_tensorflow as shared
except ImportError as error:
    protocol.fail("markovflow", error)

NO_EXACT = "its exact GP, a Kalman filter, is not timed here"
KERNELS = {"matern32": "Matern32", "matern52": "Matern52"}


class Problem:
    """The two sparse models of one job, with the same kernel, likelihood and inducing points."""

    def __init__(self, job):
        self.job = job
        self.data = tf.constant(job.x), tf.constant(job.y[:, None])
        self.x_new = tf.constant(job.x_new)
        self.z = tf.constant(job.z)
        family = getattr(markovflow.kernels, KERNELS[job.kernel])
        self.kernel = family(lengthscale=job.lengthscale, variance=job.variance)
        self.likelihood = shared.likelihood_of(job)
        self.sites = SparseCVIGaussianProcess(
            self.kernel, self.z, self.likelihood, learning_rate=job.natural_step_size
        )
        self.natural_step = tf.function(lambda: self.sites.update_sites(self.data))

    @property
    def hyperparameters(self):
        kernel = [self.kernel.variance, self.kernel.lengthscale]
        return [*kernel, self.likelihood.variance] if self.job.gaussian else kernel

    @property
    def q(self):
        return [self.sites.nat1.unconstrained_variable, self.sites.nat2.unconstrained_variable]

    def bound_of_sites(self):
        return self.sites.classic_elbo(self.data)

    def at_optimum(self):
        """The model with a q of its own, that q being the best one, found by natural steps."""
        shared.climb(self.job, self.natural_step, self.bound_of_sites)
        return SparseVariationalGaussianProcess(
            self.kernel, self.likelihood, self.z, initial_distribution=self.sites.dist_q
        )


def elbo(job):
    problem = Problem(job)
    model = problem.at_optimum()
    return shared.time_bound(job, lambda: model.elbo(problem.data))


def elbo_and_gradient(job):
    problem = Problem(job)
    model = problem.at_optimum()
    q = model.dist_q.trainable_variables
    return shared.time_gradient(job, lambda: model.elbo(problem.data), problem.hyperparameters, q)


def natural(job):
    problem = Problem(job)

    def step():
        problem.natural_step()
        return problem.sites.nat1.numpy()

    _, times = protocol.timed(job, step)
    return {"value": float(problem.bound_of_sites()), **shared.words(job), **times}


def predict(job):
    problem = Problem(job)
    model = problem.at_optimum()
    moments = tf.function(lambda: model.posterior.predict_f(problem.x_new))
    (mean, variance), times = protocol.timed(job, lambda: shared.finished(moments()))
    return {**protocol.prediction(mean, variance), **shared.words(job), **times}


def sample(job):
    problem = Problem(job)
    model = problem.at_optimum()
    draw = tf.function(lambda: model.posterior.sample_f(problem.x_new, (job.samples,)))
    draws, times = protocol.timed(job, lambda: shared.finished(draw()))
    return {"shape": list(np.shape(draws)), **shared.words(job), **times}


def fit(job):
    problem = Problem(job)
    report = shared.fit_by_adam(
        job, problem.natural_step, problem.bound_of_sites, problem.hyperparameters, problem.q
    )
    return report | {"method": "sites, natural gradients and Adam"}


WORKS = {
    "elbo": elbo,
    "elbo+gradient": elbo_and_gradient,
    "natural-step": natural,
    "exact": NO_EXACT,
    "exact+gradient": NO_EXACT,
    "predict": predict,
    "sample": sample,
    "fit": fit,
}

if __name__ == "__main__":
    gpflow.config.set_default_float(np.float64)
    protocol.main(
        "markovflow",
        WORKS,
        ["markovflow", "banded_matrices", "gpflow", "tensorflow", "numpy"],
    )
