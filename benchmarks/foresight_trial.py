"""Weights by evidence or by errors of forecasts: `python -m benchmarks.foresight_trial`.

The same models of the default forecaster, averaged with weights that follow from how likely they
make the data, and with those from how much their forecasts would have missed the latest
observations. At origins within the training parts of series: M4 weekly (`STATEGP_DATA`), 13, 52 and
104 weeks before their end, and M3 monthly (`benchmarks/results/m3-monthly.npz`, which
`benchmarks.forecasts` writes), 18 months before it. The power of the errors and how far ahead they
reach were chosen on all of the weekly ones. On monthly ones it does not help, and the forecaster
does it for days and weeks only.

    python -m benchmarks.foresight_trial monthly --share 0/3 --out monthly.json
    python -m benchmarks.foresight_trial weekly --out weekly.json
    python -m benchmarks.foresight_trial --join weekly.json monthly.json --store

`--store` keeps a summary in docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import json
import math
import warnings
from pathlib import Path

import numpy as np

from benchmarks.change_trials import part, scored
from benchmarks.forecast_series import GROUPS, read_m4, read_series
from benchmarks.forecast_trials import BEFORE_THE_END, setting
from stategp._forecasting._averages import average_of
from stategp._forecasting._choosing import Standing, weigh
from stategp._forecasting._foresight import missed_by
from stategp._forecasting._learning import learn

M3 = Path(__file__).parent / "results" / "m3-monthly.npz"
STORED = Path(__file__).parent.parent / "docs" / "forecast-trials-run.json"
CUTS = BEFORE_THE_END | {"monthly": (18,)}
FEWEST = {"weekly": 60, "monthly": 40}  # observations before an origin
WAYS = ("evidence", "errors")
SCORES = ("mase", "msis", "coverage")


def compared(group, y, future):
    """MASE, MSIS and coverage with weights by evidence, and by errors."""
    here = setting(group, y)
    series = here.series
    scales = series.candidates()
    learned = [[learn(models[0], series)] for models in scales]
    best = int(np.argmax([some[0].evidence for some in learned]))
    learned[best] += [learn(other, series) for other in scales[best][1:]]
    evident = [[Standing(one.evidence) for one in some] for some in learned]
    missing = [
        [Standing(one.evidence, 1.0, missed_by(one, series)) for one in some] for some in learned
    ]
    parts = [[part(one, series, here.ahead) for one in some] for some in learned]

    def score(standings):
        weights = weigh(standings, best)
        average = average_of(parts[s][n]._replace(weight=w) for w, s, n in weights)
        return dict(zip(SCORES, scored(group, average, y, future), strict=True))

    return dict(zip(WAYS, (score(evident), score(missing)), strict=True))


def run(options):
    series = read_m4("weekly") if options.group == "weekly" else read_series(M3)
    number, shares = map(int, options.share.split("/"))
    horizon, found = GROUPS[options.group].horizon, []
    for name, (train, _) in list(series.items())[number::shares]:
        for cut in CUTS[options.group]:
            y, future = train[:-cut], train[len(train) - cut :][:horizon]
            if len(y) < FEWEST[options.group]:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = compared(options.group, y, future)
            about = {"group": options.group, "series": name, "before_the_end": cut}
            found.append(about | scores)
            options.out.write_text(json.dumps(found))
    print(f"{len(found)} origins: {options.out}")


def summary(rows, before, now):
    """Means of both ways, and the change of the logarithm of MASE and MSIS.

    Origins in the same series are not independent: standard errors are those of means over series.
    """
    found = {"origins": len(rows)}
    for way in (before, now):
        found[way] = {name: float(np.mean([row[way][name] for row in rows])) for name in SCORES}
    for name in SCORES[:2]:
        changes = {}
        for row in rows:
            change = math.log(row[now][name] / row[before][name])
            changes.setdefault(row["series"], []).append(change)
        means = np.array([np.mean(some) for some in changes.values()])
        error = float(np.std(means, ddof=1) / math.sqrt(len(means)))
        found[f"change of log {name}"] = {"mean": float(np.mean(means)), "standard error": error}
    return found


def join(options):
    rows = [row for file in options.join for row in json.loads(file.read_text())]
    found = {}
    for group in sorted({row["group"] for row in rows}):
        found[group] = summary([row for row in rows if row["group"] == group], *WAYS)
        print(f"{group}: {json.dumps(found[group])}")
    if options.store:
        stored = json.loads(STORED.read_text()) | {"foresight": found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", nargs="?", choices=FEWEST)
    parser.add_argument("--share", default="0/1", help="which of how many shares of the series")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if options.join:
        return join(options)
    if options.group is None or options.out is None:
        parser.error("a group and --out, or --join")
    return run(options)


if __name__ == "__main__":
    main()
