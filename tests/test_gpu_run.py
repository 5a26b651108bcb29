"""docs/gpu.md says what docs/gpu-run.json holds."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_figures() -> None:
    run = json.loads((DOCS / "gpu-run.json").read_text())
    page = " ".join((DOCS / "gpu.md").read_text().split())
    assert f"JAX {run['jax']} (`python -m benchmarks.gpu`)" in page
    packing = []
    for result in run["results"]:
        name, pack = result["likelihood"].capitalize(), result["pack"]
        assert (result["n"], result["m"]) == (10**8, 1000)
        packing.append((pack["seconds"], pack["first_seconds"]))
        for view, words in (("sums", "data reduced to sums"), ("rows", "pass over all data")):
            works = result["works"][view]
            step, gradients = (
                f"{1e3 * works[work]['seconds']:.1f}"
                for work in ("natural step", "bound + gradients")
            )
            assert f"| {name}, {words} | {step} | {gradients} |" in page
    (gaussian, first), (poisson, then) = packing
    assert f"Packing takes {gaussian:.2f} s (Gaussian) and {poisson:.2f} s (Poisson)" in page
    assert f"with compilation, {first:.2f} s and {then:.2f} s." in page
