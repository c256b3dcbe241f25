"""Fitted models in files, without pickle: `save` and `load`.

What is read back is the same to the last bit, and is checked before it is returned (`_soundness.py`).

The format of model files: a fitted estimator as numbers and words.

One safetensors file (io/container.py) whose metadata hold

    format, format_version    "levelprox model", "1"
    model                     JSON: the class, its parameters, and all that `fit` has set
    versions                  JSON: of levelprox, NumPy, scikit-learn and Python
    data                      JSON: the fingerprint of what was fitted
    preprocessing             JSON: categories and fill values of columns, where there are some

Reading one runs no code: it builds one of four estimator classes, from the types listed here.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from levelprox.certificate import Certificate
from levelprox.constraints import CONSTRAINT_TYPES, Custom, Rescaled
from levelprox.driver.run_identity import Fingerprint
from levelprox.estimators._features import by_name
from levelprox.estimators._soundness import FITTED, check_soundness
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io import atomic, container
from levelprox.io.preprocessing import Preprocessing
from levelprox.losses import LOSS_TYPES, Smoothed
from levelprox.methods.subsolvers import SUBSOLVERS
from levelprox.result import Record, Status
from levelprox.subset.result import Additions, SubsetCertificate, SubsetRecord, Swaps


class SaveMixin:
    """A model that can be written to a file."""

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the fitted model to a file, from which `levelprox.load` reads it back (docs/files.md).

        The file is written completely or not at all. No pickle: numbers, strings, and names of classes of levelprox.
        `callback`, and `cv`, `scoring` and `random_state` where they are objects, are not kept, with a warning; nor is
        the memory of a stream (`partial_fit`), which cannot be continued after `load`.

        Parameters
        ----------
        path : path-like
            By custom it ends in `.levelprox`.
        overwrite : bool, default=False
            Whether a file of this name may be replaced; else that is a `FileExistsError`.

        Raises
        ------
        InvalidInputError
            Where a parameter cannot be stored, such as a constraint or loss of your own.
        OSError
            Where the file cannot be written; what was there before still is.
        """
        check_is_fitted(self)
        contents = packed(self)
        name = type(self).__name__
        check_soundness(unpacked(contents, name).model, name)  # what is written can be read
        try:
            atomic.write(path, container.pack(contents), overwrite=bool(overwrite))
        except FileExistsError as error:
            words = f"{os.strerror(errno.EEXIST)}; overwrite=True replaces it"
            raise FileExistsError(errno.EEXIST, words, error.filename) from None


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that `save` has written.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV

    Raises
    ------
    FileFormatError
        Where the file is damaged, of another kind, of a newer version, or its parts contradict each other.
    OSError
        Where it cannot be read.

    Examples
    --------
    >>> import numpy as np, os, tempfile, levelprox
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> model = levelprox.SparseRegressor(n_features=2).fit(X, X[:, 3] - 2 * X[:, 7])
    >>> path = os.path.join(tempfile.mkdtemp(), "two.levelprox")
    >>> model.save(path)
    >>> bool(np.all(levelprox.load(path).predict(X) == model.predict(X)))
    True
    """
    return read_model(path).model


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Return the model of a file, and the versions that wrote it; errors as of `load`."""
    name = _called(path)
    with Path(path).open("rb") as file:
        begin = file.read(container.FIRST_BYTES)
        if not container.begins(begin):  # before any more is read: it may be anything, of any size
            raise FileFormatError(f"{name}: this is not a file of levelprox, or it was cut short or damaged")
        contents = container.unpack(begin + file.read(), name)
    found = unpacked(contents, name)
    check_soundness(found.model, name)
    return found


