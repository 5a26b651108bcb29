"""Several devices: rows of observations are divided among them, with the same answers."""

import os
import subprocess
import sys

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
