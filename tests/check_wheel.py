"""`make wheel`: build it, install it into an empty environment, run README's example from it.

First without extras: the example runs, and what needs an extra says which. Then with
`stategp[all]`: all of README's Python runs. Nothing of the checkout is on the path.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from pages import ROOT, blocks

# What is asked for without its extra, and the extra that the answer has to name.
EXTRAS = {
    "sg.GPRegressor": "stategp[sklearn]",
    "sg.plots": "stategp[plot]",
    "sg.Forecaster().fit({'ds': [1.0, 2.0], 'y': [1.0, 2.0]})": "stategp[frames]",
}
WITHOUT = """
try:
    {asked}
except ImportError as error:
    assert "{extra}" in str(error), error
else:
    raise SystemExit("no error without the extra {extra}")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build(folder)
        check_contents(wheel)
        environment = folder / "environment"
        venv.create(environment)
        check_alone(environment, wheel)
        check_with_extras(environment, wheel)


def build(folder: Path) -> Path:
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("stategp-*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """Every file of the package, and nothing beside it."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (file for file in source.rglob("*") if file.is_file() and file.suffix != ".pyc")
    wanted = {file.relative_to(source).as_posix() for file in files}
    if packed != wanted:
        missing, others = sorted(wanted - packed), sorted(packed - wanted)
        sys.exit(f"the wheel lacks {missing} and has, beside the package, {others}")
    print(f"{wheel.name}: {len(packed)} files, those of src")


def check_alone(environment: Path, wheel: Path) -> None:
    install(environment, str(wheel))
    first = next(code for language, code in blocks(ROOT / "README.md") if language == "python")
    run(environment, first)
    print("without extras: README's example runs")
    without = [WITHOUT.format(asked=asked, extra=extra) for asked, extra in EXTRAS.items()]
    run(environment, "".join(["import stategp as sg", *without]))
    command = subprocess.run(
        [environment / "bin" / "stategp"], capture_output=True, text=True, env=plain()
    )
    if command.returncode != 2 or "stategp[cli]" not in command.stderr:
        sys.exit(f"the command without its extra said: {command.stdout}{command.stderr}")
    print(f"without extras: what needs one says so ({', '.join(EXTRAS.values())}, stategp[cli])")


def check_with_extras(environment: Path, wheel: Path) -> None:
    install(environment, f"{wheel}[all]", "pandas")
    codes = [code for language, code in blocks(ROOT / "README.md") if language == "python"]
    run(environment, "\n".join(codes))
    command = [environment / "bin" / "stategp", "--version"]
    subprocess.run(command, check=True, env=plain(), stdout=subprocess.DEVNULL)
    print(f"with stategp[all]: README's {len(codes)} blocks of Python run, and the command")


def run(environment: Path, code: str) -> None:
    """In an empty folder, isolated from the checkout and from the user's own packages."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python_of(environment), "-I", "-"],
            input=code, cwd=folder, env=plain(), text=True, capture_output=True,
        )  # fmt: skip
    if done.returncode:
        sys.exit(f"from the wheel this failed:\n{code}\n{done.stdout}{done.stderr}")


def install(environment: Path, *packages: str) -> None:
    pip("--python", str(python_of(environment)), "install", "--no-compile", *packages)


def pip(*arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", *quiet, *arguments], check=True)


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def plain() -> dict[str, str]:
    """The surroundings without what would bring in other packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    main()
