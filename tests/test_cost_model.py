"""The formulas of docs/scaling.md hold in the stored runs, and the page says what they predict."""

import numpy as np
import pytest

import stategp as sg
from benchmarks import cost_model
from benchmarks.blocks import block


def test_the_page_has_the_tables():
    assert block("scaling.md", "costs") == cost_model.page()


@pytest.mark.parametrize("check", cost_model.checks(), ids=lambda check: check.what)
def test_formulas_are_near_what_was_measured(check):
    exact = check.what.startswith("sums of")
    assert (0.999 if exact else 0.65) < check.ratio < (1.001 if exact else 1.4)


def test_predictions_say_how_far_formulas_of_their_kind_are_off():
    rows = {what: off for what, _, off in cost_model.predictions()}
    reading = [c.measured / c.predicted for c in cost_model.checks() if "reading" in c.what]
    said = [float(number) for number in rows["likelihoods with sums: reading"].split(" to ")]
    assert said == pytest.approx([min(reading), max(reading)], abs=0.005)
    assert rows["exchange of the sums, once"] == "1.00"


def test_many_series_take_a_search_each():
    assert 20 < cost_model.evaluations() < 200  # BFGS from two starts, three hyperparameters


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli", "exponential"])
def test_sums_have_the_size_of_the_formula(likelihood):
    x = np.linspace(0, 10, 50)
    summary = sg.summarise(x, np.ones(50), shortest=1.0, likelihood=likelihood)
    assert summary.nbytes == cost_model.summary_bytes(len(summary.number), likelihood)
