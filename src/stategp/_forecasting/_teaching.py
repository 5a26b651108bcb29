"""What many series teach about the default models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stategp._data import observe
from stategp._fitting import Pupil, learn_offsets, varies
from stategp._forecasting._candidates import Candidate, known_changes
from stategp._forecasting._learning import LEARNING, Series
from stategp._forecasting._lessons import Lessons, doubts, names_of

_MOST = 500  # series that teach: they tell a centre to a twentieth of the spread


def teach(series: Sequence[Series], share: str, progress: Any) -> Lessons | None:
    """What all of these, or of many an even choice, say of each model; one alone says nothing.

    Nor does one that never varies, which borrows all the same.
    """
    series = [one for one in series if varies(one.y)]
    if len(series) < 2:
        return None
    places = np.linspace(0, len(series) - 1, min(len(series), _MOST)).round().astype(int)
    teachers = [series[place] for place in places]
    pupils = [
        _pupil(one, candidate)
        for one in teachers
        for some in one.candidates()
        for candidate in some
    ]
    offsets = learn_offsets(pupils, share, LEARNING, stretches=(1.0,), progress=progress)
    return Lessons(offsets, len(teachers), share)


def _pupil(series: Series, candidate: Candidate) -> Pupil:
    part = series.part(candidate, series.latest)
    data = observe(part["x"], part["y"], candidate.likelihood, weights=part["weights"])
    changes = known_changes(len(series.y), series.outline)
    return Pupil(candidate.model, data, names_of(candidate), doubts(candidate, changes))
