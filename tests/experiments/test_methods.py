"""docs/inference.md says what docs/methods-run.json holds; the coverage that it measures is one."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.stats

from stategp_experiments import methods

DOCS = Path(__file__).parents[2] / "docs"
RUN = json.loads((DOCS / "methods-run.json").read_text())
ROWS = RUN["results"]["summaries"]


def test_the_table_is_that_of_the_stored_run():
    assert methods.table(ROWS) in (DOCS / "inference.md").read_text()
    each = [method for data in methods.DATA for method in methods.methods_of(data)]
    assert [row["method"] for row in ROWS] == each
    assert "dirty" not in RUN["commit"]


def test_summaries_are_those_of_the_stored_folds():
    rows = [methods.Row(**row) for row in RUN["results"]["rows"]]
    assert methods.summaries(rows) == ROWS
    assert {row.fold for row in rows} == set(range(10))


def test_only_folds_in_which_all_came_to_an_end_are_averaged():
    """`laplace` failed in the worst fold of three, `ep` in two of them."""
    nlpd = {0: 1.0, 1: 2.0, 2: 6.0}
    ended = {"natural": {0, 1, 2}, "laplace": {0, 1}, "ep": {2}}
    rows = [
        methods.Row("coal", method, fold, y + 0.5 * (method == "ep"), 0.9, -1.0, fold in folds, 1.0)
        for method, folds in ended.items()
        for fold, y in nlpd.items()
    ]  # fmt: skip
    found = {row["method"]: row for row in methods.summaries(rows) if row["method"] in ended}
    assert (found["natural"]["nlpd"], found["laplace"]["nlpd"]) == (1.5, 1.5)
    assert (found["natural"]["common"], found["natural"]["converged"]) == (2, 3)
    assert (found["ep"]["nlpd"], found["ep"]["gap"], found["ep"]["common"]) == (None, 0.5, 1)
    assert "| coal | `ep` | – | 0.5000 ± 0.0000 | – | – | 1.000 | 1 of 3 |" in methods.table(
        [found["ep"]]
    )


def test_what_is_drawn_from_a_forecast_is_inside_as_often_as_it_says():
    """Ranks of a discrete y are spread over its probability: 90 % of them, whatever the law."""
    for law in (scipy.stats.poisson(0.7), scipy.stats.bernoulli(0.3), scipy.stats.norm(1.0, 2.0)):

        def cdf(x, y, *, strict, law=law):
            discrete = not hasattr(law.dist, "pdf")
            return law.cdf(y - 1 if discrete and strict else y)

        drawn = law.rvs(size=20_000, random_state=0).astype(float)
        share = methods.inside(SimpleNamespace(cdf=cdf), drawn, drawn)
        np.testing.assert_allclose(share, 0.9, atol=0.01)
