"""Some fits of the airline study, written as JSON: they can be shared out among cores.

    python -m stategp_experiments.airline_run --rows 10000 --method Adam --repeats 0 1 --out FILE
    python -m stategp_experiments.airline_run --start 0.01 --out FILE

The first is one method on some splits, the second Adam from one noise variance, or with `--start
all-rows` L-BFGS from the smallest (`airline_starts`). `stategp-experiments airline --from FOLDER`
collects what such runs have written. `--flights FILE` reads them from a small file of
`airline_data`.
"""

import argparse
from pathlib import Path

import stategp as sg
from stategp_experiments import airline, airline_data, airline_starts, studies
from stategp_experiments.airline_methods import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="100000", help="how many, or all")
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--repeats", type=int, nargs="+", default=[0])
    parser.add_argument("--start", help="a noise variance, or all-rows")
    parser.add_argument("--flights", type=Path, help="a file of airline_data")
    parser.add_argument("--steps", type=int, help="fewer than the study's, to try")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if (options.method is None) == (options.start is None):
        parser.error("give either --method or --start")
    flights = airline_data.unpack(options.flights) if options.flights else sg.data.airline()
    count = len(flights.y) if options.rows == "all" else int(options.rows)
    rows = []
    if options.start is not None:
        rows = _from_start(flights, count, options.start)
    for repeat in options.repeats if options.method else []:
        key = (options.method, count, repeat, options.steps or METHODS[options.method][1])
        row, learned = airline.run(flights, *key)
        if learned.posterior is not None and options.method == "all rows" and repeat == 0:
            row["effects"] = airline.effects(learned.posterior)  # for the picture
        rows.append(row)
        studies.write(rows, options.out)
    studies.write(rows, options.out)


def _from_start(flights, count: int, start: str) -> list[dict]:
    data = flights.names, *airline.split(flights, count, 0)
    if start == "all-rows":
        return [airline_starts.all_rows(*data)]
    noise = float(start)
    return [airline_starts.one_start(*data, start=noise, steps=n) for n in airline_starts.STEPS]


if __name__ == "__main__":
    main()
