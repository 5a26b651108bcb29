"""Several devices of one process divide rows among them: the fits of one device."""

import json
import os
import subprocess
import sys

import numpy as np

from tests.dividing import divided_fits
from tests.pages import ROOT

NAMES = ["poisson", "gaussian on disk"]
PROGRAM = f"""
import json
import jax
from stategp._data import _packing, _stored
from tests.dividing import divided_fits

assert len(jax.devices()) == 2
used = set()
for module in (_packing, _stored):  # what the rows are laid out on
    def seen(mesh=module.mesh_of_devices):
        used.add(mesh().size)
        return mesh()
    module.mesh_of_devices = seen
found = divided_fits({NAMES})
assert used == {{2}}
print(json.dumps(found))
"""


def test_two_devices_give_the_fits_of_one():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"XLA_FLAGS": flags},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two, one = json.loads(done.stdout), divided_fits(NAMES)
    for name in NAMES:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, err_msg=name)