def _called(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for errors, in one line."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in os.fsdecode(path))


FORMAT, VERSION = "levelprox model", 1
_METADATA = {"format", "format_version", "model", "versions", "data", "preprocessing"}

#: Parameters that belong to a run, not to a model: never in a file.
_OF_A_RUN = ("checkpoint", "resume")
#: Parameters that predictions do not need: left out, with a warning, where they are objects that cannot be stored.
_DISPENSABLE = ("callback", "cv", "scoring", "random_state")


@dataclass(frozen=True, eq=False)
class Columns:
    """An array of which most columns are zero.

    Attributes
    ----------
    shape : tuple of int
    columns : ndarray of int
        Those that are not.
    values : ndarray
        All that is in them.
    """

    shape: tuple[int, ...]
    columns: NDArray[np.int64]
    values: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Columns | NDArray[Any]:
        """Return the same in less memory; the array itself where that is not less, or not the same."""
        columns = np.flatnonzero(np.any(np.atleast_2d(array), axis=0))
        found = cls(array.shape, columns, array[..., columns])
        smaller = columns.nbytes + found.values.nbytes < array.nbytes
        return found if smaller and found.whole().tobytes() == array.tobytes() else array

    def whole(self) -> NDArray[Any]:
        """Return the array."""
        if np.any(np.diff(self.columns, prepend=-1) <= 0):
            raise ValueError("its columns are not in ascending order")
        array = np.zeros(self.shape, self.values.dtype)
        array[..., self.columns] = self.values
        return array


#: All that a file may name.
_KINDS: tuple[type, ...] = (
    *(kind for kind in CONSTRAINT_TYPES if kind is not Custom),
    Rescaled,
    *LOSS_TYPES,
    Smoothed,
    *SUBSOLVERS.values(),
    *(Certificate, SubsetCertificate, Additions, Swaps, Status, Record, SubsetRecord, Columns),
)


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    model : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
    versions : dict of str to str
        Of levelprox, numpy, scikit-learn and python when it was written.
    """

    model: Any
    versions: dict[str, str]


def packed(model: Any) -> container.Contents:
    """Return the contents of a file of this model."""
    fitted = {name: getattr(model, name) for name in FITTED if name in vars(model)}
    data, preprocessing = fitted.pop("data_fingerprint_", None), fitted.pop("preprocessing_", None)
    fitted["coef_"] = Columns.of(fitted["coef_"])
    fitted["intercept_"] = np.asarray(fitted["intercept_"])
    document = {"class": type(model).__name__, "parameters": _parameters(model), "fitted": fitted}
    try:
        text, arrays = container.encode(document, _KINDS)
    except TypeError as error:
        raise InvalidInputError(f"the fitted model cannot be stored without pickle: {error}") from error
    versions = {
        "levelprox": metadata.version("levelprox"),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
    about = {"format": FORMAT, "format_version": str(VERSION), "model": text, "versions": json.dumps(versions)}
    if data is not None:
        about["data"] = json.dumps(asdict(data))
    if preprocessing is not None:
        about["preprocessing"] = json.dumps(preprocessing.as_dict(), allow_nan=False)
    return container.Contents(about, arrays)


def _parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that can be stored; raise an error that names one that cannot and matters."""
    kept = {}
    for name, given in model.get_params(deep=False).items():
        if name in _OF_A_RUN:
            continue
        named = by_name(given) if name == "feature_cost" else None
        value = _simple(given) if named is None else {word: float(cost) for word, cost in named.items()}
        try:
            container.encode(value, _KINDS)
        except TypeError as error:
            shown = f"{name}={given!r}"[:200]
            if name not in _DISPENSABLE:
                raise InvalidInputError(
                    f"{shown} cannot be stored without pickle: it is neither plain data nor an object of levelprox"
                ) from error
            warnings.warn(f"{shown} is not kept in the file: the model will have the default", stacklevel=4)
            continue
        kept[name] = value
    return kept


def _simple(value: Any) -> Any:
    """Return what is like a list or an array, as one."""
    if isinstance(value, range):
        return list(value)
    like_array = hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic)
    return np.asarray(value) if like_array else value


