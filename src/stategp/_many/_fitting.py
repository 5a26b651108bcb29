"""`fit_many`: one model, many series."""

import warnings
from typing import Any

import numpy as np

from stategp._data import Observations, observe
from stategp._fitting import (
    NOT_BEGUN,
    TOGETHER,
    Checkpoints,
    FitOptions,
    InParts,
    Item,
    LearnedItem,
    NotConvergedWarning,
    check_share,
    fit,
    goes_together,
    learn_many,
    settings_of,
    table_checkpoints,
)
from stategp._forecasting import LongForm, Raw, read_long, read_pairs, read_series
from stategp._inference import Outcome
from stategp._many._collecting import collect, merged
from stategp._many._posteriors import ManyPosteriors
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import check_jobs, in_jobs, refuse_traced


def fit_many(
    model: Any,
    data: Any,
    *,
    by: Any = None,
    time: str = "ds",
    target: str = "y",
    share: str = "none",
    n_jobs: Any = None,
    noise_variance: str | None = None,
    exposure: str | None = None,
    trials: str | None = None,
    weights: str | None = None,
    date_format: str | None = None,
    progress: Any = None,
    **options: Any,
) -> ManyPosteriors:
    """Fit a model to many series: one by one in effect, side by side in the computer.

    Gaussian observations are fitted exactly, many series in one compiled program, on all cores;
    each gets what `sg.fit` would find for it. Other likelihoods are fitted one after another. A
    series that cannot be fitted is listed in `failures` and does not stop the others; fits that
    did not converge give one warning. After Ctrl-C those that were fitted until then are returned.

    Arguments:
        model: an `sg.GP`.
        data: a long frame (pandas, polars, pyarrow) with rows in any order; or a dictionary or a
            list of pairs (x, y).
        by: the column of the frame that tells series apart, or a list of such columns.
        time: the column of times: dates (measured in days) or numbers.
        target: the column of observations; an empty one is missing.
        share: "none": each series learns its own hyperparameters. "all": they have one value for
            all series together. "prior": each has its own, under a prior that is learned from all,
            so that short series borrow from long ones (a prior that the model has stays as it is).
            Levels and slopes of mean functions are never shared.
        n_jobs: divide the series among so many processes, by the backend that joblib has or was
            told to use (Dask's, Ray's, Spark's); by default they stay in this one, on all cores.
        noise_variance: a column, as are `exposure`, `trials` and `weights`; see `sg.condition`.
        date_format: how dates are written, if they are texts that could be read in several ways.
        progress: whether to show how many series are done; by default only on a terminal.

    Other options are those of `sg.fit`. With `checkpoint`, the file holds the series that are
    finished; ``resume=True`` goes on with the others.

    >>> import numpy as np, pandas as pd, stategp as sg
    >>> t = np.tile(np.arange(40.0), 2)
    >>> y = np.sin(t / np.repeat([3.0, 6.0], 40)) + 0.1 * np.cos(17 * t)
    >>> frame = pd.DataFrame({"sensor": np.repeat(["a", "b"], 40), "ds": t, "y": y})
    >>> many = sg.fit_many(sg.GP(sg.kernels.Matern52()), frame, by="sensor")
    >>> many
    ManyPosteriors(2 series: 2 converged)
    >>> list(many.forecast(3.0).columns)
    ['sensor', 'ds', 'mean', 'lower_95', 'upper_95']
    """
    if not isinstance(model, GP):
        raise ValueError(f"model must be an sg.GP, got {type(model).__name__}: {model!r}")
    refuse_traced("the model", model)
    options, checkpoints = _check_options(model, share, n_jobs, options)
    columns = {
        "noise_variance": noise_variance,
        "exposure": exposure,
        "trials": trials,
        "weights": weights,
    }
    if by is None:
        for name in (name for name, column in columns.items() if column is not None):
            raise ValueError(f"{name} is the name of a column, and needs a frame and `by`")
        source, raws = read_pairs(data)
    else:
        long = read_long(data, by, time, target)
        source, raws = read_series(long, time, target, columns, date_format)
    if checkpoints is not None:
        many = _remembering(checkpoints, model, source, raws, options, progress)
    elif n_jobs is None or len(raws) < 2:
        many = fit_series(model, source, raws, share, options, progress)
    else:

        def given(numbers: np.ndarray) -> tuple[Any, ...]:
            some = [raws[number] for number in numbers.tolist()]
            return model, source, some, share, options, False

        many = merged(in_jobs(n_jobs, len(raws), fit_series, given))
    _warn(many)
    return many


