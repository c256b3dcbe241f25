"""Fitted models in files, without pickle: `save` and `load`.

What is read back is the same to the last bit, and is looked over before it is handed out (soundness.py).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from levelprox.estimators.model_file import ModelFile, packed, unpacked
from levelprox.estimators.soundness import check_soundness
from levelprox.exceptions import FileFormatError
from levelprox.io import atomic, container


class Saving:
    """A model that can be written to a file."""

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the fitted model to a file, from which `levelprox.load` reads it back (docs/files.md).

        The file is there as a whole or not at all. No pickle: numbers, words, and the names of our own classes.
        `callback`, and `cv`, `scoring` and `random_state` where they are objects, are not kept, with a warning; nor is
        the memory of a stream (`partial_fit`), which cannot be gone on with after `load`.

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
    """The model that `save` has written.

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
    """The model of a file, and what the file says about its making; errors as of `load`."""
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
    """What errors call a file; nothing in its name can pretend to be another line."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in os.fsdecode(path))