def unpacked(contents: container.Contents, name: str) -> ModelFile:
    """Return the model of a file; `name` is the name of the file in errors."""
    about = contents.metadata
    if about.get("format") != FORMAT:
        raise FileFormatError(f"{name}: this is no model, but a {about.get('format', 'file of another kind')!r:.60}")
    versions = _json(about, "versions", name)
    _check_version(about, versions, name)
    if not about.keys() <= _METADATA:
        raise FileFormatError(f"{name}: the metadata hold {sorted(about.keys() - _METADATA)}, which are unknown")
    arrays = _Noting(contents.arrays)
    document = container.decode(about.get("model", ""), arrays, _KINDS, name)
    if arrays.keys() != arrays.used:
        raise FileFormatError(f"{name}: nothing refers to the arrays {sorted(arrays.keys() - arrays.used)}")
    match document:
        case {"class": str(kind), "parameters": dict(parameters), "fitted": dict(fitted), **rest} if not rest:
            model = _built(kind, parameters, fitted, name)
        case _:
            raise FileFormatError(f"{name}: the JSON of the model must have a class, parameters and fitted attributes")
    if "data" in about:
        model.data_fingerprint_ = _part(about, "data", name, "fingerprint of the data", _fingerprint)
    if "preprocessing" in about:
        model.preprocessing_ = _part(about, "preprocessing", name, "preprocessing", Preprocessing.of_dict)
    return ModelFile(model, versions)


class _Noting(dict[str, NDArray[Any]]):
    """Arrays, and which of them were read."""

    def __init__(self, arrays: Any) -> None:
        super().__init__(arrays)
        self.used: set[str] = set()

    def __getitem__(self, key: str) -> NDArray[Any]:
        self.used.add(key)
        return super().__getitem__(key)


def _built(kind: str, parameters: dict[str, Any], fitted: dict[str, Any], name: str) -> Any:
    from levelprox.estimators._classifier import SparseClassifier
    from levelprox.estimators._cv import SparseClassifierCV, SparseRegressorCV
    from levelprox.estimators._regressor import SparseRegressor

    models = (SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV)
    types = {model.__name__: model for model in models}
    if kind not in types:
        raise FileFormatError(f"{name}: {kind!r:.60} is not one of {', '.join(types)}")
    unknown = (parameters.keys() - set(types[kind]._get_param_names()) - set(_OF_A_RUN)) | (fitted.keys() - set(FITTED))
    if unknown:
        raise FileFormatError(f"{name}: a {kind} has no {', '.join(sorted(map(str, unknown)))}")
    model = types[kind](**parameters)
    for key, value in fitted.items():
        setattr(model, key, _whole(value, fitted, name) if key == "coef_" else value)
    if isinstance(fitted.get("intercept_"), np.ndarray):
        model.intercept_ = fitted["intercept_"][()]  # a regressor's is a number
    return model


def _whole(coef: object, fitted: dict[str, Any], name: str) -> object:
    """Return all of coef_, once its shape is that of the features and classes."""
    if not isinstance(coef, Columns):
        return coef
    try:
        d, classes = int(fitted["scale_"].size), fitted.get("classes_")
        wanted = (d,) if classes is None else (1 if classes.size == 2 else int(classes.size), d)
        if coef.shape != wanted:
            raise ValueError(f"it is of shape {coef.shape}, and {wanted} is expected by scale_ and classes_")
        return coef.whole()
    except (AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise FileFormatError(f"{name}: coef_ cannot be built: {error}") from error


def _check_version(about: Mapping[str, str], versions: dict[str, str], name: str) -> None:
    written = about.get("format_version", "")
    if written == str(VERSION):
        return
    if written.isascii() and written.isdigit() and int(written[:9]) > VERSION:
        raise FileFormatError(
            f"{name}: written by levelprox {versions.get('levelprox')!s:.20} (format {written:.9}); this is "
            f"{metadata.version('levelprox')}, which reads up to format {VERSION}"
        )
    raise FileFormatError(f"{name}: {written!r:.20} is no version of the format")


def _json(about: Mapping[str, str], key: str, name: str) -> dict[str, Any]:
    try:
        found = container.parsed(about.get(key, ""))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name}: the {key} are not JSON: {error}") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{name}: the {key} are not a JSON object")
    return found


def _part(about: Mapping[str, str], key: str, name: str, what: str, build: Callable[[dict[str, Any]], Any]) -> Any:
    """Return an object of the metadata, built from its JSON."""
    document = _json(about, key, name)
    try:
        return build(document)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{name}: the {what} is not one: {error}") from error


def _fingerprint(document: dict[str, Any]) -> Fingerprint:
    return Fingerprint(**{**document, "shape": tuple(document["shape"])})
