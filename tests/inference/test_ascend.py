"""The loop of first-order methods, on functions that are known."""

import numpy as np

from stategp._inference import Ascent, Outcome, run


def climb(rate, *, start=4.0, noise=0.0, steps=200, breaks_at=None, **changes):
    """Gradient ascent on −x²; the state is x."""
    rng = np.random.default_rng(0)

    def step(x, number):
        if number == breaks_at:
            raise KeyboardInterrupt
        value = -(x**2) + noise * rng.standard_normal()
        return x - rate * 2 * x, value if abs(x) < 1e3 else np.nan, rate

    settings = {"window": 10, "enough": 1e-9, "noisy": noise > 0, "stop_early": True} | changes
    search = Ascent(start, step, max_steps=steps, **settings)
    result = run(search, lambda *_: None)
    return search.best, result


def test_stops_when_it_no_longer_rises():
    x, result = climb(0.3)
    assert result.converged
    assert abs(x) < 1e-4
    assert result.steps == len(result.trace) - 1 < 100
    assert result.step_sizes[0] == 0.3


def test_the_limit_of_steps_is_kept_and_said():
    _, result = climb(0.001, steps=30)
    assert not result.converged
    assert len(result.trace) == 30
    assert result.outcome is Outcome.out_of_steps
    assert "raise max_steps" in result.message


def test_a_falling_objective_is_not_called_converged_and_the_best_is_kept():
    x, result = climb(-0.001, steps=100)
    assert not result.converged
    assert result.outcome is Outcome.falling
    assert x == 4.0


def test_a_place_that_is_not_finite_ends_at_the_best_one_before():
    x, result = climb(1.5, steps=100)
    assert not result.converged
    assert result.outcome is Outcome.not_finite
    assert x == 4.0


def test_noise_counts_as_flat_only_within_its_own_error():
    x, result = climb(0.05, noise=0.1, window=50, steps=1000)
    assert result.converged
    assert abs(x) < 0.1
    _, all_steps = climb(0.05, noise=0.1, window=50, steps=300, stop_early=False)
    assert len(all_steps.trace) == 300
    assert all_steps.converged


def test_ctrl_c_keeps_what_was_reached():
    x, result = climb(0.01, breaks_at=20)
    assert result.outcome is Outcome.interrupted
    assert -(x**2) == result.trace[-1]
