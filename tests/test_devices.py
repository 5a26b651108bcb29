"""Several devices: rows of observations are divided among them, with the same answers."""

import os
import socket
import subprocess
import sys

import pytest

from tests.pages import ROOT

COMPARE = """
import jax, numpy as np, stategp as sg
from stategp._data import observe
from stategp._inference import Collapsed, Sight
from stategp.parameters import to_vector

assert len(jax.devices()) == 2
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 20, 2000))
inducing = jax.numpy.linspace(0, 20, 16)
for likelihood in [sg.likelihoods.StudentT(df=4.0, scale=0.3)]:
    y = np.sin(x) + 0.3 * rng.standard_t(4, len(x))
    model = sg.GP(sg.kernels.Matern32(lengthscale=5.0, variance=1.0), likelihood)
    found = []
    for device in (None, jax.devices()[0]):
        jax.config.update("jax_default_device", device)
        search = Collapsed(model, observe(x, y, likelihood), inducing)
        search.sight = Sight(search.data, inducing, few=100)
        vector = to_vector(model)
        found.append((search(vector), search(vector + 0.1)))
        rows = getattr(search.sight.view, "rows", search.sight.view)
        assert len(rows.t.sharding.device_set) == (2 if device is None else 1)
    for (one, slopes), (other, same_slopes) in zip(*found, strict=True):
        assert abs(one / other - 1) < 1e-12, (one, other)
        np.testing.assert_allclose(slopes, same_slopes, rtol=1e-9, atol=1e-9 * abs(one))
print("same")
"""


SHARE = """
import sys
import jax, numpy as np, stategp as sg

port, index, bad = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "bad"
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=index)
rng = np.random.default_rng(0)
x = rng.uniform(0, 20, 400)
y = np.sin(x) + 0.1 * rng.standard_normal(len(x))
whole = sg.summarise(x, y, shortest=2.0)
if bad:
    y[399] = np.inf

def batches():
    for rows in np.array_split(np.arange(len(x)), 8):
        yield x[rows], y[rows]

try:
    total = sg.summarise(sg.stream(batches, shortest=2.0))
except (ValueError, RuntimeError) as error:
    print(type(error).__name__, error)
else:
    np.testing.assert_allclose(total.sums.plain, whole.sums.plain, rtol=1e-12, atol=1e-12)
    model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    elbos = [sg.condition(model, each, inducing=16).elbo for each in (total, whole)]
    assert abs(elbos[0] / elbos[1] - 1) < 1e-11
    print("same", total.rows)
"""


@pytest.mark.parametrize("kind", ["good", "bad"])
def test_processes_read_their_shares(kind):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SHARE, str(port), str(index), kind],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        said = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    if kind == "good":
        assert all("same 400" in out for out, _ in said), said
    else:
        assert "RuntimeError process 1 could not read its share" in said[0][0], said
        assert "ValueError batch 7" in said[1][0], said


def test_two_devices_give_the_answer_of_one():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        env=os.environ | {"XLA_FLAGS": flags},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout.strip() == "same", done.stderr[-3000:]
