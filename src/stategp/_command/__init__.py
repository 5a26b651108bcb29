"""The command `stategp`."""

import importlib
import os
import sys
from typing import Any

_NEEDED = ("typer", "rich", "pyarrow", "narwhals")
_INTERRUPTED = 130  # what shells give to Ctrl-C


def main() -> None:
    """Run it. Bad input ends with one line on standard error and exit code 2."""
    try:
        for name in _NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        sys.exit(_fail(f'the command needs {error.name}: pip install "stategp[cli]"'))
    import typer

    from stategp._command._commands import app

    # Typer brings its own click, or takes the one installed; this is the UsageError of either.
    wrong_use: Any = typer.BadParameter.__mro__[1]
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="stategp")
        sys.stdout.flush()
    except typer.Exit as exit_:
        code = exit_.exit_code
    except wrong_use as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        code = _fail(f"{error.format_message()}{hint}")
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (ValueError, OSError, ImportError) as error:
        code = _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:  # some versions of Typer say no more than that
        _fail("interrupted before the work was done")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    print(f"stategp: {message.splitlines()[0] if message else 'failed'}", file=sys.stderr)
    return 2


__all__ = ["main"]
