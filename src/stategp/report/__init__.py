"""Reports: a single HTML file that needs no network and no installation.

Text from users (titles, names, calls) is escaped. A content security policy lets the page run its
own script, identified by its hash, and load nothing.
"""

import base64
import hashlib
import re
from importlib import resources
from typing import Any

from stategp._runtime import replacing
from stategp._story import Story, recount
from stategp.report._maps import carried_maps
from stategp.report._pieces import about_fit, portrait_pieces, story_pieces
from stategp.report._text import escape

__all__ = ["render", "write_report"]

_OF_SERIES = ("series.js", "view.js", "chart.js", "gestures.js", "page.js")
_OF_MAPS = ("maps.js",)


def write_report(posterior: Any, path: Any, **options: Any) -> None:
    """Write the report to a file.

    Options are those of `stategp._story.tell` (`until=` for a forecast, `levels=`, `title=`), or of
    `portray` for additive and deep posteriors; a story that has been computed already takes none.

    >>> import numpy as np, stategp as sg, tempfile
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(posterior, f"{folder}/report.html", until=5.0, points=50)
    """
    content = render(posterior, **options)
    with replacing(path) as file:
        file.write(content.encode())


def render(posterior: Any, **options: Any) -> str:
    """The report as text; arguments are those of `write_report`."""
    account = recount(posterior, options, "report")
    read = resources.files("stategp.report").joinpath
    allowed, scripts = "'none'", ""
    if isinstance(account, Story):
        pieces = story_pieces(account)
        allowed, scripts = _scripts(_OF_SERIES, "carried", pieces["carried"])
    else:
        pieces = portrait_pieces(account)
        if account.maps is not None:
            allowed, scripts = _scripts(_OF_MAPS, "maps", carried_maps(account.maps))
    pieces["scripts"] = scripts
    pieces |= about_fit(account) | {
        "version": escape(account.versions["stategp"]),
        "script_source": allowed,
        "style": read("report.css").read_text("utf-8"),
        "title": escape(account.title),
    }
    template = read("template.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: pieces[match[1]], template)


def _scripts(names: tuple[str, ...], kind: str, carried: str) -> tuple[str, str]:
    """What the policy allows, and the elements: the numbers, and the script that reads them."""
    read = resources.files("stategp.report").joinpath
    script = "\n".join(['"use strict";', *(read(name).read_text("utf-8") for name in names)])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    numbers = f'<script type="application/json" id="{kind}">{carried}</script>'
    return f"'sha256-{digest}'", f"{numbers}\n<script>{script}</script>"
