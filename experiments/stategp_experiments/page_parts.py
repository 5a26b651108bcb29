"""What the modules of the experiments' page share: stored runs, tables, sentences with figures."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
Rows = list[dict]
Sentence = tuple[str, list[str]]  # with {} for every figure, and the figures
FIGURE = r"((?<![\d.,])−?\d(?:[\d.,]*\d)?(?:e-?\d+)?)"


def whole(name: str) -> dict:
    """A stored run: `results`, and what they came from."""
    run: dict = json.loads((DOCS / f"{name}-run.json").read_text())
    return run


def stored(name: str) -> Rows:
    """The results of a stored run."""
    results: Rows = whole(name)["results"]
    return results


def table(heads: list[str], lines: list[list[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def milliseconds(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:,.0f}" if ms >= 9.95 else f"{ms:.1f}"


def said(true: bool, what: str) -> None:
    """The page's words rest on the numbers: an error names the words that no longer hold."""
    if not true:
        raise ValueError(f"the page says that {what}, and the stored run does not: change the page")


def pattern(sentence: str) -> re.Pattern[str]:
    """The sentence with a group for every figure, wherever its lines break."""
    words = [re.escape(word).replace(r"\{\}", FIGURE) for word in sentence.split()]
    return re.compile(r"\s+".join(words))


def with_figures(text: str, sentence: str, figures: list[str]) -> str:
    """The text with these figures in the sentence, which it must have once."""
    matches = list(pattern(sentence).finditer(text))
    if len(matches) != 1:
        raise ValueError(f"the page has {sentence!r} {len(matches)} times, expected once")
    (match,) = matches
    for group in range(len(figures), 0, -1):
        text = text[: match.start(group)] + figures[group - 1] + text[match.end(group) :]
    return text
