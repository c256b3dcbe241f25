"""levelprox certify: check the claims of a model file on the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelprox.cli import _options as options
from levelprox.cli._data import (
    as_classes,
    check_input,
    errors_as_bad_data,
    features_for_model,
    read_for_model,
    reading_options,
)
from levelprox.cli._options import OUTPUT
from levelprox.cli._output import print_json, print_line, print_table
from levelprox.cli._process import Exit, limited_threads, printed_warnings
from levelprox.cli.predict import load

if TYPE_CHECKING:
    from levelprox.estimators import Claims


def certify(
    model: options.ModelFile,
    data: options.DataFile,
    target: options.Target = None,
    weight: options.Weight = None,
    exposure: options.Exposure = None,
    offset: options.Offset = None,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    zero_based: options.ZeroBased = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            rich_help_panel=OUTPUT,
            help="Refit with every further feature and examine all swaps, without a limit on time.",
        ),
    ] = False,
    threads_: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Recompute the certificate of a model from the data and compare it with the file.

    [bold]levelprox certify model.levelprox train.csv --target price[/bold]

    The exit code is 0 if every examined claim holds, else 4.
    """
    for path in (model, data):
        check_input(path)
    how = reading_options(target, None, weight, format, no_header, separator, zero_based, offset, exposure)
    with printed_warnings(quiet) as warned, limited_threads(threads_):
        fitted = load(model)
        read = read_for_model(fitted, data, how, needs_target=True, quiet=True)
        y: Any = as_classes(read.y) if hasattr(fitted, "classes_") and read.y is not None else read.y
        from levelprox import certify_model

        with errors_as_bad_data():
            X = features_for_model(fitted, read)
            found = certify_model(fitted, X, y, read.weight, prove=prove, **read.more)
    if json:
        from levelprox import __version__

        about = {"levelprox": __version__, "command": "certify", "model": model, "data": data}
        print_json({**about, **found.as_dict(), "warnings": warned})
    else:
        _print(model, found)
    return Exit.OK if found.hold else Exit.FAILED


def _print(model: Path, found: Claims) -> None:
    print_line(str(found).splitlines()[0])  # the line about the data
    print_table(["claim", "in the file", "from the data", ""], [one.words for one in found.claims])
    verdict = "every claim that was examined holds" if found.hold else "NOT every claim holds"
    rest = f"; not examined: {', '.join(found.not_examined)}" if found.not_examined else ""
    print_line(f"{model}: {verdict}{rest}.")