def _remembering(
    checkpoints: Checkpoints,
    model: GP,
    source: LongForm,
    raws: list[Raw],
    options: dict[str, Any],
    progress: Any,
) -> ManyPosteriors:
    """All of these series, of which a file remembers those that are finished."""

    def some(numbers: np.ndarray) -> list[Raw]:
        return [raws[number] for number in numbers.tolist()]

    def fit_some(numbers: np.ndarray) -> ManyPosteriors:
        return fit_series(model, source, some(numbers), "none", options, False)

    def not_begun(numbers: np.ndarray) -> ManyPosteriors:
        rest = [raw.key for raw in some(numbers)]
        nothing = LearnedItem(None, [], np.nan, None, NOT_BEGUN)
        return collect(model, source, rest, [None] * len(rest), [nothing] * len(rest), "none")

    in_parts = InParts(checkpoints, model, fit_some, merged, _interrupted, not_begun)
    parts = {"the model": model, "the data": raws, "the options": options}
    size = TOGETHER if goes_together(model, options) else 1
    return in_parts(len(raws), size, parts, progress)


def _interrupted(many: ManyPosteriors) -> bool:
    ended = [result.outcome for result in many.results if result is not None]
    return Outcome.interrupted in ended or NOT_BEGUN in many.problems


def fit_series(
    model: GP, source: LongForm, raws: list[Raw], share: str, options: dict[str, Any], progress: Any
) -> ManyPosteriors:
    """All of these series, in this process."""
    observed = [_observed(model, raw) for raw in raws]
    good = [n for n, series in enumerate(observed) if isinstance(series, Observations)]
    items = [Item(model, series) for series in observed if isinstance(series, Observations)]

    def alone(number: int) -> Posterior:
        raw = raws[good[number]]
        posterior: Posterior = fit(model, raw.x, raw.y, **raw.extras, **options, progress=False)
        return posterior

    learned: list[LearnedItem] = [
        LearnedItem(None, [], np.nan, None, "" if isinstance(found, Observations) else found)
        for found in observed
    ]
    found, shared = learn_many(items, alone, share=share, options=options, progress=progress)
    for number, one in zip(good, found, strict=True):
        learned[number] = one
    series = [one if isinstance(one, Observations) else None for one in observed]
    return collect(shared or model, source, [raw.key for raw in raws], series, learned, share)


def _warn(many: ManyPosteriors) -> None:
    """As `fit` does of one series."""
    results = [result for result in many.results if result is not None]
    bad = [result for result in results if not result.converged]
    if bad:
        number = "one series" if len(bad) == 1 else f"{len(bad):,} series"
        words = f"the fits of {number} of {len(many):,} did not converge (see `table`)"
        warnings.warn(f"{words}; the first: {bad[0]}", NotConvergedWarning, stacklevel=3)


def _check_options(
    model: GP, share: str, n_jobs: Any, options: dict[str, Any]
) -> tuple[dict[str, Any], Checkpoints | None]:
    """The options of the fit of one series, and where the table of all is remembered."""
    check_jobs(n_jobs)
    for name in options:
        if name not in FitOptions.__annotations__:
            raise TypeError(f"fit_many has no option {name!r}; those of sg.fit are accepted")
    check_share(share, n_jobs)
    options, checkpoints = table_checkpoints(options, share, n_jobs)
    settings_of(model, options)
    if share != "none" and not goes_together(model, options):
        raise ValueError(
            f"share={share!r} is for Gaussian observations with a state at every input (the "
            "defaults of sg.fit); with other likelihoods or options use share='none'"
        )
    return options, checkpoints


def _observed(model: GP, raw: Raw) -> Observations | str:
    """A series as it will be fitted, or why it cannot be."""
    if raw.problem:
        return raw.problem
    extras = {name: value for name, value in raw.extras.items() if name != "weights"}
    try:
        return observe(
            raw.x, raw.y, model.likelihood, extras=extras, weights=raw.extras.get("weights")
        )
    except ValueError as error:
        return str(error)
