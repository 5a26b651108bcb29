"""What a series may depend on beside time, as users write it: columns, holidays, events, bends."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategp._arguments import as_number, as_whole, positive_number
from stategp._forecasting._instants import read_times

KINDS = ("linear", "smooth")


@dataclasses.dataclass(frozen=True)
class Effect:
    """A column of the frame that the target depends on, and how.

    Arguments:
        column: its name. Its values must be known wherever something is predicted.
        kind: "linear", or "smooth": a smooth function of the value (a Gaussian process).
        lags: how many rows earlier the value acts: (0, 1, 7) is today's, yesterday's and that of a
            week ago if the data are daily. Each has an effect of its own.
        season: a period over which the effect varies, smoothly: "1w", "1y".
        scale: how large the effect of one standard deviation of the column is expected to be, in
            standard deviations of the target.

    >>> import stategp as sg
    >>> sg.Effect("price", kind="smooth")
    Effect(column='price', kind='smooth', lags=(0,), season=None, scale=1.0)
    """

    column: str
    kind: str = "linear"
    lags: Any = (0,)  # kept as a tuple
    season: Any = None
    scale: float | int = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be 'linear' or 'smooth', got {self.kind!r}")
        given = self.lags if isinstance(self.lags, Sequence) else (self.lags,)
        lags = tuple(as_whole(lag) for lag in given)
        if not lags or any(lag is None or lag < 0 for lag in lags) or len(set(lags)) < len(lags):
            raise ValueError(f"lags must be different whole numbers from 0, got {self.lags!r}")
        object.__setattr__(self, "lags", lags)
        object.__setattr__(self, "scale", positive_number("scale", self.scale))


@dataclasses.dataclass(frozen=True)
class Event:
    """Dates on which something happens, and how many days around them are affected.

    Each of the days before, of the event and after it has an effect of its own.

    >>> import stategp as sg
    >>> sale = sg.Event("sale", ["2025-03-01", "2025-09-01"], before=1, after=2)
    """

    name: str
    dates: Any  # kept as a tuple of texts, 2025-03-01
    before: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dates", _dates(self.name, self.dates))
        for side in ("before", "after"):
            object.__setattr__(self, side, _days(side, getattr(self, side)))


@dataclasses.dataclass(frozen=True)
class Holidays:
    """The public holidays of a country, from the package `holidays`.

    Arguments:
        country: its code: "DE", "US".
        subdivision: a state or province: "BY", "CA".
        before: how many days before each holiday are affected, each with an effect of its own.
        after: the same for the days after.
        windows: days before and after of some holidays: {"Christmas Day": (3, 1)}.

    >>> import stategp as sg
    >>> sg.Holidays("DE", "BY", before=1).country
    'DE'
    """

    country: str
    subdivision: str | None = None
    before: int = 0
    after: int = 0
    windows: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for side in ("before", "after"):
            object.__setattr__(self, side, _days(side, getattr(self, side)))
        windows = {}
        for name, window in self.windows.items():
            if not isinstance(window, Sequence) or len(window) != 2:
                raise ValueError(
                    f"windows must have the days before and after, as in {{{name!r}: (1, 2)}}; got "
                    f"{window!r}"
                )
            windows[name] = (_days("windows", window[0]), _days("windows", window[1]))
        object.__setattr__(self, "windows", windows)


def as_effects(regressors: Any) -> tuple[Effect, ...]:
    """Regressors as they were given: names of columns, or effects."""
    if regressors is None:
        return ()
    given = [regressors] if isinstance(regressors, str | Effect) else list(regressors)
    for one in given:
        if not isinstance(one, str | Effect):
            raise ValueError(f"a regressor is the name of a column or an sg.Effect, got {one!r}")
    effects = tuple(Effect(one) if isinstance(one, str) else one for one in given)
    names = [effect.column for effect in effects]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is among the regressors twice")
    return effects


def as_holidays(holidays: Any) -> tuple[Holidays, ...]:
    """Holidays as they were given: "DE", ("DE", "BY"), sg.Holidays, its arguments, or a list."""
    if holidays is None:
        return ()
    several = isinstance(holidays, tuple) and not _all_texts(holidays)
    if isinstance(holidays, list) or several or holidays == ():
        return tuple(one for given in holidays for one in as_holidays(given))
    if isinstance(holidays, Holidays):
        return (holidays,)
    if isinstance(holidays, str):
        return (Holidays(holidays),)
    if isinstance(holidays, tuple) and len(holidays) == 2 and _all_texts(holidays):
        return (Holidays(*holidays),)
    if isinstance(holidays, Mapping) and "country" in holidays:
        return (Holidays(**holidays),)
    raise ValueError(
        'holidays must be a country ("DE"), a country and a subdivision (("DE", "BY")), '
        f"sg.Holidays, or a list of these; got {holidays!r}"
    )


def as_events(events: Any) -> tuple[Event, ...]:
    """Events as they were given: sg.Event, a list of them, or a mapping from names to dates."""
    if events is None:
        return ()
    if isinstance(events, Event):
        return (events,)
    if isinstance(events, Mapping):
        return tuple(Event(name, dates) for name, dates in events.items())
    if isinstance(events, Sequence) and all(isinstance(event, Event) for event in events):
        return tuple(events)
    raise ValueError(
        'events must be sg.Event, a list of them, or dates by name ({"sale": ["2025-03-01"]}); '
        f"got {events!r}"
    )


def as_changepoints(changepoints: Any) -> tuple[str | float, ...]:
    """Times at which the slope of the trend changes, as they were given: texts or numbers."""
    if changepoints is None:
        return ()
    alone = isinstance(changepoints, str | datetime.date | np.datetime64)
    several = [changepoints] if alone or as_number(changepoints) is not None else changepoints
    found: list[str | float] = []
    for one in several:
        number = as_number(one)
        if isinstance(one, datetime.date | np.datetime64):
            one = one.isoformat() if isinstance(one, datetime.date) else str(one)
        if not isinstance(one, str) and (number is None or not np.isfinite(number)):
            raise ValueError(
                'changepoints must be dates (["2025-03-01"]), or numbers if times are numbers; '
                f"got {one!r} among them"
            )
        found.append(one if isinstance(one, str) else float(one))
    return tuple(dict.fromkeys(found))


def _all_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _days(name: str, value: Any) -> int:
    number = as_whole(value)
    if number is None or not 0 <= number <= 60:
        raise ValueError(f"{name} must be a number of days from 0 to 60, got {value!r}")
    return number


def _dates(name: str, dates: Any) -> tuple[str, ...]:
    """Days as texts; of a time of day the day."""
    instants = read_times(list(dates) if isinstance(dates, list | tuple | set) else dates, name)
    if not instants.dates:
        raise ValueError(f"the event {name!r} must have dates, got {dates!r}")
    if instants.zone is not None:
        raise ValueError(f"the dates of the event {name!r} are days: give them without a time zone")
    days = instants.values.astype(f"datetime64[{instants.unit}]").astype("datetime64[D]")
    return tuple(str(day) for day in np.unique(days))


def written(effects: Sequence[Any]) -> str:
    """As one would write them."""
    short: list[Any] = []
    for effect in effects:
        plain = isinstance(effect, Effect) and effect == Effect(effect.column)
        alone = isinstance(effect, Holidays) and effect == Holidays(effect.country)
        short.append(effect.column if plain else effect.country if alone else effect)
    return repr(short[0] if len(short) == 1 and isinstance(short[0], str) else short)
