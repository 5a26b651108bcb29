"""Two or three trends for monthly series: `python -m benchmarks.month_trial`.

At origins 18 months before the end of the training parts of M3's monthly series (the file of
`benchmarks.foresight_trial`), every so many of them: forecasts of two trends, the second on the
likelier scale only, with half of the weight within a scale shared equally, as they were, and of the
three trends and weights that the forecaster has now.

    python -m benchmarks.month_trial --share 0/2 --out months-0.json
    python -m benchmarks.month_trial --join months-0.json months-1.json --store

`--store` keeps a summary in docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from benchmarks.change_trials import part, scored
from benchmarks.forecast_series import GROUPS, read_series
from benchmarks.forecast_trials import setting
from benchmarks.foresight_trial import CUTS, FEWEST, M3, SCORES, STORED, summary
from stategp._forecasting._averages import average_of
from stategp._forecasting._choosing import Standing, weigh
from stategp._forecasting._learning import learn

WAYS = ("two trends", "three trends")
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


def compared(y, future):
    here = setting("monthly", y)
    learned = [[learn(one, here.series) for one in some] for some in here.series.candidates()]
    evidences = [[one.evidence for one in some] for some in learned]
    best = int(np.argmax([some[0] for some in evidences]))
    standings = [[Standing(evidence) for evidence in some] for some in evidences]
    parts = [[part(one, here.series, here.ahead) for one in some] for some in learned]
    found = []
    for weights in (before(evidences, best), weigh(standings, best)):
        average = average_of(parts[s][n]._replace(weight=w) for w, s, n in weights)
        found.append(dict(zip(SCORES, scored("monthly", average, y, future), strict=True)))
    return dict(zip(WAYS, found, strict=True))


def run(options):
    number, shares = map(int, options.share.split("/"))
    (cut,), found = CUTS["monthly"], []
    series = {
        name: train
        for name, (train, _) in read_series(M3).items()
        if len(train) - cut >= FEWEST["monthly"]
    }
    for name, train in list(series.items())[:: options.every][number::shares]:
        y, future = train[:-cut], train[len(train) - cut :][: GROUPS["monthly"].horizon]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append({"series": name} | compared(y, future))
        options.out.write_text(json.dumps(found))
    print(f"{len(found)} origins: {options.out}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=2, help="every so many of the series")
    parser.add_argument("--share", default="0/1", help="which of how many shares of these")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if options.join:
        rows = [row for file in options.join for row in json.loads(file.read_text())]
        found = summary(rows, *WAYS)
        print(json.dumps(found))
        if options.store:
            stored = json.loads(STORED.read_text()) | {"months": found}
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
        return None
    if options.out is None:
        parser.error("--out, or --join")
    return run(options)


if __name__ == "__main__":
    main()
