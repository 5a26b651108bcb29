"""All of sktime's checks of a forecaster (`make sktime-checks`): some minutes.

A line for each kind of check as it ends; with names of checks as arguments, only these.
"""

import sys
import time

from sktime.tests.test_class_register import get_test_classes_for_obj
from sktime.utils.estimator_checks import check_estimator

from stategp.sktime import StateGPForecaster


def main() -> None:
    kinds = get_test_classes_for_obj(StateGPForecaster)
    every = {name for kind in kinds for name in dir(kind) if name.startswith("test")}
    unknown = set(sys.argv[1:]) - every
    if unknown:
        sys.exit(f"sktime has no checks {', '.join(sorted(unknown))}; it has {sorted(every)}")
    results = {}
    for name in sorted(sys.argv[1:] or every):
        began = time.perf_counter()
        found = check_estimator(StateGPForecaster, tests_to_run=name, verbose=False)
        passed = sum(result == "PASSED" for result in found.values())
        seconds = time.perf_counter() - began
        print(f"{name}: {passed} of {len(found)} passed, {seconds:.1f} s", flush=True)
        results |= found
    failed = {name: result for name, result in results.items() if result != "PASSED"}
    print(f"{len(results)} checks, {len(failed)} failed")
    sys.exit("\n".join(f"{name}: {result!r}" for name, result in failed.items()) or 0)


if __name__ == "__main__":
    main()
