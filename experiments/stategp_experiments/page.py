"""The figures of docs/experiments.md, from stored runs.

    python -m stategp_experiments.page [--store FOLDER]

writes them anew: tables, each between `<!-- NAME -->` and `<!-- end -->`, and the sentences that
the modules `page_*` list. The runs are docs/NAME-run.json. With `--store`, what studies have
written into a folder is stored first, with the pictures. Where the words rest on numbers that have
changed, an error says so.
"""

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stategp_experiments import (
    natural_gradients,
    page_airline,
    page_appendix,
    page_studies,
    page_time_warp,
)
from stategp_experiments.page_parts import DOCS, Sentence, stored, table, whole, with_figures

PAGE = DOCS / "experiments.md"
ADDITIVE = DOCS / "additive.md"  # has a table of the airline study, too
STUDIES = {  # what a study writes: the stored run, its pictures
    "solar": ("solar", ("solar",)),
    "solar_locations": ("solar-locations", ("solar_locations",)),
    "time_warp": ("time-warp", ("time_warp_0.05", "time_warp_0.1")),
    "airline": ("airline", ("airline", "airline_boxes", "airline_starts")),
    "audio": ("audio", ("audio", "audio_gap")),
    "natural_gradients": ("natural-gradients", ("natural_gradients",)),
    "classification": ("paper-classification", ("classification",)),
    "complexity": ("complexity", ("complexity",)),
}
RUNS = (*(name for name, _ in STUDIES.values()), "audio-gap")
DRAWN = {"curves", "effects"}  # not stored
TABLES: dict[str, tuple[str, Callable[[Any], str]]] = {  # name: the stored run, the table of it
    "time-warp": ("time-warp", page_time_warp.time_warp),
    "time-warp-claims": ("time-warp", page_time_warp.time_warp_claims),
    "airline": ("airline", page_airline.airline),
    "airline-starts": ("airline", page_airline.airline_starts),
    "solar": ("solar", page_studies.solar),
    "audio": ("audio", page_studies.audio),
    "natural-gradients": ("natural-gradients", page_appendix.natural),
    "classification": ("paper-classification", page_appendix.labels),
    "complexity": ("complexity", page_appendix.exponents),
}


def runs() -> str:
    """Where the stored runs come from."""
    lines = []
    for name in RUNS:
        run = whole(name)
        cores = f"{run['processor'].replace('(R)', '')}, {run['cores']} cores"
        versions = f"{run['python']}, {run['versions']['jax']}"
        commit = run.get("commit", "not stored")
        lines.append([f"`docs/{name}-run.json`", run["date"].split()[0], commit, cores, versions])
    return table(["stored run", "date", "commit", "machine", "Python, JAX"], lines)


def sentences() -> list[Sentence]:
    """What the text says of stored runs, with its figures."""
    return [
        *page_studies.sentences(),
        *page_appendix.sentences(),
        *page_airline.sentences(),
        *page_time_warp.sentences(),
    ]


def written(text: str) -> str:
    """The page with every figure as the stored runs have it."""
    text = _placed(text, "runs", runs())
    for name, (run, made) in TABLES.items():
        text = _placed(text, name, made(stored(run)))
    for sentence, figures in sentences():
        text = with_figures(text, sentence, figures)
    return text


def with_airline(text: str) -> str:
    """The page on additive models with its table as the stored run has it."""
    return _placed(text, "airline", page_airline.additive(stored("airline")))


def _placed(text: str, name: str, fresh: str) -> str:
    place = re.compile(rf"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ValueError(f"the page must have a place for the table {name!r} once")
    return place.sub(lambda _: fresh, text)


def store(folder: Path) -> None:
    """Keep what studies have written into a folder: numbers beside the page, pictures in it."""
    for study, (name, pictures) in STUDIES.items():
        file = folder / f"{study}.json"
        if not file.exists():
            continue
        run = json.loads(file.read_text())
        if study == "natural_gradients":
            run["results"] = natural_gradients.shortened(run["results"])
        if isinstance(run["results"], list):
            run["results"] = [
                {key: value for key, value in row.items() if key not in DRAWN}
                for row in run["results"]
            ]
        (DOCS / f"{name}-run.json").write_text(json.dumps(run, indent=1) + "\n")
        if study == "audio":
            gap = run | {"results": run["results"]["gap"]}
            (DOCS / "audio-gap-run.json").write_text(json.dumps(gap, indent=1) + "\n")
        for picture in (folder / f"{one}.png" for one in pictures):
            if picture.exists():
                shutil.copy(picture, DOCS / "images" / picture.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, help="a folder of results to be stored first")
    options = parser.parse_args()
    if options.store is not None:
        store(options.store)
    PAGE.write_text(written(PAGE.read_text()))
    ADDITIVE.write_text(with_airline(ADDITIVE.read_text()))


if __name__ == "__main__":
    main()
