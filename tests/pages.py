"""The code blocks of README and documentation. Standard library only: the check of the wheel reads
them before anything is installed.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|pycon|console)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, code) of every block that is run, in order."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))
