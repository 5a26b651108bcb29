"""The trial of `benchmarks.forecast_trials` about weights of models: which trend comes first.

The first is fitted on both scales, the others on the likelier one, unless all are fitted on both.
Weights follow from how likely models make the data (`benchmarks.foresight_trial` has those that
follow from errors of forecasts).
"""

from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.change_trials import part, scored
from stategp._forecasting import _choosing
from stategp._forecasting._averages import average_of
from stategp._forecasting._learning import learn


class Way(NamedTuple):
    """Which trend comes first, the least weight of a scale, and whether all are on both scales."""

    first: int
    kept: float
    both: bool = False


WAYS = {  # the trends of weekly series: 0 comes and goes, 1 stays
    "the slope that stays first, a quarter": Way(1, 1 / 4),
    "the slope that comes and goes first, a quarter": Way(0, 1 / 4),
    "the slope that comes and goes first, a third": Way(0, 1 / 3),
    "both on both scales, a third": Way(0, 1 / 3, True),
}


def trial_of_weights(group, here, y, future):
    """A row: forecasts by the same models, in several orders and with several weights."""
    series = here.series
    learned = [[learn(one, series) for one in scale] for scale in series.candidates()]
    found = {}
    for name, way in WAYS.items():
        ordered = [scale[way.first :] + scale[: way.first] for scale in learned]
        best = int(np.argmax([scale[0].evidence for scale in ordered]))
        used = [
            scale if way.both or number == best else scale[:1]
            for number, scale in enumerate(ordered)
        ]
        with mock.patch.object(_choosing, "_KEPT", way.kept):
            standings = [[_choosing.Standing(one.evidence) for one in scale] for scale in used]
            weights = _choosing.weigh(standings, best)
        parts = [
            part(used[scale][place], series, here.ahead)._replace(weight=weight)
            for weight, scale, place in weights
        ]
        found[name] = scored(group, average_of(parts), y, future)
    return [{"scores": found}]
