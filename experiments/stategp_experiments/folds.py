"""Cross-validation: negative log predictive density of the rows left out, fold by fold."""

import numpy as np

import stategp as sg
from stategp.data import Folds


def nlpd(model: sg.GP, data: Folds, **settings) -> np.ndarray:
    """One average per fold, hyperparameters learned without the fold."""
    scores = []
    for fold in data.folds:
        keep = np.setdiff1d(np.arange(len(data.x)), fold)
        posterior = sg.fit(model, data.x[keep], data.y[keep], **settings)
        scores.append(-float(np.mean(posterior.log_density(data.x[fold], data.y[fold]))))
    return np.asarray(scores)


def show(name: str, scores: np.ndarray) -> None:
    print(f"{name:32} NLPD {scores.mean():7.4f} ± {scores.std():.4f} (sd over {len(scores)} folds)")
