"""Stories of posteriors, and the figures drawn of them."""

import dataclasses
import io
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import stats

import stategp as sg
from stategp import plots
from stategp._story import (
    Line,
    Story,
    check_panels,
    component_panels,
    find_gaps,
    in_columns,
    outcome_in_words,
    portray,
    series_panel,
    tell,
)
from stategp._story._grids import make_grid
from stategp._story._hyperparameters import list_hyperparameters
from stategp.report import _svg, render
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
    assert 0.93 < counts.scores["coverage of the 95 % interval (leave-one-out)"] <= 1.0


def test_scores_are_those_of_leaving_each_observation_out() -> None:
    """Against the closed form of a dense Gaussian process (Rasmussen and Williams, 5.12)."""
    rng = np.random.default_rng(4)
    x, y = np.sort(rng.uniform(0, 6, 24)), rng.standard_normal(24)
    kernel = sg.kernels.Matern32(variance=1.3, lengthscale=0.8)
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=0.3))
    told = tell(sg.condition(model, x, y, inducing="data"), points=40)
    scaled = np.sqrt(3) * np.abs(x[:, None] - x) / 0.8
    inverse = np.linalg.inv(1.3 * (1 + scaled) * np.exp(-scaled) + 0.3 * np.eye(24))
    variance = 1 / np.diag(inverse)
    error = variance * (inverse @ y)
    density = stats.norm.logpdf(error, scale=variance**0.5).mean()
    scores = told.scores
    np.testing.assert_allclose(
        scores["log density per observation (leave-one-out)"], density, rtol=1e-8
    )
    np.testing.assert_allclose(scores["RMSE (leave-one-out)"], np.sqrt(np.mean(error**2)))
    np.testing.assert_allclose(told.checks.residuals, error / variance**0.5, rtol=1e-6)


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


def test_every_point_is_predicted_once(monkeypatch) -> None:
    """The grid and the forecast together; the observations are left out, each from the others."""
    predict_f, asked = sg.Posterior.predict_f, []

    def counted(self, x):
        asked.append(len(x))
        return predict_f(self, x)

    monkeypatch.setattr(sg.Posterior, "predict_f", counted)
    told = tell(poisson_posterior(), until=9.0, points=500)
    assert asked == [500 + len(told.forecast.x)]


def test_one_fit_time() -> None:
    told, result = tell(gaussian_posterior(), points=500), gaussian_posterior().fit_result
    assert result is not None
    assert result.total_seconds >= result.seconds[-1] > 0
    words = f"{result.total_seconds:,.1f} s"
    assert words in outcome_in_words(told)
    assert words in plots.plot_trace(told).axes[0].get_title(loc="left")
    text = render(told)
    assert f">{words}<small>" in text  # the tile
    assert f"{words} in total" in text  # the section
    assert len(re.findall(r"\d[\d.,]* s(?:econds)?\b", text)) == 2  # and no other time


def test_titles_say_what_is_shown(story: Story) -> None:
    assert tell(gaussian_posterior(), points=500).title == "Fit of y"
    assert tell(gaussian_posterior(), until=9.0, points=500).title == "Fit and forecast of y"


def test_names_of_hyperparameters_are_words() -> None:
    kernel = "trend: matern32 + weekly: (cosine(7) + cosine(3.5)) + slow: matern12*periodic(9)"
    names = [row.name for row in list_hyperparameters(sg.GP(kernel))]
    assert names[:6] == [
        "trend: variance",
        "trend: lengthscale",
        "weekly (cosine): variance",
        "weekly (cosine): period",
        "weekly (cosine 2): variance",
        "weekly (cosine 2): period",
    ]
    assert "slow (matern12): lengthscale" in names
    assert "slow (periodic): period" in names
    assert names[-1] == "likelihood: variance"


def test_both_renderers_draw_every_mark(story: Story) -> None:
    """Nothing that a panel holds is left to one renderer alone."""
    for panel in [series_panel(story), *component_panels(story), *check_panels(story)]:
        figure = plots.Picture()
        axes = figure.subplots()
        plots._draw(axes, panel)
        figure.savefig(io.BytesIO())
        assert axes.get_ylim() == pytest.approx(panel.height())
        assert _svg.draw(panel).count("<path class=") >= len([m for m in panel.marks if m.shown])


def test_pictures_of_what_people_hold(tmp_path) -> None:
    from matplotlib.figure import Figure

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (60, 2))
    kernels = {"age": sg.kernels.Matern32(), "hour": sg.kernels.Periodic(period=sg.fixed(0.25))}
    additive = sg.condition(sg.AdditiveGP(kernels), x, np.sin(6 * x[:, 0]), inducing=8)
    layers = [sg.Layer(sg.kernels.Matern32(), inducing=5) for _ in range(2)]
    deep_model = sg.DeepGP.stack(layers, sg.likelihoods.Gaussian(variance=0.01))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        deep = sg.condition(deep_model, x[:30, 0], x[:30, 1], max_steps=5)
    for posterior, titles in [
        (additive, ["Effect of age", "Effect of hour"]),
        (deep, ["Function 0", "Function 1"]),
        (gaussian_posterior(), ["trend", "season"]),
    ]:
        assert isinstance(posterior.plot(), Figure)
        figure = posterior.plot_components()
        assert [axes.get_title(loc="left") for axes in figure.axes] == titles
        posterior.report(tmp_path / "report.html")
        assert all(title in (tmp_path / "report.html").read_text("utf-8") for title in titles)
    # an effect is what `components` says, over one period if it repeats
    panels = portray(additive).panels
    line = next(mark for mark in panels[0].marks if isinstance(mark, Line))
    np.testing.assert_allclose(line.y, additive.components({"age": line.x})["age"][0])
    assert panels[1].across.ends == (0.0, 0.25)
    with pytest.raises(ValueError, match="do not fit into one pair of axes"):
        additive.plot(ax=Figure().subplots())
    with pytest.raises(ValueError, match="posteriors of one input"):
        plots.plot_checks(deep)
    with pytest.raises(ValueError, match="made of a posterior"):
        plots.plot("a posterior")
    with pytest.raises(ValueError, match="computed already, so until"):
        plots.plot(portray(additive), until=3.0)


def test_no_pyplot() -> None:
    """Neither the package nor the pictures choose a backend."""
    program = (
        "import sys, stategp; assert 'matplotlib' not in sys.modules\n"
        "import stategp.plots; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
