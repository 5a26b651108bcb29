"""AutoETS of statsforecast on many series.

    python -m benchmarks.peers.many_peer JOB.json

The job {"data": FILE, "name": NAME, "season": S, "horizon": H} of `benchmarks.many` fits all series
of an array and forecasts them, on all cores, and prints a line of JSON: the seconds.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.peers.protocol import versions


def main():
    import pandas as pd
    from statsforecast import StatsForecast
    from statsforecast.models import AutoETS

    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[1]).read_text())
    with np.load(job["data"]) as arrays:
        y = arrays[job["name"]]
    count, length = y.shape
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(count), length),
            "ds": np.tile(np.arange(length), count),
            "y": y.ravel(),
        }
    ).dropna()

    def run(some):
        methods = StatsForecast([AutoETS(season_length=job["season"])], freq=1, n_jobs=-1)
        return methods.forecast(df=some, h=job["horizon"], level=[95])

    run(frame[frame["unique_id"] < 2])  # compiles
    began = time.perf_counter()
    found = run(frame)
    seconds = time.perf_counter() - began
    done = int(found["unique_id"].nunique() if "unique_id" in found else found.index.nunique())
    record = {"seconds": seconds, "series": done, "versions": versions("statsforecast", "numpy")}
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
