"""Maps in the report of a field: their numbers, and the slider in a real browser."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stategp as sg
from stategp._story import maps_of, portray
from stategp.report import render, write_report
from stategp.report._maps import carried_maps

HOSTILE = "</script><script>window.broken = 1</script>"
TIMES = np.arange(6.0)
PLACES = np.random.default_rng(0).uniform(0, 10, size=(5, 2))
SPACE, TIME = sg.spatial.Matern32(lengthscale=4.0), sg.kernels.Matern12(lengthscale=3.0)


@pytest.fixture(scope="module")
def posterior() -> sg.SpaceTimePosterior:
    y = np.sin(TIMES)[:, None] + PLACES[:, 0]
    model = sg.SpaceTimeGP(SPACE, TIME, places=3, names=(HOSTILE, "east", "north"))
    return sg.condition(model, (TIMES, PLACES), y)


@pytest.fixture(scope="module")
def page(posterior: sg.SpaceTimePosterior) -> str:
    return render(posterior, title="A field", times=[0.0, 2.0, 7.0])


def carried(page: str) -> dict:
    return json.loads(re.search(r'id="maps">(.*?)</script>', page)[1])


def test_the_page_carries_the_maps(page: str, posterior: sg.SpaceTimePosterior) -> None:
    found = carried(page)
    assert found["size"] == [48, 48]
    assert found["titles"] == [f"{HOSTILE} {time}" for time in (0, 2, 7)]
    maps = maps_of(posterior, [0.0, 2.0, 7.0], resolution=48)
    for which, _, values, _ in maps.layers:
        steps = np.frombuffer(base64.b64decode(found[which]), np.uint8).reshape(3, 48, 48)
        again = values.min() + steps / 255 * np.ptp(values)
        np.testing.assert_allclose(again, values, rtol=0, atol=0.51 * np.ptp(values) / 255)
    east, north = maps.across[1], maps.up[1]
    one = posterior.map([7.0], [[east[5], north[40]]])
    np.testing.assert_allclose(maps.layers[0].values[2, 40, 5], one.mean[0, 0])


def test_names_stay_text(page: str) -> None:
    assert HOSTILE not in page
    assert page.count("<script") == 2
    assert "30 observations at 5 places and 6 times." in page


def test_a_field_that_is_the_same_everywhere_has_one_colour(
    posterior: sg.SpaceTimePosterior,
) -> None:
    maps = maps_of(posterior, resolution=2)
    flat = maps.layers[0]._replace(values=np.full((6, 2, 2), 3.0))
    maps = maps._replace(layers=(flat, maps.layers[1]))
    assert len(set(base64.b64decode(json.loads(carried_maps(maps))["mean"]))) == 1


def test_one_time_needs_no_slider(posterior: sg.SpaceTimePosterior) -> None:
    page = render(posterior, times=[2.0])
    assert 'type="range"' not in page
    assert "At &lt;/script&gt;" in page


def test_what_has_no_maps_runs_no_script() -> None:
    several = sg.condition(sg.MultiOutputGP(TIME, outputs=2), TIMES, np.ones((6, 2)))
    assert portray(several).maps is None
    assert "<script" not in render(several)


def test_times_are_those_of_maps() -> None:
    outputs = object.__new__(sg.MultiOutputPosterior)  # refused before anything is read of it
    with pytest.raises(ValueError, match="only fields over space and time"):
        portray(outputs, times=[0.0])


def test_the_slider(browser: Any, posterior: sg.SpaceTimePosterior, tmp_path: Path) -> None:
    """By keyboard, by a small map and as an animation; nothing is asked for, nothing goes wrong."""
    write_report(posterior, tmp_path / "field.html")
    troubles: list[str] = []
    requests: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "field.html").as_uri())

    def shown() -> int:
        return int(page.evaluate("document.documentElement.dataset.frame"))

    def pixels() -> str:
        return page.evaluate("document.querySelector('.map canvas').toDataURL()")

    first, slider = pixels(), page.get_by_label("Time of the maps")
    assert shown() == 0
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert shown() == 1
    assert slider.get_attribute("aria-valuetext") == page.locator("#map-shown").inner_text()
    page.keyboard.press("End")
    assert shown() == 23
    assert pixels() != first
    page.locator("button[data-map]").first.press("Enter")
    assert shown() == 0
    assert pixels() == first
    page.locator("#map-play").press("Enter")
    page.locator("html[data-frame='2']").wait_for(state="attached")
    page.locator("#map-play").press("Enter")
    assert page.locator("#map-play").inner_text() == "Play"
    assert page.evaluate("window.broken") is None
    assert troubles == []
    assert len(requests) == 1
    page.close()
