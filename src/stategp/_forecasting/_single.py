"""One series: from a frame, or a stream of files, to what a fit leaves behind."""

import dataclasses
import sys
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Summary, check_support, extra_values
from stategp._expressions import parse_kernel
from stategp._fitting import fit
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._beside import Beside
from stategp._forecasting._choosing import choose
from stategp._forecasting._coefficients import roughly_without
from stategp._forecasting._defaults import default_model, refuse_durations, with_weak_priors
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._frames import as_frame, kind_of, names_in, number_column, time_column
from stategp._forecasting._instants import Instants
from stategp._forecasting._learning import Series
from stategp._forecasting._lessons import Lessons
from stategp._forecasting._patterns import fit_beside
from stategp._forecasting._regression import fit_with_effects
from stategp._forecasting._regressors import make_design, say
from stategp._forecasting._scales import refuse_beyond
from stategp._forecasting._steps import fitting_axis
from stategp._forecasting._streamed import fine_enough, read_stream
from stategp._forecasting._words import tell_apart, without_comparison
from stategp._models import GP, as_likelihood
from stategp._posteriors import Posterior
from stategp._streams import Stream
from stategp.likelihoods import Bounded, Censored, Gaussian, Likelihood, within
from stategp.means import Constant, Periodic

EXTRAS = ("noise_variance", "exposure", "trials")
LIMITS = ("lower", "upper")  # of values that are known within them
_FEWEST, _MOST = 4, 50_000  # times, and observations, for which models are compared
_MOST_OTHERS = 20_000  # if they are not Gaussian
_LEARNING = {"starts", "seed", "max_steps", "tolerance"}  # options that every search can have


class Wish(NamedTuple):
    """What was asked of `Forecaster.fit`, beside the data."""

    time: str
    target: str
    columns: dict[str, str | None]  # that are read beside the target, by what they are for
    date_format: str | None
    progress: Any
    options: dict[str, Any]
    limits: Any = None  # columns of limits of hidden values
    share: str = "none"  # what many series have in common
    lessons: Lessons | None = None  # what others have taught


def fit_frame(asked: Any, frame: Any, wish: Wish) -> Fitted:
    """What a forecaster (`asked`) learns from a frame."""
    time, target = names_in(frame, wish.time, wish.target)
    if time == target:
        raise ValueError(f"time and target are both column {time!r}; they must differ")
    name, table = f"column {target!r}", as_frame(frame, time, target)
    instants = time_column(table, time, layout=wish.date_format)
    axis = _axis(asked, instants)
    x, y = axis.numbers(instants, f"column {time!r}"), number_column(table, target)
    likelihood, values, limits = as_likelihood(asked.likelihood), {}, as_limits(wish.limits)
    if limits:
        likelihood = _censored(likelihood)
        y, values["censored"] = read_within(table, limits, y)
    if not np.any(np.isfinite(y)):
        raise ValueError(f"{name} has no numbers: nothing to fit")
    named = {what: column for what, column in wish.columns.items() if column is not None}
    beside: dict[str, Any] = {what: number_column(table, column) for what, column in named.items()}
    extras = {what: column for what, column in named.items() if what in EXTRAS}
    beside |= values
    values |= {what: beside[what] for what in extras}
    refuse_beyond(y, asked.floor, asked.cap, name)
    extra = extra_values(likelihood, len(y), values, needed=np.isfinite(y))
    check_support(likelihood, name, y, extra)
    effects = asked.regressors, asked.holidays, asked.events, asked.changepoints
    design, seen = make_design(effects, table, axis, (x, y), target)
    dated = {} if wish.date_format is None else {"date_format": wish.date_format}
    shown = {"limits": tuple(map(limits.get, LIMITS))} if limits else {}
    call = call_text(
        asked, f"frame, time={time!r}, target={target!r}", named | dated | shown | wish.options
    )
    about = axis, time, target, kind_of(table), extras | limits, call
    compares = wish.options.keys() <= _LEARNING and chooses(asked, likelihood, x[seen])
    plain = plainly_normal(likelihood) and not values
    if (asked.floor is not None or asked.cap is not None) and not (compares and plain):
        likelihood = _within_limits(asked, likelihood, name, y, extra)
    if design is not None:
        y = np.where(seen, y, np.nan)
        say(design, x[seen], wish.progress)
    if compares:
        given = Beside(design, None if plainly_normal(likelihood) else likelihood, values)
        return _compared(asked, x, y, beside.get("weights"), given, about, wish)
    f = likelihood.guess(y[seen], extra[seen]).reshape(int(seen.sum()), -1)[:, 0]
    learn: Any = fit
    if design is not None:
        f = roughly_without(design, x[seen], f)
        learn = partial(fit_with_effects, design)
    model = asked_model(asked, (x[seen], f), likelihood, axis, wish.progress)
    normal = design is None and type(likelihood) is Gaussian and asked.mean is None
    if normal and isinstance(model.mean, Periodic):
        learn = partial(fit_beside, model.mean)
    posterior: Posterior = learn(
        model, x, y, inducing=asked.inducing, progress=wish.progress, **beside, **wish.options
    )
    return Fitted(posterior, *about, findings=_said_of(asked, posterior))


