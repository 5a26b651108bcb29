"""Classes of public data sets: stategp's classifier beside scikit-learn's.

    python -m benchmarks.classification [--store]

The data come with scikit-learn (iris, wine; digits as two principal components). Both classifiers
see the same standardised columns in the same folds of a stratified cross-validation, and learn
their hyperparameters in each of them. With several columns the models differ: stategp's is a sum of
one function of each column and the class, scikit-learn's one function of all columns together.
Errors are standard errors over the folds; of the difference from `stategp`, fold by fold.
`--store` writes
docs/classification-run.json, which a test compares with the page.
"""

import argparse
import datetime
import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stategp as sg
from benchmarks.kills import commit

STORED = Path(__file__).parents[1] / "docs" / "classification-run.json"
FOLDS = 5


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Columns and classes of each data set, by name."""
    (iris, kinds), (wine, growers) = load_iris(return_X_y=True), load_wine(return_X_y=True)
    pixels, digits = load_digits(n_class=4, return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(digits))[:300]
    components = PCA(2, random_state=0).fit_transform(pixels)
    return {
        "iris, petal length alone": (iris[:, [2]], kinds),
        "iris, four columns": (iris, kinds),
        "wine, thirteen columns": (wine, growers),
        "digits 0 to 3, two components": (components[rows], digits[rows]),
    }


def classifiers() -> dict[str, Any]:
    """The classifiers that are compared, with what they start from."""
    return {
        "stategp": sg.GPClassifier(),
        "stategp, one against the rest": sg.GPClassifier(multi_class="one_vs_rest"),
        "scikit-learn": GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0),
    }


def score(classifier: Any, x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
    """Accuracy and log loss of predictions for rows that were left out, in each fold."""
    folds, found = StratifiedKFold(FOLDS, shuffle=True, random_state=0), []
    for learned, out in folds.split(x, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = make_pipeline(StandardScaler(), clone(classifier)).fit(x[learned], y[learned])
            chances = fitted.predict_proba(x[out])
        right = accuracy_score(y[out], chances.argmax(axis=1))
        found.append((float(right), float(log_loss(y[out], chances))))
    return {"accuracy": [one[0] for one in found], "log_loss": [one[1] for one in found]}


def run() -> dict[str, Any]:
    """All scores, by data set and classifier."""
    import sklearn

    found = {
        name: {which: score(classifier, x, y) for which, classifier in classifiers().items()}
        for name, (x, y) in data_sets().items()
    }
    about = {"date": f"{datetime.date.today()}", "commit": commit(), "stategp": version("stategp")}
    return about | {"folds": FOLDS, "scikit-learn": sklearn.__version__, "scores": found}


def table(result: dict[str, Any]) -> str:
    """The scores as a table of Markdown."""
    which = list(classifiers())
    lines = [
        "| data | classifier | accuracy | log loss | more than `stategp` |",
        "|---|---|---|---|---|",
    ]
    for name, scores in result["scores"].items():
        usual = np.array(scores[which[0]]["log_loss"])
        for number, classifier in enumerate(which):
            right, loss = (np.array(scores[classifier][of]) for of in ("accuracy", "log_loss"))
            more = with_error(loss - usual) if number else ""
            cells = name if number == 0 else "", classifier, with_error(right), with_error(loss)
            lines.append(f"| {' | '.join([*cells, more])} |")
    return "\n".join(lines)


def with_error(values: np.ndarray) -> str:
    """The mean over folds and its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    asked = parser.parse_args()
    result = run()
    print(table(result))
    if asked.store:
        STORED.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
