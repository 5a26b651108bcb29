"""`condition` and `fit`: the two doors."""

from typing import Any, Unpack, overload

from stategp._data import Summary
from stategp._fitting._checkpointing import as_checkpoints
from stategp._fitting._options import ConditionOptions, FitOptions, Numbers, Table
from stategp._fitting._requests import Request, answer
from stategp._models import (
    GP,
    AdditiveGP,
    DeepGP,
    JointGP,
    MultiOutputGP,
    SpaceTimeGP,
    StackedGP,
)
from stategp._posteriors import (
    AdditivePosterior,
    DeepPosterior,
    JointPosterior,
    MultiOutputPosterior,
    Posterior,
    SpaceTimePosterior,
    StackedPosterior,
)
from stategp._streams import Stream


@overload
def condition(
    model: GP, x: Numbers, y: Numbers, **options: Unpack[ConditionOptions]
) -> Posterior: ...
@overload
def condition(model: GP, x: Summary | Stream, **options: Unpack[ConditionOptions]) -> Posterior: ...
@overload
def condition(
    model: AdditiveGP, x: Table, y: Numbers, **options: Unpack[ConditionOptions]
) -> AdditivePosterior: ...
@overload
def condition(
    model: MultiOutputGP, x: Any, y: Any, **options: Unpack[ConditionOptions]
) -> MultiOutputPosterior: ...
@overload
def condition(
    model: JointGP, x: Numbers, y: Numbers, **options: Unpack[ConditionOptions]
) -> JointPosterior: ...
@overload
def condition(
    model: SpaceTimeGP, x: Any, y: Any, **options: Unpack[ConditionOptions]
) -> SpaceTimePosterior: ...
@overload
def condition(
    model: StackedGP, x: Any, y: Any, **options: Unpack[ConditionOptions]
) -> StackedPosterior: ...
@overload
def condition(
    model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Unpack[ConditionOptions]
) -> DeepPosterior: ...
def condition(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    inducing: Any = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    censored: Any = None,
    weights: Any = None,
    method: Any = "natural",
    optimiser: Any = None,
    batch_size: Any = None,
    step_size: Any = None,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    progress: Any = None,
) -> Any:
    """The posterior for fixed hyperparameters.

    Arguments:
        model: the prior of the function and how it is observed. Instead of a deep model its
            posterior can be given; the search then starts from it.
        x: inputs, one-dimensional, in any order; repeated values are fine. Additive models: an
            array with a column for each kernel, a dictionary of columns or a data frame. Space and
            time (`sg.SpaceTimeGP`): a pair (times, places), or a table with the time first; y with
            two axes has a row for each time and a column for each place.
        y: observations; NaN means missing. Several outputs (`sg.MultiOutputGP`): a column for each,
            as an array, a dictionary or a data frame; or, if they were observed at different times,
            a list of arrays for x and for y, or x=(inputs, outputs) and y with a number for each.
            An `sg.GP` also takes a summary of the data (`sg.summarise`) alone, in the place of x
            and y.
        inducing: the inducing points: "auto" (one at every input if that is cheap, else as many as
            are needed, see `posterior.certificate`; `sg.Auto(tolerance=…)` sets the accuracy), a
            number (placed at quantiles of x over its range), an increasing array of locations, or
            "data" (every input, no approximation). Additive models: one of these for all inputs, or
            a dictionary or list with one for each; their number is not chosen automatically: "auto"
            is 64, or the number of distinct values if that is smaller, and `sg.Auto` is refused.
        noise_variance: Gaussian observations: known noise variances, one number or one per
            observation, added to that of the likelihood.
        exposure: counts: what the rate is multiplied by, one number or one per observation.
        trials: binomial observations: the number of trials, one number or one per observation.
        censored: observations known within limits (`sg.likelihoods.Censored`): for each 0, a width,
            or ±∞; `sg.likelihoods.within` makes it from limits.
        weights: the number of times each observation counts, by default once.
        method: how the posterior is approximated. "natural": the variational optimum by natural
            gradients, which for Gaussian observations is exact and takes one step. "gradient": the
            same optimum by a general optimiser, on the mean and precision factor of q. Other
            approximations are "laplace", "ep" (or `sg.PowerEP`) and, for logistic Bernoulli, "vb";
            for given hyperparameters also "posterior_linearisation", "unscented", "extended",
            "gauss_newton", `sg.BayesNewton` and `sg.ImportanceWeighted`.
        optimiser: "lbfgs", "adam", or any Optax optimiser; for `fit` and for method="gradient".
            By default L-BFGS, or Adam with minibatches.
        batch_size: observations per step; by default all of them.
        step_size: step size of the natural gradient in minibatches (additive models: whenever an
            Optax optimiser moves the hyperparameters): a number, or an Optax schedule.
        seed: seed of the minibatches.
        max_steps: the maximum number of steps.
        tolerance: when to stop. Inference: how little q moves, in nats per observation (EP: the
            largest relative change of a site). L-BFGS: the gradient per observation. Optax: how
            little the bound rises per observation; with minibatches all steps are taken unless
            this is given.
        progress: whether to show the bound on standard error; by default only on a terminal.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    >>> posterior = sg.condition(model, np.arange(10), np.sin(np.arange(10)), inducing=5)
    """
    none = {"starts": 1, "checkpoint": None, "every": "5min", "resume": False}
    return answer(_request(locals() | none, learn=False))


