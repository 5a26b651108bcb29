"""Components that repeat, over one period."""

import dataclasses

import numpy as np
import pytest

import stategp as sg
from stategp._story import Line, Story, component_panels, tell
from stategp._story._seasons import Cycle, cycle_of, plan_season
from tests.stories import gaussian_posterior, to_time

k = sg.kernels


def days_since(start: str):
    return lambda x: np.datetime64(start, "us") + np.round(x * 86_400e6).astype("timedelta64[us]")


@pytest.fixture(scope="module")
def story() -> Story:
    return tell(gaussian_posterior(), until=9.0, points=500, to_time=to_time)


@pytest.mark.parametrize(
    ("kernel", "cycle"),
    [
        (k.Cosine(period=7.0), Cycle(7.0, False)),
        (k.Periodic(period=24.0), Cycle(24.0, False)),
        (k.QuasiPeriodic(period=24.0), Cycle(24.0, True)),
        (k.DivergenceFreeOscillator(period=24.0), Cycle(24.0, True)),
        (k.Harmonic(weights=[1.0, 0.5], frequency=4.0, lengthscale=9.0), Cycle(0.25, True)),
        (k.Cosine(period=7.0) + k.Cosine(period=3.5) + k.Constant(), Cycle(7.0, False)),
        (k.Cosine(period=7.0) + k.Cosine(period=3.0), None),
        (k.Cosine(period=7.0) + k.Matern32(), None),
        (k.Matern32() * k.Cosine(period=7.0), Cycle(7.0, True)),
        (2.0 * k.Cosine(period=7.0), Cycle(7.0, False)),
        (k.Matern32() * k.Matern12(), None),
        (k.Matern52(), None),
        (k.Constant(), None),
        (k.Oscillator(period=5.0, quality=3.0), None),
    ],
)
def test_what_repeats(kernel: k.Kernel, cycle: Cycle | None) -> None:
    assert cycle_of(kernel) == cycle


def test_weeks_start_on_mondays() -> None:
    dates = days_since("2024-01-03")  # a Wednesday
    plan = plan_season(Cycle(7.0, False), (0.0, 100.0), 0, dates, "ds")
    assert plan is not None
    assert dates(plan.x[:1])[0] == np.datetime64("2024-04-01")  # the last Monday but one
    assert (plan.noun, plan.label, plan.names) == ("week", "Day of the week", ("",))
    assert plan.ticks is not None
    assert plan.ticks[0] == (0.0, "Mon")
    assert plan.phase[-1] == 7.0


def test_days_start_at_midnight_and_years_in_january() -> None:
    dates = days_since("2020-05-05T13:20")
    day = plan_season(Cycle(1.0, True), (0.0, 30.0), 0, dates, "ds")
    assert day is not None
    first, last = dates(np.array(day.starts))
    assert (str(first), str(last)) == ("2020-05-06T00:00:00.000000", "2020-06-03T00:00:00.000000")
    assert day.names == ("6 May 2020", "3 Jun 2020")
    year = plan_season(Cycle(365.25, True), (0.0, 2000.0), 0, dates, "ds")
    assert year is not None
    assert year.names == ("2021", "2024")
    assert year.ticks is not None
    assert year.ticks[1] == (31.0, "Feb")


def test_a_period_that_drifts_through_the_week_has_no_weekdays() -> None:
    plan = plan_season(Cycle(7.1, False), (0.0, 700.0), 0, days_since("2024-01-03"), "ds")
    assert plan is not None
    assert plan.ticks is None
    assert plan.label == "Days into the period"
    assert plan.phase[-1] == pytest.approx(7.1)


def test_numbers_count_from_multiples_of_the_period() -> None:
    plan = plan_season(Cycle(1.0, True), (0.3, 30.7), 1990, None, "year")
    assert plan is not None
    assert plan.starts == pytest.approx((1.0, 29.0))
    assert plan.names == ("1991 to 1992", "2019 to 2020")
    assert plan.label == "year within a period of 1"


def test_few_periods_are_drawn_one_after_the_other() -> None:
    assert plan_season(Cycle(1.0, False), (0.0, 2.5), 0, None, "x") is None
    assert plan_season(None, (0.0, 99.0), 0, None, "x") is None


def test_a_season_is_the_component_in_that_year(story: Story) -> None:
    assert set(story.seasons) == {"season"}
    season = story.seasons["season"]
    assert season.plan.names == ("2016", "2021")
    assert season.plan.about == "The first and the last year of the data: the pattern changes."
    posterior = gaussian_posterior()
    january = [365 / 365.25, (6 * 365 + 2) / 365.25]  # of these years, in years since 2015
    for start, cycle in zip(january, season.cycles, strict=True):
        mean, variance = posterior.components(start + np.linspace(0, 1, 241))["season"]
        np.testing.assert_allclose(cycle.mean, mean, atol=1e-5)
        np.testing.assert_allclose(cycle.upper - cycle.mean, 1.959964 * variance**0.5, rtol=1e-4)


def test_a_season_with_a_trend_in_it_is_shown_twice(story: Story) -> None:
    """Along x, where the level moves, and over one period about its average."""
    season = story.seasons["season"]
    assert not season.drifts
    assert [panel.along for panel in component_panels(story)] == [True, False]
    first, last = season.cycles
    moved = dataclasses.replace(season, cycles=(first - 50.0, last))
    assert moved.drifts
    panels = component_panels(dataclasses.replace(story, seasons={"season": moved}))
    assert [panel.title for panel in panels] == ["trend", "season", "season within the year"]
    lines = [mark for mark in panels[2].marks if isinstance(mark, Line)]
    assert [line.name for line in lines] == ["2016", "2021"]
    for line in lines:
        np.testing.assert_allclose(np.mean(line.y), 0.0, atol=1e-9)
