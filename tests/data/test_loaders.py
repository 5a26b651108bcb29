"""Real data: found where it should be, with clear words where it is not."""

import wave
from pathlib import Path

import numpy as np
import pytest

from stategp import data


def test_the_folder_given_and_the_environment_are_looked_into(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="the folder given"):
        data.solar(tmp_path)
    monkeypatch.setenv("STATEGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="STATEGP_DATA"):
        data.solar()
    (tmp_path / "solar").mkdir()
    rows = "\n".join(f"{1610.5 + i}, 0.0, {1365 + np.sin(i):.4f}" for i in range(391))
    (tmp_path / "solar" / "solar_data.txt").write_text("# comment\n" + rows)
    found = data.solar()
    assert [len(part) for part in found] == [281, 281, 110, 110]
    everything = np.concatenate([found.y_train, found.y_test])
    np.testing.assert_allclose([everything.mean(), everything.std()], [0, 1], atol=1e-12)
    assert not np.any((found.x_train > 1620) & (found.x_train < 1650))


def test_counts_and_folds(tmp_path):
    for name, rows in [
        ("coal/binned.csv", "\n".join(f"{1851 + i / 3} {i % 3}" for i in range(33))),
        ("coal/cvind.csv", "\n".join(str(i) for i in reversed(range(33)))),
        ("motorcycle/mcycle.csv", "\n".join(f"{i},{i * 0.5},{-i}" for i in range(20))),
        ("motorcycle/cvind.csv", "\n".join(str(i) for i in range(20))),
        ("co2/CO2_data.csv", "1958.2083333333333,315.71\n1969.9583333333333,324.0\n"),
        ("aircraft/aircraft_accidents.txt", "2000-01-01\n2000-01-04\n2000-01-04\n"),
    ]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(rows)
    coal = data.coal(tmp_path)
    assert (coal.x.shape, coal.y[:4].tolist()) == ((33,), [0, 1, 2, 0])
    assert [fold.tolist() for fold in coal.folds[:2]] == [[32, 31, 30], [29, 28, 27]]
    assert len(coal.folds) == 10
    crash = data.motorcycle(tmp_path)
    assert (crash.x[3], crash.y[3]) == (1.5, -3)
    air = data.co2(tmp_path)
    assert air.month.astype(str).tolist() == ["1958-03-01", "1969-12-01"]
    assert air.y.tolist() == [315.71, 324.0]
    days = data.aircraft(tmp_path)
    assert days.y.tolist() == [1, 0, 0, 2]
    assert days.first == np.datetime64("2000-01-01")


def test_a_recording_is_standardised(tmp_path):
    (tmp_path / "vowel").mkdir()
    with wave.open(str(tmp_path / "vowel" / "o.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 4, "NONE", ""))
        file.writeframes(np.array([-300, 100, 500, -100], dtype="<i2").tobytes())
    sound = data.vowel(tmp_path)
    np.testing.assert_array_equal(sound.x, np.arange(4) / 8000)
    np.testing.assert_allclose(sound.y, np.array([-7, 1, 9, -3]) / np.sqrt(35))


def test_flights_of_aircraft_of_known_age(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    folder = tmp_path / "airline"
    listed = (Path(data.__file__).parent / "airline.sha256").read_text().splitlines()
    rows = {
        "airTime": [60, 90, None],
        "depTime": [1015, 5, 800],
        "arrTime": [1115, 2400, 900],
        "dayOfWeek": [1, 2, 3],
        "dayOfMonth": [4, 5, 6],
        "distance": [300, 500, 700],
        "arrDelay": [-3, 12, 0],
        "tailNum": ["N1", "N2", "N1"],
    }
    for line in listed:
        path = folder / line.split()[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            path.write_text("tailnum,year\nN1,1998\nN2,None\nN3\n")
        else:
            pq.write_table(pa.table(rows), path)
    flights = data.airline(tmp_path)  # of three flights, one has no air time and one no known year
    assert flights.x.shape == (len(listed) - 1, 8)
    assert flights.x[0].tolist() == [10, 300, 60, 615, 675, 1, 4, 1]
    assert flights.y[0] == -3
    assert sorted(set(flights.x[:, 7])) == [1, 2, 3, 4]


def test_trees_are_counted_in_cells(tmp_path):
    (tmp_path / "rainforest").mkdir()
    trees = "7.5,9.25\n10.5,4.75\n990.5,499.0\n1000.0,500.0\n"
    (tmp_path / "rainforest" / "TRI2TU-data.csv").write_text(trees)
    forest = data.rainforest(5, tmp_path, rows=10)
    assert forest.shape == (10, 5)
    assert forest.x[[0, 1, -1]].tolist() == [[50, 50], [50, 150], [950, 450]]
    assert (forest.y[0], forest.y[-1], forest.y.sum()) == (2, 2, 4)
    assert [len(fold) for fold in forest.folds] == [5] * 10
    assert sorted(np.concatenate(forest.folds)) == list(range(50))
    with pytest.raises(ValueError, match="columns"):
        data.rainforest(0, tmp_path)
