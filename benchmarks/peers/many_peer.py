"""AutoETS of statsforecast on many series.

    python -m benchmarks.peers.many_peer JOB.json

The job {"data": FILE, "name": NAME, "season": S, "horizon": H} of `benchmarks.many` fits all series
of an array and forecasts them, in one process and by a pool on all cores, and prints a line of
JSON: the seconds of each; those of the pool without its start, which a few series show.
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

    def run(some, jobs):
        began = time.perf_counter()
        methods = StatsForecast([AutoETS(season_length=job["season"])], freq=1, n_jobs=jobs)
        found = methods.forecast(df=some, h=job["horizon"], level=[95])
        return time.perf_counter() - began, found

    few = frame[frame["unique_id"] < 2]
    run(few, 1)  # compiles
    alone, found = run(frame, 1)
    run(few, -1)
    start, _ = run(few, -1)
    pooled, _ = run(frame, -1)
    done = int(found["unique_id"].nunique() if "unique_id" in found else found.index.nunique())
    record = {"seconds": pooled - start, "pool_start_seconds": start, "one_process_seconds": alone}
    record |= {"series": done, "versions": versions("statsforecast", "numpy")}
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
