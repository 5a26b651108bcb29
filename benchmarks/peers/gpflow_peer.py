"""Times GPflow: the sparse variational GP of dense matrices, in TensorFlow."""

import numpy as np

from benchmarks.peers import protocol

try:
    import gpflow
    import tensorflow as tf

    from benchmarks.peers import in_tensorflow as shared
except ImportError as error:
    protocol.fail("gpflow", error)

# Arrays of data by inducing points that a gradient cannot do without: the covariance, its product
# with the inverse Cholesky factor, and the gradients of both.
COPIES = 4
NO_EXACT = "its exact GP is one of dense matrices, cubic in the number of observations"
KERNELS = {"matern32": "Matern32", "matern52": "Matern52"}


def column(array):
    return tf.constant(array[:, None], dtype=gpflow.default_float())


def kernel_of(job):
    family = getattr(gpflow.kernels, KERNELS[job.kernel])
    return family(variance=job.variance, lengthscales=job.lengthscale)


class Problem:
    """The SVGP of one job; inducing locations stay where they are."""

    def __init__(self, job):
        what = "an array of data by inducing points"
        protocol.require_memory(len(job.x), len(job.z), copies=COPIES, what=what)
        self.job = job
        self.data = column(job.x), column(job.y)
        self.x_new = column(job.x_new)
        self.model = gpflow.models.SVGP(
            kernel_of(job), shared.likelihood_of(job), job.z[:, None], num_data=len(job.x)
        )
        gpflow.set_trainable(self.model.inducing_variable, False)
        optimiser = gpflow.optimizers.NaturalGradient(gamma=job.natural_step_size)
        q = [(self.model.q_mu, self.model.q_sqrt)]
        self.natural_step = tf.function(
            lambda: optimiser.minimize(lambda: -self.bound(), var_list=q)
        )

    @property
    def hyperparameters(self):
        return hyperparameters_of(self.job, self.model)

    @property
    def q(self):
        return [p.unconstrained_variable for p in (self.model.q_mu, self.model.q_sqrt)]

    def bound(self):
        return self.model.elbo(self.data)

    def at_optimum(self):
        shared.climb(self.job, self.natural_step, self.bound)
        return self


def hyperparameters_of(job, model):
    kernel = [model.kernel.variance, model.kernel.lengthscales]
    return [*kernel, model.likelihood.variance] if job.gaussian else kernel


def elbo(job):
    return shared.time_bound(job, Problem(job).at_optimum().bound)


def elbo_and_gradient(job):
    problem = Problem(job).at_optimum()
    return shared.time_gradient(job, problem.bound, problem.hyperparameters, problem.q)


def natural(job):
    problem = Problem(job)

    def step():
        problem.natural_step()
        return problem.model.q_mu.numpy()

    _, times = protocol.timed(job, step)
    return {"value": float(problem.bound()), **shared.words(job), **times}


def predict(job):
    """By a posterior object with what does not depend on the new points computed beforehand."""
    problem = Problem(job).at_optimum()
    posterior = problem.model.posterior()
    moments = tf.function(lambda: posterior.predict_f(problem.x_new))
    (mean, variance), times = protocol.timed(job, lambda: shared.finished(moments()))
    return {**protocol.prediction(mean, variance), **shared.words(job), **times}


def sample(job):
    new = len(job.x_new)
    protocol.require_memory(new, new, copies=3, what="a dense covariance of the new points")
    problem = Problem(job).at_optimum()
    draw = tf.function(
        lambda: problem.model.predict_f_samples(problem.x_new, job.samples, full_cov=True)
    )
    draws, times = protocol.timed(job, lambda: shared.finished(draw()))
    return {"shape": list(np.shape(draws)), **shared.words(job), **times}


def fit(job):
    if job.gaussian:
        return fit_collapsed(job)
    problem = Problem(job)
    report = shared.fit_by_adam(
        job, problem.natural_step, problem.bound, problem.hyperparameters, problem.q
    )
    return report | {"method": "SVGP, natural gradients and Adam"}


def fit_collapsed(job):
    """Gaussian observations: the bound with q maximised out (SGPR), by L-BFGS."""
    what = "an array of data by inducing points"
    protocol.require_memory(len(job.x), len(job.z), copies=COPIES, what=what)
    data = column(job.x), column(job.y)
    model = gpflow.models.SGPR(
        data, kernel_of(job), inducing_variable=job.z[:, None], noise_variance=job.noise
    )
    gpflow.set_trainable(model.inducing_variable, False)
    variables = model.trainable_variables
    compiled = model.training_loss_closure(compile=True)

    def with_gradient():
        with tf.GradientTape() as tape:
            loss = compiled()
        return shared.finished(tape.gradient(loss, variables))

    watch = protocol.Fit(job, with_gradient)

    def loss():
        value = compiled()
        watch(-value.numpy())
        return value

    report = watch.run(lambda: gpflow.optimizers.Scipy().minimize(loss, variables, compile=False))
    return report | {"method": "SGPR, L-BFGS"}


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
    protocol.main(
        "gpflow", WORKS, ["gpflow", "tensorflow", "tensorflow_probability", "numpy", "scipy"]
    )
