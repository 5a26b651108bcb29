"""Estimators for scikit-learn: `sg.GPRegressor` and `sg.GPClassifier`."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        'sg.GPRegressor and sg.GPClassifier need scikit-learn: pip install "stategp[sklearn]"'
    ) from error

from stategp._estimators._classifier import GPClassifier
from stategp._estimators._regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor"]
