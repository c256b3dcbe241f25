"""The command line: levelprox fit | path | predict | certify | info.

NumPy and scikit-learn are imported only after a command has checked its options, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


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
    from levelprox.cli._process import Exit

    try:
        import rich  # noqa: F401  # an optional dependency
        import typer  # noqa: F401
    except ImportError as error:
        missing = (error.name or "typer").split(".")[0]
        print(f"levelprox: the command line needs {missing}: pip install 'levelprox[cli]'", file=sys.stderr)
        return int(Exit.USAGE)
    from levelprox.cli._app import run

    return int(run(sys.argv[1:] if arguments is None else arguments))
