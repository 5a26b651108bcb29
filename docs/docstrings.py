"""For the reference: docstrings as the code has them, made into Markdown.

Examples start with >>>, which Markdown takes for quotations, and names stand in :class:`…`.
"""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|func|meth|mod):(`[^`]+`)")
_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^\.\.\. ?.*\n?)*)+", re.MULTILINE)


class PlainDocstrings(griffe.Extension):
    """Put examples into fences, take the roles off names, and leave out types that say nothing."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _ROLE.sub(r"\1", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text
            )

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        func.overloads = None  # they repeat the signature for the type checker
        for parameter in func.parameters:
            if str(parameter.annotation) == "Any":
                parameter.annotation = None
