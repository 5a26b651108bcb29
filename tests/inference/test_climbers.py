"""BFGS in slots: known minima, edges, places without a value, problems that come and go."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from stategp import Outcome
from stategp._inference import Climbers, Problem

FAR = 1e3


def climb(function, problems, slots=2, **settings):
    """The ends of all problems, in their order; `function` is to be minimised."""
    size = problems[0].starts.shape[1]
    climbers = Climbers(slots, size, **{"max_steps": 200, "flat": 1e-5, "gtol": 1e-8, **settings})
    queue, inside, ends = iter(range(len(problems))), {}, {}
    while True:
        for slot in climbers.empty():
            number = next(queue, None)
            if number is None:
                break
            inside[slot] = number
            climbers.put(slot, problems[number])
        if not inside:
            return [ends[number] for number in range(len(problems))]
        points = climbers.points()
        values = np.array([function(point)[0] for point in points])
        slopes = np.array([function(point)[1] for point in points])
        for slot, end in climbers.told(-values, -slopes, values).items():
            ends[inside.pop(slot)] = end


def problem(*starts, low=-FAR, high=FAR, free=None):
    starts = np.array(starts, dtype=float)
    size = starts.shape[1]
    free = np.ones(size) if free is None else np.array(free, dtype=float)
    return Problem(starts, np.full(size, low), np.full(size, high), free, 1.0)


def valley(point):
    return rosen(point), rosen_der(point)


def test_a_curved_valley_is_followed_to_its_end():
    ends = climb(valley, [problem([-1.2, 1.0]), problem([2.0, -3.0]), problem([0.5, 0.5])])
    for end in ends:
        assert end.outcome is Outcome.converged
        np.testing.assert_allclose(end.vector, [1.0, 1.0], atol=1e-4)
        assert end.value == pytest.approx(0.0, abs=1e-9)
        assert end.aside == -end.value
        assert not end.blind
        assert len(end.trace) < 60


def test_the_best_of_some_starts_is_taken():
    (end,) = climb(lambda x: (float(np.cos(x[0]) + x[0] / 20), np.array([0.05 - np.sin(x[0])])),
                   [problem([2.5], [-3.5], [9.0])])  # fmt: skip
    np.testing.assert_allclose(end.vector, [-np.pi - np.arcsin(0.05)], atol=1e-6)


def test_edges_hold_the_search_back_and_fixed_coordinates_stay():
    ends = climb(valley, [problem([0.2, 0.3], high=0.5), problem([-1.0, 0.7], free=[1, 0])])
    assert ends[0].outcome is Outcome.converged
    assert ends[0].edges.tolist() == [1, 0]
    np.testing.assert_allclose(ends[0].vector, [0.5, 0.25], atol=1e-4)
    assert ends[1].vector[1] == 0.7
    assert abs(rosen_der(ends[1].vector)[0]) < 1e-5


def test_places_without_a_value_are_stepped_back_from():
    def logarithm(x):
        if x[0] <= 0:
            return np.nan, np.array([np.nan])
        return float(x[0] - np.log(x[0])) * 30, np.array([30 - 30 / x[0]])

    ends = climb(logarithm, [problem([5.0]), problem([-1.0])])
    np.testing.assert_allclose(ends[0].vector, [1.0], atol=1e-5)
    assert ends[1].outcome is Outcome.bad_start
    assert ends[1].blind


def test_steps_are_limited():
    (end,) = climb(valley, [problem([-1.2, 1.0])], max_steps=3)
    assert end.outcome is Outcome.out_of_steps
    assert len(end.trace) == 4


def test_a_search_of_nothing_ends_where_it_begins():
    (end,) = climb(lambda x: (0.5, np.zeros(0)), [problem([])])
    assert end.outcome is Outcome.converged
    assert end.value == -0.5


def test_what_is_under_way_can_be_stopped():
    climbers = Climbers(2, 2, max_steps=9, flat=1e-5, gtol=1e-8)
    climbers.put(0, problem([-1.2, 1.0]))
    value, slope = valley(climbers.points()[0])
    climbers.told(np.array([-value, 0.0]), np.array([-slope, np.zeros(2)]), np.zeros(2))
    ends = climbers.stop(Outcome.interrupted)
    assert list(ends) == [0]
    assert ends[0].value == -value
    assert climbers.empty() == [0, 1]
