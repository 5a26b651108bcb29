"""All of sktime's checks of a forecaster (`make sktime-checks`): several minutes."""

import sys

from sktime.utils.estimator_checks import check_estimator

from stategp.sktime import StateGPForecaster


def main() -> None:
    results = check_estimator(StateGPForecaster, raise_exceptions=False, verbose=False)
    failed = {name: result for name, result in results.items() if result != "PASSED"}
    print(f"{len(results)} checks, {len(failed)} failed")
    sys.exit("\n".join(f"{name}: {result!r}" for name, result in failed.items()) or 0)


if __name__ == "__main__":
    main()
