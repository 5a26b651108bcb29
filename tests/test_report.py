"""The report, in a real browser: it loads, zooms, shows names as text and asks for nothing."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stategp._story import Curve, Remark, Story, tell
from stategp.report import render, write_report
from tests.stories import gaussian_posterior, poisson_posterior, to_time

HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror=alert(1)> {{call}} & \"'"


@pytest.fixture(scope="module")
def story() -> Story:
    return tell(
        gaussian_posterior(), until=9.0, points=500, to_time=to_time, call="sg.fit(…)", unit="years"
    )


@pytest.fixture(scope="module")
def hostile(story: Story) -> Story:
    first, second = story.components.values()
    return dataclasses.replace(
        story,
        title=HOSTILE,
        call=HOSTILE,
        x_label=HOSTILE,
        y_label=HOSTILE,
        model=HOSTILE,
        certificate=HOSTILE,
        outcome=HOSTILE,
        notes=(HOSTILE,),
        components={HOSTILE: first, HOSTILE + "2": second},
        seasons={HOSTILE + "2": story.seasons["season"]},
        remarks=(Remark("bad", HOSTILE),),
        scores=story.scores | {HOSTILE: float("nan")},
    )


class Page:
    """An opened report, and everything that went wrong in it."""

    def __init__(self, browser: Any, story: Story, folder: Path, **options: Any):
        path = folder / "report.html"
        write_report(story, path)
        self.troubles: list[str] = []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append("a dialog"))
        self.requests: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.to !== undefined")

    def shown(self) -> tuple[float, float]:
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        marks = self.page.evaluate("({...document.documentElement.dataset})")
        return float(marks["from"]), float(marks["to"])

    def width(self) -> float:
        first, last = self.shown()
        return last - first

    def point(self, share: float) -> tuple[float, float]:
        box = self.page.locator("#main-chart canvas").bounding_box()
        return box["x"] + share * box["width"], box["y"] + 100

    def ink(self, chart: str) -> int:
        """How many different colours a chart shows."""
        return int(
            self.page.evaluate(
                """(chart) => {
                  const canvas = document.querySelector(chart + " canvas");
                  const { width, height } = canvas;
                  const all = canvas.getContext("2d").getImageData(0, 0, width, height);
                  return new Set(new Uint32Array(all.data.buffer)).size;
                }""",
                chart,
            )
        )

    def close(self) -> None:
        assert self.troubles == []
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
        self.page.close()


def test_looking_around(browser: Any, story: Story, tmp_path: Path) -> None:
    report = Page(browser, story, tmp_path)
    page = report.page
    whole = report.shown()
    assert report.ink("#main-chart") > 20
    assert report.ink("#component-0") > 10
    page.mouse.move(*report.point(0.5))
    page.mouse.wheel(0, -300)
    assert report.width() < 0.7 * (whole[1] - whole[0])
    page.locator("#main-chart canvas").dblclick()
    assert report.shown() == whole
    page.get_by_role("button", name="Zoom in").click()
    np.testing.assert_allclose(report.width(), (whole[1] - whole[0]) / 2)
    before = report.shown()
    page.get_by_role("button", name="Move right").click()
    assert report.shown()[0] > before[0]
    page.get_by_role("button", name="All").click()
    assert report.shown() == whole
    page.get_by_role("button", name="Forecast").click()
    assert report.shown()[1] == whole[1]
    assert report.width() < 0.5 * (whole[1] - whole[0])
    report.close()


def test_keyboard_drag_and_strip(browser: Any, story: Story, tmp_path: Path) -> None:
    report = Page(browser, story, tmp_path)
    page = report.page
    whole = report.shown()
    page.locator("#main-chart canvas").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert report.width() < 0.8 * (whole[1] - whole[0])
    page.keyboard.press("Home")
    assert report.shown() == whole
    page.mouse.move(*report.point(0.3))
    page.mouse.down()
    page.mouse.move(*report.point(0.6), steps=4)
    page.mouse.up()
    chosen = report.shown()
    np.testing.assert_allclose(report.width() / (whole[1] - whole[0]), 0.32, atol=0.05)
    page.mouse.move(*report.point(0.5))
    page.mouse.down()
    page.mouse.move(*report.point(0.4), steps=4)
    page.mouse.up()
    assert report.shown()[0] > chosen[0]  # dragged to the left: later dates come in
    strip = page.locator("#overview canvas").bounding_box()
    page.locator("#overview canvas").dblclick(position={"x": 100, "y": strip["height"] / 2})
    assert report.shown() == whole
    report.close()


def test_the_tooltip_says_what_is_there(browser: Any, story: Story, tmp_path: Path) -> None:
    report = Page(browser, story, tmp_path)
    x, y = report.point(0.95)
    report.page.mouse.move(x, y)
    tooltip = report.page.locator("#main-chart .tooltip")
    text = tooltip.inner_text()
    assert re.search(r"20\d\d", text)
    assert "mean" in text
    assert "95 % interval" in text
    report.page.get_by_role("button", name="95 % interval").click()
    report.page.mouse.move(x, y + 1)
    assert "95 % interval" not in tooltip.inner_text()
    report.close()


def test_hostile_names_are_text(browser: Any, hostile: Story, tmp_path: Path) -> None:
    report = Page(browser, hostile, tmp_path)
    page = report.page
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.title() == HOSTILE
    assert page.locator("h3").first.inner_text() == HOSTILE
    assert page.locator("pre").first.inner_text() == HOSTILE
    assert page.locator(".seasons figcaption").inner_text() == HOSTILE + "2"
    assert page.locator(".remarks li").inner_text() == HOSTILE
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    report.close()


def test_phone_dark_and_counts(browser: Any, tmp_path: Path) -> None:
    counts = tell(poisson_posterior(), until=9.0, points=500, names=("year", "calls"))
    report = Page(
        browser, counts, tmp_path, viewport={"width": 390, "height": 800}, color_scheme="dark"
    )
    wide = report.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390  # nothing sticks out
    background = report.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background))) < 60
    report.close()


def test_a_million_observations_fit(browser: Any, story: Story, tmp_path: Path) -> None:
    x = np.linspace(0, 8, 1_000_000)
    y = 10 + np.random.default_rng(2).standard_normal(len(x))
    y[123_456] = 40.0
    many = dataclasses.replace(story, x=to_time(x), y=y)
    report = Page(browser, many, tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 5e6
    assert report.page.evaluate("main.high") > 40.0  # the extreme is in the picture
    at = float(to_time(x[123_456:123_457]).astype("datetime64[ms]").astype(float)[0])
    report.page.evaluate("(at) => view.set(at - 1e8, at + 1e8)", at)
    report.width()
    assert report.page.evaluate("main.high") > 40.0
    report.page.get_by_role("button", name="Forecast").click()
    report.width()
    assert report.page.evaluate("main.columns.reduce((n, c) => n + c.count, 0)") > 10_000
    report.close()


def test_one_file_with_everything(story: Story, tmp_path: Path) -> None:
    write_report(story, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = (tmp_path / "report.html").read_text("utf-8")
    assert not re.search(r"https?://|@import|url\(", text)
    for part in ("Components", "Forecast", "Calibration", "Hyperparameters", "Scores", "sg.fit(…)"):
        assert part in text
    carried = re.search(r'id="carried">(.*?)</script>', text)
    assert carried is not None
    assert [chart["id"] for chart in json.loads(carried[1])["charts"]] == [
        "main-chart",
        "component-0",
    ]  # what repeats stands beside them, over one period
    assert "Month" in text
    assert "2016</span>" in text


def test_no_forecast_no_fit(story: Story) -> None:
    bare = dataclasses.replace(
        story,
        forecast=story.forecast[:0],
        trace=np.zeros(0),
        total_seconds=float("nan"),
        converged=None,
        outcome="",
        call="",
        components={},
    )
    text = render(bare)
    assert "Nothing was optimised" in text
    assert 'id="forecast-heading"' not in text
    assert 'id="parts-heading"' not in text


def test_the_forecast_has_every_step(browser: Any, story: Story, tmp_path: Path) -> None:
    count = 1000
    x = np.linspace(8.0, 9.0, count + 1)[1:]
    curve = Curve(to_time(x), x, {0.95: (x - 1, x + 1)})
    few = dataclasses.replace(story, forecast=curve[:60])
    text = render(few)
    table = text[text.index('id="forecast-heading"') : text.index('id="checks-heading"')]
    assert table.count("<tr>") == 61  # none is left out
    assert "60 steps after the end of the data." in table
    many = dataclasses.replace(story, forecast=curve)
    text = render(many)
    assert "Every third of 1,000 steps after the end of the data; the file has all" in text
    report = Page(browser, many, tmp_path)
    with report.page.expect_download() as download:
        report.page.get_by_role("button", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert lines[0] == "x,mean,lower_95,upper_95"
    assert len(lines) == 1 + count
    when, *numbers = lines[500].split(",")
    stamp = to_time(x[499:500]).astype("datetime64[s]")[0]
    assert np.datetime64(when.replace(" ", "T")) == stamp
    np.testing.assert_array_equal([float(text) for text in numbers], x[499] + np.array([0, -1, 1]))
    report.page.close()


def test_outliers_are_no_green_light(story: Story) -> None:
    assert '<p class="badge good">Model fits the data</p>' in render(story)
    remark = Remark("bad", "7 of 700 observations lie far out.")
    text = render(dataclasses.replace(story, remarks=(remark,)))
    assert '<p class="badge bad">Model does not fit the data</p>' in text
    assert f'<li class="bad">{remark.text}</li>' in text
    assert '<dd class="fact bad">' in text


def test_where_it_cannot_be_written(story: Story, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_report(story, tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        write_report(story, tmp_path)


def test_only_shares_of_observations_are_percentages(story: Story) -> None:
    text = render(dataclasses.replace(story, scores=story.scores | {"coverage by clouds": 3.0}))
    assert "300.0%" not in text
    inside = story.scores["coverage of the 95 % interval (leave-one-out)"]
    assert text.count(f"{inside:.1%}") == 2  # at the top, and among the scores
