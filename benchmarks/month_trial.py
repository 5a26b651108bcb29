"""Trials of models for monthly series: `python -m benchmarks.month_trial`.

At origins as many months before the end of the training parts of monthly series as the competition
forecasts, every so many of them. `trends`: forecasts of two trends, the second on the likelier
scale only, with half of the weight within a scale shared equally, as they were, and of the three
trends and weights that the forecaster has now. `seasons`: those of the three trends with waves of
seasons as they are, and with waves expected to be smaller.

    python -m benchmarks.month_trial trends --share 0/2 --out months-0.json
    python -m benchmarks.month_trial --join months-0.json months-1.json --store
    python -m benchmarks.month_trial seasons M3 --every 1 --share 3/8 --out m3.json
    python -m benchmarks.month_trial seasons M1 --every 1 --share 1/4 --out m1.json
    python -m benchmarks.month_trial seasons Tourism --every 1 --share 1/16 --out tourism.json
    python -m benchmarks.month_trial --join m3.json m1.json tourism.json --store

The series of M3 are in the file of `benchmarks.foresight_trial`, those of M1 and of the tourism
competition in files beside it (`m1-monthly.npz`, `tourism-monthly.npz`), which jobs of
`benchmarks.peers.forecast_peers` write. `--store` keeps a summary in
docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import json
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.change_trials import part, scored
from benchmarks.forecast_series import read_series
from benchmarks.forecast_trials import setting
from benchmarks.foresight_trial import FEWEST, M3, SCORES, STORED, summary
from stategp._forecasting import _candidates
from stategp._forecasting._averages import average_of
from stategp._forecasting._choosing import Standing, weigh
from stategp._forecasting._learning import learn
from stategp.kernels import Cosine, Matern12, Sum
from stategp.parameters import fixed

WAYS = {"trends": ("two trends", "three trends"), "seasons": ("as they are", "small waves")}
MONTHS = {"M3": 18, "M1": 18, "Tourism": 24}  # that are forecast
KEPT = 1 / 3  # weight of the less likely scale, then as now


def before(evidences, best):
    """Weights as they were, by the numbers of scale and model."""
    share = 1.0
    if len(evidences) == 2:
        ahead = evidences[best][0] - evidences[1 - best][0]
        share = 1 - KEPT - (1 - 2 * KEPT) / (1 + np.exp(min(ahead, 700.0)))
    weights = []
    for scale, evidence in enumerate(evidences):
        used = np.array(evidence[:2] if scale == best else evidence[:1])
        likely = np.exp(used - used.max())
        shares = (0.5 / len(used) + 0.5 * likely / likely.sum()) * (
            share if scale == best else 1 - share
        )
        weights += [(weight, scale, number) for number, weight in enumerate(shares)]
    return weights


def compared(trial, y, months):
    """Scores of the forecasts of the last months of y, both ways."""
    y, future = y[:-months], y[-months:]
    here = setting("monthly", y, months)
    now = fitted(here)
    if trial == "trends":
        evidences, best = standing(now)
        ways = (now, before(evidences, best)), (now, usual(now))
    else:
        with mock.patch.object(_candidates, "_seasons", small_waves):
            other = fitted(here)
        ways = (now, usual(now)), (other, usual(other))
    found = []
    for learned, weights in ways:
        parts = (part(learned[s][n], here.series, here.ahead) for _, s, n in weights)
        shares = (weight for weight, _, _ in weights)
        average = average_of(p._replace(weight=w) for p, w in zip(parts, shares, strict=True))
        found.append(dict(zip(SCORES, scored("monthly", average, y, future), strict=True)))
    return dict(zip(WAYS[trial], found, strict=True))


def small_waves(outline, change):
    """Variances of 1/j² squared changes are expected of the waves of a year, instead of 4/j."""
    return {
        season.name: Sum(
            **{
                f"wave{j}": Cosine(
                    variance=_candidates._near(change**2 / j**2, 1.5),
                    period=fixed(season.period / j),
                )
                * Matern12(variance=fixed(1.0), lengthscale=fixed(40 * season.period))
                for j in range(1, min(_candidates._FULL, int(season.steps / 2 + 0.1)) + 1)
            }
        )
        for season in outline.seasons
    }


def fitted(here):
    return [[learn(one, here.series) for one in some] for some in here.series.candidates()]


def standing(learned):
    """How likely models make the data, and which scale is the likelier."""
    evidences = [[one.evidence for one in some] for some in learned]
    return evidences, int(np.argmax([some[0] for some in evidences]))


def usual(learned):
    """The weights of the forecaster."""
    evidences, best = standing(learned)
    return weigh([[Standing(evidence) for evidence in some] for some in evidences], best)


def run(options):
    number, shares = map(int, options.share.split("/"))
    months, found = MONTHS[options.of], []
    file = M3.parent / f"{options.of.lower()}-monthly.npz"
    series = {
        name: train
        for name, (train, _) in read_series(file).items()
        if len(train) - months >= FEWEST["monthly"] and np.ptp(train[:-months]) > 0
    }
    for name, train in list(series.items())[:: options.every][number::shares]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = compared(options.trial, train, months)
        if min(way[name] for way in scores.values() for name in SCORES[:2]) > 0:
            found.append({"series": f"{options.of} {name}", "of": options.of} | scores)
        options.out.write_text(json.dumps({"trial": options.trial, "results": found}))
    print(f"{len(found)} origins: {options.out}")


def join(options):
    """A summary of results of one trial: of all series and, if there are several, of each kind."""
    files = [json.loads(file.read_text()) for file in options.join]
    (trial,) = {file["trial"] for file in files}
    rows = [row for file in files for row in file["results"]]
    kinds = {kind: [row for row in rows if row["of"] == kind] for kind in MONTHS}
    kinds = {kind: some for kind, some in kinds.items() if some}
    found = summary(rows, *WAYS[trial])
    if len(kinds) > 1:
        found |= {kind: summary(some, *WAYS[trial]) for kind, some in kinds.items()}
    print(json.dumps(found, indent=1))
    if options.store:
        name = "months" if trial == "trends" else f"{trial} of months"
        stored = json.loads(STORED.read_text()) | {name: found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trial", nargs="?", choices=WAYS)
    parser.add_argument("of", nargs="?", choices=MONTHS, default="M3", help="the competition")
    parser.add_argument("--every", type=int, default=2, help="every so many of the series")
    parser.add_argument("--share", default="0/1", help="which of how many shares of these")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if options.join:
        return join(options)
    if options.trial is None or options.out is None:
        parser.error("a trial and --out, or --join")
    return run(options)


if __name__ == "__main__":
    main()
