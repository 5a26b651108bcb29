"""Stories of posteriors, and the figures drawn of them."""

import dataclasses
import io
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import stategp as sg
from stategp import plots
from stategp._story import Story, find_gaps, in_columns, tell
from stategp._story._grids import make_grid
from stategp.report import render
from tests.stories import gaussian_posterior, poisson_posterior, to_time

DRAWN = [plots.plot, plots.plot_components, plots.plot_trace, plots.plot_checks]


@pytest.fixture(scope="module")
def story() -> Story:
    return tell(gaussian_posterior(), until=9.0, points=500, to_time=to_time, title="Level")


@pytest.fixture(scope="module")
def counts() -> Story:
    return tell(poisson_posterior(), until=9.0, points=500, names=("year", "calls"))


def test_intervals_of_gaussian_observations(story: Story) -> None:
    posterior = gaussian_posterior()
    x = np.linspace(float(posterior.data.origin), 9.0, 500)
    mean, variance = (np.asarray(v) for v in posterior.predict_y(x))
    lower, upper = story.curve.intervals[0.95]
    np.testing.assert_allclose(story.curve.mean, mean, atol=1e-10)
    np.testing.assert_allclose(lower, stats.norm.ppf(0.025, mean, variance**0.5), rtol=1e-6)
    np.testing.assert_allclose(upper, stats.norm.ppf(0.975, mean, variance**0.5), rtol=1e-6)
    assert story.function is not None
    np.testing.assert_allclose(story.function.mean, mean, atol=1e-10)


def test_components_add_up(story: Story) -> None:
    total = sum(band.mean for band in story.components.values())
    level = story.curve.mean - total  # the constant mean function
    assert set(story.components) == {"trend", "season"}
    np.testing.assert_allclose(level, level[0], atol=1e-8)


def test_the_gap_and_the_missing_are_seen(story: Story) -> None:
    assert story.gaps.shape == (1, 2)
    assert to_time(np.array([3.9]))[0] < story.gaps[0, 0] < story.gaps[0, 1]
    assert story.gaps[0, 1] < to_time(np.array([5.1]))[0]
    assert np.all(np.isfinite(story.y))
    assert story.end == story.x[-1] < story.curve.x[-1] == story.forecast.x[-1]


def test_residuals_of_the_right_model_are_standard_normal(story: Story, counts: Story) -> None:
    for one in (story, counts):
        residuals = one.checks.residuals
        assert stats.kstest(residuals, "norm").pvalue > 0.01
        away = residuals - residuals.mean()
        first = np.sum(away[1:] * away[:-1]) / (len(away) - 1) / np.mean(away**2)
        np.testing.assert_allclose(one.checks.autocorrelation[0], first, rtol=1e-12)
        inside = np.mean(np.abs(residuals) <= stats.norm.ppf(0.75))
        at_half = one.checks.actual[np.argmin(np.abs(one.checks.nominal - 0.5))]
        np.testing.assert_allclose(at_half, inside, atol=1e-12)


def test_counts_have_whole_bounds_that_hold_them(counts: Story) -> None:
    lower, upper = counts.curve.intervals[0.95]
    assert np.all(lower == np.round(lower))
    assert np.all(lower >= 0)
    assert np.all(upper > counts.curve.mean)
    assert 0.93 < counts.scores["coverage of the 95 % interval (in sample)"] <= 1.0


def test_scores_against_the_definition(story: Story) -> None:
    posterior = gaussian_posterior()
    x = np.asarray(posterior.data.x) + posterior.data.origin
    mean, variance = (np.asarray(v) for v in posterior.predict_y(x))
    density = stats.norm.logpdf(story.y, mean, variance**0.5)
    np.testing.assert_allclose(
        story.scores["log density per observation (in sample)"], density.mean(), rtol=1e-8
    )
    rmse = np.sqrt(np.mean((story.y - mean) ** 2))
    np.testing.assert_allclose(story.scores["RMSE (in sample)"], rmse, rtol=1e-10)


def test_the_same_seed_tells_the_same_story(counts: Story) -> None:
    again = tell(poisson_posterior(), until=9.0, points=500)
    np.testing.assert_array_equal(again.checks.ranks, counts.checks.ranks)


@pytest.mark.parametrize("draw", DRAWN)
def test_every_figure_is_drawn(draw, story: Story, counts: Story) -> None:
    for one in (story, counts):
        written = io.BytesIO()
        draw(one).savefig(written, format="png")
        assert len(written.getvalue()) > 10_000


def test_notebooks_can_show_a_figure(story: Story) -> None:
    assert plots.plot_trace(story)._repr_png_().startswith(b"\x89PNG")


def test_drawn_into_given_axes(story: Story) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    assert plots.plot(story, ax=figure.subplots()) is figure
    assert figure.axes[0].get_ylabel() == "y"


def test_names_are_no_mathematics(story: Story) -> None:
    odd = dataclasses.replace(story, title="$\\frac{a}{", y_label="cost in $")
    plots.plot(odd).savefig(io.BytesIO())


def test_many_points_become_columns_that_keep_the_extremes(story: Story) -> None:
    x = np.sort(np.random.default_rng(1).uniform(0, 8, 60_000))
    y = np.sin(x)
    y[777] = 25.0
    many = dataclasses.replace(story, x=to_time(x), y=y)
    axes = plots.plot(many).axes[0]
    names = axes.get_legend_handles_labels()[1]
    assert "60,000 observations, range in each column" in names
    assert axes.get_ylim()[1] > 25.0
    found = in_columns(x, y, 100)
    assert found.high.max() == 25.0
    assert found.counts.sum() == 60_000
    np.testing.assert_allclose(np.sum(found.mean * found.counts), y.sum())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_observations(count: int) -> None:
    model = sg.GP(sg.kernels.Matern32())
    one = tell(sg.condition(model, np.arange(count), np.ones(count), inducing="data"), points=40)
    assert len(one.curve.x) == 40
    for draw in DRAWN:
        draw(one).savefig(io.BytesIO())
    assert f"{count} observation" in render(one)


def test_a_long_series_is_fine_where_people_look() -> None:
    x = np.array([0.0, 1e4])  # ten thousand periods
    grid, notes = make_grid(gaussian_posterior(), x, 1.1e4, 500)
    steps = np.diff(grid)
    at = np.searchsorted(grid, 1e4)
    assert np.all(steps > 0)
    assert (grid[0], grid[-1]) == (0.0, 1.1e4)
    assert steps[at - 1 : at + 2].max() < 1 / 20
    assert any("shortest period" in note for note in notes)


def test_no_gaps_in_what_is_only_irregular() -> None:
    x = np.sort(np.random.default_rng(3).uniform(0, 1, 500))
    assert len(find_gaps(x)) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": (0.5, 1.5)}, "levels must lie between 0 and 1"),
        ({"levels": ()}, "levels must lie"),
        ({"points": 1}, "points must be 2 or more"),
        ({"until": float("nan")}, "until must be a finite input"),
        ({"to_time": lambda x: x}, "to_time must make one datetime64"),
    ],
)
def test_wrong_use(options, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tell(gaussian_posterior(), **({"points": 500} | options))


def test_only_posteriors_of_one_input() -> None:
    with pytest.raises(ValueError, match=r"sg\.Posterior"):
        tell("a posterior")


def test_no_pyplot() -> None:
    """Neither the package nor the pictures choose a backend."""
    program = (
        "import sys, stategp; assert 'matplotlib' not in sys.modules\n"
        "import stategp.plots; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
