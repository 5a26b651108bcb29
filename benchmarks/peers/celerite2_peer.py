"""Times celerite2: exact GPs in linear time, in C++, with a JAX interface for gradients."""

import numpy as np

from benchmarks.peers import protocol

try:
    import celerite2
    import celerite2.jax
    import jax.numpy as jnp

    from benchmarks.peers import exact
except ImportError as error:
    protocol.fail("celerite2", error)

NOTE = "Matern32Term with its default eps, a slight approximation of the Matérn-3/2 kernel"
FACTORS = {"matern32": (1,), "four-matern32": (1, 2, 4, 8)}  # lengthscales, times the job's
NO_BOUND = "an exact GP: no variational bound and no q"


def check(job):
    protocol.require_gaussian(job)
    if job.kernel not in FACTORS:
        raise protocol.Unsupported(f"no term for {job.kernel}; celerite2 has Matérn-3/2 only")


def term_of(terms, kernel, sigma, lengthscale):
    """A sum of Matérn-3/2 terms of equal variance."""
    factors = FACTORS[kernel]
    share = sigma / np.sqrt(len(factors))
    parts = [terms.Matern32Term(sigma=share, rho=factor * lengthscale) for factor in factors]
    return sum(parts[1:], start=parts[0])


def process(job):
    """The GP of celerite2's C++ interface, factorised."""
    term = term_of(celerite2.terms, job.kernel, np.sqrt(job.variance), job.lengthscale)
    gp = celerite2.GaussianProcess(term, mean=0.0)
    gp.compute(job.x, diag=np.full(len(job.x), job.noise))
    return gp


def log_likelihood(kernel):
    """The same by celerite2.jax."""

    def function(vector, x, y):
        variance, lengthscale, noise = jnp.exp(vector)
        term = term_of(celerite2.jax.terms, kernel, jnp.sqrt(variance), lengthscale)
        gp = celerite2.jax.GaussianProcess(term, mean=0.0)
        gp.compute(x, diag=jnp.full(x.shape, noise), check_sorted=False)
        return gp.log_likelihood(y)

    return function


def evidence(job):
    check(job)
    value, times = protocol.timed(job, lambda: process(job).log_likelihood(job.y))
    return {"value": float(value), "note": NOTE, **times}


def evidence_and_gradient(job):
    check(job)
    return exact.value_and_gradient(job, log_likelihood(job.kernel)) | {"note": NOTE}


def fit(job):
    check(job)
    return exact.fit(job, log_likelihood(job.kernel)) | {"note": NOTE}


def require_dense(job):
    """The variance at new points goes through eight dense arrays of data by new points."""
    what = "a dense covariance between data and new points"
    protocol.require_memory(len(job.x), len(job.x_new), copies=8, what=what)


def predict(job):
    check(job)
    require_dense(job)
    gp = process(job)
    (mean, variance), times = protocol.timed(
        job, lambda: gp.predict(job.y, t=job.x_new, return_var=True)
    )
    return {"note": NOTE, **protocol.prediction(mean, variance), **times}


def sample(job):
    check(job)
    require_dense(job)
    what = "a dense covariance of the new points"
    protocol.require_memory(len(job.x_new), len(job.x_new), copies=3, what=what)
    gp = process(job)
    draws, times = protocol.timed(
        job, lambda: gp.condition(job.y, t=job.x_new).sample(size=job.samples)
    )
    return {"note": NOTE, "shape": list(np.shape(draws)), **times}


WORKS = {
    "elbo": NO_BOUND,
    "elbo+gradient": NO_BOUND,
    "natural-step": NO_BOUND,
    "exact": evidence,
    "exact+gradient": evidence_and_gradient,
    "predict": predict,
    "sample": sample,
    "fit": fit,
}

if __name__ == "__main__":
    protocol.main("celerite2", WORKS, ["celerite2", "jax", "jaxlib", "numpy", "scipy"])
