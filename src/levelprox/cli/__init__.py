"""The command line: levelprox fit | path | predict | certify | info.

Nothing here imports NumPy or scikit-learn before a command has checked what it was asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and say how it ended.

    Parameters
    ----------
    arguments : sequence of str, default=sys.argv[1:]

    Returns
    -------
    int
        An `Exit`; errors have been said on standard error.
    """
    from levelprox.cli._process import Exit

    try:
        import rich  # noqa: F401  # the extra, before anything is built on it
        import typer  # noqa: F401
    except ImportError as error:
        missing = (error.name or "typer").split(".")[0]
        print(f"levelprox: the command line needs {missing}: pip install 'levelprox[cli]'", file=sys.stderr)
        return int(Exit.USAGE)
    from levelprox.cli._app import run

    return int(run(sys.argv[1:] if arguments is None else arguments))
