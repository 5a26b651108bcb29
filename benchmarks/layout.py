"""The modules of the package: lines, and imports across packages.

    python -m benchmarks.layout [--source src/stategp]

For each module or package at the top: its files, its lines, how many other ones it imports from,
and how many of those imports reach into a private module of another package.
"""

import argparse
import ast
from collections import defaultdict
from pathlib import Path


def imports(file: Path) -> list[list[str]]:
    """What a file imports of the package, as parts of names after `stategp`."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found += [name.split(".")[1:] for name in names if name.startswith("stategp.")]
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--source", type=Path, default=Path("src/stategp"))
    source = options.parse_args().source
    files, lines = defaultdict(int), defaultdict(int)
    across, reaching = defaultdict(set), defaultdict(int)
    for file in sorted(source.rglob("*.py")):
        top = file.relative_to(source).parts[0].removesuffix(".py")
        files[top] += 1
        lines[top] += len(file.read_text().splitlines())
        for name in imports(file):
            if name[0] == top:
                continue
            across[top].add(name[0])
            reaching[top] += any(part.startswith("_") for part in name[1:])
    print(f"{'module':20} {'files':>5} {'lines':>6} {'imports from':>12} {'private':>7}")
    for top in sorted(files, key=lambda one: one.lstrip("_")):
        row = f"{top:20} {files[top]:5} {lines[top]:6} {len(across[top]):12} {reaching[top]:7}"
        print(row)
    total = sum(map(len, across.values()))
    print(
        f"{len(files):20} {sum(files.values()):5} {sum(lines.values()):6} {total:12} "
        f"{sum(reaching.values()):7}"
    )


if __name__ == "__main__":
    main()
