"""The airline study on a table of a few hundred rows."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from stategp_experiments import airline, airline_data, airline_methods, airline_starts


class Flights(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


@pytest.fixture(scope="module")
def flights():
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(1, 8, 300), rng.integers(0, 40, 300)], axis=1).astype(float)
    y = np.sin(x[:, 0]) + x[:, 1] / 20 + 0.3 * rng.standard_normal(300)
    return Flights(x, y, ("day", "age"))


def test_a_split_is_scaled_on_its_training_rows(flights):
    x, y, x_test, y_test = airline.split(flights, 300, 0)
    assert x.shape == (200, 2)
    assert x_test.shape == (100, 2)
    assert len(y_test) == 100
    np.testing.assert_allclose(x.min(axis=0), 0)
    np.testing.assert_allclose(x.max(axis=0), 1)
    assert abs(y.mean()) < 1e-12
    assert y.std() == pytest.approx(1)
    assert not np.array_equal(y, airline.split(flights, 300, 1)[1])


def test_scores_are_those_of_normal_densities():
    rng = np.random.default_rng(0)
    mean, y, variance = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.1, 1, 50)
    found = airline_starts.scores(mean, variance, 0.5, y)
    densities = norm(mean, np.sqrt(variance + 0.5)).logpdf(y)
    assert found["nlpd"] == pytest.approx(-densities.mean())
    assert found["worst"] == pytest.approx(-densities.min())
    assert found["mse"] == pytest.approx(np.mean((y - mean) ** 2))


def test_flights_fit_into_a_small_file(flights, tmp_path):
    whole = flights._replace(y=np.round(flights.y))
    airline_data.pack(whole, tmp_path / "flights.npz")
    read = airline_data.unpack(tmp_path / "flights.npz")
    np.testing.assert_array_equal(read.x, whole.x)
    np.testing.assert_array_equal(read.y, whole.y)
    assert read.names == whole.names
    with pytest.raises(ValueError, match="'delay' is not of 16-bit whole numbers"):
        airline_data.pack(flights, tmp_path / "flights.npz")


@pytest.mark.parametrize("method", ["Adam", "Adam + natural"])
def test_the_papers_schemes_climb_from_the_prior(flights, method, monkeypatch):
    x, y, x_test, y_test = airline.split(flights, 300, 0)
    monkeypatch.setattr(airline_methods, "PLACES", np.linspace(0, 1, 7))
    learn = airline_methods.METHODS[method][0]
    found = learn(flights.names, x, y, x_test, 200)
    assert airline_starts.scores(found.mean, found.variance, found.noise, y_test)["mse"] < 0.7
    assert found.bound > norm(0, 1).logpdf(y).sum()  # without effects
    assert found.steps <= 200


def test_the_study_writes_and_resumes(flights, tmp_path, monkeypatch, capsys):
    methods = {"VFF": airline_methods.METHODS["VFF"]}
    monkeypatch.setattr(airline, "METHODS", methods)
    path = tmp_path / "airline.json"
    rows, posterior = airline.study(flights, [(150, 2), (300, 1)], {"VFF": 5}, path)
    assert posterior is None
    assert len(rows) == 3
    assert json.loads(path.read_text())["results"] == rows
    assert all(0 < row["mse"] < 1.5 and row["least variance of f"] > 0 for row in rows)
    monkeypatch.setattr(airline, "run", None)  # nothing is left to run
    again, _ = airline.study(flights, [(150, 2), (300, 1)], {"VFF": 5}, path)
    assert again == rows
    airline.boxes(rows, tmp_path / "boxes.png")
    assert (tmp_path / "boxes.png").stat().st_size > 1000
    assert (tmp_path / "boxes.pdf").exists()


def test_the_table_sets_the_papers_numbers_beside_ours():
    row = {"method": "Adam", "rows": 2_055_733, "mse": 0.8, "nlpd": 1.3, "seconds": 9.0}
    text = airline.table([row, row | {"mse": 0.9}])
    assert "0.8500 ± 0.0500" in text
    assert "9.220 ± 20.400" in text
    assert airline.papers(3_000) == {}


def test_starts_are_tabled_by_their_last_look(tmp_path):
    rows = [
        {"method": "Adam", "start": start, "steps": steps, "noise": start, "mse": 1.0, "nlpd": nlpd}
        for start in airline_starts.STARTS
        for steps, nlpd in ((10, 7.0), (20, 5.0))
    ]
    rows.append(rows[-1] | {"method": "all rows", "noise": 0.8, "nlpd": 1.25})
    text = airline_starts.table(rows)
    assert "5.000" in text
    assert "7.000" not in text
    assert "1.250" in text
    airline_starts.picture(rows, tmp_path / "starts.png")
    assert (tmp_path / "starts.pdf").exists()


EFFECTS = {f"{i}": {"at": [0, 1], "mean": [0, 1], "variance": [1, 1]} for i in range(8)}


def test_single_runs_are_collected(tmp_path):
    row = {"method": "Adam", "rows": 10_000, "repeat": 1, "mse": 0.9, "nlpd": 1.4, "seconds": 1.0}
    for repeat in range(2):
        name = tmp_path / "runs" / f"{repeat}.json"
        one = row | {"repeat": 1 - repeat}
        airline.studies.write([one | {"effects": EFFECTS}], name, {"processor": "another"})
    airline.main(["--from", str(tmp_path / "runs"), "--output", str(tmp_path)])
    stored = json.loads((tmp_path / "airline.json").read_text())
    assert stored["processor"] == "another"
    assert stored["results"] == [row | {"repeat": repeat} for repeat in (0, 1)]
    assert (tmp_path / "airline.png").exists()
    with pytest.raises(ValueError, match="no results of runs"):
        airline.main(["--from", str(tmp_path / "nothing"), "--output", str(tmp_path)])
