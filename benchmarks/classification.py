"""Classes of public data sets: stategp's classifier beside scikit-learn's.

    python -m benchmarks.classification [--store]

The data come with scikit-learn (iris, wine). Both classifiers see the same standardised columns in
the same folds of a stratified cross-validation, and learn their hyperparameters in each of them.
With several columns the models differ: stategp's is a sum of one function of each column and the
class, scikit-learn's one function of all columns together. `--store` writes
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
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stategp as sg
from benchmarks.kills import commit

STORED = Path(__file__).parents[1] / "docs" / "classification-run.json"
FOLDS = 5


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Columns and classes of each data set, by name."""
    (iris, kinds), (wine, growers) = load_iris(return_X_y=True), load_wine(return_X_y=True)
    return {
        "iris, petal length alone": (iris[:, [2]], kinds),
        "iris, four columns": (iris, kinds),
        "wine, thirteen columns": (wine, growers),
    }


def classifiers() -> dict[str, Any]:
    """The classifiers that are compared, with what they start from."""
    return {
        "stategp": sg.GPClassifier(),
        "stategp, one against the rest": sg.GPClassifier(multi_class="one_vs_rest"),
        "scikit-learn": GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0),
    }


def score(classifier: Any, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy and log loss of predictions for rows that were left out."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        chances = cross_val_predict(
            make_pipeline(StandardScaler(), classifier), x, y, cv=folds, method="predict_proba"
        )
    return {
        "accuracy": float(accuracy_score(y, chances.argmax(axis=1))),
        "log_loss": float(log_loss(y, chances)),
    }


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
    lines = ["| data | classifier | accuracy | log loss |", "|---|---|---|---|"]
    for name, scores in result["scores"].items():
        for number, classifier in enumerate(which):
            found = scores[classifier]
            numbers = f"{found['accuracy']:.3f} | {found['log_loss']:.3f}"
            lines.append(f"| {'' if number else name} | {classifier} | {numbers} |")
    return "\n".join(lines)


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
