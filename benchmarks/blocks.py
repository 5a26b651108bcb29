"""Blocks of the documentation that benchmarks write: between two comments with a name."""

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def _ends(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by a benchmark -->", f"<!-- end of {name} -->"


def block(page: str, name: str) -> str:
    """What a page says there."""
    first, last = _ends(name)
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(first)[1].split(last)[0].strip()


def write_block(page: str, name: str, text: str) -> None:
    """Say something else there."""
    first, last = _ends(name)
    path = DOCS / page
    before, rest = path.read_text(encoding="utf-8").split(first)
    after = rest.split(last)[1]
    path.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")
