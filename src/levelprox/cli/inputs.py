"""Data for a command: read from files, in the form that the model wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli import options
from levelprox.cli.exits import CommandError, Exit, UsageError
from levelprox.cli.files import reading
from levelprox.cli.options import Format
from levelprox.cli.streams import say

if TYPE_CHECKING:
    from levelprox.io.data import Data, Reading


def how_to_read(
    target: str | None = None,
    drop: list[str] | None = None,
    weight: str | None = None,
    format: Format | None = None,
    no_header: bool = False,
    separator: str | None = None,
    zero_based: bool = False,
    offset: str | None = None,
    exposure: str | None = None,
    categorical: str | None = None,
    impute: options.Imputing | None = None,
) -> Reading:
    """What the options say of the files."""
    from levelprox.io.data import Reading

    separator = {"\\t": "\t", "tab": "\t"}.get(separator or "", separator)
    if separator is not None and (len(separator) != 1 or separator in '\r\n"'):
        raise UsageError(f"--separator must be one character, got {separator!r}")
    kind: Any = None if format is None else format.value
    filled: Any = None if impute is None else impute.value
    one_hot = options.categorical(categorical)
    return Reading(
        target,
        kind,
        tuple(drop or ()),
        weight,
        not no_header,
        separator,
        zero_based,
        offset,
        exposure,
        one_hot if isinstance(one_hot, str) else tuple(one_hot),
        filled,
    )


def read_training(path: Path, how: Reading) -> Data:
    """The data of a fit."""
    from levelprox.io.data import read_data

    with reading(path):
        return read_data(path, how=how)


def read_for(model: Any, path: Path, how: Reading, needs_target: bool, quiet: bool = False) -> Data:
    """Data with the features of a model: by their names where it knows them, else by their number."""
    from levelprox.io.data import read_data

    names = getattr(model, "feature_names_in_", None)
    known = model.n_features_in_ if names is None else [str(name) for name in names]
    if names is not None and (how.format or _format(path)) in ("libsvm", "npz"):
        known = model.n_features_in_
    how = replace(how, preprocessing=getattr(model, "preprocessing_", None))
    with reading(path):
        data = read_data(path, features=known, needs_target=needs_target, how=how)
    if data.left_out and not quiet and needs_target:
        say(f"levelprox: {path}: not used: {', '.join(data.left_out[:10])}{', …' if len(data.left_out) > 10 else ''}")
    return data


def as_the_model_knows(model: Any, data: Data) -> Any:
    """X, without names where the model has none."""
    has_names = getattr(model, "feature_names_in_", None) is not None
    return data.X.to_numpy() if hasattr(data.X, "to_numpy") and not has_names else data.X


@contextmanager
def judging_data() -> Iterator[None]:
    """What scikit-learn says of data that cannot be used is an error in the data."""
    try:
        yield
    except ValueError as error:
        if type(error).__module__.startswith("levelprox"):
            raise
        raise CommandError(str(error), Exit.DATA) from error


def _format(path: Path) -> str:
    from levelprox.io.data import format_of

    return format_of(path)