def _said_of(asked: Any, posterior: Posterior) -> tuple[str, ...]:
    return (without_comparison(posterior.model),) if asked.kernel is None else ()


def fit_stream(asked: Any, stream: Stream, wish: Wish) -> Fitted:
    """What a forecaster learns from files that are read once."""
    if asked.regressors or asked.holidays or asked.events or asked.changepoints:
        raise ValueError("a stream is read without regressors, holidays, events and changepoints")
    if asked.floor is not None or asked.cap is not None:
        raise ValueError("a stream is summed up on the scale of y: leave floor and cap out")
    read = wish.columns | {"date_format": wish.date_format}
    if wish.limits is not None:
        raise ValueError("a stream is summed up, and values known within limits cannot be")
    given = ", ".join(what for what, value in read.items() if value is not None)
    if given:
        raise ValueError(f"what is read of a stream is said where it is made: give {given} there")
    likelihood, progress = as_likelihood(asked.likelihood), wish.progress
    axis, data, points = read_stream(stream, likelihood, asked.kernel is not None, progress)
    fastest = data.stretches.fastest if isinstance(data, Summary) else np.inf
    model = asked_model(asked, points, likelihood, axis, progress, fastest)
    data = fine_enough(stream, data, model)
    posterior: Posterior = fit(
        model, data, inducing=asked.inducing, progress=progress, **wish.options
    )
    names = stream.time, stream.target, "pyarrow", stream.extras
    latest = (stream.latest - posterior.data.origin).astype(float)
    call, said = call_text(asked, "stream", wish.options), _said_of(asked, posterior)
    return Fitted(posterior, axis, *names, call, latest=tuple(latest.tolist()), findings=said)


def as_limits(limits: Any) -> dict[str, str]:
    """The columns of limits by what they are, from the argument of `fit`."""
    if limits is None:
        return {}
    pair = isinstance(limits, tuple | list) and len(limits) == 2
    if not pair or not all(name is None or isinstance(name, str) for name in limits):
        raise ValueError(
            "limits must be the names of two columns, of lower and of upper limits, one of which "
            f"may be None; got {limits!r}"
        )
    return {what: name for what, name in zip(LIMITS, limits, strict=True) if name is not None}


