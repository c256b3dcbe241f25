"""Data of a fit from a file: LIBSVM, CSV, Parquet or npz, by the ending of its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox.exceptions import FileFormatError, Hint, InvalidInputError, Parameter
from levelprox.io.arrays import read_npz
from levelprox.io.libsvm import read_libsvm
from levelprox.io.opened import shown
from levelprox.io.preprocessing import Impute, Preprocessing, texts
from levelprox.io.table import Table, listed, read_csv, read_parquet

Format = Literal["libsvm", "csv", "tsv", "parquet", "npz"]
#: Formats of a matrix; the others are tables with named columns.
MATRIX_FORMATS = ("libsvm", "npz")

#: Kinds of files by the endings of their names.
ENDINGS: dict[str, Format] = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".txt": "libsvm",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
}
_COMPRESSED = (".gz", ".bz2", ".xz")
_MOST_CATEGORIES = 100  # of a column of text that is not named
SEPARATORS = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, eq=False)
class Data:
    r"""Data for a fit or a prediction.

    Attributes
    ----------
    X : ndarray, csr_array, csc_array or polars.DataFrame of shape (n_samples, n_features)
        A frame if columns have names.
    y : ndarray of shape (n_samples,), optional
        Numbers, booleans or strings; None if it was not requested.
    feature_names : list of str, optional
    target_name : str, optional
        The column of y.
    path : Path
    weight : ndarray of shape (n_samples,), optional
        Sample weights, if a column or an array of them was named.
    left_out : tuple of str
        Columns that are not used.
    more : dict of str to ndarray of shape (n_samples,)
        "offset" and "exposure", if columns or arrays of them were named.
    preprocessing : Preprocessing, optional
        How X was made from columns of text or with missing values.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from levelprox.io import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv"
    ...     _ = path.write_text("a,b,y\n1,2,3\n4,5,6\n")
    ...     data = read_data(path)
    >>> data.shape, data.feature_names, data.y.tolist()
    ((2, 2), ['a', 'b'], [3.0, 6.0])
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: list[str] | None
    target_name: str | None
    path: Path
    weight: NDArray[np.float64] | None = None
    left_out: tuple[str, ...] = ()
    more: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    preprocessing: Preprocessing | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return cast(tuple[int, int], tuple(int(length) for length in self.X.shape))

    @property
    def n_nonzero(self) -> int | None:
        """Number of stored entries of a sparse matrix."""
        return int(cast(Any, self.X).nnz) if scipy.sparse.issparse(self.X) else None


@dataclass(frozen=True)
class Reading:
    """Settings for reading a file.

    Attributes
    ----------
    target : str, optional
        The target column or array. By default the column "target" or "y", the array "y"; LIBSVM has no names.
    format : str, optional
        One of libsvm, csv, tsv, parquet and npz; by default from the name of the file.
    drop : sequence of str
        Columns to leave out.
    weight : str, optional
        The column or array of sample weights.
    header : bool
        Whether a CSV file begins with column names.
    separator : str, optional
        Separator of the fields of a CSV file.
    zero_based : bool
        Whether indices of a LIBSVM file start at 0.
    offset, exposure : str, optional
        The columns or arrays of offsets of the linear predictor, and of exposures.
    categorical : sequence of str or "auto"
        Columns of a table to encode as one 0/1 feature for each category; "auto": all columns of text.
    impute : {"median", "mean", "most-frequent"}, optional
        Replacement of missing values of a table.
    preprocessing : Preprocessing, optional
        Categories and replacements that were learnt from other data.
    is_whole : bool
        Whether files are read as a whole, not in parts.

    Examples
    --------
    >>> from levelprox.io import Reading
    >>> Reading("price", drop=["id"], impute="median").more
    {}
    """

    target: str | None = None
    format: Format | None = None
    drop: Sequence[str] = ()
    weight: str | None = None
    header: bool = True
    separator: str | None = None
    zero_based: bool = False
    offset: str | None = None
    exposure: str | None = None
    categorical: Sequence[str] | Literal["auto"] = ()
    impute: Impute | None = None
    preprocessing: Preprocessing | None = None
    is_whole: bool = True

    @property
    def text(self) -> Sequence[str]:
        """Columns that are read as text even if they hold numbers: 01 is not 1."""
        if self.preprocessing is not None:
            return self.preprocessing.categorical
        return () if self.categorical == "auto" else self.categorical

    @property
    def more(self) -> dict[str, str]:
        """Columns that `fit` takes besides weights, by role."""
        return {name: column for name in ("offset", "exposure") if (column := getattr(self, name)) is not None}


