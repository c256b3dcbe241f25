"""levelprox certify: whether what a model file claims holds on the data."""

from __future__ import annotations

from typing import Any

from levelprox.cli import files, inputs, options, threads
from levelprox.cli.exits import Exit
from levelprox.cli.predict import load
from levelprox.cli.settings import as_classes
from levelprox.cli.streams import warnings_in_lines


def certify(
    model: options.ModelFile,
    data: options.DataFile,
    target: options.Target = None,
    weight: options.Weight = None,
    format: options.FileFormat = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    zero_based: options.ZeroBased = False,
    threads_: options.Threads = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Recompute the certificate of a model from the data, and compare it with what the file claims.

    [bold]levelprox certify model.levelprox train.csv --target price[/bold]

    Ends with 0 where every claim holds, with 4 where one does not.
    """
    for path in (model, data):
        files.check_input(path)
    how = inputs.how_to_read(target, None, weight, format, no_header, separator, zero_based)
    with warnings_in_lines(quiet) as warned, threads.at_most(threads_):
        fitted = load(model)
        read = inputs.read_for(fitted, data, how, needs_target=True, quiet=True)
        y: Any = as_classes(read.y) if hasattr(fitted, "classes_") and read.y is not None else read.y
        from levelprox.estimators.claims import certify_model

        with inputs.judging_data():
            found = certify_model(fitted, inputs.as_the_model_knows(fitted, read), y, read.weight)
    raise NotImplementedError(found, json, warned, Exit)
