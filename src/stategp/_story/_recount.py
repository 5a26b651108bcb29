"""From a posterior or Forecaster to the content of its figures."""

from typing import Any

from stategp._posteriors import (
    AdditivePosterior,
    DeepPosterior,
    MixedPosterior,
    Posterior,
    SpaceTimePosterior,
    StackedPosterior,
)
from stategp._story._portrait import Portrait, portray
from stategp._story._story import Story, tell


def recount(posterior: Any, options: dict[str, Any]) -> Story | Portrait:
    """The story of a posterior or a Forecaster; a story is returned unchanged."""
    if isinstance(posterior, Story | Portrait):
        if options:
            raise ValueError(
                f"this story has been computed already, so {', '.join(options)} cannot be changed: "
                "give the posterior"
            )
        return posterior
    if isinstance(posterior, Posterior):
        return tell(posterior, **options)
    if isinstance(posterior, AdditivePosterior | MixedPosterior | DeepPosterior):
        return portray(posterior, **options)
    if isinstance(posterior, StackedPosterior):
        if isinstance(posterior.parts[0], SpaceTimePosterior):
            return portray(posterior, **options)
        raise ValueError(
            "pictures and reports of an sg.StackedGP of additive models are those of each of its "
            "functions: posterior.parts[0].plot()"
        )
    story = getattr(posterior, "story", None)
    if callable(story):  # that of a Forecaster, which knows its dates
        account: Story = story(**options)
        return account
    raise ValueError(
        "pictures and reports are made of a posterior from sg.fit or sg.condition, or of an "
        f"sg.Forecaster, got {type(posterior).__name__}"
    )
