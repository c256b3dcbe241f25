"""Parquet: columns with names and types; read by polars."""

from __future__ import annotations

import os

from levelprox.exceptions import FileFormatError
from levelprox.io.opened import all_bytes, shown
from levelprox.io.table import Table, polars_for


def read_parquet(path: str | os.PathLike[str]) -> Table:
    """Read a Parquet file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Table

    Raises
    ------
    FileFormatError
        Where it is no such file, or is damaged.
    BackendError
        Where it changes while it is read.
    """
    name = shown(path)
    polars = polars_for("Parquet", name)
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise FileFormatError(f"{name}: this is no Parquet file: it does not begin with PAR1")
    data = all_bytes(path)  # polars would map the file, and a map of a file that is cut short ends the process
    try:
        frame = polars.read_parquet(data)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise FileFormatError(f"{name}: {str(error).splitlines()[0]}") from error
    if not frame.height:
        raise FileFormatError(f"{name}: there are no rows")
    return Table(frame, name)
