"""docs/inference.md says what docs/methods-run.json holds; the coverage that it measures is one."""

import json
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import methods

DOCS = Path(__file__).parents[2] / "docs"
ROWS = json.loads((DOCS / "methods-run.json").read_text())["results"]["summaries"]


def test_the_table_is_that_of_the_stored_run():
    text = (DOCS / "inference.md").read_text()
    for row in ROWS:
        line = (
            f"| {row['data']} | `{row['method']}` | {row['nlpd']:.4f} "
            f"| {100 * row['coverage']:.1f} % | {row['converged']} of {row['folds']} |"
        )
        assert line in text
    assert len(ROWS) == 3 * len(methods.METHODS)


def test_what_is_drawn_from_a_forecast_is_inside_as_often_as_it_says():
    """Ranks of a discrete y are spread over its probability: 90 % of them, whatever the law."""
    model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), "bernoulli")
    posterior = sg.condition(model, np.arange(6.0), [1, 0, 1, 1, 0, 1])
    x = np.linspace(0, 5, 11)
    drawn = np.asarray(posterior.sample_y(0, x, num_samples=400))
    share = methods.inside(posterior, np.tile(x, 400), drawn.reshape(-1))
    np.testing.assert_allclose(share, 0.9, atol=0.01)
