"""The command `stategp`."""

import importlib
import os
import sys
from typing import Any

import jax

from stategp._command._interrupts import INTERRUPTED, Interrupted, at_once, leave
from stategp._runtime import end_at_once

_NEEDED = ("typer", "rich", "pyarrow", "narwhals")


def main() -> None:
    """Run it. Bad input ends with one line on standard error and exit code 2, Ctrl-C with 130."""
    try:
        with at_once():
            code = _run()
    except KeyboardInterrupt:
        code = _fail("interrupted before the work was done", INTERRUPTED)
    if code and jax.distributed.is_initialized():
        end_at_once(code)
    if code == INTERRUPTED:
        leave(code)
    sys.exit(code)


def _run() -> int:
    try:
        for name in _NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        return _fail(f'the command needs {error.name}: pip install "stategp[cli]"')
    import typer

    from stategp._command._commands import app

    # Typer brings its own click, or takes the one installed; this is the UsageError of either.
    wrong_use: Any = typer.BadParameter.__mro__[1]
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="stategp")
        sys.stdout.flush()
    except typer.Exit as exit_:
        code = exit_.exit_code
    except Interrupted as interrupt:
        return _fail(str(interrupt), INTERRUPTED)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except wrong_use as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _fail(f"{error.format_message()}{hint}")
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, ArithmeticError, OSError, ImportError) as error:
        return _fail(str(error))
    if code == INTERRUPTED:  # some versions of Typer say no more than that
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int = 2) -> int:
    print(f"stategp: {message.splitlines()[0] if message else 'failed'}", file=sys.stderr)
    return code


__all__ = ["main"]
