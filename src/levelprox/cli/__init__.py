"""The command line: levelprox fit | path | predict | certify | info.

NumPy and scikit-learn are imported only after a command has checked its options, so that `--help` is quick. Workers of
a cluster import this package without typer.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from levelprox.cli._process import (
    Exit,
    discard_stdout,
    exit_code_of_error,
    in_shell_words,
    message_of,
    prepare,
    print_error,
    print_notice,
    return_large_arrays,
    sigterm_as_interrupt,
)

HELP = """
Sparse models under an explicit budget, with a certificate.

\b
  levelprox fit train.csv --target price --features 5 --out model.levelprox
  levelprox fit train.svm --cv 5 --features 1:20 --report page.html
  levelprox path train.csv --target price --features 0:10
  levelprox predict model.levelprox new.csv --out predictions.csv
  levelprox certify model.levelprox train.csv --target price

Data are LIBSVM (.svm, .libsvm, .txt), CSV, TSV, Parquet or npz files; text may be compressed (.gz, .bz2, .xz).

Exit codes: 0: success; 2: invalid options; 3: the model is not accurate to the tolerance; 4: numerical failure, or
claims that do not hold; 65: invalid data; 66: input not found; 70: a bug; 73: an output cannot be created; 74: disk or
memory is full; 75: try again later; 130: Ctrl-C; 141: closed pipe; 143: SIGTERM.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=sys.argv[1:]

    Returns
    -------
    int
        An exit code (`Exit`). Errors are printed on standard error.
    """
    try:
        import rich  # noqa: F401  # an optional dependency
        import typer  # noqa: F401
    except ImportError as error:
        missing = (error.name or "typer").split(".")[0]
        print(f"levelprox: the command line needs {missing}: pip install 'levelprox[cli]'", file=sys.stderr)
        return int(Exit.USAGE)
    return int(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command and return its exit code."""
    prepare()
    try:
        code = _application().main(list(arguments) or ["--help"], prog_name="levelprox", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit:  # typer raises it when help cannot be written to a closed pipe
        return _output_failed(BrokenPipeError())
    except OSError as error:
        return _output_failed(error)
    except Exception as error:
        if not hasattr(error, "format_message"):  # only errors of typer have this method
            return _report_error(error)
        context = getattr(error, "ctx", None)
        where = "levelprox" if context is None else context.command_path
        message = error.format_message().rstrip(".")
        print_error(f"{message} (see {where} --help)")
        return Exit.USAGE
    return code if isinstance(code, int) else Exit.OK


@functools.cache
def _application() -> Any:
    """Return the program with its commands."""
    import typer

    from levelprox.cli import fit, model_files, path

    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(given: bool) -> None:
        if given:
            from levelprox import __version__

            print(f"levelprox {__version__}")
            raise typer.Exit

    version_option: Any = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Show the version and exit."
    )

    @app.callback(help=_unwrapped(HELP))
    def _commands(version: bool = version_option) -> None: ...

    for command in (fit.fit, path.path, model_files.predict, model_files.certify, model_files.info):
        app.command(help=_unwrapped(command.__doc__ or ""))(_with_exit_code(command))
    return typer.main.get_command(app)


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph; a paragraph that begins with a backspace character keeps its lines."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else " ".join(part.split()) for part in parts)


def _with_exit_code(command: Callable[..., int]) -> Callable[..., int]:
    """Wrap a command: errors and interrupts become exit codes."""

    @functools.wraps(command)
    def run_with_exit_code(*args: Any, **options: Any) -> int:
        return_large_arrays()
        with sigterm_as_interrupt() as signalled:
            try:
                code = command(*args, **options)
                sys.stdout.flush()
                return signalled.exit_code(code)
            except KeyboardInterrupt as error:
                print_notice(f"levelprox: {in_shell_words(str(error)) or 'interrupted'}")
                return signalled.exit_code(Exit.INTERRUPTED)
            except OSError as error:
                return _output_failed(error)
            except Exception as error:
                return _report_error(error)

    return run_with_exit_code


def _output_failed(error: OSError) -> Exit:
    """Report that standard output cannot be written."""
    discard_stdout()
    if isinstance(error, BrokenPipeError):
        return Exit.CLOSED
    print_error(f"standard output cannot be written: {(error.strerror or str(error)).lower()}")
    return Exit.IO


def _report_error(error: Exception) -> Exit:
    """Print an error in one line. The traceback of a bug is written to a temporary file."""
    code = exit_code_of_error(error)
    if code is not Exit.BUG:
        message = message_of(error)
        print_error(f"not enough memory: {message}" if isinstance(error, MemoryError) else message)
        return code
    handle, name = tempfile.mkstemp(prefix="levelprox-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        from levelprox import __version__

        file.write(f"levelprox {__version__}, Python {sys.version}\n{sys.argv}\n\n")
        traceback.print_exception(error, file=file)
    print_error(f"this is a bug in levelprox ({type(error).__name__}); please report it with {name}")
    return code
