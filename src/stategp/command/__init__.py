"""The command `stategp`."""

import sys


def main() -> None:
    """Run it. Bad input ends with one line on standard error and exit code 2."""
    try:
        import pyarrow  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(_fail(f'the command needs {error.name}: pip install "stategp[cli]"'))
    import click

    from stategp.command._commands import app

    try:
        code = app(standalone_mode=False, prog_name="stategp")
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        code = _fail(f"{error.format_message()}{hint}")
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (ValueError, FileNotFoundError, PermissionError, ImportError) as error:
        code = _fail(str(error))
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted", 130)
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = 2) -> int:
    print(f"stategp: {message.splitlines()[0] if message else 'failed'}", file=sys.stderr)
    return code


__all__ = ["main"]
