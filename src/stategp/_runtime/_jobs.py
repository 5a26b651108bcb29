"""Work that joblib divides among processes, by the backend that is registered there."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from stategp._arguments import whole_number

Done = TypeVar("Done")


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of jobs; None means this process alone."""
    if n_jobs is not None and whole_number("n_jobs", n_jobs) == 0:
        raise ValueError("n_jobs must not be 0: give a number of jobs, or -1 for one per core")


def in_jobs(
    n_jobs: int,
    count: int,
    do: Callable[..., Done],
    given: Callable[[np.ndarray], tuple[Any, ...]],
) -> list[Done]:
    """`do(*given(numbers))` for parts of the numbers of so many things, in order."""
    try:
        import joblib
    except ImportError:
        raise ImportError(
            'n_jobs needs joblib: pip install "stategp[parallel]"; without n_jobs series are '
            "fitted side by side in this process"
        ) from None
    at_once = int(joblib.effective_n_jobs(n_jobs))
    parts = np.array_split(np.arange(count), min(2 * at_once, count))
    work = (joblib.delayed(do)(*given(numbers)) for numbers in parts)
    found: list[Done] = joblib.Parallel(n_jobs=n_jobs)(work)
    return found