@overload
def fit(model: GP, x: Numbers, y: Numbers, **options: Unpack[FitOptions]) -> Posterior: ...
@overload
def fit(model: GP, x: Summary | Stream, **options: Unpack[FitOptions]) -> Posterior: ...
@overload
def fit(
    model: AdditiveGP, x: Table, y: Numbers, **options: Unpack[FitOptions]
) -> AdditivePosterior: ...
@overload
def fit(
    model: MultiOutputGP, x: Any, y: Any, **options: Unpack[FitOptions]
) -> MultiOutputPosterior: ...
@overload
def fit(
    model: JointGP, x: Numbers, y: Numbers, **options: Unpack[FitOptions]
) -> JointPosterior: ...
@overload
def fit(
    model: SpaceTimeGP, x: Any, y: Any, **options: Unpack[FitOptions]
) -> SpaceTimePosterior: ...
@overload
def fit(model: StackedGP, x: Any, y: Any, **options: Unpack[FitOptions]) -> StackedPosterior: ...
@overload
def fit(
    model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Unpack[FitOptions]
) -> DeepPosterior: ...
def fit(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    inducing: Any = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    censored: Any = None,
    weights: Any = None,
    method: Any = "natural",
    optimiser: Any = None,
    batch_size: Any = None,
    step_size: Any = None,
    starts: Any = 1,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    checkpoint: Any = None,
    every: Any = "5min",
    resume: Any = False,
    progress: Any = None,
) -> Any:
    """Learn the hyperparameters, then infer the posterior.

    Maximises the bound (plus the log priors, if parameters have any). Hyperparameters without a
    value get starting values from the data; fixed ones do not change. A fit that did not converge
    gives a warning and says so in `posterior.fit_result`. After Ctrl-C the best result so far is
    returned.

    Arguments are those of `condition`, and these:

    Arguments:
        starts: the number of starting points for L-BFGS; the best result is kept.
        seed: seed of minibatches, and of the random starting points after the first.
        checkpoint: a file in which a long fit remembers how far it is, so that it can go on after
            its process has ended, for whatever reason. It stays when the fit is over.
        every: how often the file is written, a duration ("5min") or seconds.
        resume: go on from the file, if it is there. Everything else must be as it was, and the
            answer is the one that the fit would have given.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x))
    >>> posterior.fit_result.converged
    True
    """
    return answer(_request(locals(), learn=True))


def _request(arguments: dict[str, Any], *, learn: bool) -> Request:
    """The arguments of a door by name, sorted by what they are about."""

    def chosen(*names: str) -> dict[str, Any]:
        return {name: arguments[name] for name in names}

    checkpoints = as_checkpoints(**chosen("checkpoint", "every", "resume"))
    if checkpoints is not None:
        checkpoints.check_together()
    return Request(
        **chosen("model", "x", "y", "inducing", "weights", "method", "progress"),
        extras=chosen("noise_variance", "exposure", "trials", "censored"),
        options=chosen(
            "optimiser", "batch_size", "step_size", "starts", "seed", "max_steps", "tolerance"
        ),
        checkpoints=checkpoints,
        learn=learn,
    )