def read_within(table: Any, limits: dict[str, str], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The target, or limits where it is empty, as y and `censored`."""
    lower, upper = (
        number_column(table, limits[what]) if what in limits else np.full(len(y), np.nan)
        for what in LIMITS
    )
    try:
        return within(lower, upper, y)
    except ValueError as error:
        named = " and ".join(repr(column) for column in limits.values())
        raise ValueError(f"columns {named}: {error}") from None


def _censored(likelihood: Likelihood) -> Likelihood:
    """The likelihood of values within limits, in the place of a Gaussian one."""
    if type(likelihood) is Gaussian:
        return Censored(variance=likelihood.variance if likelihood.variance.given else None)
    if not isinstance(likelihood, Censored):
        raise ValueError(
            "limits are for Gaussian observations (likelihood='censored'), not for "
            f"{type(likelihood).__name__}"
        )
    return likelihood


def chooses(asked: Any, likelihood: Likelihood, x: np.ndarray) -> bool:
    """Whether the model is left to the data: models with a state at every observation."""
    everywhere = isinstance(asked.inducing, str) and asked.inducing in ("auto", "data")
    left = asked.kernel is None and asked.mean is None
    wanted = left and everywhere and likelihood.latents == 1
    most = _MOST if plainly_normal(likelihood) else _MOST_OTHERS
    return wanted and len(x) <= most and len(np.unique(x)) >= _FEWEST


def plainly_normal(likelihood: Likelihood) -> bool:
    """Whether observations are Gaussian, with a noise that is left to the data."""
    return type(likelihood) is Gaussian and not likelihood.variance.given


def _compared(
    asked: Any,
    x: np.ndarray,
    y: np.ndarray,
    counts: Any,
    beside: Beside,
    about: Any,
    wish: Wish,
) -> Fitted:
    """Models are compared, and those that matter averaged."""
    axis, limits = about[0], (asked.floor, asked.cap)
    limits = limits if beside.normal else (None, None)  # which its likelihood has, then
    series = Series.of(x, y, counts, limits, beside, dates=axis.dates, robust=asked.robust)
    series = dataclasses.replace(series, lessons=wish.lessons)
    choices, series = choose(series, axis, robust=asked.robust, options=wish.options)
    doubted = tuple(series.x[series.doubted].astype(float).tolist())
    findings, cautions = tell_apart(choices, series, y, axis)
    findings += () if wish.lessons is None else (wish.lessons.words,)
    chosen = Fitted(choices[0].posterior, *about)
    return dataclasses.replace(
        chosen, choices=choices, doubted=doubted, findings=findings, cautions=cautions
    )


def _axis(asked: Any, instants: Instants) -> TimeAxis:
    """That of the last fit, unless times are of another kind now."""
    axis = fitting_axis(instants)
    if asked.kernel is not None:  # which may be asked for predictions at any time
        axis = dataclasses.replace(axis, business=False)
    if asked.fitted is None or not asked.fitted.axis.takes(instants):
        return axis
    before = asked.fitted.axis
    return dataclasses.replace(axis, origin=before.origin, unit=before.unit)


def asked_model(
    asked: Any,
    points: Any,
    likelihood: Likelihood,
    axis: TimeAxis,
    progress: Any,
    fastest: float = np.inf,
) -> GP:
    """With the kernel given, or one for the values of f that the observations point at.

    The latter has no pattern that changes at a rate above `fastest`.
    """
    mean = Constant() if asked.mean is None else asked.mean
    if asked.kernel is not None:
        if isinstance(asked.kernel, str) and not axis.dates:
            refuse_durations(asked.kernel)
        model = GP(asked.kernel, likelihood, mean)
        if any(kernel.located for kernel in model.kernels):
            raise ValueError(
                f"{asked.kernel!r} depends on where it is, and a forecaster measures time from an "
                "origin of its own: fit it with sg.GP and sg.fit instead"
            )
        return model
    x, f = points
    found = default_model(x, f, axis.dates, mean=asked.mean is None, fastest=fastest)
    if progress is not False:
        print(f"kernel from the data: {found.words}", file=sys.stderr)
    kernel = with_weak_priors(parse_kernel(found.kernel))
    return GP(kernel, likelihood, mean if found.pattern is None else found.pattern)


def _within_limits(
    asked: Any, likelihood: Likelihood, name: str, y: np.ndarray, extra: np.ndarray
) -> Likelihood:
    """The likelihood that keeps the limits, in the place of a Gaussian one."""
    if type(likelihood) is not Gaussian or np.any(extra != 0):
        raise ValueError(
            f"floor and cap are for Gaussian observations without known noise; "
            f"{type(likelihood).__name__} has limits of its own: leave them out"
        )
    noise = likelihood.variance if likelihood.variance.given else None
    limited = Bounded(asked.floor, asked.cap, variance=noise)
    check_support(limited, name, y, extra)
    return limited


def call_text(asked: Any, data: str, options: dict[str, Any]) -> str:
    """The call as a user would write it."""
    shown = "".join(f", {name}={value!r}" for name, value in options.items())
    return f"{asked!r}.fit({data}{shown})"
