"""Summaries made by Dask, on a cluster of local processes of which one is killed on the way."""

import os
import signal
import time
from operator import add

import dask
import dask.bag as db
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest

import stategp as sg

pytestmark = pytest.mark.filterwarnings("default")  # of Dask's own, not ours

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 20, 400)
Y = np.sin(X) + 0.1 * RNG.standard_normal(len(X))
PARTS = [slice(i, None, 8) for i in range(8)]


def assert_whole(summary):
    whole = sg.summarise(X, Y, shortest=2.0)
    assert (summary.rows, summary.first, summary.last) == (whole.rows, whole.first, whole.last)
    np.testing.assert_allclose(summary.sums.plain, whole.sums.plain, rtol=1e-12, atol=1e-12)
    model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    elbos = [sg.condition(model, each, inducing=16).elbo for each in (summary, whole)]
    assert elbos[0] == pytest.approx(elbos[1], rel=1e-11)


def test_a_bag_is_folded():
    def summarise(part):
        return sg.summarise(X[part], Y[part], shortest=2.0)

    bag = db.from_sequence(PARTS, partition_size=1)
    assert_whole(bag.map(summarise).fold(add).compute(scheduler="synchronous"))


def test_partitions_of_a_frame_are_reduced():
    def summarise(part):
        return sg.summarise(part["hours"], part["load"], shortest=2.0)

    frame = dd.from_pandas(pd.DataFrame({"hours": X, "load": Y}), npartitions=5)
    parts = [dask.delayed(summarise)(part) for part in frame.to_delayed()]
    assert_whole(dask.delayed(sum)(parts).compute(scheduler="synchronous"))


def test_a_worker_that_dies_costs_its_parts_only(tmp_path):
    x, y = X, Y

    def summarise(part):
        import stategp

        (tmp_path / f"{part.start}-{os.getpid()}").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.05)
        return stategp.summarise(x[part], y[part], shortest=2.0)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        future = client.compute(db.from_sequence(PARTS, partition_size=1).map(summarise).fold(add))
        while len(started := list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        killed = started[0].name.split("-")
        os.kill(int(killed[1]), signal.SIGKILL)
        (tmp_path / "go").touch()
        assert_whole(future.result(timeout=120))
        again = {path.name for path in tmp_path.glob(f"{killed[0]}-*")}
        assert len(again) == 2  # the part of the worker that died was computed twice
