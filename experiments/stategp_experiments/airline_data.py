"""The flights of the airline study in one small file: all its columns are whole numbers.

    python -m stategp_experiments.airline_data flights.npz

`airline_run --flights flights.npz` reads it, without pyarrow and without the network.
"""

import argparse
from pathlib import Path

import numpy as np

import stategp as sg
from stategp._runtime import replacing
from stategp.data import Flights


def pack(flights: Flights, path: Path) -> None:
    """Inputs and delays as 16-bit numbers, column by column."""
    columns = dict(zip((*flights.names, "delay"), (*flights.x.T, flights.y), strict=True))
    small = {name: values.astype(np.int16) for name, values in columns.items()}
    for name, values in columns.items():
        if not np.array_equal(values, small[name]):
            raise ValueError(f"the column {name!r} is not of 16-bit whole numbers")
    with replacing(path) as file:
        np.savez_compressed(file, **small)


def unpack(path: Path) -> Flights:
    """What `pack` has written, as `sg.data.airline` gives it."""
    with np.load(path, allow_pickle=False) as columns:
        *names, last = columns.files
        if last != "delay":
            raise ValueError(f"{path} has no flights: python -m stategp_experiments.airline_data")
        x = np.stack([columns[name].astype(float) for name in names], axis=1)
        return Flights(x, columns[last].astype(float), tuple(names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    pack(sg.data.airline(), parser.parse_args().path)


if __name__ == "__main__":
    main()
