"""Hyperparameters of series of a panel, learned again from their present values."""

import dataclasses
from typing import Any

import numpy as np

from stategp._fitting import LearnedItem, Refined, Template, learn_again
from stategp._forecasting._panel import Light, Panel


def refined(panel: Panel, numbers: list[int], progress: Any) -> Panel:
    """With all models of these series; weights stay, and so does a model where that fails."""
    owners = [(number, place) for number in numbers for place in range(len(panel.chosen[number]))]
    series = [_begun(panel, number, panel.chosen[number][place]) for number, place in owners]
    models = list(panel.models)
    kinds = {Template(model, model).kind: which for which, model in enumerate(models)}
    chosen = [list(some) for some in panel.chosen]
    for (number, place), begun, found in zip(
        owners, series, learn_again(series, progress), strict=True
    ):
        if found.template is None:
            continue
        which = kinds.setdefault(found.template.kind, len(models))
        if which == len(models):
            models.append(found.template.model)
        chosen[number][place] = _after(chosen[number][place], which, begun, found)
    return dataclasses.replace(panel, models=tuple(models), chosen=tuple(map(tuple, chosen)))


def _begun(panel: Panel, number: int, light: Light) -> Refined:
    data, model = panel.data[number], panel.models[light.which]
    template = Template(model, model)
    y = np.log(np.asarray(data.y)) if light.log else data.y
    seen = dataclasses.replace(data, y=y)
    return Refined(
        template.with_values(template.shaped(light.values)), seen, panel.data.inputs(number)
    )


def _after(light: Light, which: int, begun: Refined, found: LearnedItem) -> Light:
    """A model that was learned again, with how likely it makes y, of which it may see the log."""
    slopes = np.asarray(begun.data.weights) * np.asarray(begun.data.y) if light.log else 0.0
    return light._replace(
        which=which,
        values=np.concatenate([np.zeros(0), *(np.ravel(value) for value in found.values)]),
        evidence=found.log_evidence - float(np.sum(slopes)),
        result=found.result,
    )
