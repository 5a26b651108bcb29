"""From a posterior or Forecaster to the content of its figures."""

import inspect
from collections.abc import Callable
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


def recount(posterior: Any, options: dict[str, Any], asked: str = "plot") -> Story | Portrait:
    """The story of a posterior or a Forecaster; a story is returned unchanged.

    `asked` is the method that was called, for errors.
    """
    if isinstance(posterior, Story | Portrait):
        if options:
            raise ValueError(
                f"this story has been computed already, so {', '.join(options)} cannot be changed: "
                "give the posterior"
            )
        return posterior
    if isinstance(posterior, Posterior) and not posterior.model.likelihood.nominal:
        return tell(posterior, **_accepted(tell, posterior, options, asked))
    if isinstance(posterior, StackedPosterior) and not isinstance(
        posterior.parts[0], SpaceTimePosterior
    ):
        raise ValueError(
            "pictures and reports of an sg.StackedGP of additive models are those of each of its "
            "functions: posterior.parts[0].plot()"
        )
    if isinstance(
        posterior, Posterior | AdditivePosterior | MixedPosterior | DeepPosterior | StackedPosterior
    ):
        return portray(posterior, **_accepted(portray, posterior, options, asked))
    story = getattr(posterior, "story", None)
    if callable(story):  # that of a Forecaster, which knows its dates
        account: Story = story(**options)
        return account
    raise ValueError(
        "pictures and reports are made of a posterior from sg.fit or sg.condition, or of an "
        f"sg.Forecaster, got {type(posterior).__name__}"
    )


def _accepted(
    made: Callable[..., Any], posterior: Any, options: dict[str, Any], asked: str
) -> dict[str, Any]:
    """The options, if they are known."""
    known = [
        name
        for name, parameter in inspect.signature(made).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    strange = [name for name in options if name not in known]
    if strange:
        raise TypeError(
            f"{asked}() of a {type(posterior).__name__} takes no {', '.join(strange)}; it takes "
            f"{', '.join(known)}"
        )
    return options
