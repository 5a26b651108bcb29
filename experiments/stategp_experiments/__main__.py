"""The command `stategp-experiments`: run a study, or all of the paper's.

stategp-experiments                      the list
stategp-experiments solar --quick        one, in a small form
stategp-experiments all --quick          every experiment of the paper, one after another
stategp-experiments --names              the names alone, for scripts
"""

import ast
import importlib
import sys
import time
from pathlib import Path

PAPER = [
    "solar",
    "audio",
    "airline",
    "time-warp",
    "natural-gradients",
    "classification",
    "complexity",
]
OTHERS = [
    "co2",
    "coal",
    "rainforest",
    "motorcycle",
    "aircraft",
    "step",
    "additive-variances",
    "minibatches",
    "automatic-inducing",
    "hostile",
    "signal-to-noise",
    "default-fits",
    "deep-optima",
    "deep-noise",
    "solar-locations",
    "methods",
]


def main() -> None:
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(listing())
        return
    if name == "--names":
        print(*PAPER, *OTHERS)
        return
    if name not in (*PAPER, *OTHERS, "all"):
        sys.exit(f"stategp-experiments: no experiment {name!r}\n\n{listing()}")
    try:
        for each in PAPER if name == "all" else [name]:
            run(each, arguments)
    except ImportError as error:
        sys.exit(f'stategp-experiments: {error.name} is missing: pip install "stategp[all]"')
    except (ValueError, OSError) as error:
        sys.exit(f"stategp-experiments: {error}")
    except KeyboardInterrupt:
        sys.exit("stategp-experiments: interrupted")


def run(name: str, arguments: list[str]) -> None:
    """One study, with its title before and its time after it."""
    study = importlib.import_module(f"stategp_experiments.{name.replace('-', '_')}")
    print(f"── {name}: {study.__doc__.splitlines()[0]}", flush=True)
    began = time.perf_counter()
    study.main(arguments)
    print(f"── {name}: {time.perf_counter() - began:.0f} s\n", flush=True)


def listing() -> str:
    lines = [__doc__.split("\n", 1)[1].strip("\n"), "", "The paper's experiments:"]
    lines += [f"  {name:20} {_title(name)}" for name in PAPER]
    lines += ["", "Others:"]
    lines += [f"  {name:20} {_title(name)}" for name in OTHERS]
    return "\n".join([*lines, "", "stategp-experiments NAME --help says what each takes."])


def _title(name: str) -> str:
    """The first line of a study's docstring, without importing what the study needs."""
    source = Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]


if __name__ == "__main__":
    main()
