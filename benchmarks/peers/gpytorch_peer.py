"""Times GPyTorch: the sparse variational GP of dense matrices, in PyTorch."""

import copy

import numpy as np

from benchmarks.peers import protocol

try:
    import gpytorch
    import torch
    from gpytorch.variational import (
        CholeskyVariationalDistribution,
        NaturalVariationalDistribution,
        VariationalStrategy,
    )
except ImportError as error:
    protocol.fail("gpytorch", error)

torch.set_default_dtype(torch.float64)

# Arrays of data by inducing points that a gradient cannot do without: the covariance, its product
# with the inverse Cholesky factor, and the gradients of both.
COPIES = 4
NO_EXACT = "its exact GP is one of dense matrices, cubic in the number of observations"
SMOOTHNESS = {"matern32": 1.5, "matern52": 2.5}
STEPS_TO_OPTIMUM = 50


class Sparse(gpytorch.models.ApproximateGP):
    """The model as in GPyTorch's tutorials; inducing locations stay where they are."""

    def __init__(self, job, distribution):
        z = torch.as_tensor(job.z)[:, None]
        strategy = VariationalStrategy(
            self, z, distribution(len(job.z)), learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        matern = gpytorch.kernels.MaternKernel(nu=SMOOTHNESS[job.kernel])
        matern.lengthscale = job.lengthscale
        self.covar_module = gpytorch.kernels.ScaleKernel(matern)
        self.covar_module.outputscale = job.variance

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Problem:
    """Model, likelihood, data and bound of one job."""

    def __init__(self, job, distribution=CholeskyVariationalDistribution):
        what = "an array of data by inducing points"
        protocol.require_memory(len(job.x), len(job.z), copies=COPIES, what=what)
        self.job = job
        self.x, self.y = torch.as_tensor(job.x)[:, None], torch.as_tensor(job.y)
        self.x_new = torch.as_tensor(job.x_new)[:, None]
        self.model = Sparse(job, distribution)
        self.likelihood = likelihood_of(job)
        self.mll = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, len(job.y))
        self.model.train()
        self.likelihood.train()
        self.mean_bound()  # GPyTorch sets q to the prior in its first call

    @property
    def q(self):
        return self.model.variational_strategy._variational_distribution

    @property
    def hyperparameters(self):
        """Unconstrained parameters and their constraints: variance, lengthscale, noise."""
        scale = self.model.covar_module
        found = [
            (scale.raw_outputscale, scale.raw_outputscale_constraint),
            (scale.base_kernel.raw_lengthscale, scale.base_kernel.raw_lengthscale_constraint),
        ]
        if self.job.gaussian:
            noise = self.likelihood.noise_covar
            found.append((noise.raw_noise, noise.raw_noise_constraint))
        return found

    def mean_bound(self):
        """The bound per observation, which is what GPyTorch maximises."""
        return self.mll(self.model(self.x), self.y)

    def bound(self):
        with torch.no_grad():
            return len(self.y) * self.mean_bound().item()

    def backward(self):
        """The bound, and its gradient left in every parameter's .grad."""
        for parameter in [*self.model.parameters(), *self.likelihood.parameters()]:
            parameter.grad = None
        loss = -self.mean_bound()
        loss.backward()
        return -len(self.y) * loss.item()


def likelihood_of(job):
    if not job.gaussian:
        return gpytorch.likelihoods.BernoulliLikelihood()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = job.noise
    return likelihood


def words(job):
    """What the report says about the likelihood: Bernoulli has no other link than probit."""
    return {} if job.gaussian else {"link": "probit"}


def natural_step(problem):
    optimiser = gpytorch.optim.NGD(
        problem.model.variational_parameters(), len(problem.y), lr=problem.job.natural_step_size
    )

    def step():
        value = problem.backward()
        optimiser.step()
        return value

    return step


def at_optimum(job):
    """A problem with q at its optimum, found by natural gradients: one step if Gaussian."""
    natural = Problem(job, NaturalVariationalDistribution)
    step = natural_step(natural)
    values = [step()]
    while not job.gaussian and len(values) < STEPS_TO_OPTIMUM:
        values.append(step())
        if abs(values[-1] - values[-2]) < 1e-9 * abs(values[-1]):
            break
    problem = Problem(job)
    with torch.no_grad():
        q = natural.q()
        problem.q.variational_mean.copy_(q.mean)
        problem.q.chol_variational_covar.copy_(torch.linalg.cholesky(q.covariance_matrix))
    return problem


def elbo(job):
    problem = at_optimum(job)
    value, times = protocol.timed(job, problem.bound)
    return {"value": value, **words(job), **times}


def elbo_and_gradient(job):
    problem = at_optimum(job)
    value, times = protocol.timed(job, problem.backward)
    gradient = [len(job.y) * in_logarithm(*pair) for pair in problem.hyperparameters]
    gradient += [None] * (3 - len(gradient))
    return {"value": value, "gradient": gradient, **words(job), **times}


def in_logarithm(raw, constraint):
    """The gradient of the bound per observation in the logarithm of a constrained parameter."""
    unconstrained = raw.detach().clone().requires_grad_()
    value = constraint.transform(unconstrained)
    (slope,) = torch.autograd.grad(value.sum(), unconstrained)
    return float((-raw.grad * value / slope).detach())


def natural(job):
    problem = Problem(job, NaturalVariationalDistribution)
    _, times = protocol.timed(job, natural_step(problem))
    return {"value": problem.bound(), **words(job), **times}


def predict(job):
    problem = at_optimum(job)
    problem.model.eval()

    def moments():
        with torch.no_grad():
            f = problem.model(problem.x_new)
            return f.mean.numpy(), f.variance.numpy()

    (mean, variance), times = protocol.timed(job, moments)
    return {**protocol.prediction(mean, variance), **words(job), **times}


def sample(job):
    new = len(job.x_new)
    protocol.require_memory(new, new, copies=3, what="a dense covariance of the new points")
    problem = at_optimum(job)
    problem.model.eval()

    def draw():
        with torch.no_grad():
            return problem.model(problem.x_new).rsample(torch.Size([job.samples])).numpy()

    draws, times = protocol.timed(job, draw)
    return {"shape": list(np.shape(draws)), **words(job), **times}


def fit(job):
    """Natural gradients on q and Adam on the hyperparameters, in turn, as its tutorial has it."""
    problem = Problem(job, NaturalVariationalDistribution)
    state = copy.deepcopy((problem.model.state_dict(), problem.likelihood.state_dict()))
    adam = torch.optim.Adam([raw for raw, _ in problem.hyperparameters], lr=job.learning_rate)
    step = natural_step(problem)

    def once():
        step()
        problem.model.load_state_dict(state[0])
        problem.likelihood.load_state_dict(state[1])

    watch = protocol.Fit(job, once)

    def run():
        while True:
            step()
            watch(problem.backward())
            adam.step()

    report = watch.run(run)
    return report | {"method": "SVGP, natural gradients and Adam", **words(job)}


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
    protocol.main("gpytorch", WORKS, ["gpytorch", "torch", "linear_operator", "numpy"])