def format_of(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file from its name: `data.svm`, `data.csv.gz` and so on."""
    place = Path(path)
    ending = place.suffix.lower()
    if ending in _COMPRESSED:
        ending = place.with_suffix("").suffix.lower()
    if ending not in ENDINGS:
        raise FileFormatError(
            f"{shown(path)}: which kind of data is it? Names end in {', '.join(ENDINGS)}, perhaps followed by "
            f"{', '.join(_COMPRESSED)}; or say it",
            Hint((" (", Parameter("format", "csv"), ")")),
        )
    return ENDINGS[ending]


def read_data(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    features: Sequence[str] | int | None = None,
    needs_target: bool = True,
    how: Reading | None = None,
) -> Data:
    r"""Read a file of data.

    Parameters
    ----------
    path : path-like
    target : str, optional
        Short for `how=Reading(target)`.
    features : sequence of str or int, optional
        Features of a fitted model: the names of its columns, which are read in this order, without the others; or the
        number of features, which must be that of the file.
    needs_target : bool, default=True
        Whether to read y; then it must exist.
    how : Reading, optional

    Returns
    -------
    Data

    Raises
    ------
    FileFormatError
        If the file is not of its format, or holds values that cannot be used; the message names the place.
    BackendError
        If the file changes while it is read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from levelprox.io import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv"
    ...     _ = path.write_text("a,b,y\n1,2,3\n4,5,6\n")
    ...     data = read_data(path)
    >>> data.shape, data.feature_names, data.y.tolist()
    ((2, 2), ['a', 'b'], [3.0, 6.0])
    """
    how = Reading(target) if how is None else how
    kind = how.format or format_of(path)
    if kind in MATRIX_FORMATS and (how.categorical or how.impute):
        given = Parameter("categorical" if how.categorical else "impute")
        hint = Hint((given, f" is for tables (CSV, TSV or Parquet), and this is {kind}"))
        raise InvalidInputError(f"{shown(path)}: ", hint)
    if kind == "libsvm":
        data = _libsvm(path, features, how)
    elif kind == "npz":
        data = _npz(path, needs_target, how)
    else:
        table = read_table(path, kind, how)
        data = of_table(table, features if isinstance(features, Sequence) else None, needs_target, how, Path(path))
    width = len(features) if isinstance(features, Sequence) else features
    if width is not None and data.shape[1] != width:
        raise FileFormatError(f"{shown(path)}: {data.shape[1]} features, but the model was fitted to {width} of them")
    return data


def read_table(path: str | os.PathLike[str], kind: str, how: Reading) -> Table:
    """Read a CSV, TSV or Parquet file with all its columns."""
    if kind == "parquet":
        return read_parquet(path)
    return read_csv(path, separator=how.separator or SEPARATORS[kind], header=how.header, text=how.text)


def _libsvm(path: str | os.PathLike[str], features: Sequence[str] | int | None, how: Reading) -> Data:
    named = {"target": how.target, "drop": how.drop, "weight": how.weight, **how.more}
    for name, given in named.items():
        if given:
            raise InvalidInputError(
                f"{shown(path)}: a LIBSVM file has no columns by name; its target is the first number of each line",
                Hint((" (", Parameter(name), " is for other files)")),
            )
    width = len(features) if isinstance(features, Sequence) else features
    X, y = read_libsvm(path, n_features=width, zero_based=how.zero_based)
    return Data(X, y, None, None, Path(path))


def _npz(path: str | os.PathLike[str], needs_target: bool, how: Reading) -> Data:
    name = shown(path)
    members = read_npz(path)
    columns = {"weight": how.weight, **how.more} if how.weight else how.more
    roles = {"X": "X", "y": how.target or "y", **columns}
    if not needs_target and roles["y"] not in members:
        del roles["y"]
    for wanted in roles.values():
        if wanted not in members:
            raise FileFormatError(
                f"{name}: there is no array {wanted!r}, but {', '.join(sorted(members)) or 'nothing'}"
            )
    X, y = members["X"], members[roles["y"]] if "y" in roles else None
    if X.ndim != 2 or X.dtype.kind not in "buif":
        raise FileFormatError(f"{name}: X must hold numbers in rows and columns, got {X.dtype} of shape {X.shape}")
    if y is not None and y.shape != (X.shape[0],):
        raise FileFormatError(f"{name}: X has {X.shape[0]} rows, {roles['y']} has shape {y.shape}")
    if y is not None and y.dtype.kind not in "buifUS":
        raise FileFormatError(f"{name}: {roles['y']} must hold numbers, truth values or words, got {y.dtype}")
    for member in columns.values():
        if members[member].dtype.kind not in "buif":
            raise FileFormatError(f"{name}: {member} must hold numbers, got {members[member].dtype}")
    numbers = {role: np.asarray(members[member], np.float64) for role, member in columns.items()}
    weight = numbers.pop("weight", None)
    return Data(X, y, None, roles.get("y"), Path(path), weight, more=numbers)


def of_table(table: Table, features: Sequence[str] | None, needs_target: bool, how: Reading, path: Path) -> Data:
    """Return the data of a table, with its columns by role; the parameters are those of `read_data`."""
    table = replace(table, is_whole=how.is_whole)
    target = table.target_name(how.target) if needs_target else None
    weight = None if how.weight is None else table.checked(how.weight, "weight")
    named = {what: table.checked(name, what) for what, name in how.more.items()}
    dropped = {table.checked(name, "columns to drop") for given in how.drop for name in table.listed_in(given)}
    roles = [name for name in (target, weight, *named.values()) if name is not None]
    if len({*roles, *dropped}) < len(roles) + len(dropped):
        words = ", ".join(["target", "weight", *named])
        raise InvalidInputError(f"{table.name}: {words} and dropped columns must be different ones")
    names = [name for name in table.names if name not in dropped | {*roles}]
    if how.preprocessing is not None:
        features = how.preprocessing.names
    if features is not None:
        missing = [name for name in features if name not in table.names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            are = "are" if more else "is"
            what = "feature" if how.preprocessing is None else "column"
            raise FileFormatError(f"{table.name}: the model's {what} {missing[0]!r}{more} {are} missing")
        names = list(features)
    if not names:
        raise FileFormatError(f"{table.name}: no column is left to learn from")
    used = {*names, *roles}
    preprocessing = how.preprocessing or _learnt(table, names, how)
    if preprocessing is None:
        X = table.features(names, droppable=features is None)
    else:
        X, names = _prepared(table, preprocessing, features is None), list(preprocessing.features)
    return Data(
        X,
        None if target is None else table.labels(target),
        names,
        target,
        path,
        None if weight is None else table.numbers(weight),
        tuple(name for name in table.names if name not in used),
        {what: table.numbers(name) for what, name in named.items()},
        preprocessing,
    )


def _learnt(table: Table, names: Sequence[str], how: Reading) -> Preprocessing | None:
    """Return the categories and fill values that `how` requires; None if there is nothing to prepare."""
    if how.categorical == "auto":
        categorical = [name for name in names if table.is_text(name)]
        for name in categorical:
            count = len(set(texts(table.frame[name])))
            if count > _MOST_CATEGORIES:
                raise FileFormatError(
                    f"{table.name}: column {name!r} holds {count} different texts, too many to be categories unless "
                    "it is named",
                    Hint(("; drop it (", Parameter("drop"), "), or name it in ", Parameter("categorical"))),
                )
    else:
        categorical = [table.checked(name, "categories") for name in how.categorical]
        others = [name for name in categorical if name not in names]
        if others:
            hint = Hint((Parameter("categorical"), f": {listed(others)} cannot be a feature, too"))
            raise InvalidInputError(f"{table.name}: ", hint)
    if not categorical and how.impute is None:
        return None
    table.check_numbers([name for name in names if name not in categorical], how.impute is not None, True)
    table.check_text(categorical, how.impute is not None, True)
    try:
        return Preprocessing.learn(table.frame, names, categorical, how.impute)
    except InvalidInputError as error:
        raise FileFormatError(f"{table.name}: {error}") from None


def _prepared(table: Table, preprocessing: Preprocessing, droppable: bool) -> Any:
    """Return the features of a table; errors name the row."""
    for column in preprocessing.columns:
        check = table.check_numbers if column.categories is None else table.check_text
        check([column.name], column.fill is not None, droppable)
    return preprocessing.transform(table.frame)
