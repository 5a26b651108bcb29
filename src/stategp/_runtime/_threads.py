"""One thread for small matrices: several wait for one another longer than any of them computes."""

import contextlib
import functools
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController


@functools.cache
def _libraries() -> ThreadpoolController:
    import scipy.optimize  # noqa: F401 (so that its BLAS is loaded, and found)

    return ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's and SciPy's linear algebra on one thread, as for the optimisers of SciPy."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
